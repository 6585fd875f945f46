//! Work that continues when its caller gives up.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::handle::Client;
use super::serving::is_shut_down;

/// Work with side effects at the servers. If this is dropped, the janitor completes the work: the node that it
/// created is then known by name, and one request removes it. Otherwise it would have to be searched for.
#[must_use = "futures do nothing unless polled"]
pub(crate) struct SeeThrough<T: Send + 'static> {
    client: Client,
    /// `None` when the work is done or has panicked.
    work: Option<Pin<Box<dyn Future<Output = T> + Send + Sync>>>,
    is_begun: bool,
}

impl Client {
    /// Polls work that another task may have to complete. Its timers are those of the client's runtime, since the
    /// caller's runtime may end earlier.
    pub(crate) fn poll_at_home<F: Future + ?Sized>(
        &self,
        work: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        if self.has_ended() {
            // No one waits for it, and the timers of a runtime that is shut down must not be polled.
            return Poll::Pending;
        }
        let runtime = self.core.home.runtime();
        let _at_home = runtime.enter();
        // A timer panics if the runtime is shut down at this very moment.
        match catch_unwind(AssertUnwindSafe(|| work.poll(context))) {
            Ok(polled) => polled,
            Err(_) if is_shut_down(runtime) => Poll::Pending,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Wraps work so that it is completed once it was polled, even if the caller gives up. Its result is dropped
    /// then.
    ///
    /// # Cancel safety
    /// The client continues the work for a limited time, and then drops it.
    pub(crate) fn see_through<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + Sync + 'static,
    ) -> SeeThrough<T> {
        SeeThrough { client: self.clone(), work: Some(Box::pin(work)), is_begun: false }
    }
}

impl<T: Send + 'static> Future for SeeThrough<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.is_begun = true;
        // If this panics, the work is gone, and the janitor does not poll it again.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let done = self.client.poll_at_home(work.as_mut(), context);
        if done.is_pending() {
            self.work = Some(work);
        }
        done
    }
}

impl<T: Send + 'static> Drop for SeeThrough<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take_if(|_| self.is_begun) {
            self.client.janitor().finish(work);
        }
    }
}
