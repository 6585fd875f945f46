//! A worker: stands for election, and does the job at each tick while it leads.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;
use zk_recipes::job::{JobOptions, JobRun, ScheduledJob};
use zk_recipes::{CreateMode, Error, LeaderOptions, LeaderState, Leadership, Watch};

use crate::record::{Event, Recorder, Tick};
use crate::{PERIOD, Result, connect, job, ticks};

/// The job itself.
const WORK: Duration = Duration::from_millis(40);

/// What the parent process tells a worker, after the servers.
pub(crate) const RESIGN: &str = "resign";

struct Worker {
    name: String,
    root: String,
    record: Recorder,
}

pub(crate) async fn run(name: &str, root: &str, record: &Path) -> Result<()> {
    let mut parent = parent();
    let record = Recorder::open(record)?;
    println!("ready");
    let Some(servers) = parent.recv().await else { return Ok(()) };
    let client = connect(name, &servers).await?;
    println!("{}", client.zookeeper().await?.session_timeout().as_millis());

    let worker = Arc::new(Worker { name: name.into(), root: root.into(), record });
    let working = worker.clone();
    let options = JobOptions::new().leader(LeaderOptions::new().id(name));
    let job = ScheduledJob::every(&client, &job(root), PERIOD, options, move |run| {
        let worker = working.clone();
        // Dropped, wherever it awaits, when the leadership is lost.
        async move { worker.tick(run).await }
    })?;
    tokio::spawn(worker.note_elections(job.watch_leader()));
    while let Some(order) = parent.recv().await {
        if order == RESIGN {
            job.interrupt_leadership();
        }
    }
    Ok(job.close().await?)
}

impl Worker {
    async fn tick(&self, run: JobRun) -> Result<()> {
        let (number, token) = (ticks::number(run.scheduled_at()), run.fencing_token());
        let tick = Tick { number, worker: self.name.clone(), token };
        self.record.append(Event::Begins(tick.clone()))?;
        sleep(WORK).await;
        // Done only while it leads, whatever happens to this process meanwhile.
        let path = ticks::path(&self.root, number);
        let done = run.leadership().transaction();
        match done.create(&path, ticks::data(&tick), CreateMode::Persistent).commit().await {
            Ok(_) => self.record.append(Event::Done(tick)),
            // It leads no more; or the connection broke, and the next tick is soon.
            Err(Error::LockLost { .. } | Error::OutcomeUnknown { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn note_elections(self: Arc<Self>, mut states: Watch<LeaderState>) {
        while let Some(state) = states.changed().await {
            let LeaderState::Leading(leadership) = state else { continue };
            self.note(Event::Elected { worker: self.name.clone(), token: leadership.fencing_token() });
            tokio::spawn(self.clone().note_the_end(leadership));
        }
    }

    async fn note_the_end(self: Arc<Self>, leadership: Leadership) {
        leadership.lost().await;
        self.note(Event::Ended { worker: self.name.clone(), token: leadership.fencing_token() });
    }

    fn note(&self, event: Event) {
        if let Err(error) = self.record.append(event) {
            eprintln!("{}: {error}", self.name);
        }
    }
}

/// The lines from the parent process. When that is gone, this process ends.
fn parent() -> mpsc::UnboundedReceiver<String> {
    let (send, receive) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
        std::process::exit(1);
    });
    receive
}
