//! What every lock must do, of whatever kind: written once, and run for each kind.

use crate::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;

use crate::locks::every_kind::{Kind, Lock, PERMITS, acquired, take};
use crate::support::room::Room;

impl Kind {
    /// How much of its room a guard of the lock fills, and a guard of whoever keeps it out.
    fn shares(self) -> (u32, u32) {
        match self {
            Self::Writer => (Room::WHOLE, 1),
            Self::Reader => (1, Room::WHOLE),
            Self::Permit => (Room::WHOLE / PERMITS, Room::WHOLE / PERMITS),
            _ => (Room::WHOLE, Room::WHOLE),
        }
    }

    /// Whether several can have the lock at once.
    fn is_shared(self) -> bool {
        matches!(self, Self::Reader | Self::Permit)
    }

    /// Whether it has several paths.
    fn is_joint(self) -> bool {
        matches!(self, Self::Paths | Self::LastOfPaths | Self::Mixed | Self::LastOfMixed)
    }
}

/// A server, clients, and a bystander who looks.
pub(crate) struct Scene {
    server: PooledServer,
    zookeeper: zk::Client,
    clients: [Client; 5],
}

impl Scene {
    pub(crate) async fn on(server: PooledServer) -> Self {
        let bystander = zk::Client::connector().with_session_timeout(secs(40));
        let zookeeper = bystander.connect(&server.connect_string()).await.unwrap();
        let clients = connect_many(&server).await;
        Self { server, zookeeper, clients }
    }

    /// The nodes by which the lock is held or waited for, and their sessions.
    async fn nodes(&self, kind: Kind) -> Vec<(String, i64)> {
        let mut nodes = ephemerals_below(&self.zookeeper, &kind.root()).await;
        nodes.sort();
        nodes
    }

    async fn nodes_are(&self, kind: Kind, wanted: &[(String, i64)]) {
        eventually(&format!("the nodes of {kind:?} are {wanted:?}"), async || {
            (self.nodes(kind).await == wanted).then_some(())
        })
        .await;
    }

    /// That each client in the queues waits is seen by its watch.
    async fn parked(&self, waiters: u64) {
        watches_of(&self.server, waiters).await;
    }

    pub(crate) async fn assert_nothing_left(&self, kind: Kind) {
        self.nodes_are(kind, &[]).await;
        self.parked(0).await;
    }
}

/// Checks one kind after the other on one server, and tells which one it was that failed.
async fn each_kind(behaviour: impl AsyncFn(&Scene, Kind)) {
    let scene = Scene::on(empty_server().await).await;
    for kind in Kind::ALL {
        let checked = async {
            behaviour(&scene, kind).await;
            scene.assert_nothing_left(kind).await;
        };
        assert!(AssertUnwindSafe(checked).catch_unwind().await.is_ok(), "{kind:?} fails, see above");
    }
}

/// The guards of the members, or the guard itself.
fn parts(guard: &LockGuard) -> &[LockGuard] {
    match guard.members() {
        [] => std::slice::from_ref(guard),
        members => members,
    }
}

/// Acquires in a task of its own.
fn waiter(lock: Lock) -> JoinHandle<Result<LockGuard>> {
    tokio::spawn(async move { lock.acquire().await })
}

async fn release(guards: impl IntoIterator<Item = LockGuard>) {
    for guard in guards {
        within(guard.release()).await.unwrap();
    }
}

/// All that went wrong.
fn causes(error: Error) -> Vec<Error> {
    match error {
        Error::Several { first, others } => [*first].into_iter().chain(others).flat_map(causes).collect(),
        error => vec![error],
    }
}

/// What the locks protect, by the path of their nodes.
#[derive(Default)]
struct Rooms(Mutex<HashMap<String, Arc<Room>>>);

impl Rooms {
    fn of(&self, path: &str) -> Arc<Room> {
        self.0.lock().unwrap().entry(path.to_owned()).or_default().clone()
    }

    async fn visit(&self, zookeeper: &zk::Client, guards: &[LockGuard], share: u32) {
        let mut visits: BTreeMap<&str, (u32, i64)> = BTreeMap::new();
        for part in guards.iter().flat_map(parts) {
            let (path, _) = part.node_path().rsplit_once('/').unwrap();
            let visit = visits.entry(path).or_default();
            *visit = (visit.0 + share, part.fencing_token());
        }
        let visits: Vec<_> = visits.into_iter().map(|(path, visit)| (self.of(path), visit)).collect();
        let _stays: Vec<_> = visits.iter().map(|(room, (share, token))| room.share(*token, *share)).collect();
        // Long enough for another to come in, if one is let in.
        for _ in 0..3 {
            for part in guards.iter().flat_map(parts) {
                let node = zookeeper.check_stat(part.node_path()).await.unwrap();
                assert!(node.is_some(), "nothing stands for {part:?}");
            }
        }
    }
}

