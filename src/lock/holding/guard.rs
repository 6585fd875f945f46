//! What a holder holds.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{join_all, poll_fn, select_all};
use tokio::sync::watch;
use tokio::time::Instant;

use super::held_node::HeldNode;
use super::hold::Share;
use super::state::{LockState, merged};
use super::transaction::Transaction;
use crate::client::{Client, Presence};
use crate::error::{Error, LossReason, Result};

/// A held lock, or a permit of a semaphore. It is released when its last guard is dropped or
/// [released](Self::release).
///
/// A guard belongs to no task and no thread: it can be moved anywhere and dropped anywhere, also outside of
/// the runtime. A guard that is leaked (`std::mem::forget`) holds the lock until the session ends.
#[must_use = "if unused, the lock is released at once"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    held: Held,
    /// Behind what is held, which is given back first.
    _presence: Option<Arc<Presence>>,
}

enum Held {
    One(Share),
    /// Of a multi-lock; at least one.
    All(Vec<LockGuard>),
}

impl LockGuard {
    pub(crate) fn new(hold: Share, client: &Client) -> Self {
        Self { held: Held::One(hold), _presence: client.presence() }
    }

    /// The guard of a multi-lock, from those of its members.
    pub(crate) fn of_all(members: Vec<Self>) -> Self {
        Self { held: Held::All(members), _presence: None }
    }

    /// A number that grows with every grant of the lock: hand it to what the lock protects, and have that
    /// refuse numbers smaller than the greatest it has seen. The example `fencing` does that with SQLite.
    ///
    /// It is the `czxid` of the holder's node: the transaction that created it. Give it 64 bits where it is kept.
    /// Guards of one hold have the same token, as have permits that were acquired together, and a reader that was
    /// the writer before. Tokens of one ensemble can be compared across all paths and processes. Of a multi-lock it
    /// is the greatest of its members' tokens; protect each thing by the token of [its own member](Self::members).
    pub fn fencing_token(&self) -> i64 {
        self.shares().map(Share::token).max().unwrap_or_default()
    }

    /// The full path of the node by which the lock is held, namespace included. Of a multi-lock, that of its
    /// first member.
    pub fn node_path(&self) -> &str {
        self.first_node().path()
    }

    /// The guards of the members of a multi-lock, in the order of their paths; of any other lock, none.
    pub fn members(&self) -> &[Self] {
        match &self.held {
            Held::One(_) => &[],
            Held::All(members) => members,
        }
    }

    /// How many guards there are on this hold. More than one after the owner has entered again.
    pub fn hold_count(&self) -> usize {
        self.first().count()
    }

    /// Whether the lock is held, by the clock and by all that this client knows. Then nobody else can have been given
    /// it, unless somebody has deleted its node by hand. No request is made.
    ///
    /// It is the clock that is looked at, and not whether a message came: also the first look after a pause of the process,
    /// or a suspension of the machine, tells the truth. What it does not tell is how long it stays so; see
    /// [`valid_until`](Self::valid_until).
    pub fn is_valid(&self) -> bool {
        self.loss().is_none()
    }

    /// Until when the lock is held for certain: as long as nothing more is heard of the servers, and nobody deletes
    /// its node by hand. It moves on with each sign of the servers, several times in each session timeout. In the
    /// past when the lock is lost.
    ///
    /// tokio's clock stands still while the machine is suspended, and the session's does not. So ask again after a
    /// suspension: what was answered before it is too late by as much.
    ///
    /// Start nothing that takes effect after it.
    pub fn valid_until(&self) -> Instant {
        self.nodes().map(HeldNode::valid_until).min().unwrap_or_else(Instant::now)
    }

    /// How the lock was lost, if it was; then it is lost for good. No request is made.
    pub fn loss(&self) -> Option<LossReason> {
        self.nodes().find_map(HeldNode::loss)
    }

