//! The guard of a lock that is held on a majority of ensembles.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::guard::{LockGuard, run_while_held};
use super::held_node::HeldNode;
use super::state::{LockState, merged};
use crate::client::{Client, sleep_until};
use crate::error::{Error, LossReason, Result};
use crate::lock::deadline::{from_now, until};
use crate::queue::Quorum;
use crate::watch::Watch;

/// Most holds end sooner. Of older ones, the rest is given up as soon as the majority is lost.
const BRIEF: Duration = Duration::from_secs(1);

/// A held [`QuorumLock`](crate::QuorumLock). The lock is released when the guard is dropped or
/// [released](Self::release).
///
/// The lock is held for as long as more than half of all members are held, each according to its own session. It does
/// not get back a member that was lost or was never granted: the ensemble may have been down only for a moment, but
/// somebody else may hold the member since. So before a hold of days loses one ensemble after the other, release the
/// lock and acquire it again.
///
/// A guard is not tied to a task or a thread, as a [`LockGuard`] is not.
#[must_use = "if unused, the lock is released at once"]
#[clippy::has_significant_drop]
pub struct QuorumGuard {
    /// Those that were granted, in the order of their names.
    members: Vec<(Arc<str>, LockGuard)>,
    quorum: Quorum,
    response_timeout: Duration,
    /// Ends the tasks that give up the rest.
    _until_dropped: DropGuard,
}

debug_by!(QuorumGuard, |it| node_paths: it.members().map(|(_, guard)| guard.node_path()).collect::<Vec<_>>());

impl QuorumGuard {
    pub(crate) fn new(
        members: Vec<(Arc<str>, LockGuard)>,
        quorum: Quorum,
        response_timeout: Duration,
    ) -> Self {
        let dropped = CancellationToken::new();
        let nodes: Vec<_> = members.iter().flat_map(|(_, guard)| guard.nodes().cloned()).collect();
        // One of the runtimes may end before the majority is lost.
        Client::spawn_on_each(nodes.iter().map(|node| node.client()), || {
            let (dropped, nodes) = (dropped.clone(), nodes.clone());
            async move {
                dropped.run_until_cancelled(give_up_the_rest(nodes, quorum)).await;
            }
        });
        Self { members, quorum, response_timeout, _until_dropped: dropped.drop_guard() }
    }

    /// Returns the ensembles on which the lock was granted, in the order of their names, with the guard of each. At least
    /// a majority; the guard of a member that was lost since says so.
    pub fn members(&self) -> impl Iterator<Item = (&str, &LockGuard)> {
        self.members.iter().map(|(name, guard)| (&**name, guard))
    }

    /// Returns the fencing token of each ensemble on which the lock was granted, with its name. Tokens of different
    /// ensembles cannot be compared, so there is no single token.
    ///
    /// Pass all of them to the resource that the lock protects. The resource stores the largest token that it has seen of
    /// each ensemble. In one step, it **rejects a request with a token that is smaller than the one stored for that
    /// ensemble**, and otherwise stores all tokens of the request. An ensemble of which it has stored nothing, or of which
    /// the request has no token, is no reason to reject.
    ///
    /// This rejects every request of an earlier holder after the first request of a later one: both were granted a
    /// majority, so they have an ensemble in common, whose token has grown. It never rejects the present holder, because
    /// only holders send requests, and on each ensemble they follow each other. It does not help a resource that
    ///
    /// - compares the tokens of fewer ensembles than the request has;
    /// - is asked by the earlier holder first: as with every fencing token, it cannot know that there is a later one;
    /// - outlives the data of an ensemble. The tokens of an ensemble that was set up anew begin again: see
    ///   [`QuorumLock`](crate::QuorumLock#ensembles-that-lose-their-data).
    ///
    /// The tokens do not change while the lock is held.
    ///
    /// ```
    /// use std::collections::HashMap;
    ///
    /// /// What the resource does, in one transaction with the write itself.
    /// fn admit(largest: &mut HashMap<String, i64>, tokens: &[(String, i64)]) -> bool {
    ///     let is_outdated = |(name, token): &(String, i64)| largest.get(name).is_some_and(|seen| token < seen);
    ///     if tokens.iter().any(is_outdated) {
    ///         return false;
    ///     }
    ///     largest.extend(tokens.iter().cloned());
    ///     true
    /// }
    ///
    /// let of = |tokens: &[(&str, i64)]| tokens.iter().map(|(name, token)| ((*name).to_owned(), *token)).collect::<Vec<_>>();
    /// let mut largest = HashMap::new();
    /// assert!(admit(&mut largest, &of(&[("blue", 7), ("green", 40)])));
    /// assert!(admit(&mut largest, &of(&[("green", 41), ("red", 3)])));
    /// assert!(!admit(&mut largest, &of(&[("blue", 7), ("green", 40)])), "an earlier holder");
    /// ```
    pub fn fencing_tokens(&self) -> impl Iterator<Item = (&str, i64)> {
        self.members().map(|(name, guard)| (name, guard.fencing_token()))
    }

    /// Returns whether the lock is still held, according to the clock and everything that the clients know: whether more
    /// than half of all members are. While it is, no one else can have been granted the lock, unless someone deleted
    /// nodes by hand. Makes no request. See [`LockGuard::is_valid`].
    pub fn is_valid(&self) -> bool {
        self.loss().is_none()
    }

    /// Returns the time until which more than half of all members are certainly held, even if nothing more is heard from
    /// any ensemble, provided that no one deletes their nodes by hand. Each member counts by the clock of its own session;
    /// clocks of different machines are not compared. It lies in the past once the lock is lost. See
    /// [`LockGuard::valid_until`].
    ///
    /// Start nothing that takes effect after this time.
    pub fn valid_until(&self) -> Instant {
        let valid_until = self.quorum.valid_until(self.members().map(|(_, guard)| guard.valid_until()));
        valid_until.unwrap_or_else(Instant::now)
    }

