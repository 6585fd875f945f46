//! Several that increment one number as fast as they can.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zk_recipes::Client;
use zk_recipes::atomic::DistributedAtomicLong;

use super::library::Library;
use super::ours::Ours;
use super::timed::nanoseconds;
use super::{close_all, connect_all};
use crate::Result;
use crate::load::Outcome;

pub(crate) struct Count {
    sessions: Vec<Client>,
    /// One for each session.
    numbers: Vec<DistributedAtomicLong>,
    tasks: usize,
    time: Duration,
}

impl Count {
    pub(crate) async fn open(
        servers: &str,
        path: &str,
        sessions: usize,
        tasks: usize,
        time: Duration,
    ) -> Result<Self> {
        let sessions: Vec<<Ours as Library>::Session> = connect_all::<Ours>(servers, sessions).await?;
        let path = format!("{path}/number");
        let number = |client| DistributedAtomicLong::new(client, &path);
        let numbers = sessions.iter().map(number).collect::<zk_recipes::Result<_>>()?;
        Ok(Self { sessions, numbers, tasks, time })
    }

    pub(crate) async fn run(&self) -> Result<Outcome> {
        let deadline = Instant::now() + self.time;
        let mut counting = JoinSet::new();
        for number in self.numbers.iter().flat_map(|number| std::iter::repeat_n(number, self.tasks)) {
            counting.spawn(count(number.clone(), deadline));
        }
        let mut outcome = Outcome { elapsed: self.time, ..Outcome::default() };
        while let Some(counted) = counting.join_next().await {
            let (latencies, in_time) = counted??;
            outcome.cycles += latencies.len() as u64;
            outcome.latencies.extend(latencies);
            outcome.grants.push(in_time);
        }
        Ok(outcome)
    }

    pub(crate) async fn close(self) {
        drop(self.numbers);
        close_all::<Ours>(self.sessions).await;
    }
}

/// Returns how long each increment took, and how many there were in time.
async fn count(number: DistributedAtomicLong, deadline: Instant) -> Result<(Vec<u64>, u64)> {
    let mut latencies = Vec::new();
    let mut in_time = 0;
    let mut started = Instant::now();
    while started < deadline {
        number.increment().await?;
        let now = Instant::now();
        latencies.push(nanoseconds(now - started));
        in_time += u64::from(now < deadline);
        started = now;
    }
    Ok((latencies, in_time))
}
