//! `DoubleBarrier`s at which many come and go, on bad connections: the history of the nodes tells who was let in by whom.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use zk_recipes::testing::{Fate, FaultProxy, TestingCluster, TestingServer, Traffic, kill_session};
use zookeeper_client::{self as zk, EventType};

use super::*;

/// Nothing takes longer, since enough others come again and again.
const PATIENCE: Duration = Duration::from_secs(25);

#[derive(Clone, Copy)]
struct Play {
    wanted: usize,
    workers: usize,
    /// Tasks of each client.
    tasks: usize,
    cuts: bool,
    kills: bool,
    /// Whether members are dropped, and give up.
    hasty: bool,
    delays: bool,
    seconds: u64,
}

#[derive(Default)]
struct Ledger {
    next: AtomicU64,
    /// Those that are in, and have not begun to leave.
    inside: Mutex<HashMap<u64, usize>>,
    /// The nodes of all that were in.
    entered: Mutex<Vec<String>>,
    rounds: AtomicU64,
    /// How often nobody was inside any more: a round may have ended.
    ends: AtomicU64,
    is_over: AtomicBool,
}

async fn work(client: Client, play: Play, worker: usize, seed: u64, ledger: Arc<Ledger>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let barrier = double_barrier(&client, play.wanted);
    while !ledger.is_over.load(SeqCst) {
        let entering = barrier.enter();
        let patience = match play.hasty && random.u8(0..10) == 0 {
            true => Duration::from_millis(random.u64(0..30)),
            false => PATIENCE,
        };
        let is_over = async {
            while !ledger.is_over.load(SeqCst) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let entered = tokio::select! {
            entered = tokio::time::timeout(patience, entering) => entered,
            () = is_over => return,
        };
        let entered = match entered {
            Ok(entered) => entered.unwrap_or_else(|error| panic!("worker {worker}: {error}")),
            Err(_) if patience < PATIENCE => continue,
            Err(_) => panic!("worker {worker} of {} is stuck in enter", play.workers),
        };
        let id = ledger.next.fetch_add(1, SeqCst);
        ledger.inside.lock().unwrap().insert(id, worker);
        ledger.entered.lock().unwrap().push(entered.node_path().rsplit('/').next().unwrap().to_owned());
        ledger.rounds.fetch_add(1, SeqCst);
        if random.bool() {
            tokio::time::sleep(Duration::from_millis(random.u64(0..15))).await;
        }
        if play.kills && random.u8(0..20) == 0 {
            // Those of the same client as well.
            let of = worker / play.tasks;
            ledger.inside.lock().unwrap().retain(|_, worker| *worker / play.tasks != of);
            let _ = kill_session(&client).await;
        }
        let (others, ends) = {
            let mut inside = ledger.inside.lock().unwrap();
            inside.remove(&id);
            if inside.is_empty() {
                ledger.ends.fetch_add(1, SeqCst);
            }
            let others: HashSet<u64> = inside.keys().copied().collect();
            (others, ledger.ends.load(SeqCst))
        };
        let how = if play.hasty { random.u8(0..10) } else { 9 };
        match how {
            0 | 1 => drop(entered),
            2 => {
                let within = Duration::from_millis(random.u64(0..20));
                let _ = entered.leave_within(within).await;
            }
            _ => match tokio::time::timeout(PATIENCE, entered.leave()).await {
                Err(_) => panic!("worker {worker} of {} is stuck in leave", play.workers),
                Ok(Err(zk_recipes::Error::MemberLost { .. })) if play.kills => {}
                Ok(left) => {
                    left.unwrap_or_else(|error| panic!("worker {worker}: {error}"));
                    let inside = ledger.inside.lock().unwrap();
                    let still: Vec<_> = inside.keys().filter(|id| others.contains(id)).collect();
                    assert!(still.is_empty(), "worker {worker} has left before {still:?} of its round");
                    let is_over = others.is_empty() || inside.is_empty() || ledger.ends.load(SeqCst) > ends;
                    assert!(
                        is_over || play.kills,
                        "worker {worker} has left before {inside:?}, who have joined"
                    );
                }
            },
        }
    }
}

/// What has happened to the children, in this order.
async fn record(mut watcher: zk::PersistentWatcher, history: Arc<Mutex<Vec<(EventType, String)>>>) {
    loop {
        let event = watcher.changed().await;
        if let Some(name) = event.path.strip_prefix(PATH).and_then(|name| name.strip_prefix('/')) {
            history.lock().unwrap().push((event.event_type, name.to_owned()));
        }
    }
}

/// Returns the nodes of all that were let in, and how often a round began.
fn judge(history: &[(EventType, String)], wanted: usize) -> (HashSet<String>, usize, usize) {
    let mut present: HashMap<&str, bool> = HashMap::new();
    let (mut admitted, mut rounds, mut mixed) = (HashSet::new(), 0, 0);
    for (at, (event, name)) in history.iter().enumerate() {
        match (event, name.as_str()) {
            (EventType::NodeCreated | EventType::NodeDataChanged, "ready") => {
                let is_any_in = present.values().any(|is_in| *is_in);
                let waiting = present.values().filter(|is_in| !**is_in).count();
                assert!(
                    is_any_in || waiting >= wanted || waiting == 0,
                    "{waiting} of {wanted} are let in: {:?}",
                    &history[at.saturating_sub(20)..=at]
                );
                mixed += usize::from(is_any_in && *event == EventType::NodeCreated && waiting > 0);
                rounds += usize::from(!is_any_in);
                for (name, is_in) in &mut present {
                    *is_in = true;
                    admitted.insert((*name).to_owned());
                }
            }
            (_, "ready") => {}
            (EventType::NodeCreated, name) => drop(present.insert(name, false)),
            (EventType::NodeDeleted, name) => drop(present.remove(name)),
            _ => {}
        }
    }
    (admitted, rounds, mixed)
}

async fn perform(play: Play) {
    let server = empty_server().await;
    perform_on(&[server.connect_string()], play).await;
}

async fn perform_on(servers: &[String], play: Play) {
    let seed: u64 = std::env::var("SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let zookeeper = bystander_of(&servers[0]).await;
    let history = Arc::new(Mutex::new(Vec::new()));
    let watcher = zookeeper.watch(PATH, zk::AddWatchMode::PersistentRecursive).await.unwrap();
    let recording = tokio::spawn(record(watcher, history.clone()));
    let ledger = Arc::new(Ledger::default());
    let (mut proxies, mut working) = (Vec::new(), Vec::new());
    for client_of in 0..play.workers.div_ceil(play.tasks) {
        let proxy = FaultProxy::start(servers[client_of % servers.len()].clone()).await.unwrap();
        if play.delays {
            proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(random.u64(0..10))));
        }
        let patient = zk_recipes::RetryPolicy::forever(Duration::from_millis(50));
        let builder = builder().session_timeout(Duration::from_secs(10)).retry_policy(patient);
        let client = connected(builder.drop_timeout(Duration::ZERO), &proxy.connect_string()).await;
        for task in 0..play.tasks {
            let work =
                work(client.clone(), play, client_of * play.tasks + task, random.u64(..), ledger.clone());
            working.push(tokio::spawn(work));
        }
        proxies.push(proxy);
    }
    let end = tokio::time::Instant::now() + Duration::from_secs(play.seconds);
    while tokio::time::Instant::now() < end && !working.iter().any(JoinHandle::is_finished) {
        tokio::time::sleep(Duration::from_millis(random.u64(5..60))).await;
        if play.cuts {
            let proxy = &proxies[random.usize(0..proxies.len())];
            match random.u8(0..4) {
                0 => proxy.cut(),
                1 => {
                    let fate = if random.bool() { Fate::LoseReply } else { Fate::LoseRequest };
                    let lost = proxy.intercept_after(random.usize(0..6), fate);
                    let _ = tokio::time::timeout(Duration::from_millis(100), lost.happened()).await;
                }
                2 => {
                    let held = proxy.intercept_after(random.usize(0..6), Fate::HoldReply);
                    let _ = tokio::time::timeout(Duration::from_millis(50), held.happened()).await;
                    tokio::time::sleep(Duration::from_millis(random.u64(0..60))).await;
                    if random.bool() {
                        proxy.cut();
                    }
                }
                _ => {
                    proxy.set_traffic(Traffic::black_hole_to_client());
                    tokio::time::sleep(Duration::from_millis(random.u64(0..80))).await;
                    if random.bool() {
                        proxy.cut();
                    }
                    proxy.set_traffic(Traffic::pass());
                }
            }
        }
    }
    let requests: usize = proxies.iter().map(FaultProxy::requests_seen).sum();
    // Those that are in leave end it; the others give up.
    ledger.is_over.store(true, SeqCst);
    let mut failed = None;
    for working in working {
        if failed.is_some() {
            working.abort();
        } else if let Err(error) = within(working).await {
            failed = Some(error);
        }
    }
    if failed.is_none() {
        eventually("all members go", async || {
            children(&zookeeper, PATH).await.iter().all(|name| name == "ready").then_some(())
        })
        .await;
    }
    tokio::time::sleep(BRIEF).await;
    recording.abort();
    let history = history.lock().unwrap().clone();
    let entered = ledger.rounds.load(SeqCst);
    println!("{entered} entered, {requests} requests, {} per member", requests as u64 / entered.max(1));
    let (admitted, rounds, mixed) = judge(&history, play.wanted);
    println!("{rounds} rounds, {mixed} times `ready` was created for members of both");
    for name in &*ledger.entered.lock().unwrap() {
        assert!(admitted.contains(name), "{name} was never let in");
    }
    if let Some(error) = failed {
        let last: Vec<_> = history.iter().rev().take(30).rev().collect();
        println!("the end of the history: {last:#?}");
        println!("the children: {:?}", children(&zookeeper, PATH).await);
        panic!("seed {seed}: {error}");
    }
}

