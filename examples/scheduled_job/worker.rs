//! A worker: stands for election, and does the job at each tick while it leads.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;
use zk_recipes::{Client, CreateMode, Error, LeaderOptions, LeaderSelector, Leadership};

use crate::record::{Event, Recorder, Tick};
use crate::{Result, connect, election, ticks};

/// The job itself.
const WORK: Duration = Duration::from_millis(40);

/// What the parent process tells a worker, after the servers.
pub(crate) const RESIGN: &str = "resign";

struct Worker {
    name: String,
    root: String,
    client: Client,
    record: Recorder,
}

pub(crate) async fn run(name: &str, root: &str, record: &Path) -> Result<()> {
    let mut parent = parent();
    let record = Recorder::open(record)?;
    println!("ready");
    let Some(servers) = parent.recv().await else { return Ok(()) };
    let client = connect(name, &servers).await?;
    println!("{}", client.zookeeper().await?.session_timeout().as_millis());

    let worker = Worker { name: name.into(), root: root.into(), client: client.clone(), record };
    let worker = Arc::new(worker);
    let options = LeaderOptions::new().id(name);
    let selector = LeaderSelector::start(&client, &election(root), options, move |leadership| {
        let worker = worker.clone();
        // Dropped, wherever it awaits, when the leadership is lost.
        async move { worker.lead(leadership).await }
    })?;
    while let Some(order) = parent.recv().await {
        if order == RESIGN {
            selector.interrupt_leadership();
        }
    }
    Ok(selector.close().await?)
}

impl Worker {
    /// Does the ticks until it is to resign.
    async fn lead(self: Arc<Self>, leadership: Leadership) -> Result<()> {
        self.record
            .append(Event::Elected { worker: self.name.clone(), token: leadership.fencing_token() })?;
        tokio::spawn(self.clone().note_the_end(leadership.clone()));
        // From where the one before has stopped.
        let mut next = ticks::last(&self.client, &self.root).await?.map_or(0, |last| last + 1);
        loop {
            let number = tokio::select! {
                () = leadership.resign_requested() => return Ok(()),
                number = ticks::due(next) => number,
            };
            if !self.tick(&leadership, number).await? {
                return Ok(());
            }
            next = number + 1;
        }
    }

    /// Answers whether it still leads.
    async fn tick(&self, leadership: &Leadership, number: u64) -> Result<bool> {
        let tick = Tick { number, worker: self.name.clone(), token: leadership.fencing_token() };
        self.record.append(Event::Begins(tick.clone()))?;
        sleep(WORK).await;
        // Done only while it leads, whatever happens to this process meanwhile.
        let path = ticks::path(&self.root, number);
        let done = leadership.transaction().create(&path, ticks::data(&tick), CreateMode::Persistent);
        match done.commit().await {
            Ok(_) => self.record.append(Event::Done(tick))?,
            Err(Error::LockLost { .. }) => return Ok(false),
            // The connection broke. It is not done once more: the next tick is soon.
            Err(Error::OutcomeUnknown { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    async fn note_the_end(self: Arc<Self>, leadership: Leadership) {
        leadership.lost().await;
        let ended = Event::Ended { worker: self.name.clone(), token: leadership.fencing_token() };
        if let Err(error) = self.record.append(ended) {
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
