//! Random histories of clients and of faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{sleep, timeout};
use zk_recipes::testing::{MemoryEnsemble, Observed, ObservedKind};

use super::client::{Client, PERSISTENT, Refusal, SEQUENTIAL};
use super::one_server::observe;
use crate::memory::wire::Welcome;

const MS: Duration = Duration::from_millis(1);
const CLIENTS: usize = 4;
const OPERATIONS: usize = 150;
const FAULTS: usize = 25;
const NODE_EXISTS: i32 = -110;

/// What a client knows to be done.
#[derive(Debug, Default)]
struct Acknowledged {
    created: Vec<String>,
    value: u64,
}

struct Player {
    ensemble: MemoryEnsemble,
    random: Rng,
    name: String,
    client: Option<Client>,
    /// The session to continue, and what it has seen.
    welcome: Welcome,
    zxid: i64,
    acknowledged: Acknowledged,
    attempted: u64,
}

impl Player {
    fn new(ensemble: &MemoryEnsemble, random: Rng, name: String) -> Self {
        let welcome = Welcome { timeout: 2_000, session: 0, password: vec![0; 16] };
        let acknowledged = Acknowledged::default();
        let ensemble = ensemble.clone();
        Self { ensemble, random, name, client: None, welcome, zxid: 0, acknowledged, attempted: 0 }
    }

    async fn connected(&mut self) -> &mut Client {
        while self.client.is_none() {
            let server = self.random.usize(..self.ensemble.servers());
            let connecting = Client::connect(&self.ensemble, server, &self.welcome, self.zxid);
            match timeout(300 * MS, connecting).await {
                Ok(Ok(client)) => {
                    self.welcome = client.welcome.clone();
                    self.client = Some(client);
                }
                Ok(Err(Refusal::Expired)) => self.welcome.session = 0,
                Ok(Err(Refusal::Closed)) | Err(_) => sleep(20 * MS).await,
            }
        }
        self.client.as_mut().unwrap()
    }

    async fn play(mut self) -> Acknowledged {
        for _ in 0..OPERATIONS {
            let (chance, pause) = (self.random.usize(..10), self.random.u32(..30));
            let path = format!("/{}", self.name);
            let attempt = self.attempted + 1;
            let client = self.connected().await;
            let done = timeout(400 * MS, async {
                match chance {
                    0..3 => {
                        let created = client.create("/n-", SEQUENTIAL).await?;
                        Some((Some(created.unwrap()), None))
                    }
                    3..6 => {
                        let value = attempt.to_string();
                        let created = client.create(&path, PERSISTENT).await?;
                        assert!(matches!(created, Ok(_) | Err(NODE_EXISTS)), "{created:?}");
                        assert_eq!(client.set_data(&path, &value).await?, 0);
                        Some((None, Some(attempt)))
                    }
                    6 => client.sync().await.map(|_| (None, None)),
                    _ => {
                        let value = client.data(&path).await?.unwrap_or_default();
                        Some((None, Some(value.parse().unwrap_or(0))))
                    }
                }
            });
            let done = done.await.ok().flatten();
            if (3..6).contains(&chance) {
                self.attempted = attempt;
            }
            self.zxid = self.client.as_ref().unwrap().zxid;
            match done {
                None => self.client = None,
                Some((created, value)) => {
                    self.acknowledged.created.extend(created);
                    let value = value.unwrap_or(self.acknowledged.value);
                    assert!(
                        (self.acknowledged.value..=self.attempted).contains(&value),
                        "{} reads {value} after {}",
                        self.name,
                        self.acknowledged.value
                    );
                    self.acknowledged.value = value;
                }
            }
            sleep(pause * MS).await;
        }
        self.acknowledged
    }
}

async fn trouble(ensemble: MemoryEnsemble, mut random: Rng) {
    let servers = ensemble.servers();
    for _ in 0..FAULTS {
        let server = random.usize(..servers);
        match random.usize(..8) {
            0 | 1 => {
                let mut order: Vec<_> = (0..servers).collect();
                random.shuffle(&mut order);
                let (one, other) = order.split_at(random.usize(..servers));
                ensemble.partition(&[one, other]);
            }
            2 => ensemble.heal(),
            3 => ensemble.set_paused(server, true),
            4 => ensemble.stop(server),
            5 => ensemble.cut_connections(server),
            6 => ensemble.set_lag(server, random.u32(..200) * MS),
            // A short time without a leader: faults while the others elect one.
            _ => ensemble.leader().into_iter().for_each(|leader| ensemble.stop(leader)),
        }
        sleep(random.u32(1..1_500) * MS).await;
        if random.bool() {
            repair(&ensemble);
        }
    }
    repair(&ensemble);
}

