//! The jobs in ZooKeeper: one node each, whose data says what to do, or who has done it.

use std::time::Duration;

use zk_recipes::Client;
use zookeeper_client::{Acls, CreateMode, Error};

use crate::record::Attempt;
use crate::{Result, lock_path};

/// A job that is to be done, as it was read.
#[derive(Debug)]
pub(crate) struct OpenJob {
    pub(crate) name: String,
    pub(crate) work: Duration,
    path: String,
    version: i32,
}

/// What ZooKeeper says of a job.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) job: String,
    pub(crate) text: String,
    /// How often the node was written since it was created.
    pub(crate) version: i32,
}

/// Makes the nodes of one run, and answers the names of its jobs.
pub(crate) async fn create(client: &Client, root: &str, count: usize) -> Result<Vec<String>> {
    let zookeeper = client.zookeeper().await?;
    // Containers, as the locks make their parents: the server removes them when they have become empty.
    let directory = CreateMode::Container.with_acls(Acls::anyone_all());
    zookeeper.mkdir(parent(root), &directory).await?;
    zookeeper.create(root, &[], &directory).await?;
    zookeeper.create(&format!("{root}/jobs"), &[], &directory).await?;
    let names: Vec<String> = (1..=count).map(|number| format!("job-{number:02}")).collect();
    let node = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for name in &names {
        let to_do = format!("work {} ms", fastrand::u64(30..80));
        zookeeper.create(&format!("{root}/jobs/{name}"), to_do.as_bytes(), &node).await?;
    }
    Ok(names)
}

/// The first job that is not done, if there is one. Only to be called by the holder of the lock.
///
/// It sees all that earlier holders have done, whatever server each of them talks to: that this session saw
/// them go from the queue means that it sees what they did before. No `sync` is needed.
pub(crate) async fn next(client: &Client, root: &str) -> Result<Option<OpenJob>> {
    let zookeeper = client.zookeeper().await?;
    let mut names = zookeeper.list_children(&format!("{root}/jobs")).await?;
    names.sort_unstable();
    for name in names {
        let path = format!("{root}/jobs/{name}");
        let (data, stat) = zookeeper.get_data(&path).await?;
        let text = String::from_utf8(data)?;
        if let Some(work) = text.strip_prefix("work ").and_then(|rest| rest.strip_suffix(" ms")) {
            let work = Duration::from_millis(work.parse()?);
            return Ok(Some(OpenJob { name, work, path, version: stat.version }));
        }
    }
    Ok(None)
}

/// Marks a job as done, provided that nobody has written to it since it was read.
///
/// The lock alone cannot promise that: a holder that is paused for longer than its session lives does not
/// know that it has lost the lock. What is written under a lock is to be checked where it is written.
pub(crate) async fn mark_done(client: &Client, job: &OpenJob, attempt: &Attempt) -> Result<()> {
    let zookeeper = client.zookeeper().await?;
    let marked = zookeeper.set_data(&job.path, done_by(attempt).as_bytes(), Some(job.version)).await;
    marked.map_err(|error| format!("cannot mark {} as done: {error}", job.name))?;
    Ok(())
}

/// The data of a job that is done.
pub(crate) fn done_by(attempt: &Attempt) -> String {
    format!("done by {} with token {}", attempt.worker, attempt.token)
}

/// What ZooKeeper says of all jobs.
pub(crate) async fn marks(client: &Client, root: &str) -> Result<Vec<Mark>> {
    let zookeeper = client.zookeeper().await?;
    let directory = format!("{root}/jobs");
    // Without a lock there is nothing that would bring our server up to date with those of the workers.
    zookeeper.sync(&directory).await?;
    let mut marks = Vec::new();
    for job in zookeeper.list_children(&directory).await? {
        let (data, stat) = zookeeper.get_data(&format!("{directory}/{job}")).await?;
        let text = String::from_utf8_lossy(&data).into_owned();
        marks.push(Mark { job, text, version: stat.version });
    }
    marks.sort_unstable_by(|a, b| a.job.cmp(&b.job));
    Ok(marks)
}

/// Removes everything that this run has made, except the parent of its root: others may use that, and the
/// server removes it when nobody does.
pub(crate) async fn remove(client: &Client, root: &str) -> Result<()> {
    let zookeeper = client.zookeeper().await?;
    zookeeper.sync(root).await?;
    for directory in [format!("{root}/jobs"), lock_path(root)] {
        let children = match zookeeper.list_children(&directory).await {
            Err(Error::NoNode) => continue,
            listed => listed?,
        };
        for child in children {
            gone(zookeeper.delete(&format!("{directory}/{child}"), None).await)?;
        }
        gone(zookeeper.delete(&directory, None).await)?;
    }
    gone(zookeeper.delete(root, None).await)
}

fn gone(deleted: Result<(), Error>) -> Result<()> {
    match deleted {
        Ok(()) | Err(Error::NoNode) => Ok(()),
        Err(error) => Err(format!("cannot remove the nodes of this example: {error}").into()),
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(parent, _)| parent)
}
