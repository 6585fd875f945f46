//! What can be tried out on a throwaway path.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use zk_recipes::{Acls, Client, CreateMode, Error, InterProcessMutex, report, zookeeper_client as zk};

use super::finding::Finding;
use crate::args::Connection;

/// How often a lock is taken and given back.
const CYCLES: usize = 7;
/// From which difference on the ages that are shown mislead.
const CLOCKS_APART: Duration = Duration::from_secs(1);
/// Servers remove what is left of the probe after this time.
const TTL: Duration = Duration::from_secs(60);

/// A path of its own, removed in the end.
#[derive(Debug)]
pub(super) struct Probe<'c> {
    client: &'c Client,
    path: String,
    acls: Acls<'static>,
}

impl<'c> Probe<'c> {
    pub(super) fn new(client: &'c Client, connection: &Connection) -> Self {
        let path = format!("/zklock-doctor-{}", uuid::Uuid::new_v4().simple());
        let acls = if connection.creator_only { Acls::creator_all() } else { Acls::anyone_all() };
        Self { client, path, acls }
    }

    pub(super) async fn findings(&self) -> Vec<Finding> {
        let mutex = match InterProcessMutex::new(self.client, &self.path) {
            Ok(mutex) => mutex,
            Err(error) => return vec![Finding::problem("lock", report(&error).to_string())],
        };
        let locked = match round_trips(&mutex).await {
            Ok(took) => Finding::ok("lock", took),
            Err(error) => return vec![Finding::problem("lock", report(&error).to_string())],
        };
        let mut findings = vec![locked];
        let root = mutex.path();
        match self.client.zookeeper().await {
            Ok(zookeeper) => {
                findings.push(self.containers(&zookeeper, root).await);
                findings.push(self.ttl(&zookeeper, root).await);
                findings.push(self.clock(&zookeeper, root).await);
                match zookeeper.delete(root, None).await {
                    Ok(()) | Err(zk::Error::NoNode) => {}
                    Err(error) => findings.push(Finding::warning(
                        "lock",
                        format!("cannot remove {root}, which the servers will do: {}", report(&error)),
                    )),
                }
            }
            Err(error) => findings.push(Finding::problem("lock", report(&error).to_string())),
        }
        findings
    }

    async fn containers(&self, zookeeper: &zk::Client, root: &str) -> Finding {
        const CHECK: &str = "container nodes";
        let path = format!("{root}/container");
        let options = CreateMode::Container.with_acls(self.acls);
        match try_out(zookeeper, &path, &options).await {
            Ok(()) => Finding::ok(CHECK, "supported"),
            Err(error) => {
                Finding::problem(CHECK, format!("{}: the paths of locks cannot be created", report(&error)))
            }
        }
    }

    async fn ttl(&self, zookeeper: &zk::Client, root: &str) -> Finding {
        const CHECK: &str = "TTL nodes";
        let path = format!("{root}/ttl");
        let options = CreateMode::Persistent.with_acls(self.acls).with_ttl(TTL);
        match try_out(zookeeper, &path, &options).await {
            Ok(()) => Finding::ok(CHECK, "supported"),
            Err(zk::Error::Unimplemented) => {
                Finding::ok(CHECK, "off (zookeeper.extendedTypesEnabled); locks do not need them")
            }
            Err(error) => Finding::warning(CHECK, report(&error).to_string()),
        }
    }

    /// The clock of the ensemble's leader, which dates nodes, against that of this machine.
    async fn clock(&self, zookeeper: &zk::Client, root: &str) -> Finding {
        const CHECK: &str = "clock";
        let path = format!("{root}/clock");
        let options = CreateMode::Ephemeral.with_acls(self.acls);
        let (asked, started) = (SystemTime::now(), Instant::now());
        let created = zookeeper.create(&path, b"", &options).await;
        let took = started.elapsed();
        let stat = match created {
            Ok((stat, _)) if !stat.is_invalid() => Ok(stat),
            Ok(_) => zookeeper.get_data(&path).await.map(|(_, stat)| stat),
            Err(error) => Err(error),
        };
        // It ends with the session otherwise.
        let _ = zookeeper.delete(&path, None).await;
        match stat {
            Ok(stat) => {
                let before = asked.duration_since(UNIX_EPOCH).unwrap_or_default();
                judge_clock(millis(before), took, stat.mtime)
            }
            Err(error) => Finding::problem(CHECK, report(&error).to_string()),
        }
    }
}

async fn try_out(
    zookeeper: &zk::Client,
    path: &str,
    options: &zk::CreateOptions<'_>,
) -> Result<(), zk::Error> {
    zookeeper.create(path, b"", options).await?;
    zookeeper.delete(path, None).await
}

async fn round_trips(mutex: &InterProcessMutex) -> Result<String, Error> {
    // The first one creates the path.
    mutex.acquire().await?.release().await?;
    let (mut acquires, mut releases) = (Vec::new(), Vec::new());
    for _ in 0..CYCLES {
        let start = Instant::now();
        let guard = mutex.acquire().await?;
        let acquired = Instant::now();
        guard.release().await?;
        acquires.push(acquired - start);
        releases.push(acquired.elapsed());
    }
    Ok(format!(
        "acquired in {:.1?}, released in {:.1?} (median of {CYCLES})",
        median(acquires),
        median(releases)
    ))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Judges the difference of the clocks by a node that was created within the time after `asked`, in milliseconds.
fn judge_clock(asked: i64, took: Duration, created: i64) -> Finding {
    const CHECK: &str = "clock";
    let half = took / 2;
    let ahead = asked.saturating_add(millis(half)).saturating_sub(created);
    // The server dates by whole milliseconds, and so is `asked` cut.
    let accuracy = half + Duration::from_millis(1);
    let apart = Duration::from_millis(ahead.unsigned_abs());
    if apart <= accuracy {
        return Finding::ok(CHECK, format!("this machine agrees with the leader, to within {accuracy:.1?}"));
    }
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    let text = format!("this machine is {apart:?} {direction} the leader, to within {accuracy:.1?}");
    if apart.saturating_sub(accuracy) < CLOCKS_APART {
        return Finding::ok(CHECK, text);
    }
    Finding::warning(CHECK, format!("{text}; ages that are shown here are wrong by that, locks are not"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn clocks_are_compared_to_within_the_round_trip() {
        let took = Duration::from_millis(10);
        for (created, level, text) in [
            (1_000_005, Level::Ok, "agrees"),
            (1_000_010, Level::Ok, "agrees"),
            (1_000_300, Level::Ok, "295ms behind"),
            (995_000, Level::Warning, "5.005s ahead of"),
            (1_090_000, Level::Warning, "89.995s behind"),
        ] {
            let finding = judge_clock(1_000_000, took, created);
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.text.contains(text) && finding.text.contains("to within 6.0ms"), "{finding:?}");
        }
    }
}
