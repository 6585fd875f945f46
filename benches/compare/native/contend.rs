//! Several contenders that acquire and release as fast as they can.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::library::{Kind, Library};
use super::timed::nanoseconds;
use super::{close_all, connect_all};
use crate::Result;
use crate::load::Outcome;

pub(crate) struct Contend<L: Library> {
    sessions: Vec<L::Session>,
    /// What each task acquires.
    locks: Vec<Arc<L::Lock>>,
    time: Duration,
    /// After which an acquire is given up; zero waits for as long as it takes.
    patience: Duration,
}

impl<L: Library> Contend<L> {
    pub(crate) async fn open(
        servers: &str,
        path: &str,
        sessions: usize,
        tasks: usize,
        own_locks: bool,
        (time, patience): (Duration, Duration),
    ) -> Result<Self> {
        let sessions = connect_all::<L>(servers, sessions).await?;
        let mut locks = Vec::new();
        for (number, session) in sessions.iter().enumerate() {
            let shared = Arc::new(L::lock(session, Kind::Mutex, path)?);
            for task in 0..tasks {
                locks.push(match own_locks {
                    true => {
                        Arc::new(L::lock(session, Kind::Mutex, &format!("{path}/{}", number * tasks + task))?)
                    }
                    false => shared.clone(),
                });
            }
        }
        Ok(Self { sessions, locks, time, patience })
    }

    pub(crate) async fn run(&self) -> Result<Outcome> {
        let deadline = Instant::now() + self.time;
        let mut tasks = JoinSet::new();
        for lock in self.locks.iter().cloned() {
            tasks.spawn(contend::<L>(lock, deadline, self.patience));
        }
        let mut outcome = Outcome { elapsed: self.time, ..Outcome::default() };
        while let Some(contender) = tasks.join_next().await {
            let contender: Outcome = contender??;
            outcome.cycles += contender.cycles;
            outcome.latencies.extend(contender.latencies);
            outcome.grants.extend(contender.grants);
        }
        Ok(outcome)
    }

    pub(crate) async fn close(self) {
        drop(self.locks);
        close_all::<L>(self.sessions).await;
    }
}

async fn contend<L: Library>(lock: Arc<L::Lock>, deadline: Instant, patience: Duration) -> Result<Outcome> {
    let mut latencies = Vec::new();
    let mut in_time = 0;
    let mut started = Instant::now();
    while started < deadline {
        let acquiring = L::acquire(&lock);
        let held = match patience.is_zero() {
            true => acquiring.await?,
            false => match timeout(patience, acquiring).await {
                Ok(held) => held?,
                Err(_) => {
                    started = Instant::now();
                    continue;
                }
            },
        };
        latencies.push(nanoseconds(started.elapsed()));
        L::release(held).await?;
        started = Instant::now();
        in_time += u64::from(started < deadline);
    }
    Ok(Outcome { cycles: latencies.len() as u64, latencies, grants: vec![in_time], ..Outcome::default() })
}
