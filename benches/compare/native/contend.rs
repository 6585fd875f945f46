//! Several contenders that acquire and release as fast as they can.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::library::{Kind, Library};
use super::timed::nanoseconds;
use super::{close_all, connect_all};
use crate::Result;
use crate::load::{Locks, Outcome};

pub(crate) struct Contend<L: Library> {
    sessions: Vec<Arc<L::Session>>,
    /// What each task acquires.
    targets: Vec<Target<L>>,
    time: Duration,
    /// After which an acquire is given up; zero waits for as long as it takes.
    patience: Duration,
}

enum Target<L: Library> {
    Lock(Arc<L::Lock>),
    /// A new lock each time, whose path begins like this.
    Fresh {
        session: Arc<L::Session>,
        path: String,
        used: Arc<AtomicUsize>,
    },
}

impl<L: Library> Contend<L> {
    pub(crate) async fn open(
        servers: &str,
        path: &str,
        sessions: usize,
        tasks: usize,
        locks: Locks,
        (time, patience): (Duration, Duration),
    ) -> Result<Self> {
        let sessions = connect_all::<L>(servers, sessions).await?;
        let sessions: Vec<_> = sessions.into_iter().map(Arc::new).collect();
        let mut targets = Vec::new();
        for (number, session) in sessions.iter().enumerate() {
            let shared = Arc::new(L::lock(session, Kind::Mutex, path)?);
            for task in 0..tasks {
                let path = format!("{path}/{}", number * tasks + task);
                targets.push(match locks {
                    Locks::Shared => Target::Lock(shared.clone()),
                    Locks::Own => Target::Lock(Arc::new(L::lock(session, Kind::Mutex, &path)?)),
                    Locks::Fresh => Target::Fresh { session: session.clone(), path, used: Arc::default() },
                });
            }
        }
        Ok(Self { sessions, targets, time, patience })
    }

    pub(crate) async fn run(&self) -> Result<Outcome> {
        let deadline = Instant::now() + self.time;
        let mut tasks = JoinSet::new();
        for target in self.targets.iter().cloned() {
            tasks.spawn(contend::<L>(target, deadline, self.patience));
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
        drop(self.targets);
        close_all::<L>(self.sessions.into_iter().filter_map(Arc::into_inner).collect()).await;
    }
}

impl<L: Library> Target<L> {
    fn lock(&self) -> Result<Arc<L::Lock>> {
        match self {
            Self::Lock(lock) => Ok(lock.clone()),
            Self::Fresh { session, path, used } => {
                let path = format!("{path}-{}", used.fetch_add(1, Ordering::Relaxed));
                Ok(Arc::new(L::lock(session, Kind::FreshMutex, &path)?))
            }
        }
    }
}

// Derived, it would ask for a library that can be cloned.
impl<L: Library> Clone for Target<L> {
    fn clone(&self) -> Self {
        match self {
            Self::Lock(lock) => Self::Lock(lock.clone()),
            Self::Fresh { session, path, used } => {
                Self::Fresh { session: session.clone(), path: path.clone(), used: used.clone() }
            }
        }
    }
}

async fn contend<L: Library>(target: Target<L>, deadline: Instant, patience: Duration) -> Result<Outcome> {
    let mut latencies = Vec::new();
    let mut in_time = 0;
    let mut started = Instant::now();
    while started < deadline {
        let lock = target.lock()?;
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
