//! Has long holds monitored that no one listens to.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::held_node::HeldNode;
use crate::client::Client;

/// Most holds end sooner. An older one has its node watched.
const BRIEF: Duration = Duration::from_secs(1);

/// The young holds of one client, and a task that looks after them from the first hold until the client is closed.
#[derive(Debug, Default)]
pub(crate) struct Minder {
    young: Mutex<Young>,
    /// Notified when there is a young hold again.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Young {
    /// Oldest first, with the time at which each is no longer young.
    holds: VecDeque<(Instant, Weak<HeldNode>)>,
    is_minded: bool,
}

impl Minder {
    /// Adds a hold.
    pub(crate) fn mind(client: &Client, held: &Arc<HeldNode>) {
        let minder: Arc<Self> = client.extension();
        let mut young = minder.young.lock();
        young.forget_the_gone();
        if young.holds.is_empty() {
            minder.wanted.notify_one();
        }
        young.holds.push_back((Instant::now() + BRIEF, Arc::downgrade(held)));
        let is_minded = std::mem::replace(&mut young.is_minded, true);
        drop(young);
        if !is_minded {
            let closing = client.closing();
            client.spawn(async move {
                closing.run_until_cancelled(mind(&minder)).await;
            });
        }
    }
}

impl Young {
    fn forget_the_gone(&mut self) {
        while self.holds.front().is_some_and(|(_, held)| held.strong_count() == 0) {
            self.holds.pop_front();
        }
    }

    /// Returns the first hold that is no longer young, or the time at which the next one will not be.
    fn next(&mut self) -> Option<Result<Arc<HeldNode>, Instant>> {
        self.forget_the_gone();
        let (grown, held) = self.holds.front()?;
        if *grown > Instant::now() {
            return Some(Err(*grown));
        }
        let held = held.upgrade();
        self.holds.pop_front();
        held.map_or_else(|| self.next(), |held| Some(Ok(held)))
    }
}

async fn mind(minder: &Minder) -> Infallible {
    loop {
        let next = minder.young.lock().next();
        match next {
            None => minder.wanted.notified().await,
            // Its node is being deleted, and its watch was given up. A new watch would take a request.
            Some(Ok(held)) if held.is_released() => {}
            Some(Ok(held)) => held.watch_node(),
            Some(Err(grown)) => sleep_until(grown).await,
        }
    }
}
