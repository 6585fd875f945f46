//! Callers that go away at a poll.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Polls a future until it is done or was pending this often; then drops it.
pub(crate) async fn poll_times<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), times);
    let polling = poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        left -= 1;
        if polled.is_pending() && left > 0 { Poll::Pending } else { Poll::Ready(polled) }
    });
    match polling.await {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
