//! A candidate that leads until it gives the leadership up or loses it.

use std::future::pending;
use std::sync::Arc;

use super::candidate::{Candidate, Handle};
use super::leadership::Leadership;
use super::methods::candidate_methods;
use super::options::LeaderOptions;
use crate::client::Client;
use crate::error::Result;
use crate::queue::LATCH;

/// A candidate for the leadership among all processes that use the same path. Once elected, it leads until it is
/// closed, [resigns](Leadership::resign), or loses its session. After a resignation or a loss it stands for
/// election again.
///
/// Candidates lead in the order of their arrival. Compatible with Curator's `LeaderLatch` on the same path, in
/// both directions, and with the `latch-` locks of `zookeeper-client`.
///
/// To check now and then whether it leads, use [`has_leadership`](Self::has_leadership); to wait until it does,
/// [`await_leadership`](Self::await_leadership); to follow its state, [`watch_state`](Self::watch_state). If the leader
/// is to run one piece of work, a [`LeaderSelector`](crate::LeaderSelector) takes less code.
///
/// This is a handle that can be cloned; when the last clone is dropped, the candidate leaves in the background.
///
/// ```no_run
/// use zk_recipes::{Client, LeaderLatch, LeaderOptions};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// # async fn work() {}
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let latch = LeaderLatch::start(&client, "/leaders/reports", LeaderOptions::new().id("node-7"))?;
///
/// let leadership = latch.await_leadership().await?;
/// println!("{} leads, with token {}", latch.id(), leadership.fencing_token());
/// let _ = leadership.run(work()).await;
///
/// // Leaves the election, and the next one leads.
/// client.close().await;
/// # Ok(())
/// # }
/// ```
///
/// Corresponds to Curator's `LeaderLatch`.
///
/// A latch that is dropped unused leaves again immediately, about which the compiler warns:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// zk_recipes::LeaderLatch::start(&client, "/leaders/a", zk_recipes::LeaderOptions::new())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "if unused, the candidate leaves the election at once"]
pub struct LeaderLatch {
    handle: Arc<Handle>,
}

debug_by!(LeaderLatch, |it| path: it.path(), role: it.health().role);
candidate_methods!(LeaderLatch);

/// Whether [watchers](LeaderLatch::watch_state) of a latch are notified when it is closed.
///
/// Corresponds to Curator's `LeaderLatch.CloseMode`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CloseMode {
    /// Closing does not wake them before the latch has left; then the channel ends.
    #[default]
    Silent,
    /// They are notified.
    NotifyLeader,
}

impl LeaderLatch {
    /// Starts a candidate at `path`, below the client's namespace, and returns immediately. No connection is
    /// needed yet: the candidate enters the queue as soon as there is one. The path and its parents are created as
    /// containers.
    ///
    /// The path must not be used for anything else, nor by another kind of recipe.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath): `path` is not a valid path.
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the [id](LeaderOptions::id) is not allowed as
    ///   node data.
    ///
    /// Later errors show in [`watch_state`](Self::watch_state).
    pub fn start(client: &Client, path: &str, options: LeaderOptions) -> Result<Self> {
        let handle = Candidate::start(client, path, &LATCH, "leader latch", &options, stand)?;
        Ok(Self { handle })
    }

    /// Waits until this candidate leads, and returns the leadership. Several callers may wait.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper) and others: the candidate cannot stand for election, for
    ///   example because permission is missing. This is returned immediately, while the candidate keeps trying,
    ///   with growing pauses. Unreachable servers are no error here.
    /// - [`Error::CandidateClosed`](crate::Error::CandidateClosed): this latch is closed.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: the candidate keeps its place.
    pub async fn await_leadership(&self) -> Result<Leadership> {
        self.handle.await_leadership().await
    }

    /// Leaves the election for good: resigns in order if it leads (see [`Leadership::resign`]), and waits until
    /// its node is gone. A latch that is already closed stays closed.
    ///
    /// This takes as long as the work under the leadership takes to end, plus a round trip. If the servers cannot
    /// be reached, it takes up to two thirds of the session timeout for a leader, until its
    /// [validity](Leadership::valid_until) ends, and 1.4 times the session timeout for a waiting candidate, until
    /// its session is given up. At the end of a program, [close the client](Client::close) instead: without a
    /// connection, that waits only for the work.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the deletion of the node was not confirmed; it is retried
    ///   in the background.
    /// - [`Error::Closed`](crate::Error::Closed): the client was closed before.
    ///
    /// # Cancel safety
    /// The first poll closes the latch; if cancelled after that, the rest continues in the background.
    pub async fn close(&self, mode: CloseMode) -> Result<()> {
        self.handle.close(mode == CloseMode::Silent).await
    }
}

async fn stand(candidate: Candidate) -> Result<()> {
    while let Some(leadership) = candidate.elected().await? {
        candidate.succeeds();
        let ended = candidate.lead(leadership, pending()).await;
        if candidate.is_closing() {
            return ended;
        }
        candidate.rest().await;
    }
    Ok(())
}
