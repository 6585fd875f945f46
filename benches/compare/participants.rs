//! Who takes part, in which cases.

use std::path::Path;

use tokio::process::Command;

use crate::Result;
use crate::child::Participating;
use crate::load::{Load, Locks, Operation};
use crate::peers;
use crate::servers::Service;

pub(crate) const FLOOR: &str = "floor";
pub(crate) const OURS: &str = "zk-recipes";
/// With clients that live on the runtime of their callers.
const OURS_ON_THE_RUNTIME: &str = "zk-recipes-on-runtime";
/// With a cohort; where tasks of one client compete for one lock.
const OURS_IN_A_COHORT: &str = "zk-recipes-cohort";
/// zk-recipes in another build of this program.
const BEFORE: &str = "zk-recipes-before";
/// For threads; where one contender does one thing again and again.
const OURS_BLOCKING: &str = "zk-recipes-blocking";
pub(crate) const CURATOR: &str = "Curator";
pub(crate) const KAZOO: &str = "kazoo";
const ZOOKEEPER_LOCK: &str = "zookeeper-client";
const REDIS: &str = "Redis";
const ETCD: &str = "etcd";

/// A thread of Java for each waiter.
const MOST_JAVA_THREADS: usize = 1000;
const MOST_PYTHON_THREADS: usize = 100;

#[derive(Debug)]
pub(crate) struct Participant {
    pub(crate) name: &'static str,
    pub(crate) service: Service,
    pub(crate) process: Participating,
}

/// Starts all that are installed. Of the others it says how to get them.
pub(crate) async fn start_all(services: &[Service], before: Option<&Path>) -> Result<Vec<Participant>> {
    let mut known = vec![
        (FLOOR, Service::ZooKeeper, itself(FLOOR)?, ""),
        (OURS, Service::ZooKeeper, itself(OURS)?, ""),
        (OURS_ON_THE_RUNTIME, Service::ZooKeeper, itself(OURS_ON_THE_RUNTIME)?, ""),
        (OURS_BLOCKING, Service::ZooKeeper, itself(OURS_BLOCKING)?, ""),
        (OURS_IN_A_COHORT, Service::ZooKeeper, itself(OURS_IN_A_COHORT)?, ""),
        (CURATOR, Service::ZooKeeper, peers::curator(), peers::WAY_OUT),
        (KAZOO, Service::ZooKeeper, peers::kazoo(), peers::WAY_OUT),
        (ZOOKEEPER_LOCK, Service::ZooKeeper, itself(ZOOKEEPER_LOCK)?, ""),
        (REDIS, Service::Redis, itself(REDIS)?, ""),
        (ETCD, Service::Etcd, itself(ETCD)?, ""),
    ];
    if let Some(before) = before {
        known.insert(2, (BEFORE, Service::ZooKeeper, Some(take_part(before, OURS)), ""));
    }
    let mut participants = Vec::new();
    for (name, service, command, way_out) in known {
        if !services.contains(&service) {
            continue;
        }
        let Some(command) = command else {
            eprintln!("without {name}: {way_out}");
            continue;
        };
        match Participating::start(name, command).await {
            Ok(process) => participants.push(Participant { name, service, process }),
            Err(error) if name == OURS => return Err(error),
            Err(error) => eprintln!("without {name}: {error}"),
        }
    }
    Ok(participants)
}

/// This program.
fn itself(participant: &str) -> Result<Option<Command>> {
    Ok(Some(take_part(&std::env::current_exe()?, participant)))
}

fn take_part(program: &Path, participant: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--participant", participant]);
    command
}

/// How somebody takes part in a case; `None` if it does not.
pub(crate) fn part_of(name: &str, load: Load) -> Option<Load> {
    use Operation::{Acquire, AcquireNew, Cycle, Linger, Reenter};
    let is_plain = matches!(load, Load::Timed { operation: Acquire | AcquireNew | Cycle, .. });
    let takes_part = match (name, load) {
        (name, Load::Count { .. }) => matches!(name, OURS | BEFORE | CURATOR),
        (name, Load::Timed { operation: Linger, .. }) => {
            matches!(name, OURS | OURS_ON_THE_RUNTIME | OURS_BLOCKING)
        }
        (OURS | BEFORE, _) | (OURS_ON_THE_RUNTIME, Load::Timed { .. } | Load::Contend { .. }) => true,
        (OURS_BLOCKING, Load::Timed { .. }) => true,
        (OURS_IN_A_COHORT, Load::Contend { tasks, locks, patience, .. }) => {
            tasks > 1 && locks == Locks::Shared && patience.is_zero()
        }
        (FLOOR, Load::Timed { operation, .. }) => operation != Reenter,
        // Where nobody waits for anybody, its writes are those of a lock.
        (FLOOR, Load::Contend { locks, .. }) => locks != Locks::Shared,
        (CURATOR, Load::HandOver { waiters, .. }) => waiters <= MOST_JAVA_THREADS,
        (CURATOR, Load::Park { waiters }) => {
            return Some(Load::Park { waiters: waiters.min(MOST_JAVA_THREADS) });
        }
        (CURATOR, _) => true,
        (_, Load::Contend { patience, .. }) if !patience.is_zero() => false,
        (_, Load::Contend { locks: Locks::Fresh, .. }) => false,
        (KAZOO, Load::HandOver { waiters, .. }) => waiters <= MOST_PYTHON_THREADS,
        (ZOOKEEPER_LOCK, Load::HandOver { .. }) => true,
        (KAZOO | ZOOKEEPER_LOCK, Load::Contend { .. }) => true,
        // A connection of theirs does one thing at a time.
        (REDIS | ETCD, Load::Contend { tasks, .. }) => tasks == 1,
        (KAZOO | ZOOKEEPER_LOCK | REDIS | ETCD, Load::Timed { .. }) => is_plain,
        _ => false,
    };
    takes_part.then_some(load)
}
