//! Futures that are dropped on their way.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Polls a future at most this often, and drops it then.
pub(crate) fn after<F: Future>(polls: u32, future: F) -> impl Future<Output = Option<F::Output>> {
    Dropped { future: Some(Box::pin(future)), polls }
}

struct Dropped<F> {
    future: Option<Pin<Box<F>>>,
    polls: u32,
}

impl<F: Future> Future for Dropped<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            self.future = None;
        }
        self.polls = self.polls.saturating_sub(1);
        match &mut self.future {
            Some(future) => future.as_mut().poll(cx).map(Some),
            None => Poll::Ready(None),
        }
    }
}
