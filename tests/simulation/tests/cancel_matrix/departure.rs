//! How a caller goes away.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use tokio::sync::{oneshot, watch};
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::operation::SHORT;
use super::{A_MOMENT, within};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// Its future is dropped.
    Dropped,
    /// Its deadline passes.
    Deadline,
    /// Its task is aborted.
    Aborted,
    /// What runs its task, which is not what runs the client, ends.
    ShutDown,
}

impl Departure {
    pub(crate) const ALL: [Self; 4] = [Self::Dropped, Self::Deadline, Self::Aborted, Self::ShutDown];

    /// Runs a caller until it is to go, unless it is done before; afterwards it is gone.
    pub(crate) async fn take_away<T: 'static>(
        self,
        doing: impl Future<Output = T> + 'static,
        has_deadline: bool,
        is_to_go: impl Future<Output = ()>,
    ) {
        let runtime = LocalSet::new();
        let (go, goes) = oneshot::channel::<()>();
        // In a task of its own, so that what wakes this one does not have it polled.
        let task = match self {
            Self::Dropped => runtime.spawn_local(async { drop(select(goes, pin!(doing)).await) }),
            Self::Deadline if !has_deadline => {
                runtime.spawn_local(async { drop(timeout(SHORT, doing).await) })
            }
            _ => runtime.spawn_local(async { drop(doing.await) }),
        };
        let mut is_to_go = pin!(is_to_go);
        let task = match within(runtime.run_until(select(task, &mut is_to_go))).await {
            Either::Left((done, _)) => return done.expect("it does not panic"),
            Either::Right(((), task)) => task,
        };
        match self {
            Self::Dropped => drop(go),
            Self::Deadline => {}
            Self::Aborted => task.abort(),
            Self::ShutDown => return drop(runtime),
        }
        match within(runtime.run_until(task)).await {
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            _ => {}
        }
    }
}

/// Counts how often a future is polled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Polls(Rc<watch::Sender<usize>>);

impl Polls {
    pub(crate) async fn count<F: Future>(self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            let polled = future.as_mut().poll(cx);
            self.0.send_modify(|polls| *polls += 1);
            polled
        })
        .await
    }

    pub(crate) fn now(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until there were so many; not for long, as what happens may be nothing to that future.
    pub(crate) async fn reach(&self, polls: usize) {
        let _ = timeout(A_MOMENT, self.0.subscribe().wait_for(|now| *now >= polls)).await;
    }
}
