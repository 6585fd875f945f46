//! How a thread waits for a future.

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

/// More than the budget of a task, which tokio counts in a byte.
const MORE_THAN_A_BUDGET: usize = 256;

/// Polls a future on this thread until it is done, and parks in between.
///
/// The timers are those of the runtime that clients share, so they do not depend on a runtime that a client was
/// given. `Handle::block_on` would do the same, but panic in some of the places that [`runs_tasks`] cannot detect.
///
/// # Errors
/// - [`Error::WithinRuntime`]: called on a thread that is running async tasks; the future is not polled.
/// - The error of the future.
pub(super) fn wait<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    if runs_tasks() {
        return Err(Error::WithinRuntime);
    }
    let home = Home::shared()?;
    // For example a drop in a waker: what it would wait for runs on this very thread.
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

/// Like [`wait`], for at most `within`. Returns `None` if the future was not done within that time.
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

/// Whether a tokio runtime is polling a task, or the future of its `block_on`, on this thread now.
///
/// Only there does a thread have a budget for what it does until the next await: not in `spawn_blocking` or
/// `block_in_place`, nor between two calls of `block_on`. This check uses the budget up, so that the task lets
/// others run at its next await. It cannot detect a task inside `tokio::task::unconstrained`.
fn runs_tasks() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let mut context = Context::from_waker(Waker::noop());
    (0..MORE_THAN_A_BUDGET).any(|_| pin!(consume_budget()).poll(&mut context).is_pending())
}
