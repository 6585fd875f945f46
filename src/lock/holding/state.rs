//! How certain it is that a lock is held.

use std::sync::Arc;

use futures_util::future::select_all;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

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

/// The state of a lock, as it is published by a task on the runtime of its client, which may end.
#[derive(Clone)]
struct Watched {
    state: watch::Receiver<LockState>,
    closing: CancellationToken,
    /// Whether the end of the client was reported.
    is_closed: bool,
}

impl Watched {
    fn get(&self) -> LockState {
        let state = *self.state.borrow();
        let is_over = !state.is_lost() && self.closing.is_cancelled();
        if is_over { LockState::Lost(LossReason::Closed) } else { state }
    }

    /// # Errors
    /// The lock is released.
    async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        tokio::select! {
            changed = self.state.changed() => changed,
            () = self.closing.cancelled(), if !self.is_closed => {
                self.is_closed = true;
                Ok(())
            }
        }
    }
}

/// Merges the states of several locks, each with its client, into one, which ends when it is lost.
pub(crate) fn merged<'a>(
    locks: impl IntoIterator<Item = (&'a Client, watch::Receiver<LockState>)>,
    merge: impl Fn(&[LockState]) -> LockState + Copy + Send + 'static,
) -> watch::Receiver<LockState> {
    let merge = move |states: &[Watched]| {
        let states: Vec<LockState> = states.iter().map(Watched::get).collect();
        merge(&states)
    };
    let watched = |(client, state): (&'a Client, _)| {
        (client, Watched { state, closing: client.closing(), is_closed: false })
    };
    let (clients, states): (Vec<_>, Vec<_>) = locks.into_iter().map(watched).unzip();
    let (merged, receiver) = watch::channel(merge(&states));
    let merged = Arc::new(merged);
    Client::spawn_on_each(clients, |client| {
        let (teller, merged, mut states) = (client.detached(), merged.clone(), states.clone());
        async move {
            while !merged.borrow().is_lost() {
                let change = select_all(states.iter_mut().map(|state| Box::pin(state.changed())));
                tokio::select! {
                    (changed, ..) = change => if changed.is_err() { return },
                    () = merged.closed() => return,
                }
                let (states, shown) = (states.clone(), merged.clone());
                // Users may have borrowed the states, too.
                let show = move || {
                    let news = merge(&states);
                    // A task on another runtime may have been faster.
                    shown
                        .send_if_modified(|state| !state.is_lost() && std::mem::replace(state, news) != news);
                };
                teller.home().told(show).await;
            }
        }
    });
    receiver
}

/// The state of several locks that are only held together: lost when one of them is lost, otherwise suspect when one
/// of them is suspect.
pub(crate) fn worst(states: &[LockState]) -> LockState {
    let worst = states.iter().max_by_key(|state| match state {
        LockState::Held => 0,
        LockState::Suspect => 1,
        LockState::Lost(_) => 2,
    });
    worst.copied().unwrap_or(LockState::Held)
}