fn repair(ensemble: &MemoryEnsemble) {
    ensemble.heal();
    for server in 0..ensemble.servers() {
        ensemble.set_paused(server, false);
        ensemble.start(server);
        ensemble.set_lag(server, Duration::ZERO);
    }
}

/// Plays a history, and returns what was observed.
async fn play(servers: usize, seed: u64) -> Vec<Observed> {
    let ensemble = MemoryEnsemble::builder().servers(servers).seed(seed).start().unwrap();
    let observed: Arc<Mutex<Vec<Observed>>> = observe(&ensemble);
    let mut random = Rng::with_seed(seed);
    let players: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(Player::new(&ensemble, random.fork(), format!("c{number}")).play()))
        .collect();
    trouble(ensemble.clone(), random.fork()).await;
    let mut acknowledged = Vec::new();
    for player in players {
        acknowledged.push(timeout(600_000 * MS, player).await.expect("no end").unwrap());
    }
    // A server that was paused may take itself for a leader or a follower until it has heard of the others.
    sleep(2_000 * MS).await;
    for _ in 0..10_000 {
        if (0..servers).all(|server| ensemble.is_serving(server)) {
            break;
        }
        sleep(MS).await;
    }

    let serving: Vec<_> = (0..servers).map(|server| ensemble.is_serving(server)).collect();
    assert!(!serving.contains(&false), "{serving:?}, led by {:?}", ensemble.leader());

    let nodes: BTreeMap<_, _> = ensemble.nodes_below("/").into_iter().collect();
    for (number, known) in acknowledged.iter().enumerate() {
        for path in &known.created {
            assert!(nodes.contains_key(path), "{path} is lost");
        }
        let value: u64 = nodes
            .get(&format!("/c{number}"))
            .map_or(0, |node| String::from_utf8_lossy(&node.data).parse().unwrap_or(0));
        assert!(value >= known.value, "{value} after {}", known.value);
    }
    let mut created: Vec<_> = acknowledged.iter().flat_map(|known| &known.created).collect();
    let count = created.len();
    created.sort();
    created.dedup();
    assert_eq!(created.len(), count, "a number was given twice");

    // Every server has the same nodes, and all of them were observed.
    for server in 0..servers {
        let mut client = Client::open(&ensemble, server).await.expect("a session");
        assert_eq!(client.sync().await, Some(0));
        for (path, node) in &nodes {
            let data = client.data(path).await.unwrap().map(String::into_bytes);
            assert_eq!(data.as_ref(), Ok(&node.data), "{path} at server {server}");
        }
    }
    let observed = observed.lock().unwrap().clone();
    assert!(observed.is_sorted_by_key(|event| event.zxid));
    let mut replayed = BTreeMap::new();
    for Observed { path, kind, data, .. } in &observed {
        match kind {
            ObservedKind::Deleted => replayed.remove(path),
            _ => replayed.insert(path, data.clone().unwrap()),
        };
    }
    replayed.retain(|path, _| nodes.contains_key(*path));
    let expected: BTreeMap<_, _> = nodes.iter().filter(|(path, _)| !path.starts_with("/zookeeper")).collect();
    assert_eq!(replayed.len(), expected.len());
    assert!(expected.into_iter().all(|(path, node)| replayed[path] == node.data));
    observed
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

#[test]
fn acknowledged_writes_survive_all_faults() {
    let histories = std::env::var("ENSEMBLE_HISTORIES").map_or(12, |count| count.parse().unwrap());
    let first = std::env::var("ENSEMBLE_SEED").map_or(0, |seed| seed.parse().unwrap());
    for seed in first..first + histories {
        let servers = [3, 3, 5, 1][seed as usize % 4];
        let played = std::panic::catch_unwind(|| run(play(servers, seed)));
        assert!(played.is_ok(), "seed {seed}, {servers} servers");
    }
}

#[test]
fn a_seed_repeats_its_history() {
    let first = run(play(3, 1));
    assert!(first.len() > 100, "{} events", first.len());
    assert_eq!(run(play(3, 1)), first);
    assert_ne!(run(play(3, 2)), first);
}