const CALM: Play = Play {
    wanted: 2,
    workers: 2,
    tasks: 1,
    cuts: false,
    kills: false,
    hasty: false,
    delays: false,
    seconds: 10,
};

#[tokio::test(flavor = "multi_thread")]
async fn calm() {
    perform(CALM).await;
    perform(Play { workers: 3, delays: true, ..CALM }).await;
    perform(Play { wanted: 3, workers: 5, delays: true, ..CALM }).await;
    perform(Play { wanted: 3, workers: 6, tasks: 3, ..CALM }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crowded() {
    perform(Play { workers: 6, delays: true, seconds: 20, ..CALM }).await;
    perform(Play { workers: 6, tasks: 2, delays: true, hasty: true, seconds: 20, ..CALM }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hasty() {
    perform(Play { hasty: true, ..CALM }).await;
    perform(Play { workers: 3, delays: true, hasty: true, ..CALM }).await;
    perform(Play { wanted: 3, workers: 4, delays: true, hasty: true, ..CALM }).await;
    perform(Play { wanted: 3, workers: 6, tasks: 2, hasty: true, ..CALM }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cut() {
    perform(Play { cuts: true, ..CALM }).await;
    perform(Play { workers: 3, cuts: true, delays: true, ..CALM }).await;
    perform(Play { wanted: 3, workers: 5, cuts: true, ..CALM }).await;
    perform(Play { wanted: 3, workers: 6, tasks: 3, cuts: true, ..CALM }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_and_hasty() {
    perform(Play { cuts: true, hasty: true, ..CALM }).await;
    perform(Play { workers: 3, cuts: true, hasty: true, ..CALM }).await;
    perform(Play { wanted: 3, workers: 5, cuts: true, hasty: true, ..CALM }).await;
    perform(Play { wanted: 3, workers: 6, tasks: 2, cuts: true, hasty: true, ..CALM }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed() {
    perform(Play { kills: true, hasty: true, workers: 3, ..CALM }).await;
    perform(Play { wanted: 3, workers: 5, kills: true, cuts: true, hasty: true, ..CALM }).await;
    perform(Play { wanted: 3, workers: 6, tasks: 2, kills: true, cuts: true, hasty: true, ..CALM }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real ZooKeeper"]
async fn spread() {
    for play in [
        Play { wanted: 3, workers: 3, ..CALM },
        Play { workers: 6, delays: true, ..CALM },
        Play { wanted: 3, workers: 6, hasty: true, cuts: true, ..CALM },
    ] {
        let cluster = TestingCluster::start(3).await.unwrap();
        let servers: Vec<_> = cluster.servers().iter().map(TestingServer::connect_string).collect();
        perform_on(&servers, Play { seconds: 12, ..play }).await;
    }
}
