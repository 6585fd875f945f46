//! All that `zookeeper-client` and `zk-recipes` need of `async-io`, on tokio's clock.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_core::Stream;
use tokio::time::Sleep;

pub use futures_executor::block_on;

/// Fires once, or at intervals.
#[derive(Debug)]
pub struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    period: Option<Duration>,
}

impl Timer {
    pub fn never() -> Self {
        Self { sleep: None, period: None }
    }

    pub fn after(time: Duration) -> Self {
        Self { sleep: Some(Box::pin(tokio::time::sleep(time))), period: None }
    }

    pub fn at(instant: Instant) -> Self {
        Self::after(instant.saturating_duration_since(Instant::now()))
    }

    pub fn interval(period: Duration) -> Self {
        Self { period: Some(period), ..Self::after(period) }
    }

    fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let Some(sleep) = &mut self.sleep else { return Poll::Pending };
        ready!(sleep.as_mut().poll(cx));
        match self.period {
            None => self.sleep = None,
            Some(period) => {
                let next = sleep.deadline() + period;
                sleep.as_mut().reset(next);
            }
        }
        Poll::Ready(Instant::now())
    }
}

impl Future for Timer {
    type Output = Instant;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        self.poll_tick(cx)
    }
}

impl Stream for Timer {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.poll_tick(cx).map(Some)
    }
}