/// In all ways.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excludes_clients_and_tasks() {
    each_kind(compete).await;
}

pub(crate) async fn compete(scene: &Scene, kind: Kind) {
    let rounds = repeats(30);
    let rooms = Arc::new(Rooms::default());
    let (share, share_of_others) = kind.shares();
    let mut workers = JoinSet::new();
    for client in &scene.clients[..3] {
        let shared = kind.lock(client);
        for task in 0..3 {
            let (client, rooms, zookeeper) = (client.clone(), rooms.clone(), scene.zookeeper.clone());
            let lock = if task == 0 { kind.lock(&client) } else { shared.clone() };
            workers.spawn(async move {
                for round in 0..rounds {
                    let (guards, share) = match (task + round) % 4 {
                        0 => (kind.occupy(&client).await, share_of_others),
                        1 => (Vec::from_iter(lock.try_acquire().await.unwrap()), share),
                        2 => {
                            let within = ms(5);
                            match lock.try_acquire_for(within).await {
                                // Too short a time for an answer.
                                Err(Error::NotConnected { .. }) => (Vec::new(), share),
                                outcome => (Vec::from_iter(outcome.unwrap()), share),
                            }
                        }
                        _ => (vec![acquired(&lock).await], share),
                    };
                    rooms.visit(&zookeeper, &guards, share).await;
                    if round % 2 == 0 {
                        release(guards).await;
                    }
                }
            });
        }
    }
    within(workers.join_all()).await;
}

#[tokio::test]
async fn first_come_first_served() {
    each_kind(come_in_order).await;
}

pub(crate) async fn come_in_order(scene: &Scene, kind: Kind) {
    let [holder, clients @ ..] = &scene.clients;
    let held = kind.occupy(holder).await;
    let (granted, mut order) = mpsc::unbounded_channel();
    let mut waiters = JoinSet::new();
    for (number, client) in clients.iter().enumerate() {
        let (client, granted) = (client.clone(), granted.clone());
        waiters.spawn(async move {
            // Those who would get in together have one between them who keeps the next one out.
            let keeps_out = kind.is_shared() && number % 2 == 1;
            let guards = if keeps_out { kind.take_all(client).await } else { take(kind.lock(&client)).await };
            granted.send(number).unwrap();
            release(guards).await;
        });
        scene.parked(number as u64 + 1).await;
    }
    release(held).await;
    within(waiters.join_all()).await;
    for number in 0..clients.len() {
        assert_eq!(order.recv().await, Some(number));
    }
}

#[tokio::test]
async fn a_failed_try_leaves_the_queue_as_it_was() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, other, next, ..] = &scene.clients;
        let lock = kind.lock(other);
        let held = kind.occupy(holder).await;
        // The gate of a semaphore was left right before, and nobody has waited for that.
        holder.zookeeper().await.unwrap().sync("/").await.unwrap();
        let mut waiting = None;
        for waiters in 0..2 {
            if waiters == 1 {
                waiting = Some(waiter(kind.lock(next)));
                scene.parked(1).await;
            }
            let before = scene.nodes(kind).await;
            for within in [None, Some(Duration::ZERO), Some(ms(200))] {
                let outcome = answered(async || {
                    let outcome = match within {
                        None => lock.try_acquire().await,
                        Some(within) => lock.try_acquire_for(within).await,
                    };
                    // At once, if the machine is not busy.
                    scene.nodes_are(kind, &before).await;
                    outcome
                });
                assert!(outcome.await.is_none());
                scene.parked(waiters).await;
            }
            // In this time it may not even have got in. Then the background sees to it.
            let outcome = lock.try_acquire_for(Duration::from_micros(1)).await;
            assert!(matches!(outcome, Ok(None) | Err(Error::NotConnected { .. })), "{outcome:?}");
            scene.nodes_are(kind, &before).await;
            // Nor does it count as the next waiter.
            scene.parked(waiters).await;
        }
        release(held).await;
        release([within(waiting.unwrap()).await.unwrap().unwrap()]).await;
    })
    .await;
}

