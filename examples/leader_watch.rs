//! Shows an election while it goes on, without standing in it. Until ctrl-c, on the servers in `ZK_CONNECT`:
//! `cargo run --example leader_watch /path/of/the/election`
//!
//! Without a path, it shows a small election of its own:
//! `./zk-docker/with-zookeeper cargo run --example leader_watch`

use std::future::pending;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};
use zk_recipes::report;
use zk_recipes::zookeeper_client::Error as ServerError;
use zk_recipes::{
    Client, CloseMode, LeaderLatch, LeaderObserver, LeaderOptions, Observation, Participant, operate,
};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// How often it looks for candidates that have come or gone. Of the leader it hears at once.
const LOOK: Duration = Duration::from_millis(100);
/// Between the steps of its own election, so that they can be followed.
const BREATH: Duration = Duration::from_millis(600);
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [] => own_election().await,
        [path] => watch(path).await,
        _ => Err("give the path of an election, or nothing; name the servers in ZK_CONNECT".into()),
    };
    if let Err(error) = outcome {
        eprintln!("leader_watch: {}", report(&*error));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn connect(name: &str) -> Result<Client> {
    let servers = std::env::var("ZK_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".into());
    Ok(Client::builder().identity(name).connect(&servers).await?)
}

/// Waits until somebody wants this process to end.
async fn interrupted() -> Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn watch(path: &str) -> Result<()> {
    let client = connect("watcher").await?;
    tokio::select! {
        shown = show(&client, path) => shown?,
        interrupted = interrupted() => interrupted?,
    }
    client.close().await;
    Ok(())
}

/// Shows the election until the client is closed: who leads, and who stands behind it, in order.
async fn show(client: &Client, path: &str) -> Result<()> {
    let observer = LeaderObserver::new(client, path)?;
    let mut leader = observer.watch_leader();
    let mut screen = Screen { began: Instant::now(), shown: String::new(), leader: None };
    loop {
        let seen = leader.get();
        let queue = match seen {
            Observation::Leader(_) => tokio::select! {
                queue = observer.participants() => queue.unwrap_or_default(),
                // It need not be waited for any more.
                changed = leader.changed() => if changed.is_some() { continue } else { return Ok(()) },
            },
            _ => Vec::new(),
        };
        screen.show(&seen, &queue);
        tokio::select! {
            changed = leader.changed() => if changed.is_none() { return Ok(()) },
            () = sleep(LOOK) => {}
        }
    }
}

struct Screen {
    began: Instant,
    /// What was shown last.
    shown: String,
    /// The token of the leader that was shown last, and since when it leads.
    leader: Option<(i64, String)>,
}

impl Screen {
    fn show(&mut self, seen: &Observation, queue: &[Participant]) {
        let now = format!("{:.1} s", self.began.elapsed().as_secs_f64());
        let text = match seen {
            Observation::Leader(leader) => {
                // They are two looks at the election; they are shown when they agree.
                let Some((first, others)) = queue.split_first() else { return };
                let token = leader.fencing_token();
                if first.fencing_token() != token {
                    return;
                }
                let since = match self.leader.take() {
                    Some((last, since)) if last == token => since,
                    Some(_) => now.clone(),
                    // Nobody knows when it was elected.
                    None if self.shown.is_empty() => format!("{now} or before"),
                    None => now.clone(),
                };
                let others: Vec<_> = others.iter().map(name).collect();
                let others = if others.is_empty() { "nobody".into() } else { others.join(", ") };
                let text =
                    format!("{} leads since {since}, token {token}; behind it: {others}", name(leader));
                self.leader = Some((token, since));
                text
            }
            Observation::Nobody => {
                self.leader = None;
                "nobody leads".into()
            }
            // Who led may go on, which shows when it is seen again.
            Observation::Unknown(Some(error)) => format!("it cannot be seen who leads: {}", report(error)),
            _ => return,
        };
        if text != self.shown {
            println!("{now:>8}  {text}");
            self.shown = text;
        }
    }
}

fn name(participant: &Participant) -> String {
    String::from_utf8_lossy(participant.identity().unwrap_or(b"somebody")).into_owned()
}

/// Three candidates, each with a session of its own, which stands for a process.
async fn own_election() -> Result<()> {
    let path = format!("/examples/leader-watch-{:08x}", fastrand::u32(..));
    let watcher = connect("watcher").await?;
    let candidates = [connect("ann").await?, connect("bob").await?, connect("carol").await?];
    let outcome = tokio::select! {
        // It ends only by a failure.
        shown = show(&watcher, &path) => shown,
        told = timeout(PATIENCE, story(&watcher, &candidates, &path)) => {
            told.unwrap_or_else(|_| Err(format!("it is not over after {PATIENCE:?}").into()))
        }
        interrupted = interrupted() => interrupted.and(Err("interrupted".into())),
    };
    for candidate in &candidates {
        candidate.close().await;
    }
    // It would go by itself, later.
    let removed = watcher.zookeeper().await?.delete(&path, None).await;
    watcher.close().await;
    outcome?;
    match removed {
        Ok(()) | Err(ServerError::NoNode) => Ok(()),
        Err(error) => Err(format!("cannot remove {path}: {error}").into()),
    }
}

async fn story(watcher: &Client, candidates: &[Client; 3], path: &str) -> Result<()> {
    let mut latches = Vec::new();
    for client in candidates {
        let latch = LeaderLatch::start(client, path, LeaderOptions::new())?;
        println!("          > {} comes", latch.id());
        latches.push(latch);
        sleep(BREATH).await;
    }
    let [ann, bob, carol] = &latches[..] else { return pending().await };

    println!("          > ann resigns");
    ann.await_leadership().await?.resign().await?;
    sleep(BREATH).await;
    bob.await_leadership().await?;
    let asked = carol.transfer().await?;
    println!("          > carol asks {} to resign", asked.as_ref().map_or("nobody".into(), name));
    sleep(BREATH).await;
    carol.await_leadership().await?;
    println!("          > an operator evicts the leader");
    operate::force_release(watcher, path).await?;
    sleep(BREATH).await;

    for latch in [bob, carol, ann] {
        println!("          > {} leaves", latch.id());
        latch.close(CloseMode::Silent).await?;
        sleep(BREATH).await;
    }
    Ok(())
}
