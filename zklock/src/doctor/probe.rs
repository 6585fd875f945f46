//! What can be tried out on a throwaway path.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use zk_recipes::{Acls, Client, CreateMode, Error, InterProcessMutex, report, zookeeper_client as zk};

use super::finding::Finding;
use crate::args::Connection;

const CLOCK: &str = "clock";
/// How often a lock is taken and given back.
const CYCLES: usize = 7;
/// From which difference on the ages that are shown mislead.
const CLOCKS_APART: Duration = Duration::from_secs(1);
/// Servers remove what is left of the probe after this time.
const TTL: Duration = Duration::from_secs(60);

/// Tries locks, and what they need of the servers, on a path of its own, which is removed in the end.
pub(super) async fn findings(client: &Client, connection: &Connection) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = try_all(client, connection, &mut findings).await {
        findings.push(Finding::failed("lock", &error));
    }
    findings
}

async fn try_all(client: &Client, connection: &Connection, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let mutex = InterProcessMutex::new(client, &format!("/zklock-doctor-{}", uuid::Uuid::new_v4().simple()))?;
    findings.push(Finding::ok("lock", round_trips(&mutex).await?));
    let root = mutex.path();
    let zookeeper = client.zookeeper().await?;
    let acls = if connection.creator_only { Acls::creator_all() } else { Acls::anyone_all() };
    findings.push(containers(&zookeeper, root, acls).await);
    findings.push(ttl(&zookeeper, root, acls).await);
    findings.push(clock(&zookeeper, root, acls).await);
    match zookeeper.delete(root, None).await {
        Ok(()) | Err(zk::Error::NoNode) => {}
        Err(error) => findings.push(Finding::warning(
            "lock",
            format!("cannot remove {root}, which the servers will do: {}", report(&error)),
        )),
    }
    Ok(())
}

async fn containers(zookeeper: &zk::Client, root: &str, acls: Acls<'_>) -> Finding {
    const CHECK: &str = "container nodes";
    match try_out(zookeeper, &format!("{root}/container"), &CreateMode::Container.with_acls(acls)).await {
        Ok(()) => Finding::ok(CHECK, "supported"),
        Err(error) => {
            Finding::problem(CHECK, format!("{}: the paths of locks cannot be created", report(&error)))
        }
    }
}

async fn ttl(zookeeper: &zk::Client, root: &str, acls: Acls<'_>) -> Finding {
    const CHECK: &str = "TTL nodes";
    let options = CreateMode::Persistent.with_acls(acls).with_ttl(TTL);
    match try_out(zookeeper, &format!("{root}/ttl"), &options).await {
        Ok(()) => Finding::ok(CHECK, "supported"),
        Err(zk::Error::Unimplemented) => {
            Finding::ok(CHECK, "off (zookeeper.extendedTypesEnabled); locks do not need them")
        }
        Err(error) => Finding::warning(CHECK, report(&error).to_string()),
    }
}

/// The clock of the ensemble's leader, which dates nodes, against that of this machine.
async fn clock(zookeeper: &zk::Client, root: &str, acls: Acls<'_>) -> Finding {
    let path = format!("{root}/clock");
    let options = CreateMode::Ephemeral.with_acls(acls);
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
        Err(error) => Finding::failed(CLOCK, &error),
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
    let half = took / 2;
    let ahead = asked.saturating_add(millis(half)).saturating_sub(created);
    // The server dates by whole milliseconds, and so is `asked` cut.
    let accuracy = half + Duration::from_millis(1);
    let apart = Duration::from_millis(ahead.unsigned_abs());
    if apart <= accuracy {
        return Finding::ok(CLOCK, format!("this machine agrees with the leader, to within {accuracy:.1?}"));
    }
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    let text = format!("this machine is {apart:?} {direction} the leader, to within {accuracy:.1?}");
    if apart.saturating_sub(accuracy) < CLOCKS_APART {
        return Finding::ok(CLOCK, text);
    }
    Finding::warning(CLOCK, format!("{text}; ages that are shown here are wrong by that, locks are not"))
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
