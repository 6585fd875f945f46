//! Leaders that resign, one after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;
use zk_recipes::{Client, LeaderLatch, LeaderOptions};

use super::baton::Baton;
use super::library::Library;
use super::ours::Ours;
use super::{close_all, connect_all};
use crate::Result;
use crate::load::Outcome;

pub(crate) struct Succession {
    sessions: Vec<Client>,
    latches: Vec<LeaderLatch>,
    successions: usize,
    term: Duration,
}

impl Succession {
    pub(crate) async fn open(
        servers: &str,
        path: &str,
        candidates: usize,
        successions: usize,
        term: Duration,
    ) -> Result<Self> {
        let sessions: Vec<<Ours as Library>::Session> = connect_all::<Ours>(servers, candidates).await?;
        let start = |client| LeaderLatch::start(client, path, LeaderOptions::new());
        let latches = sessions.iter().map(start).collect::<Result<_, _>>()?;
        Ok(Self { sessions, latches, successions, term })
    }

    pub(crate) async fn run(&self) -> Result<Outcome> {
        let started = Instant::now();
        let baton = Arc::new(Baton::new(self.successions));
        let mut leaders = JoinSet::new();
        for latch in &self.latches {
            leaders.spawn(lead(latch.clone(), baton.clone(), self.term));
        }
        baton.enough(&mut leaders).await?;
        leaders.shutdown().await;
        Ok(baton.outcome(started.elapsed()))
    }

    pub(crate) async fn close(self) {
        drop(self.latches);
        close_all::<Ours>(self.sessions).await;
    }
}

/// Until it is aborted.
async fn lead(latch: LeaderLatch, baton: Arc<Baton>, term: Duration) -> Result<()> {
    loop {
        let leadership = latch.await_leadership().await?;
        baton.take(Instant::now());
        sleep(term).await;
        baton.release();
        leadership.resign().await?;
    }
}
