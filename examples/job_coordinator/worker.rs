//! A worker: takes one job after the other under the lock, until none is left.

use std::path::Path;
use std::time::Duration;

use zk_recipes::InterProcessMutex;

use crate::record::{Attempt, Event, Recorder};
use crate::{Result, connect, jobs, lock_path};

/// The worker that gets stuck, and in which of its jobs. There the coordinator kills it.
pub(crate) const STUCK: (&str, usize) = ("worker-2", 3);
const STUCK_FOR: Duration = Duration::from_secs(600);

/// Works until no job is left.
pub(crate) async fn run(name: &str, root: &str, record: &Path) -> Result<()> {
    end_with_the_coordinator();
    let client = connect(name).await?;
    let mutex = InterProcessMutex::new(&client, &lock_path(root))?;
    let mut record = Recorder::open(record)?;

    for round in 1.. {
        let ticket = mutex.enqueue().await?;
        let behind = ticket.position().await?;
        let guard = ticket.acquired().await?;
        let token = guard.fencing_token();

        let Some(job) = jobs::next(&client, root).await? else {
            record.append(&Event::Home { worker: name.into(), token })?;
            guard.release().await?;
            break;
        };
        let attempt = Attempt { worker: name.into(), job: job.name.clone(), token };
        record.append(&Event::Start { attempt: attempt.clone(), behind })?;
        tokio::time::sleep(if (name, round) == STUCK { STUCK_FOR } else { job.work }).await;
        jobs::mark_done(&client, &job, &attempt).await?;
        record.append(&Event::Finish(attempt))?;
        guard.release().await?;

        // A rest, so that the queue is not always the same.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..100))).await;
    }
    client.close().await;
    Ok(())
}

/// Ends this process when its standard input does, whose other end is with the coordinator.
fn end_with_the_coordinator() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
}