#[tokio::test]
async fn a_dropped_guard_is_out_of_the_way_of_the_next_request() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let client = &scene.clients[0];
        let lock = kind.lock(client);
        for _ in 0..5 {
            drop(kind.occupy(client).await);
            drop(lock.try_acquire().await.unwrap().expect("nobody has it"));
        }
    })
    .await;
}

/// No outage ends it before that.
#[tokio::test]
async fn a_wait_ends_under_the_policy_when_its_session_is_over() {
    let mut server = empty_server().await;
    let holder = connect(&server).await;
    let builder = Client::builder()
        .session_timeout(secs(2))
        .connection_timeout(ms(300))
        .retry_policy(RetryPolicy::n_times(2, ms(10)));
    let client = connected(builder, &server.connect_string()).await;
    let mut waiters = Vec::new();
    for kind in Kind::ALL {
        let held = kind.occupy(&holder).await;
        let before = watches(&server).await;
        let waiter = waiter(kind.lock(&client));
        // It waits in its queue, and has the watches that wake it.
        eventually("it waits", || async { (watches(&server).await > before).then_some(()) }).await;
        waiters.push((kind, waiter, held));
    }
    // Its reply comes behind theirs.
    client.zookeeper().await.unwrap().sync("/").await.unwrap();
    server.kill().await.unwrap();
    within(client.watch_connection().wait_for(|state| !state.is_connected())).await.unwrap();
    assert!(waiters.iter().all(|(_, waiter, _)| !waiter.is_finished()), "their session lives");
    for (kind, waiter, _held) in waiters {
        let error = within(waiter).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::NotConnected { .. }), "{kind:?}: {error}");
    }
}

#[tokio::test]
async fn all_calls_of_a_closed_client_say_so() {
    let client = Client::connect_lazily("127.0.0.1:1").unwrap();
    client.close().await;
    for kind in Kind::ALL {
        let lock = kind.lock(&client);
        assert_closed(lock.acquire().await);
        assert_closed(lock.try_acquire().await);
        assert_closed(lock.try_acquire_for(BOUND).await);
        assert_closed(lock.as_lock().is_locked().await);
        assert_closed(lock.as_lock().holder().await);
    }
}

fn assert_closed<T: Debug>(outcome: Result<T>) {
    let error = outcome.unwrap_err();
    assert!(causes(error.clone()).iter().all(|cause| *cause == Error::Closed), "{error:?}");
}

#[tokio::test]
async fn everybody_can_see_who_holds() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, observer, ..] = &scene.clients;
        let (lock, observer) = (kind.lock(holder), kind.lock(observer));
        let [own, observer] = [&lock, &observer].map(|lock| lock.as_lock());
        assert_eq!(observer.holder().await, Ok(None), "the path does not exist yet");
        for _ in 0..2 {
            assert_eq!(observer.is_locked().await, Ok(false));
            let guard = acquired(&lock).await;
            let first = parts(&guard)[0].node_path().to_owned();
            for lock in [own, observer] {
                let participant = lock.holder().await.unwrap().expect("it is held");
                assert!(participant.is_holder());
                assert_eq!(participant.node_path(), first);
                assert_eq!(participant.session_id(), session_id(holder).await);
                // Of several permits one is held.
                assert_eq!(lock.is_locked().await, Ok(kind != Kind::Permit));
            }
            assert!(own.is_acquired_in_this_process());
            assert!(!observer.is_acquired_in_this_process());
            release([guard]).await;
            assert_eq!(observer.holder().await, Ok(None));
            assert!(!own.is_acquired_in_this_process());
        }
    })
    .await;
}

#[tokio::test]
async fn bad_paths_are_refused_before_anything_is_sent() {
    let client = Client::connect_lazily("127.0.0.1:1").unwrap();
    for kind in Kind::ALL {
        for path in ["", "/", "locks", "/locks/", "//", "/a//b", "/a/../b", "/a/.", "/a\u{0}b", "/a\u{7f}"] {
            match kind.try_lock_at(&client, path) {
                Err(Error::InvalidPath { path: named, reason }) => {
                    let is_member = ["-b", "-c"].iter().any(|end| named == format!("{path}{end}"));
                    let is_named = named == path || kind.is_joint() && is_member;
                    assert!(is_named && !reason.is_empty(), "{kind:?}: {named}: {reason}");
                }
                other => panic!("{kind:?} at {path:?}: {other:?}"),
            }
        }
        let lock = kind.lock_at(&client, "/läs/a b");
        assert_eq!(lock.as_lock().paths()[0], "/läs/a b", "{kind:?}");
    }
}
