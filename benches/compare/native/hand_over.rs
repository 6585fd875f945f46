//! A long queue, and how long it takes from one holder to the next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::baton::Baton;
use super::library::{Kind, Library};
use super::{close_all, connect_all};
use crate::Result;
use crate::load::Outcome;

/// One of each session queues at a time, and the next ones this much later: so they stand behind them.
const QUEUEING: Duration = Duration::from_millis(10);

pub(crate) struct HandOver<L: Library> {
    sessions: Vec<L::Session>,
    /// Keeps the lock until the queue is there.
    first: Option<L::Held>,
    waiters: JoinSet<Result<()>>,
    baton: Arc<Baton>,
}

impl<L: Library> HandOver<L> {
    pub(crate) async fn open(
        servers: &str,
        path: &str,
        sessions: usize,
        waiters: usize,
        hand_overs: usize,
        hold: Duration,
    ) -> Result<Self> {
        let sessions = connect_all::<L>(servers, sessions).await?;
        let locks: Vec<_> = sessions
            .iter()
            .map(|session| L::lock(session, Kind::Mutex, path).map(Arc::new))
            .collect::<Result<_>>()?;
        let first = Some(L::acquire(&locks[0]).await?);
        let baton = Arc::new(Baton::new(hand_overs));
        let mut queue = JoinSet::new();
        for waiter in 0..waiters {
            let session = waiter % locks.len();
            if session == 0 {
                sleep(QUEUEING).await;
            }
            queue.spawn(wait_and_hold::<L>(locks[session].clone(), baton.clone(), hold));
        }
        Ok(Self { sessions, first, waiters: queue, baton })
    }

    pub(crate) async fn run(&mut self) -> Result<Outcome> {
        let started = Instant::now();
        let first = self.first.take().ok_or("the queue has been used already")?;
        self.baton.release();
        L::release(first).await?;
        self.baton.enough(&mut self.waiters).await?;
        Ok(self.baton.outcome(started.elapsed()))
    }

    pub(crate) async fn close(mut self) {
        self.waiters.shutdown().await;
        close_all::<L>(self.sessions).await;
    }
}

/// Until it is aborted. It queues again when the next one has had time to get the lock, so as not to be in its way.
async fn wait_and_hold<L: Library>(lock: Arc<L::Lock>, baton: Arc<Baton>, hold: Duration) -> Result<()> {
    loop {
        let held = L::acquire(&lock).await?;
        baton.take(Instant::now());
        sleep(hold).await;
        baton.release();
        L::release(held).await?;
        sleep(hold / 2).await;
    }
}
