//! The steps of work: what runs between two awaits.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts the steps that are running now.
#[derive(Debug, Default)]
pub(super) struct Steps {
    going_on: AtomicUsize,
    ended: Notify,
}

/// A running step.
pub(super) struct Step<'a>(&'a Steps);

impl Steps {
    /// Runs work, counting each of its steps, including its drop at the end.
    pub(super) async fn count<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|context| {
            let _step = self.begin();
            work.as_mut().poll(context)
        })
        .await
    }

    /// Whether a step is running.
    pub(super) fn go_on(&self) -> bool {
        self.going_on.load(Ordering::SeqCst) > 0
    }

    /// Waits until no step is running.
    pub(super) async fn ended(&self) {
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            if !self.go_on() {
                return;
            }
            ended.await;
        }
    }

    pub(super) fn begin(&self) -> Step<'_> {
        self.going_on.fetch_add(1, Ordering::SeqCst);
        Step(self)
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if self.0.going_on.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.ended.notify_waiters();
        }
    }
}
