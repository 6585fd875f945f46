//! How a caller goes away.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, pending, select};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::timeout;

use super::operation::SHORT;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Departure {
    /// Its future is dropped.
    Dropped,
    /// Its deadline passes.
    Deadline,
    /// Its task is aborted.
    Aborted,
    /// The runtime of its task, which is not that of the client, is shut down.
    ShutDown,
}

impl Departure {
    pub(crate) const ALL: [Self; 4] = [Self::Dropped, Self::Deadline, Self::Aborted, Self::ShutDown];

    /// Runs a caller until it is to go, unless it is done before; afterwards it is gone.
    pub(crate) async fn take_away<F>(self, doing: F, has_deadline: bool, is_to_go: impl Future<Output = ()>)
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match self {
            Self::Dropped => drop(select(pin!(doing), pin!(is_to_go)).await),
            Self::Deadline => {
                // Time passes on its own; what is to happen before happens meanwhile.
                let meanwhile = async {
                    is_to_go.await;
                    pending::<()>().await;
                };
                match has_deadline {
                    true => drop(select(pin!(doing), pin!(meanwhile)).await),
                    false => drop(select(pin!(timeout(SHORT, doing)), pin!(meanwhile)).await),
                }
            }
            Self::Aborted => {
                let task = match select(tokio::spawn(doing), pin!(is_to_go)).await {
                    Either::Left((done, _)) => return drop(done.expect("it does not panic")),
                    Either::Right(((), task)) => task,
                };
                task.abort();
                drop(task.await);
            }
            Self::ShutDown => {
                let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
                let done = match select(runtime.spawn(doing), pin!(is_to_go)).await {
                    Either::Left((done, _)) => Some(done.expect("it does not panic")),
                    Either::Right(_) => None,
                };
                drop(done);
                let down = tokio::task::spawn_blocking(|| runtime.shutdown_timeout(Duration::from_secs(10)));
                down.await.unwrap();
            }
        }
    }
}

/// Counts how often a future is polled.
pub(crate) struct Polled<F> {
    pub(crate) future: Pin<Box<F>>,
    pub(crate) polls: Polls,
}

/// How often that was.
#[derive(Clone)]
pub(crate) struct Polls(Arc<watch::Sender<usize>>);

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let polled = self.future.as_mut().poll(cx);
        self.polls.0.send_modify(|polls| *polls += 1);
        polled
    }
}

impl Polls {
    pub(crate) fn now(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until there were so many; not for long, as it may be polled less often than in other runs.
    pub(crate) async fn reach(&self, polls: usize, from_another_task: bool) {
        let reached = async {
            if from_another_task {
                let _ = self.0.subscribe().wait_for(|now| *now >= polls).await;
            } else {
                // Whatever wakes the future has this polled, too; and what woke this would poll the future.
                poll_fn(|_| if self.now() < polls { Poll::Pending } else { Poll::Ready(()) }).await;
            }
        };
        let _ = timeout(Duration::from_millis(20), reached).await;
    }
}

impl Default for Polls {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}
