//! How sure it is that a lock is held.

use std::sync::Arc;

use futures_util::future::select_all;
use tokio::sync::watch;

use crate::client::Client;
use crate::error::LossReason;

/// How sure a holder can be of its lock. Watch it with
/// [`LockGuard::watch_state`](crate::LockGuard::watch_state).
///
/// The [guide](crate::guide) shows them on a time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockState {
    /// It is held.
    Held,
    /// It is held, but it will be lost unless the servers answer soon: there is no connection, or they have not
    /// been heard of for a third of the session timeout.
    Suspect,
    /// It is lost, and stays so.
    Lost(LossReason),
}

impl LockState {
    /// Whether it is lost.
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Lost(_))
    }
}

/// What a guard does between the first sign of trouble, which is [`LockState::Suspect`], and the end of its
/// validity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SuspectPolicy {
    /// It stays held: mostly the servers answer again in time.
    #[default]
    Keep,
    /// It is lost at once, for [`LossReason::Suspect`], and the lock is free for others as soon as the servers can
    /// be told. Curator's `StandardConnectionStateErrorPolicy`.
    GiveUp,
}

/// The state of several locks as one: lost when one of them is, else suspect when one of them is.
pub(crate) fn merged(
    client: &Client,
    mut states: Vec<watch::Receiver<LockState>>,
) -> watch::Receiver<LockState> {
    let (merged, receiver) = watch::channel(worst(&mut states));
    let merged = Arc::new(merged);
    let teller = client.detached();
    client.spawn(async move {
        while !merged.borrow().is_lost() {
            let change = select_all(states.iter_mut().map(|state| Box::pin(state.changed())));
            tokio::select! {
                (changed, ..) = change => if changed.is_err() { return },
                () = merged.closed() => return,
            }
            let worst = worst(&mut states);
            let shown = merged.clone();
            let show = move || {
                shown.send_if_modified(|state| std::mem::replace(state, worst) != worst);
            };
            teller.told(show).await;
        }
    });
    receiver
}

fn worst(states: &mut [watch::Receiver<LockState>]) -> LockState {
    let states = states.iter_mut().map(|state| *state.borrow_and_update());
    let worst = states.max_by_key(|state| match state {
        LockState::Held => 0,
        LockState::Suspect => 1,
        LockState::Lost(_) => 2,
    });
    worst.unwrap_or(LockState::Held)
}
