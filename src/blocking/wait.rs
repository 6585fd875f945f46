//! How a thread waits for what is asynchronous.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::coop::consume_budget;
use tokio::time::timeout;

use crate::client::Home;
use crate::error::{Error, Result};

/// More than a task may do at a time: tokio counts it in a byte.
const MORE_THAN_A_BUDGET: usize = 256;

/// Polls a future on this thread until it is done, and parks in between.
///
/// The timers are those of the runtime that clients share, whatever becomes of the runtime that a client was given.
/// `Handle::block_on` would do the same, and panic in some of the places that cannot be [told](runs_tasks).
///
/// # Errors
/// [`Error::WithinRuntime`], without a poll; that of the future.
pub(super) fn wait<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    if runs_tasks() {
        return Err(Error::WithinRuntime);
    }
    let home = Home::shared()?;
    // As of a drop in a waker: what it would wait for is done on that very thread.
    if home.is_here() {
        return Err(Error::WithinRuntime);
    }
    let _timers = home.runtime().enter();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

/// The same for a bounded time; `None` if it was not done in that.
pub(super) fn wait_within<T>(within: Duration, future: impl Future<Output = Result<T>>) -> Result<Option<T>> {
    wait(async { timeout(within, future).await.map_or(Ok(None), |done| done.map(Some)) })
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Whether a runtime of tokio polls a task, or the future of its `block_on`, on this thread at this moment.
///
/// Only there a thread has a budget for what it does until the next await: not in `spawn_blocking` and `block_in_place`,
/// nor between two `block_on`. It is used up by this, so that the task lets others run at its next await. It cannot be
/// told in `tokio::task::unconstrained`.
fn runs_tasks() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let mut context = Context::from_waker(Waker::noop());
    (0..MORE_THAN_A_BUDGET).any(|_| pin!(consume_budget()).poll(&mut context).is_pending())
}
