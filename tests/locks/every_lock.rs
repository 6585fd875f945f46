//! What every lock must do, of whatever kind: written once, and run for each kind.

use crate::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;

use crate::locks::every_kind::{Kind, PERMITS, acquired, take};
use crate::support::kinds;
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
        for part in guards.iter().flat_map(parts) {
            let node = zookeeper.check_stat(part.node_path()).await.unwrap();
            assert!(node.is_some(), "nothing stands for {part:?}");
        }
    }
}

/// In all ways.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excludes_clients_and_tasks() {
    each_kind(compete).await;
}

pub(crate) async fn compete(scene: &Scene, kind: Kind) {
    let rounds = 4 * repeats(10);
    let rooms = Arc::new(Rooms::default());
    let (share, share_of_others) = kind.shares();
    let mut workers = JoinSet::new();
    for client in &scene.clients[..2] {
        let shared = kind.lock(client);
        for task in 0..2 {
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

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let client = Client::connect_lazily("127.0.0.1:1").unwrap();
    let refused = |outcome: Result<()>, wanted: &str| match outcome.unwrap_err() {
        Error::InvalidArgument { argument, .. } => assert_eq!(argument, wanted),
        other => panic!("{other}"),
    };
    let (options, long) = (LockOptions::new, secs(600));
    for kind in kinds::KINDS {
        let with = |options| kind.lock(&client, options).map(drop);
        refused(with(options().max_hold(Duration::ZERO)), "max_hold");
        refused(with(options().linger(Duration::ZERO)), "linger");
        refused(with(options().cohort(0)), "cohort");
        refused(with(options().cohort_time(long)), "cohort_time");
        if kind == kinds::Kind::Mutex {
            refused(with(options().cohort(3).cohort_time(Duration::ZERO)), "cohort_time");
        } else {
            // Only mutexes hand their nodes on.
            refused(with(options().linger(long)), "linger");
            refused(with(options().cohort(3)), "cohort");
        }
    }
    let both = ReadWriteLock::new(&client, "/locks/a").unwrap();
    let permits = Semaphore::new(&client, "/locks/b", 3).unwrap();
    for (options, wanted) in [(options().linger(long), "linger"), (options().cohort(3), "cohort")] {
        refused(both.with_options(options.clone()).map(drop), wanted);
        refused(permits.with_options(options).map(drop), wanted);
    }
    // Locks that a multi-lock was given have options of their own.
    let multi = MultiLock::of([kinds::Kind::Mutex.unlimited(&client)]).unwrap();
    refused(multi.with_options(options()).map(drop), "options");
}
