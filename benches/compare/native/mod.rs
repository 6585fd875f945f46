//! The participants that are libraries in Rust: this program, obeying the lines of a comparison.

mod baton;
mod contend;
mod count;
mod etcd;
mod floor;
mod hand_over;
mod library;
mod ours;
mod park;
mod redis;
mod succession;
mod timed;
mod zookeeper_lock;

use futures_executor::block_on;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

use self::contend::Contend;
use self::count::Count;
use self::hand_over::HandOver;
use self::library::Library;
use self::park::Park;
use self::succession::Succession;
use self::timed::Timed;
use crate::Result;
use crate::load::{Load, Outcome};

pub(crate) async fn take_part(name: &str) -> Result<()> {
    let serving = match name {
        "floor" => tokio::spawn(serve::<floor::Floor>()),
        "zk-recipes" => tokio::spawn(serve::<ours::Ours>()),
        "zk-recipes-on-runtime" => tokio::spawn(serve::<ours::OnTheRuntime>()),
        "zk-recipes-cohort" => tokio::spawn(serve::<ours::InACohort>()),
        // On a thread that may block, and so not as a task.
        "zk-recipes-blocking" => tokio::task::spawn_blocking(|| block_on(serve::<ours::Blocking>())),
        "zookeeper-client" => tokio::spawn(serve::<zookeeper_lock::ZookeeperLock>()),
        "Redis" => tokio::spawn(serve::<redis::Redis>()),
        "etcd" => tokio::spawn(serve::<etcd::Etcd>()),
        unknown => return Err(format!("no participant is called {unknown:?}").into()),
    };
    serving.await?
}

/// A load that was opened.
enum Stage<L: Library> {
    Timed(Timed<L>),
    Contend(Contend<L>),
    HandOver(HandOver<L>),
    /// Of zk-recipes.
    Succession(Succession),
    Park(Park<L>),
    /// Of zk-recipes.
    Count(Count),
}

impl<L: Library> Stage<L> {
    async fn open(servers: &str, path: &str, load: Load) -> Result<Self> {
        Ok(match load {
            Load::Timed { operation, iterations } => {
                Self::Timed(Timed::open(servers, path, operation, iterations).await?)
            }
            Load::Contend { sessions, tasks, locks, time, patience } => {
                let times = (time, patience);
                Self::Contend(Contend::open(servers, path, sessions, tasks, locks, times).await?)
            }
            Load::HandOver { sessions, waiters, hand_overs, hold } => {
                Self::HandOver(HandOver::open(servers, path, sessions, waiters, hand_overs, hold).await?)
            }
            Load::Succession { candidates, successions, term } => {
                Self::Succession(Succession::open(servers, path, candidates, successions, term).await?)
            }
            Load::Park { waiters } => Self::Park(Park::open(servers, path, waiters).await?),
            Load::Count { sessions, tasks, time } => {
                Self::Count(Count::open(servers, path, sessions, tasks, time).await?)
            }
        })
    }

    async fn run(&mut self, round: usize) -> Result<Outcome> {
        match self {
            Self::Timed(timed) => timed.run(round).await,
            Self::Contend(contend) => contend.run().await,
            Self::HandOver(hand_over) => hand_over.run().await,
            Self::Succession(succession) => succession.run().await,
            Self::Park(park) => park.run(),
            Self::Count(count) => count.run().await,
        }
    }

    async fn close(self) -> Result<()> {
        match self {
            Self::Timed(timed) => timed.close().await,
            Self::Contend(contend) => contend.close().await,
            Self::HandOver(hand_over) => hand_over.close().await,
            Self::Succession(succession) => succession.close().await,
            Self::Count(count) => count.close().await,
            Self::Park(park) => return park.close().await,
        }
        Ok(())
    }
}

async fn serve<L: Library>() -> Result<()> {
    let mut stage = None;
    let mut lines = BufReader::new(stdin()).lines();
    println!("ready");
    while let Some(line) = lines.next_line().await? {
        match obey::<L>(&mut stage, &line).await {
            Ok(None) => println!("ok"),
            Ok(Some(outcome)) => println!("ok {outcome}"),
            Err(error) => println!("error {error}"),
        }
    }
    Ok(())
}

async fn obey<L: Library>(stage: &mut Option<Stage<L>>, line: &str) -> Result<Option<Outcome>> {
    match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
        ["open", servers, path, load] => *stage = Some(Stage::open(servers, path, load.parse()?).await?),
        ["run", round] => {
            let stage = stage.as_mut().ok_or("nothing is open")?;
            return Ok(Some(stage.run(round.parse()?).await?));
        }
        ["close"] => {
            if let Some(stage) = stage.take() {
                stage.close().await?;
            }
        }
        _ => return Err(format!("not a command: {line:?}").into()),
    }
    Ok(None)
}

async fn connect_all<L: Library>(servers: &str, sessions: usize) -> Result<Vec<L::Session>> {
    let mut connected = Vec::with_capacity(sessions);
    for _ in 0..sessions {
        connected.push(L::connect(servers).await?);
    }
    Ok(connected)
}

async fn close_all<L: Library>(sessions: Vec<L::Session>) {
    for session in sessions {
        L::close(session).await;
    }
}
