//! The ticks: one node in ZooKeeper for each time that the job was done.

use std::time::{Duration, SystemTime};

use zk_recipes::Client;
use zk_recipes::zookeeper_client::{Acls, CreateMode, Error};

use crate::record::Tick;
use crate::{PERIOD, Result, election, job};

/// A node may come while all are removed, from one who was killed in the middle of a request.
const REMOVALS: usize = 5;

/// The number of the tick that is due at this time: so everybody means the same by it.
pub(crate) fn number(due: SystemTime) -> u64 {
    let since_epoch = due.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since_epoch.as_millis() / PERIOD.as_millis()) as u64
}

fn since_epoch() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// The node of a tick.
pub(crate) fn path(root: &str, number: u64) -> String {
    format!("{}/{number}", directory(root))
}

/// What is in it.
pub(crate) fn data(tick: &Tick) -> String {
    format!("{} {} {}", tick.worker, tick.token, since_epoch().as_millis())
}

fn directory(root: &str) -> String {
    format!("{root}/ticks")
}

/// Makes the nodes that are needed from the start.
pub(crate) async fn create(client: &Client, root: &str) -> Result<()> {
    let zookeeper = client.zookeeper().await?;
    // Containers, as the election makes its parents: the server removes them when they have become empty.
    zookeeper.mkdir(&directory(root), &CreateMode::Container.with_acls(Acls::anyone_all())).await?;
    Ok(())
}

/// What ZooKeeper says of all ticks, in order.
pub(crate) async fn all(client: &Client, root: &str) -> Result<Vec<Tick>> {
    let zookeeper = client.zookeeper().await?;
    // Without leading there is nothing that would bring our server up to date with those of the workers.
    zookeeper.sync(&directory(root)).await?;
    let mut ticks = Vec::new();
    for name in zookeeper.list_children(&directory(root)).await? {
        let number = name.parse()?;
        let (data, _) = zookeeper.get_data(&path(root, number)).await?;
        let data = String::from_utf8(data)?;
        let [worker, token, _time] = data.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("nobody writes {data:?} to a tick").into());
        };
        ticks.push(Tick { number, worker: worker.into(), token: token.parse()? });
    }
    ticks.sort_unstable_by_key(|tick| tick.number);
    Ok(ticks)
}

/// Removes everything that this run has made, except the parent of its root: others may use that, and the server
/// removes it when nobody does.
pub(crate) async fn remove(client: &Client, root: &str) -> Result<()> {
    let zookeeper = client.zookeeper().await?;
    zookeeper.sync(root).await?;
    // The election first: without their nodes in it, nobody can do a tick.
    for directory in [&election(root), &job(root), &directory(root), root] {
        let mut removed = Err(Error::NotEmpty);
        for _ in 0..REMOVALS {
            match zookeeper.list_children(directory).await {
                Err(Error::NoNode) => {}
                listed => {
                    for child in listed? {
                        gone(zookeeper.delete(&format!("{directory}/{child}"), None).await)?;
                    }
                }
            }
            removed = gone(zookeeper.delete(directory, None).await);
            if removed != Err(Error::NotEmpty) {
                break;
            }
        }
        removed.map_err(|error| format!("cannot remove {directory}: {error}"))?;
    }
    Ok(())
}

fn gone(deleted: Result<(), Error>) -> Result<(), Error> {
    if deleted == Err(Error::NoNode) { Ok(()) } else { deleted }
}