    /// Returns why the lock was lost, or `None` if it was not: the reason of the first member that was. A lost lock stays
    /// lost. Makes no request.
    pub fn loss(&self) -> Option<LossReason> {
        self.lost_member().map(|(_, reason)| reason)
    }

    /// If the lock is lost, returns the first member that is, and why.
    fn lost_member(&self) -> Option<(&LockGuard, LossReason)> {
        let losses: Vec<_> = self.members().map(|(_, guard)| (guard, guard.loss())).collect();
        let valid = losses.iter().filter(|(_, loss)| loss.is_none()).count();
        if self.quorum.is_held(valid) {
            return None;
        }
        losses.into_iter().find_map(|(guard, loss)| Some((guard, loss?)))
    }

    /// Waits until the lock is lost: until no more than half of all members are held. Then the others are given up.
    ///
    /// This returns before anyone else can be granted the lock, provided that this process is running and no one deleted
    /// nodes.
    ///
    /// The first call sets a watch on each member's node, which takes at most one request each. Without a call, they are
    /// set once the lock has been held for a second.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        majority_lost(self.members().map(|(_, guard)| guard.lost()), self.quorum).await
    }

    /// Follows the state of the lock. It is [`Suspect`](LockState::Suspect) when it will be lost unless some of the
    /// ensembles respond soon. See [`LockGuard::watch_state`].
    pub fn watch_state(&self) -> Watch<LockState> {
        let quorum = self.quorum;
        let nodes = self.members().flat_map(|(_, guard)| guard.nodes());
        let nodes = nodes.map(|node| (node.client(), node.watch_state()));
        merged(nodes, move |states| state_of(quorum, states))
    }

    /// Runs `work` while the lock is held. If the lock is lost, drops `work` at the point where it awaits, and
    /// returns. See [`LockGuard::run`].
    ///
    /// # Errors
    /// - [`Error::LockLost`]: the lock was lost before `work` was done; with the node of one of the lost members.
    /// - [`Error::Closed`]: one of the lost members was lost because its client was closed.
    ///
    /// # Cancel safety
    /// Cancelling drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        run_while_held(work, self.lost(), || self.ensure_held()).await
    }

    /// Runs work that blocks its thread and so cannot be dropped; otherwise like [`run`](Self::run).
    #[cfg(feature = "blocking")]
    pub(crate) fn run_blocking<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        self.ensure_held()?;
        let done = work();
        self.ensure_held().map(|()| done)
    }

    fn ensure_held(&self) -> Result<()> {
        let lost = self.lost_member();
        lost.map_or(Ok(()), |(guard, reason)| Err(guard.first_node().lost_error(reason)))
    }

    /// Releases the lock on all ensembles together, and waits until those that answer have confirmed it, for at most the
    /// [response timeout](crate::QuorumLock::with_response_timeout). What is not confirmed by then is released in the
    /// background, as when a guard is dropped; at the latest, it ends with the session.
    ///
    /// # Errors
    /// - [`Error::LockLost`]: the majority was lost before the call, or is found to have been lost.
    /// - [`Error::ZooKeeper`], [`Error::NotConnected`], [`Error::Closed`]: fewer than a majority have confirmed the
    ///   release.
    /// - [`Error::Several`]: several of these.
    ///
    /// # Cancel safety
    /// The lock is released in any case; if this call is cancelled, in the background.
    pub async fn release(self) -> Result<()> {
        let was_held = self.ensure_held();
        let Self { members, quorum, response_timeout, _until_dropped } = self;
        let client = members[0].1.first_node().client().clone();
        let releases = members.into_iter().map(|(_, guard)| async move {
            let client = guard.first_node().client().clone();
            let start = Instant::now();
            let released = until(from_now(response_timeout), pin!(guard.release())).await;
            released.unwrap_or_else(|| Err(client.not_connected(start.elapsed())))
        });
        let released = client.at_home(join_all(releases)).await;
        was_held?;
        let confirmed = released.iter().filter(|released| released.is_ok()).count();
        if quorum.is_held(confirmed) {
            return Ok(());
        }
        Error::all(released.into_iter().filter_map(Result::err).collect()).map_or(Ok(()), Err)
    }
}

/// Waits until a majority is no longer held.
async fn majority_lost<F: Future<Output = LossReason>>(
    members: impl Iterator<Item = F>,
    quorum: Quorum,
) -> LossReason {
    let mut held: FuturesUnordered<F> = members.collect();
    while let Some(reason) = held.next().await {
        if !quorum.is_held(held.len()) {
            return reason;
        }
    }
    // There is at least a majority at first.
    std::future::pending().await
}

/// Gives up the members that are still held when the majority is lost, so that they do not keep others out.
async fn give_up_the_rest(nodes: Vec<Arc<HeldNode>>, quorum: Quorum) {
    sleep_until(Instant::now() + BRIEF).await;
    majority_lost(nodes.iter().map(|node| node.lost()), quorum).await;
    nodes.iter().for_each(|node| node.lose(LossReason::Expired));
}

/// The state of the lock, as it follows from those of the members that were granted.
fn state_of(quorum: Quorum, members: &[LockState]) -> LockState {
    let count = |counts: fn(&LockState) -> bool| members.iter().filter(|state| counts(state)).count();
    if quorum.is_held(count(|state| *state == LockState::Held)) {
        return LockState::Held;
    }
    if quorum.is_held(count(|state| !state.is_lost())) {
        return LockState::Suspect;
    }
    members.iter().copied().find(|state| state.is_lost()).unwrap_or(LockState::Suspect)
}
