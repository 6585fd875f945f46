//! A candidate that leads until it gives the leadership up or loses it.

use std::borrow::Cow;
use std::future::pending;

use super::candidate::{Candidate, Handle};
use super::health::LeaderHealth;
use super::leadership::Leadership;
use super::options::LeaderOptions;
use super::state::LeaderState;
use crate::client::Client;
use crate::error::Result;
use crate::lock::Participant;
use crate::queue::LATCH;
use crate::watch::Watch;

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
    handle: Handle,
}

debug_by!(LeaderLatch, |it| path: it.path(), role: it.health().role);

/// Whether [watchers](LeaderLatch::watch_state) of a latch are notified when it is closed.
///
/// Corresponds to Curator's `LeaderLatch.CloseMode`.
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

    /// Returns whether this candidate leads now and is not about to give the leadership up, according to
    /// the clock and everything that this client knows. Makes no request.
    ///
    /// The result is right even for the first call after a pause of the process. It does not say how long
    /// it stays so: see [`leadership`](Self::leadership).
    pub fn has_leadership(&self) -> bool {
        self.leadership().is_some()
    }

    /// Returns what the candidate does at the moment and since when, for probes. Makes no request and does not wait.
    pub fn health(&self) -> LeaderHealth {
        self.handle.health()
    }

    /// Returns the present leadership, if this candidate [has](Self::has_leadership) it.
    pub fn leadership(&self) -> Option<Leadership> {
        self.handle.leadership()
    }

    /// Follows the state of the candidate. For a moment, [`has_leadership`](Self::has_leadership) may know better. Ends
    /// when the candidate is closed. A leadership obtained from this [`Watch`], rather than from
    /// [`leadership`](Self::leadership), does not keep the client open.
    ///
    /// ```no_run
    /// use zk_recipes::LeaderState;
    ///
    /// # async fn example(candidate: zk_recipes::LeaderLatch) {
    /// let mut states = candidate.watch_state();
    /// while let Some(state) = states.changed().await {
    ///     match &state {
    ///         LeaderState::Leading(leadership) => println!("leads with {}", leadership.fencing_token()),
    ///         LeaderState::Failed(error) => println!("cannot stand: {}", zk_recipes::report(error)),
    ///         other => println!("does not lead: {other:?}"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn watch_state(&self) -> Watch<LeaderState> {
        self.handle.watch()
    }

    /// Returns the candidates at this path, from all processes, in queue order: the leader first.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the queue or a node in it cannot be read.
    /// - [`Error::NotConnected`](crate::Error::NotConnected): the servers cannot be reached.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.handle.lock().participants().await
    }

    /// Returns the leader, in any process.
    ///
    /// # Errors
    /// Same as [`participants`](Self::participants).
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn leader(&self) -> Result<Option<Participant>> {
        self.handle.lock().holder().await
    }

    /// Asks the present leader, in any process, to resign, so that the next candidate in the queue leads.
    /// Returns the leader that was asked; `None` if no candidate waits for the leadership.
    ///
    /// A leader of this library resigns [in order](Leadership::resign), and goes to the end of the queue.
    /// Leaders of Curator ignore the request. To prefer a candidate as the leader, have it call this when
    /// it is second among the [participants](Self::participants). See [`operate::ask`](crate::operate::ask) for how
    /// the request is made.
    ///
    /// # Errors
    /// Same as [`participants`](Self::participants); permission to write to the node is needed as well.
    ///
    /// # Cancel safety
    /// If cancelled, the leader may have been asked.
    pub async fn transfer(&self) -> Result<Option<Participant>> {
        self.handle.transfer().await
    }

    /// Returns the id of this candidate. See [`LeaderOptions::id`](crate::LeaderOptions::id).
    pub fn id(&self) -> Cow<'_, str> {
        self.handle.id()
    }

    /// Returns the full path of the election, including the namespace.
    pub fn path(&self) -> &str {
        self.handle.lock().path()
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