    /// Waits until the lock is lost: the session of the client is over or may be, somebody has deleted the lock's node,
    /// or its time is over.
    ///
    /// That comes before anybody else can be given the lock, if this process runs and nobody has deleted the node.
    ///
    /// From the first call on, the node by which the lock is held is watched, which is one request. Without it that
    /// happens when the lock has been held for a second.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) -> LossReason {
        select_all(self.nodes().map(|node| Box::pin(node.lost()))).await.0
    }

    /// The state of the lock, now and from now on: always the latest. The first [`changed`](watch::Receiver::changed) is
    /// the present state. See [`lost`](Self::lost) about the watch that it sets. After a pause of the process it lags
    /// behind [`is_valid`](Self::is_valid) for a moment.
    ///
    /// ```no_run
    /// # async fn example(guard: zk_recipes::LockGuard) {
    /// let mut state = guard.watch_state();
    /// while state.changed().await.is_ok() {
    ///     println!("{:?}", *state.borrow_and_update());
    /// }
    /// # }
    /// ```
    pub fn watch_state(&self) -> watch::Receiver<LockState> {
        let mut state = match &self.held {
            Held::One(share) => share.node().watch_state(),
            Held::All(members) => {
                let states = members.iter().map(Self::watch_state).collect();
                merged(self.first_node().client(), states)
            }
        };
        state.mark_changed();
        state
    }

    /// Does work for as long as the lock is held. At the loss the work is dropped, where it awaits, and this ends.
    ///
    /// The lock is looked at each time before the work goes on, and once more at its end: also work that is woken
    /// after a pause of the process does not go on without the lock. What was on its way at that moment cannot be
    /// called back: see [`fencing_token`](Self::fencing_token) and [`transaction`](Self::transaction).
    ///
    /// ```no_run
    /// # async fn example(guard: zk_recipes::LockGuard) -> zk_recipes::Result<()> {
    /// # async fn step() {}
    /// guard
    ///     .run(async {
    ///         for _ in 0..100 {
    ///             step().await;
    ///         }
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::LockLost`] and [`Error::Closed`]: the lock was lost before the work was done.
    ///
    /// # Cancel safety
    /// The work is dropped.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        let mut work = pin!(work);
        let mut lost = pin!(self.lost());
        poll_fn(|cx| {
            // To be woken by the loss.
            let _ = lost.as_mut().poll(cx);
            self.ensure_held()?;
            match work.as_mut().poll(cx) {
                Poll::Ready(output) => Poll::Ready(self.ensure_held().map(|()| output)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// The same for work that blocks its thread, and so cannot be dropped.
    #[cfg(feature = "blocking")]
    pub(crate) fn run_blocking<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        self.ensure_held()?;
        let done = work();
        self.ensure_held().map(|()| done)
    }

    /// Writes to ZooKeeper that are only done while the lock is held, whatever this process believes. See
    /// [`Transaction`].
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self)
    }

    /// # Errors
    /// [`Error::LockLost`] when it is known to be lost, [`Error::Closed`] by the end of the client.
    pub(in crate::lock) fn ensure_held(&self) -> Result<()> {
        self.nodes().try_for_each(HeldNode::ensure_held)
    }

    /// The nodes by which it is held; at least one.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &HeldNode> {
        self.shares().map(Share::node)
    }

    /// What it has of one hold, or of the hold of each member; at least one.
    fn shares(&self) -> impl Iterator<Item = &Share> {
        let own = match &self.held {
            Held::One(share) => Some(share),
            Held::All(_) => None,
        };
        own.into_iter().chain(self.members().iter().flat_map(Self::boxed_shares))
    }

    // A member may be a multi-lock itself.
    fn boxed_shares(&self) -> Box<dyn Iterator<Item = &Share> + '_> {
        Box::new(self.shares())
    }

    /// Of a multi-lock, that of its first member.
    pub(crate) fn first_node(&self) -> &HeldNode {
        self.first().node()
    }

    fn first(&self) -> &Share {
        match &self.held {
            Held::One(share) => share,
            Held::All(members) => members[0].first(),
        }
    }

    /// How long the lock is held at most from now on; `None` if it was acquired without
    /// [`max_hold`](crate::LockOptions::max_hold). Zero when the time is over.
    pub fn remaining_hold(&self) -> Option<Duration> {
        self.nodes().filter_map(HeldNode::remaining).min()
    }

    /// Lets the lock be held for this long from now on, instead of what is left of its
    /// [`max_hold`](crate::LockOptions::max_hold); so it can also be shortened. A lock that is held without a
    /// limit stays so. No request is made.
    ///
    /// # Errors
    /// [`Error::LockLost`] and [`Error::Closed`]: the lock is lost.
    pub fn extend(&self, max_hold: Duration) -> Result<()> {
        self.nodes().try_for_each(|node| node.extend(max_hold))
    }

    /// Waits until somebody asks for the lock: by [`Revoker`](crate::Revoker), or by Curator's. Of a
    /// multi-lock, for any of its members. Whether to give it back is up to the holder.
    ///
    /// It hears also of what was asked before. About the watch by which it does, see [`lost`](Self::lost).
    ///
    /// ```no_run
    /// # async fn example(guard: zk_recipes::LockGuard) -> zk_recipes::Result<()> {
    /// # async fn work() {}
    /// tokio::select! {
    ///     () = work() => {}
    ///     asked = guard.revoke_requested() => asked?,
    /// }
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Source: Curator's `Revocable` and `Revoker`.
    ///
    /// # Errors
    /// - [`Error::LockLost`]: the lock is lost.
    /// - [`Error::ZooKeeper`]: the node cannot be read, as for a missing right.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn revoke_requested(&self) -> Result<()> {
        select_all(self.nodes().map(|node| Box::pin(node.revoke_requested()))).await.0
    }

    /// Asks the server whether the lock is still held. What is lost then shows in [`loss`](Self::loss).
    pub(crate) async fn look(&self) {
        join_all(self.nodes().map(HeldNode::look)).await;
    }

    /// Gives the lock up while others look at the guard, who find it lost from now on; waits for the confirmation.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    ///
    /// # Cancel safety
    /// As [`release`](Self::release).
    pub(crate) async fn resign(&self, reason: LossReason) -> Result<()> {
        let resigned = join_all(self.nodes().map(|node| node.resign(reason))).await;
        Error::all(resigned.into_iter().filter_map(Result::err).collect()).map_or(Ok(()), Err)
    }

    /// Has the nodes of a lock that is lost removed in the background, if they are not already: those of an adopted
    /// session outlive the client.
    pub(crate) fn give_up(&self) {
        self.nodes().for_each(|node| drop(node.take()));
    }

    /// Releases the lock and waits for ZooKeeper's confirmation. A guard that is not the last one of its
    /// hold only counts down, without a request. The members of a multi-lock are released all at once.
    ///
    /// Dropping a guard releases as well: the request is sent at once, and repeated in the background until
    /// it is done. Release explicitly to know when others can have the lock, or that it was lost before.
    ///
    /// # Errors
    /// - [`Error::LockLost`]: the lock had been lost before, or its validity has ended while the servers could not be
    ///   reached.
    /// - [`Error::ZooKeeper`]: the server refuses, or cannot be reached under the client's
    ///   [retry policy](crate::RetryPolicy); then the background goes on trying.
    /// - [`Error::Closed`]: the client is closed.
    /// - [`Error::Several`]: more than one of these, for members of a multi-lock.
    ///
    /// # Cancel safety
    /// The lock is released in any case, in the background if this is cancelled.
    pub async fn release(self) -> Result<()> {
        match self.held {
            Held::One(share) => share.release().await,
            Held::All(members) => Error::all(release_all(members).await).map_or(Ok(()), Err),
        }
    }
}

/// Releases guards side by side, and returns what went wrong.
///
/// # Cancel safety
/// They are released in any case.
pub(crate) async fn release_all(guards: Vec<LockGuard>) -> Vec<Error> {
    let released = join_all(guards.into_iter().rev().map(|guard| Box::pin(guard.release()))).await;
    released.into_iter().filter_map(Result::err).collect()
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.held {
            Held::One(_) => f
                .debug_struct("LockGuard")
                .field("node_path", &self.node_path())
                .field("fencing_token", &self.fencing_token())
                .field("hold_count", &self.hold_count())
                .finish_non_exhaustive(),
            Held::All(members) => f.debug_list().entries(members).finish(),
        }
    }
}
