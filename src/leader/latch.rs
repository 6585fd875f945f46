//! A candidate that leads for as long as it is let.

use std::borrow::Cow;
use std::future::pending;

use tokio::sync::watch;

use super::candidate::{Candidate, Handle};
use super::leadership::Leadership;
use super::methods::candidate;
use super::options::LeaderOptions;
use super::state::LeaderState;
use crate::client::Client;
use crate::error::Result;
use crate::lock::Participant;
use crate::queue::LATCH;

/// A candidate for the leadership among all processes that use the same path. Once elected, it leads until it is
/// closed, [resigns](Leadership::resign), or loses its session; then it is a candidate again.
///
/// The order is that of arrival. Compatible with Curator's `LeaderLatch` on the same path, in both directions, and with
/// the `latch-` locks of `zookeeper-client`.
///
/// For who looks every now and then whether it leads, there is [`has_leadership`](Self::has_leadership); for who
/// waits for it, [`await_leadership`](Self::await_leadership); for who follows it, [`watch`](Self::watch). If leading
/// is to run one piece of work, a [`LeaderSelector`](crate::LeaderSelector) is less to write.
///
/// A handle that can be cloned; when the last clone is dropped, the candidate leaves in the background.
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
/// Source: Curator's `LeaderLatch`.
///
/// One that is dropped unseen has left again, which the compiler tells of:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// zk_recipes::LeaderLatch::start(&client, "/leaders/a", zk_recipes::LeaderOptions::new())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "if unused, the candidate leaves the election at once"]
pub struct LeaderLatch {
    handle: Handle,
}

/// Whether those who [watch](LeaderLatch::watch) a latch are told that it is closed.
///
/// Curator's `LeaderLatch.CloseMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CloseMode {
    /// They are not woken by it before the latch has left: then the channel ends.
    #[default]
    Silent,
    /// They are told.
    NotifyLeader,
}

impl LeaderLatch {
    /// Starts a candidate at `path`, below the client's namespace, and returns at once. It needs no connection yet: the
    /// candidate enters the queue as soon as there is one. The path and its parents are made as containers.
    ///
    /// The path must be used for nothing else, and by no other kind of recipe.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath). What goes wrong later shows in [`watch`](Self::watch).
    pub fn start(client: &Client, path: &str, options: LeaderOptions) -> Result<Self> {
        let handle = Candidate::start(client, path, &LATCH, &options, stand)?;
        Ok(Self { handle })
    }

    /// Waits until this candidate leads. Several may wait.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper) and others: the candidate cannot stand, as for a missing right;
    ///   at once. It goes on trying, with growing pauses. That the servers cannot be reached is no error here.
    /// - [`Error::CandidateClosed`](crate::Error::CandidateClosed): this latch is closed.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
    ///
    /// # Cancel safety
    /// Nothing is lost: the candidate stays where it is.
    pub async fn await_leadership(&self) -> Result<Leadership> {
        self.handle.await_leadership().await
    }

    /// Leaves the election for good: resigns in order if it leads, see [`Leadership::resign`], and waits until its
    /// node is gone. What is closed already stays so.
    ///
    /// It takes as long as the work takes to end, and a round trip. If the servers cannot be reached, it takes up to two
    /// thirds of the session timeout for a leader, until its [validity](Leadership::valid_until) ends, and 1.4 times the
    /// timeout for a candidate that waits, until its session is given up. So at the end of a program,
    /// [close the client](Client::close) instead: without a connection, that waits only for the work.
    ///
    /// # Errors
    /// [`Error::ZooKeeper`](crate::Error::ZooKeeper): the node is not confirmed to be gone; the background goes on
    /// trying. [`Error::Closed`](crate::Error::Closed): the client was closed before.
    ///
    /// # Cancel safety
    /// The latch is closed by the first poll; the rest goes on in the background.
    pub async fn close(&self, mode: CloseMode) -> Result<()> {
        self.handle.close(mode == CloseMode::Silent).await
    }
}

candidate!(LeaderLatch);

async fn stand(candidate: Candidate) -> Result<()> {
    while let Some(leadership) = candidate.elected().await? {
        let ended = candidate.lead(leadership, pending()).await;
        if candidate.is_closing() {
            return ended;
        }
        candidate.rest().await;
    }
    Ok(())
}
