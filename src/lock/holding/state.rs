//! How certain it is that a lock is held.

use std::sync::Arc;

use futures_util::future::select_all;
use tokio::sync::watch;

use crate::client::Client;
use crate::error::LossReason;

/// How certain it is that a lock is held. Watch it with [`LockGuard::watch_state`](crate::LockGuard::watch_state).
///
/// The [guide](crate::guide::losing_a_lock) shows the states on a time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockState {
    /// The lock is held.
    Held,
    /// The lock is held, but will be lost unless the servers respond soon: there is no connection, or they have
    /// confirmed nothing for a third of the session timeout.
    Suspect,
    /// The lock is lost, for good.
    Lost(LossReason),
}

impl LockState {
    /// Returns whether the lock is lost.
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Lost(_))
    }
}

/// What a guard does when its lock becomes [`LockState::Suspect`], before its validity ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SuspectPolicy {
    /// The lock stays held, because the servers usually respond again in time.
    #[default]
    Keep,
    /// The lock is lost immediately, with [`LossReason::Suspect`], and becomes free for others as soon as the
    /// servers can be told. Corresponds to Curator's `StandardConnectionStateErrorPolicy`.
    GiveUp,
}

/// Merges the states of several locks: lost when one of them is lost, otherwise suspect when one of them is
/// suspect.
pub(crate) fn merged(
    client: &Client,
    mut states: Vec<watch::Receiver<LockState>>,
) -> watch::Receiver<LockState> {
    let (merged, receiver) = watch::channel(worst(&states));
    let merged = Arc::new(merged);
    let teller = client.detached();
    client.spawn(async move {
        while !merged.borrow().is_lost() {
            let change = select_all(states.iter_mut().map(|state| Box::pin(state.changed())));
            tokio::select! {
                (changed, ..) = change => if changed.is_err() { return },
                () = merged.closed() => return,
            }
            let (states, shown) = (states.clone(), merged.clone());
            // Users may have borrowed the states, too.
            let show = move || {
                let worst = worst(&states);
                shown.send_if_modified(|state| std::mem::replace(state, worst) != worst);
            };
            teller.told(show).await;
        }
    });
    receiver
}

fn worst(states: &[watch::Receiver<LockState>]) -> LockState {
    let states = states.iter().map(|state| *state.borrow());
    let worst = states.max_by_key(|state| match state {
        LockState::Held => 0,
        LockState::Suspect => 1,
        LockState::Lost(_) => 2,
    });
    worst.unwrap_or(LockState::Held)
}
