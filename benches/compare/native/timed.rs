//! One contender that does one thing again and again.

use std::time::{Duration, Instant};

use super::library::{Kind, Library};
use super::{close_all, connect_all};
use crate::Result;
use crate::load::{CONNECTIONS, Operation, Outcome, REPETITIONS};

pub(crate) struct Timed<L: Library> {
    path: String,
    operation: Operation,
    iterations: usize,
    sessions: Vec<L::Session>,
    /// One for each session.
    locks: Vec<L::Lock>,
    /// Of the nodes for [`Operation::AcquireNew`] and [`Operation::AcquireFresh`].
    used: usize,
}

impl<L: Library> Timed<L> {
    pub(crate) async fn open(
        servers: &str,
        path: &str,
        operation: Operation,
        iterations: usize,
    ) -> Result<Self> {
        let sessions = connect_all::<L>(servers, CONNECTIONS).await?;
        let kind = match operation {
            Operation::Semaphore | Operation::SemaphoreCycle => Kind::Semaphore,
            Operation::Multi | Operation::MultiRelease => Kind::Multi,
            Operation::Linger => Kind::Lingering,
            Operation::Acquire
            | Operation::AcquireNew
            | Operation::AcquireFresh
            | Operation::Cycle
            | Operation::Reenter => Kind::Mutex,
        };
        let locks = sessions.iter().map(|session| L::lock(session, kind, path)).collect::<Result<_>>()?;
        Ok(Self { path: path.to_owned(), operation, iterations, sessions, locks, used: 0 })
    }

    pub(crate) async fn run(&mut self, round: usize) -> Result<Outcome> {
        let connection = round % self.sessions.len();
        let started = Instant::now();
        let mut latencies = Vec::with_capacity(self.iterations);
        let of_sample = match self.operation {
            Operation::Reenter => {
                let held = L::acquire(&self.locks[connection]).await?;
                self.repeat(connection, &mut latencies).await?;
                L::release(held).await?;
                REPETITIONS
            }
            Operation::Linger => {
                self.repeat(connection, &mut latencies).await?;
                REPETITIONS
            }
            _ => {
                for _ in 0..self.iterations {
                    latencies.push(nanoseconds(self.once(connection).await?));
                }
                1
            }
        };
        let cycles = latencies.len() as u64 * u64::from(of_sample);
        Ok(Outcome { cycles, elapsed: started.elapsed(), latencies, grants: Vec::new() })
    }

    async fn once(&mut self, connection: usize) -> Result<Duration> {
        let kind_of_new = match self.operation {
            Operation::AcquireNew => Some(Kind::Mutex),
            Operation::AcquireFresh => Some(Kind::FreshMutex),
            _ => None,
        };
        let started = Instant::now();
        let held = match kind_of_new {
            Some(kind) => {
                let path = format!("{}/{}", self.path, self.used);
                self.used += 1;
                L::acquire(&L::lock(&self.sessions[connection], kind, &path)?).await?
            }
            None => L::acquire(&self.locks[connection]).await?,
        };
        let acquired = started.elapsed();
        L::release(held).await?;
        Ok(match self.operation {
            Operation::Cycle | Operation::SemaphoreCycle => started.elapsed(),
            Operation::MultiRelease => started.elapsed() - acquired,
            _ => acquired,
        })
    }

    async fn repeat(&self, connection: usize, latencies: &mut Vec<u64>) -> Result<()> {
        let lock = &self.locks[connection];
        for _ in 0..self.iterations {
            let started = Instant::now();
            for _ in 0..REPETITIONS {
                L::release(L::acquire(lock).await?).await?;
            }
            latencies.push(nanoseconds(started.elapsed() / REPETITIONS));
        }
        Ok(())
    }

    pub(crate) async fn close(self) {
        drop(self.locks);
        close_all::<L>(self.sessions).await;
    }
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
