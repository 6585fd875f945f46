//! How certain it is that a lock is held.

use futures_util::future::select_all;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::error::LossReason;
use crate::watch::{Watch, Watched};

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

/// The state of one of several locks, as it is published by a task on the runtime of its client, which may end.
#[derive(Clone)]
struct Member {
    state: Watch<LockState>,
    closing: CancellationToken,
    /// Whether the end of the client was reported.
    is_closed: bool,
}

impl Member {
    fn get(&self) -> LockState {
        let state = self.state.get();
        let is_over = !state.is_lost() && self.closing.is_cancelled();
        if is_over { LockState::Lost(LossReason::Closed) } else { state }
    }

    /// Waits for a change. Returns false if the lock is released.
    async fn changed(&mut self) -> bool {
        tokio::select! {
            changed = self.state.changed() => changed.is_some(),
            () = self.closing.cancelled(), if !self.is_closed => {
                self.is_closed = true;
                true
            }
        }
    }
}

/// Merges the states of several locks, each with its client, into one, which ends when it is lost.
pub(crate) fn merged<'a>(
    locks: impl IntoIterator<Item = (&'a Client, Watch<LockState>)>,
    merge: impl Fn(&[LockState]) -> LockState + Copy + Send + 'static,
) -> Watch<LockState> {
    let merge = move |members: &[Member]| {
        let states: Vec<LockState> = members.iter().map(Member::get).collect();
        merge(&states)
    };
    let member = |(client, state): (&'a Client, _)| {
        (client, Member { state, closing: client.closing(), is_closed: false })
    };
    let (clients, members): (Vec<_>, Vec<_>) = locks.into_iter().map(member).unzip();
    let merged = Watched::new(merge(&members));
    let watch = merged.watch();
    Client::spawn_on_each(clients, || {
        let (merged, mut members) = (merged.clone(), members.clone());
        async move {
            while !merged.get().is_lost() {
                let change = select_all(members.iter_mut().map(|member| Box::pin(member.changed())));
                tokio::select! {
                    (has_changed, ..) = change => if !has_changed { return },
                    () = merged.unwatched() => return,
                }
                let news = merge(&members);
                // A task on another runtime may have been faster.
                merged.show_if(|state| (!state.is_lost()).then_some((news != *state, news)));
            }
        }
    });
    watch
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
