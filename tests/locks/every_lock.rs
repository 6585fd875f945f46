//! What every lock must do, of whatever kind: written once, and run for each kind.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::locks::every_kind::{Kind, Lock, PERMITS, acquired, take};
use crate::support::room::Room;
use crate::support::*;
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use zk_recipes::testing::{Fate, FaultProxy, Request, kill_session};
use zk_recipes::{
    Client, ConnectionState, Error, InterProcessMutex, LockGuard, LossReason, ReadWriteLock, Result,
    RetryPolicy, Ticket,
};
use zookeeper_client as zk;

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

    /// The requests by which an acquire changes something.
    fn creates(self) -> &'static [Request] {
        match self {
            Self::Mutex | Self::Writer | Self::Reader => &[Request::Create],
            Self::Paths | Self::LastOfPaths => &[Request::Multi],
            _ => &[Request::Create, Request::Multi],
        }
    }

    /// The request by which a release changes something.
    fn delete(self) -> Request {
        if self.is_joint() { Request::Multi } else { Request::Delete }
    }

    /// Whether it has several paths.
    fn is_joint(self) -> bool {
        matches!(self, Self::Paths | Self::LastOfPaths | Self::Mixed | Self::LastOfMixed)
    }
}

/// A server, clients, and a bystander who looks.
struct Scene {
    server: PooledServer,
    zookeeper: zk::Client,
    clients: [Client; 5],
}

impl Scene {
    async fn start() -> Self {
        let server = empty_server().await;
        let bystander = zk::Client::connector().with_session_timeout(Duration::from_secs(40));
        let zookeeper = bystander.connect(&server.connect_string()).await.unwrap();
        let clients = connect_many(&server).await;
        Self { server, zookeeper, clients }
    }

    /// With sessions that outlast a restart of the server, however busy the machine is.
    async fn with_long_sessions() -> Self {
        let long = Duration::from_secs(120);
        let server = Server::builder().session_timeout_bounds(Duration::from_secs(1), long);
        let server = PooledServer::from(server.start().await.unwrap());
        let hosts = server.connect_string();
        let clients = join_all((0..5).map(|_| builder().session_timeout(long).connect(&hosts))).await;
        let clients = clients.into_iter().map(Result::unwrap).collect::<Vec<_>>().try_into().unwrap();
        Self { zookeeper: bystander(&server).await, server, clients }
    }

    /// The nodes by which the lock is held or waited for, and their sessions.
    async fn nodes(&self, kind: Kind) -> Vec<(String, i64)> {
        let mut nodes = ephemerals_below(&self.zookeeper, &kind.root()).await;
        nodes.sort();
        nodes
    }

    /// Those of one client, when there are some.
    async fn nodes_of(&self, kind: Kind, client: &Client) -> Vec<String> {
        let session = session_id(client).await;
        eventually("nodes of this client", async || {
            let nodes = self.nodes(kind).await.into_iter();
            let nodes: Vec<_> = nodes.filter(|(_, owner)| *owner == session).map(|(path, _)| path).collect();
            (!nodes.is_empty()).then_some(nodes)
        })
        .await
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

    async fn assert_nothing_left(&self, kind: Kind) {
        self.nodes_are(kind, &[]).await;
        self.parked(0).await;
    }

    /// Takes what keeps the lock out, and waits until it has made way at the gate of a semaphore, which its acquire does
    /// not wait for.
    async fn occupy(&self, kind: Kind, client: &Client) -> Vec<LockGuard> {
        let held = kind.occupy(client).await;
        self.only_holds(kind, client, &held).await;
        held
    }

    /// Waits until there are no nodes but those by which these guards hold.
    async fn only_holds(&self, kind: Kind, client: &Client, guards: &[LockGuard]) {
        let session = session_id(client).await;
        let parts = guards.iter().flat_map(parts);
        let mut nodes: Vec<_> = parts.map(|part| (part.node_path().to_owned(), session)).collect();
        nodes.sort();
        self.nodes_are(kind, &nodes).await;
    }

    /// Deletes the node of somebody who waits, and waits until it has queued again.
    async fn evict(&self, kind: Kind, client: &Client, node: &str) {
        let before = self.nodes_of(kind, client).await;
        self.zookeeper.delete(node, None).await.unwrap();
        eventually("it has queued again", async || {
            let now = self.nodes_of(kind, client).await;
            now.iter().any(|node| !before.contains(node)).then_some(())
        })
        .await;
    }

    /// What is called a guard must be one: its nodes exist, in the session of its client, and are as old as its tokens.
    async fn assert_holds(&self, client: &Client, guards: &[LockGuard]) {
        let session = session_id(client).await;
        for part in guards.iter().flat_map(parts) {
            assert_eq!(part.loss(), None);
            let stat = self.zookeeper.check_stat(part.node_path()).await.unwrap().expect("its node");
            assert_eq!(stat.ephemeral_owner, session, "{part:?}");
            // A reader that was a writer goes on with the token of the writer.
            let is_downgraded = part.node_path().starts_with(&Kind::Downgraded.root());
            assert!(is_downgraded || stat.czxid == part.fencing_token(), "{part:?}");
        }
    }
}

/// Checks one kind after the other on one server, and tells which one it was that failed.
async fn each_kind(behaviour: impl AsyncFn(&Scene, Kind)) {
    let scene = Scene::start().await;
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

async fn granted(waiter: JoinHandle<Result<LockGuard>>) -> LockGuard {
    within(waiter).await.unwrap().unwrap()
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

/// How each part was lost.
async fn losses(guard: LockGuard) -> Vec<LossReason> {
    let reason = |error| match error {
        Error::LockLost { reason, .. } => reason,
        error => panic!("{error}"),
    };
    causes(within(guard.release()).await.unwrap_err()).into_iter().map(reason).collect()
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

/// Lets clients and tasks compete for the lock in all ways.
async fn compete(scene: &Scene, kind: Kind, clients: &[Client], rounds: usize) {
    let rooms = Arc::new(Rooms::default());
    let (share, share_of_others) = kind.shares();
    let mut workers = JoinSet::new();
    for client in clients {
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
                            let within = Duration::from_millis(5);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excludes_clients_and_tasks() {
    each_kind(async |scene: &Scene, kind: Kind| compete(scene, kind, &scene.clients[..3], repeats(30)).await)
        .await;
}

#[tokio::test]
async fn first_come_first_served() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, clients @ ..] = &scene.clients;
        let held = kind.occupy(holder).await;
        let (granted, mut order) = mpsc::unbounded_channel();
        let mut waiters = JoinSet::new();
        for (number, client) in clients.iter().enumerate() {
            let (client, granted) = (client.clone(), granted.clone());
            waiters.spawn(async move {
                // Those who would get in together have one between them who keeps the next one out.
                let keeps_out = kind.is_shared() && number % 2 == 1;
                let guards =
                    if keeps_out { kind.take_all(client).await } else { take(kind.lock(&client)).await };
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
    })
    .await;
}

#[tokio::test]
async fn a_failed_try_leaves_the_queue_as_it_was() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, other, next, ..] = &scene.clients;
        let lock = kind.lock(other);
        let held = scene.occupy(kind, holder).await;
        let mut waiting = None;
        for waiters in 0..2 {
            if waiters == 1 {
                waiting = Some(waiter(kind.lock(next)));
                scene.parked(1).await;
            }
            let before = scene.nodes(kind).await;
            for within in [None, Some(Duration::ZERO), Some(Duration::from_millis(200))] {
                let outcome = answered(async || {
                    let outcome = match within {
                        None => lock.try_acquire().await,
                        Some(within) => lock.try_acquire_for(within).await,
                    };
                    if outcome.is_err() {
                        scene.nodes_are(kind, &before).await;
                    }
                    outcome
                });
                assert!(outcome.await.is_none());
                assert_eq!(scene.nodes(kind).await, before, "out of the queue at once, {within:?}");
                scene.parked(waiters).await;
            }
            // In this time it may not even have got in. Then the background sees to it.
            let outcome = lock.try_acquire_for(Duration::from_micros(1)).await;
            assert!(matches!(outcome, Ok(None) | Err(Error::NotConnected { .. })), "{outcome:?}");
            scene.nodes_are(kind, &before).await;
        }
        release(held).await;
        release([granted(waiting.unwrap()).await]).await;
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

#[tokio::test]
async fn a_timed_acquire_gets_its_turn_in_time() {
    each_kind(async |scene: &Scene, kind: Kind| {
        for within in [BOUND, Duration::MAX] {
            let held = kind.occupy(&scene.clients[0]).await;
            let lock = kind.lock(&scene.clients[1]);
            let waiter = tokio::spawn(async move { lock.try_acquire_for(within).await.map(Option::unwrap) });
            scene.parked(1).await;
            release(held).await;
            release([granted(waiter).await]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_outage_longer_than_the_policy_is_an_error() {
    let mut server = empty_server().await;
    let client = Client::builder()
        .connection_timeout(Duration::from_millis(300))
        .retry_policy(RetryPolicy::one_time(Duration::from_millis(10)))
        .connect_lazily(&server.connect_string())
        .unwrap();
    state_is(&client, ConnectionState::Connected).await;
    server.kill().await.unwrap();
    state_is(&client, ConnectionState::Suspended).await;
    let outages = Kind::ALL.map(|kind| {
        let lock = kind.lock(&client);
        async move {
            let errors = [
                within(lock.acquire()).map(|acquired| acquired.unwrap_err()).boxed(),
                within(lock.try_acquire()).map(|tried| tried.unwrap_err()).boxed(),
                within(lock.is_locked()).map(|seen| seen.unwrap_err()).boxed(),
                within(lock.holder()).map(|seen| seen.unwrap_err()).boxed(),
            ];
            for error in join_all(errors).await {
                assert!(matches!(error, Error::NotConnected { .. }), "{kind:?}: {error}");
            }
        }
    });
    join_all(outages).await;
}

/// No outage ends it before that.
#[tokio::test]
async fn a_wait_ends_under_the_policy_when_its_session_is_over() {
    let mut server = empty_server().await;
    let holder = connect(&server).await;
    let builder = Client::builder()
        .session_timeout(Duration::from_secs(2))
        .connection_timeout(Duration::from_millis(300))
        .retry_policy(RetryPolicy::n_times(2, Duration::from_millis(10)));
    let client = connected(builder, &server.connect_string()).await;
    let mut waiters = Vec::new();
    for kind in Kind::ALL {
        let held = kind.occupy(&holder).await;
        let before = watches(&server).await;
        let lock = kind.lock(&client);
        let waiter = tokio::spawn(async move { lock.acquire().await });
        // It waits in its queue, and has the watches that wake it.
        eventually("it waits", || async { (watches(&server).await > before).then_some(()) }).await;
        waiters.push((kind, waiter, held));
    }
    // Its reply comes behind theirs.
    client.zookeeper().await.unwrap().sync("/").await.unwrap();
    server.kill().await.unwrap();
    state_is(&client, ConnectionState::Suspended).await;
    assert!(waiters.iter().all(|(_, waiter, _)| !waiter.is_finished()), "their session lives");
    for (kind, waiter, _held) in waiters {
        let error = within(waiter).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::NotConnected { .. }), "{kind:?}: {error}");
    }
}

#[tokio::test]
async fn an_acquire_dropped_at_each_await_leaves_nothing() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let client = &scene.clients[1];
        let session = session_id(client).await;
        release(take(kind.lock(client)).await).await;
        let paths: &[bool] = if is_thorough() { &[true, false] } else { &[true] };
        for is_new in paths {
            for awaits in 1.. {
                // Each time the parents are missing, too.
                let path = if *is_new { format!("{}/{awaits}/a", kind.root()) } else { kind.path() };
                let lock = kind.lock_at(client, &path);
                let acquiring = lock.clone();
                let acquire = poll_times(async move { acquiring.acquire().await }, awaits);
                let outcome = within(tokio::spawn(acquire)).await.unwrap().transpose().unwrap();
                let is_done = outcome.is_some();
                drop(outcome);
                release([acquired(&lock).await]).await;
                scene.assert_nothing_left(kind).await;
                if is_done {
                    assert!(awaits > 1);
                    break;
                }
            }
        }
        assert_eq!(session_id(client).await, session, "the session must have lived all the time");
    })
    .await;
}

#[tokio::test]
async fn a_wait_dropped_at_each_await_leaves_nothing() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, client, ..] = &scene.clients;
        let session = session_id(client).await;
        let mut waited = false;
        for awaits in 1.. {
            let held = scene.occupy(kind, holder).await;
            let before = scene.nodes(kind).await;
            let lock = kind.lock(client);
            let mut acquire = tokio::spawn(poll_times(async move { lock.acquire().await }, awaits));
            let outcome = tokio::select! {
                biased;
                dropped = &mut acquire => {
                    scene.nodes_are(kind, &before).await;
                    scene.parked(0).await;
                    release(held).await;
                    dropped
                }
                () = scene.parked(1) => {
                    waited = true;
                    release(held).await;
                    within(acquire).await
                }
            };
            let outcome = outcome.unwrap().transpose().unwrap();
            let is_done = outcome.is_some();
            drop(outcome);
            scene.assert_nothing_left(kind).await;
            if is_done {
                break;
            }
        }
        assert!(waited);
        assert_eq!(session_id(client).await, session, "the session must have lived all the time");
    })
    .await;
}

#[tokio::test]
async fn a_guard_dropped_anywhere_and_a_release_cancelled_leave_nothing() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let client = &scene.clients[0];
        let session = session_id(client).await;
        let lock = kind.lock(client);
        let acquire = async || {
            let guard = acquired(&lock).await;
            scene.assert_holds(client, std::slice::from_ref(&guard)).await;
            guard
        };
        drop(acquire().await);
        scene.assert_nothing_left(kind).await;
        let guard = acquire().await;
        std::thread::spawn(move || drop(guard)).join().unwrap();
        scene.assert_nothing_left(kind).await;
        // The answer may come within the first poll if this thread is late.
        eventually("a release is cancelled on its round trip", async || {
            let released = poll_times(acquire().await.release(), 1).await;
            released.map(Result::unwrap).is_none().then_some(())
        })
        .await;
        scene.assert_nothing_left(kind).await;
        // Never polled: nothing was sent, and the guard inside is dropped.
        drop(acquire().await.release());
        scene.assert_nothing_left(kind).await;
        assert_eq!(session_id(client).await, session, "the session must have lived all the time");
    })
    .await;
}

async fn state_is(client: &Client, wanted: ConnectionState) {
    within(client.watch_connection().wait_for(|state| *state == wanted)).await.unwrap();
}

/// Waits for those who wait in this order, and sees that they get the lock in this order.
async fn granted_in_order(scene: &Scene, line: [(&Client, JoinHandle<Vec<LockGuard>>); 2]) {
    let [(client, first), (other, second)] = line;
    let guards = within(first).await.unwrap();
    scene.assert_holds(client, &guards).await;
    assert!(!second.is_finished());
    let token = guards[0].fencing_token();
    release(guards).await;
    let guards = within(second).await.unwrap();
    scene.assert_holds(other, &guards).await;
    assert!(guards[0].fencing_token() > token);
    release(guards).await;
}

#[tokio::test]
async fn a_waiter_keeps_its_place_over_a_restart_of_the_server() {
    let mut scene = Scene::with_long_sessions().await;
    let clients = scene.clients.clone();
    let [holder, second, third, ..] = &clients;
    let mut waiting = Vec::new();
    for kind in Kind::ALL {
        waiting.push((kind, kind.occupy(holder).await, tokio::spawn(take(kind.lock(second)))));
    }
    let in_line = Kind::ALL.len() as u64;
    scene.parked(in_line).await;
    let behind = Kind::ALL.map(|kind| tokio::spawn(kind.take_all(third.clone())));
    scene.parked(2 * in_line).await;
    let before = join_all(Kind::ALL.map(|kind| scene.nodes(kind))).await;
    scene.server.kill().await.unwrap();
    for client in [holder, second, third] {
        state_is(client, ConnectionState::Suspended).await;
    }
    scene.server.restart().await.unwrap();
    for (((kind, held, waiter), behind), before) in waiting.into_iter().zip(behind).zip(before) {
        println!("{kind:?}");
        assert_eq!(scene.nodes(kind).await, before);
        release(held).await;
        granted_in_order(&scene, [(second, waiter), (third, behind)]).await;
        scene.nodes_are(kind, &[]).await;
    }
    scene.parked(0).await;
}

#[tokio::test]
async fn a_release_while_the_server_is_down_is_done_when_it_is_back() {
    let mut scene = Scene::start().await;
    let client = scene.clients[0].clone();
    let session = session_id(&client).await;
    let mut guards = Vec::new();
    for kind in Kind::ALL {
        // One to be released, and one to be dropped.
        for path in [kind.path(), format!("{}/second", kind.root())] {
            guards.push(acquired(&kind.lock_at(&client, &path)).await);
        }
    }
    scene.server.kill().await.unwrap();
    state_is(&client, ConnectionState::Suspended).await;
    let mut releases = JoinSet::new();
    for (number, guard) in guards.into_iter().enumerate() {
        if number % 2 == 0 {
            releases.spawn(release([guard]));
        } else {
            drop(guard);
        }
    }
    scene.server.restart().await.unwrap();
    within(releases.join_all()).await;
    for kind in Kind::ALL {
        scene.nodes_are(kind, &[]).await;
    }
    assert_eq!(session_id(&client).await, session, "the session did not end instead");
}

#[tokio::test]
async fn a_waiter_whose_session_is_killed_queues_again_on_the_new_one() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, killed, third, ..] = &scene.clients;
        let held = kind.occupy(holder).await;
        let waiter = tokio::spawn(take(kind.lock(killed)));
        scene.parked(1).await;
        let behind = tokio::spawn(kind.take_all(third.clone()));
        scene.parked(2).await;
        let session = session_id(killed).await;
        kill_session(killed).await.unwrap();
        eventually("a new session", async || (session_id(killed).await != session).then_some(())).await;
        scene.nodes_of(kind, killed).await;
        release(held).await;
        granted_in_order(scene, [(third, behind), (killed, waiter)]).await;
    })
    .await;
}

#[tokio::test]
async fn a_holder_whose_session_is_killed_has_lost_the_lock() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [killed, other, ..] = &scene.clients;
        for waits in [true, false] {
            let guard = acquired(&kind.lock(killed)).await;
            let parts = parts(&guard).len();
            kill_session(killed).await.unwrap();
            let others = within(kind.take_all(other.clone())).await;
            assert!(others[0].fencing_token() > guard.fencing_token());
            if waits {
                eventually("the loss is known", async || guard.loss()).await;
            }
            assert_eq!(losses(guard).await, vec![LossReason::Expired; parts]);
            // Its client is free to wait for those who have it now.
            let again = waiter(kind.lock(killed));
            scene.parked(1).await;
            scene.assert_holds(other, &others).await;
            release(others).await;
            release([granted(again).await]).await;
        }
    })
    .await;
}

/// A server that comes back after a long outage gives old sessions their time again.
#[tokio::test]
async fn the_nodes_of_an_old_session_are_never_granted() {
    let mut scene = Scene::start().await;
    let short = Client::builder().session_timeout(Duration::from_secs(2));
    let client = short.connect(&scene.server.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    let mut old = Vec::new();
    for kind in Kind::ALL {
        old.push(acquired(&kind.lock(&client)).await);
    }
    scene.server.kill().await.unwrap();
    state_is(&client, ConnectionState::Lost).await;
    scene.server.restart().await.unwrap();
    let again = Kind::ALL.map(|kind| tokio::spawn(kind.take_all(client.clone())));
    for ((kind, old), again) in Kind::ALL.into_iter().zip(old).zip(again) {
        let guards = within(again).await.unwrap();
        let nodes = scene.nodes(kind).await;
        assert!(nodes.iter().all(|(_, owner)| *owner != session), "{kind:?}: {nodes:?}");
        scene.assert_holds(&client, &guards).await;
        assert!(guards[0].fencing_token() > old.fencing_token(), "{kind:?}");
        let parts = parts(&old).len();
        assert_eq!(losses(old).await, vec![LossReason::Expired; parts], "{kind:?}");
        release(guards).await;
        scene.nodes_are(kind, &[]).await;
    }
    scene.parked(0).await;
}

#[tokio::test]
async fn a_waiter_whose_node_is_deleted_queues_again() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, evicted, third, ..] = &scene.clients;
        for deleted in 0.. {
            let held = kind.occupy(holder).await;
            let waiter = tokio::spawn(take(kind.lock(evicted)));
            scene.parked(1).await;
            let behind = tokio::spawn(kind.take_all(third.clone()));
            scene.parked(2).await;
            let nodes = scene.nodes_of(kind, evicted).await;
            let Some(node) = nodes.get(deleted) else {
                release(held).await;
                return granted_in_order(scene, [(evicted, waiter), (third, behind)]).await;
            };
            scene.evict(kind, evicted, node).await;
            release(held).await;
            let (waiter, behind) = ((evicted, waiter), (third, behind));
            // Who takes one member after the other keeps those it has, and queues again for the last.
            if kind == Kind::LastOfMixed && node.starts_with(&kind.last_path()) {
                granted_in_order(scene, [waiter, behind]).await;
            } else {
                granted_in_order(scene, [behind, waiter]).await;
            }
        }
    })
    .await;
}

/// Who is before somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// A holder of another client.
    Holder,
    /// The same, and one of a third client that waits.
    HolderAndWaiter,
    /// A holder of its own client.
    OwnHolder,
    /// A holder of another client, and one of its own that waits.
    HolderAndOwnWaiter,
}

impl Before {
    const ALL: [Self; 4] = [Self::Holder, Self::HolderAndWaiter, Self::OwnHolder, Self::HolderAndOwnWaiter];
}

#[tokio::test]
async fn a_waiter_whose_node_is_deleted_is_not_overtaken_by_those_who_come_later() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [other, evicted, third, late, _] = &scene.clients;
        for before in Before::ALL {
            let holder = if before == Before::OwnHolder { evicted } else { other };
            let held = kind.occupy(holder).await;
            let first = match before {
                Before::Holder | Before::OwnHolder => None,
                Before::HolderAndWaiter => Some(third),
                Before::HolderAndOwnWaiter => Some(evicted),
            };
            let first = first.map(|client| (client, tokio::spawn(kind.take_all(client.clone()))));
            scene.parked(u64::from(first.is_some())).await;
            let others = scene.nodes(kind).await;
            let waiter = tokio::spawn(take(kind.lock(evicted)));
            scene.parked(u64::from(first.is_some()) + 1).await;
            let mut nodes = scene.nodes(kind).await.into_iter();
            let (node, _) = nodes.rfind(|node| !others.contains(node)).unwrap();
            scene.evict(kind, evicted, &node).await;
            let behind = tokio::spawn(kind.take_all(late.clone()));
            scene.parked(u64::from(first.is_some()) + 2).await;
            release(held).await;
            if let Some((client, first)) = first {
                let guards = within(first).await.unwrap();
                scene.assert_holds(client, &guards).await;
                release(guards).await;
            }
            granted_in_order(scene, [(evicted, waiter), (late, behind)]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_holder_whose_node_is_deleted_has_lost_the_lock() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, other, ..] = &scene.clients;
        let lock = kind.lock(holder);
        let guard = acquired(&lock).await;
        for part in parts(&guard) {
            scene.zookeeper.delete(part.node_path(), None).await.unwrap();
        }
        let others = within(kind.take_all(other.clone())).await;
        let parts_lost = vec![LossReason::Deleted; parts(&guard).len()];
        assert_eq!(losses(guard).await, parts_lost);
        scene.assert_holds(other, &others).await;
        release(others).await;
        // What is left of it is released.
        let guard = acquired(&lock).await;
        scene.zookeeper.delete(parts(&guard)[0].node_path(), None).await.unwrap();
        assert_eq!(losses(guard).await, [LossReason::Deleted]);
    })
    .await;
}

#[tokio::test]
async fn a_wait_goes_on_when_all_paths_are_deleted() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, client, ..] = &scene.clients;
        let held = kind.occupy(holder).await;
        let waiter = waiter(kind.lock(client));
        scene.parked(1).await;
        let mut nodes = nodes_below(&scene.zookeeper, &kind.root()).await;
        // From the back of the queue, so that the waiter does not have its turn for a moment.
        nodes.sort_by_key(|(path, stat)| (path.matches('/').count(), stat.czxid));
        let mut deletes = scene.zookeeper.new_multi_writer();
        for (path, _) in nodes.iter().rev() {
            deletes.add_delete(path, None).unwrap();
        }
        deletes.commit().await.unwrap();
        let guard = granted(waiter).await;
        scene.assert_holds(client, std::slice::from_ref(&guard)).await;
        for lost in held {
            assert_eq!(losses(lost).await.last(), Some(&LossReason::Deleted));
        }
        release([guard]).await;
    })
    .await;
}

#[tokio::test]
async fn paths_that_vanish_are_made_again() {
    let server = Server::builder();
    let server = server.container_check_interval(Duration::from_millis(20)).start().await.unwrap();
    let client = connect(&server).await;
    let zookeeper = zk::Client::connect(&server.connect_string()).await.unwrap();
    for kind in Kind::ALL {
        // While the server removes them all the time, and then when it has.
        for acquires in [20, 1] {
            for _ in 0..acquires {
                release(take(kind.lock(&client)).await).await;
            }
            eventually("the paths are gone", async || {
                nodes_below(&zookeeper, &kind.root()).await.is_empty().then_some(())
            })
            .await;
        }
    }
}

#[tokio::test]
async fn close_wakes_waiters_and_frees_what_was_held() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, other, ..] = &scene.clients;
        let [closed, closed_too] = connect_many(&scene.server).await;
        let second_path = format!("{}/second", kind.root());
        let own = acquired(&kind.lock_at(&closed, &second_path)).await;
        let held = kind.occupy(holder).await;
        let lock = kind.lock(&closed);
        let timed = kind.lock(&closed_too);
        let waiters = [
            waiter(lock.clone()),
            tokio::spawn(async move { timed.try_acquire_for(BOUND).await.map(Option::unwrap) }),
        ];
        scene.parked(2).await;
        for client in [&closed, &closed_too] {
            within(client.close()).await;
        }
        // At once, long before the session times out.
        let freed = kind.lock_at(other, &second_path).try_acquire().await.unwrap();
        release([freed.expect("the session has ended")]).await;
        for waiter in waiters {
            assert_closed(within(waiter).await.unwrap().unwrap_err());
        }
        assert_closed(own.release().await.unwrap_err());
        assert_closed(lock.acquire().await.unwrap_err());
        assert_closed(lock.try_acquire().await.unwrap_err());
        assert_closed(lock.try_acquire_for(BOUND).await.unwrap_err());
        assert_closed(lock.is_locked().await.unwrap_err());
        assert_closed(lock.holder().await.unwrap_err());
        release(held).await;
    })
    .await;
}

fn assert_closed(error: Error) {
    assert!(causes(error.clone()).iter().all(|cause| *cause == Error::Closed), "{error:?}");
}

#[tokio::test]
async fn everybody_can_see_who_holds() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let [holder, observer, ..] = &scene.clients;
        let (lock, observer) = (kind.lock(holder), kind.lock(observer));
        assert_eq!(observer.holder().await, Ok(None), "the path does not exist yet");
        for _ in 0..2 {
            assert_eq!(observer.is_locked().await, Ok(false));
            let guard = acquired(&lock).await;
            let first = parts(&guard)[0].node_path().to_owned();
            for lock in [&lock, &observer] {
                let participant = lock.holder().await.unwrap().expect("it is held");
                assert!(participant.is_holder());
                assert_eq!(participant.node_path(), first);
                assert_eq!(participant.session_id(), session_id(holder).await);
                // Of several permits one is held.
                assert_eq!(lock.is_locked().await, Ok(kind != Kind::Permit));
            }
            assert!(lock.is_acquired_in_this_process());
            assert!(!observer.is_acquired_in_this_process());
            release([guard]).await;
            assert_eq!(observer.holder().await, Ok(None));
            assert!(!lock.is_acquired_in_this_process());
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
        assert_eq!(lock.paths()[0], "/läs/a b", "{kind:?}");
    }
}

/// The kinds that have tickets.
const WITH_TICKETS: [Kind; 3] = [Kind::Mutex, Kind::Writer, Kind::Reader];

async fn each_kind_with_tickets(behaviour: impl AsyncFn(&Scene, Kind)) {
    each_kind(async |scene, kind| {
        if WITH_TICKETS.contains(&kind) {
            behaviour(scene, kind).await;
        }
    })
    .await;
}

async fn ticket_of(kind: Kind, client: &Client) -> Ticket {
    let path = kind.path();
    let read_write = || ReadWriteLock::new(client, &path).unwrap();
    let ticket = match kind {
        Kind::Mutex => within(InterProcessMutex::new(client, &path).unwrap().enqueue()).await,
        Kind::Writer => within(read_write().write().enqueue()).await,
        Kind::Reader => within(read_write().read().enqueue()).await,
        other => panic!("{other:?} has no tickets"),
    };
    ticket.unwrap()
}

#[tokio::test]
async fn a_ticket_keeps_its_place_while_nobody_awaits_it() {
    each_kind_with_tickets(async |scene, kind| {
        let [holder, one, two, ..] = &scene.clients;
        let held = scene.occupy(kind, holder).await;
        let ticket = ticket_of(kind, one).await;
        let behind = waiter(kind.lock(two));
        scene.nodes_of(kind, two).await;
        release(held).await;
        within(async { while within(ticket.position()).await.unwrap() > 0 {} }).await;
        let mut position = ticket.watch_position();
        let guard = within(ticket.acquired()).await.unwrap();
        assert_eq!(position.changed().await, Some(0));
        assert_eq!(position.changed().await, None, "nobody waits any more");
        scene.assert_holds(one, std::slice::from_ref(&guard)).await;
        if kind.is_shared() {
            release([granted(behind).await]).await;
            release([guard]).await;
        } else {
            let token = guard.fencing_token();
            assert!(!behind.is_finished());
            release([guard]).await;
            let next = granted(behind).await;
            assert!(next.fencing_token() > token);
            release([next]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_ticket_that_is_dropped_makes_way() {
    each_kind_with_tickets(async |scene, kind| {
        let [holder, one, two, ..] = &scene.clients;
        // It has what is free, awaited or not.
        for is_free in [true, false] {
            let held = if is_free { Vec::new() } else { scene.occupy(kind, holder).await };
            let ticket = ticket_of(kind, one).await;
            let behind = waiter(kind.lock(two));
            if !kind.is_shared() {
                scene.nodes_of(kind, two).await;
            }
            release(held).await;
            drop(ticket);
            release([granted(behind).await]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_ticket_whose_nodes_or_session_are_gone_gets_another_turn() {
    each_kind_with_tickets(async |scene, kind| {
        let [holder, one, ..] = &scene.clients;
        for is_free in [true, false] {
            for is_killed in [false, true] {
                let held = if is_free { Vec::new() } else { scene.occupy(kind, holder).await };
                let ticket = ticket_of(kind, one).await;
                let nodes = scene.nodes_of(kind, one).await;
                if is_killed {
                    kill_session(one).await.unwrap();
                    eventually("the nodes of the session are gone", async || {
                        let now = scene.nodes(kind).await;
                        nodes.iter().all(|node| !now.iter().any(|(path, _)| path == node)).then_some(())
                    })
                    .await;
                } else {
                    for node in nodes {
                        scene.zookeeper.delete(&node, None).await.unwrap();
                    }
                }
                release(held).await;
                let guard = within(ticket.acquired()).await.unwrap();
                scene.assert_holds(one, std::slice::from_ref(&guard)).await;
                release([guard]).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_idle_ticket_whose_nodes_are_deleted_is_in_nobodys_way() {
    each_kind_with_tickets(async |scene, kind| {
        let [holder, one, ..] = &scene.clients;
        let held = scene.occupy(kind, holder).await;
        let ticket = ticket_of(kind, one).await;
        let nodes = scene.nodes_of(kind, one).await;
        // It stands behind the ticket in the same client, and watches nothing but that.
        let behind = waiter(kind.lock(one));
        eventually("it waits", async || (scene.nodes_of(kind, one).await.len() > nodes.len()).then_some(()))
            .await;
        for node in nodes {
            let _ = scene.zookeeper.delete(&node, None).await;
        }
        release(held).await;
        let guard = granted(behind).await;
        drop(ticket);
        release([guard]).await;
    })
    .await;
}

/// A client that tries again often enough, since it loses its connection often.
async fn connect_patiently_through(proxy: &FaultProxy) -> Client {
    Client::builder()
        .session_timeout(Duration::from_secs(10))
        .retry_policy(RetryPolicy::n_times(100, Duration::from_millis(5)))
        .connect(&proxy.connect_string())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_lost_reply_is_neither_doubled_nor_left_behind() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let proxy = FaultProxy::start(scene.server.connect_string()).await.unwrap();
        let client = connect_patiently_through(&proxy).await;
        let session = session_id(&client).await;
        let lock = kind.lock(&client);
        release([acquired(&lock).await]).await;
        for request in kind.creates() {
            // Nobody before it.
            let lost = proxy.intercept(*request, Fate::LoseReply);
            let guard = acquired(&lock).await;
            within(lost.happened()).await;
            scene.only_holds(kind, &client, std::slice::from_ref(&guard)).await;
            release([guard]).await;

            // Behind another.
            let held = kind.occupy(&scene.clients[0]).await;
            let lost = proxy.intercept(*request, Fate::LoseReply);
            let waiting = waiter(lock.clone());
            scene.parked(1).await;
            release(held).await;
            let guard = granted(waiting).await;
            within(lost.happened()).await;
            scene.assert_holds(&client, std::slice::from_ref(&guard)).await;
            release([guard]).await;

            // Given up with the reply still lost.
            let lost = proxy.intercept(*request, Fate::LoseReply);
            let waiting = waiter(lock.clone());
            within(lost.happened()).await;
            waiting.abort();
            drop(waiting.await);
            scene.assert_nothing_left(kind).await;
        }
        // Of the release, awaited or not.
        for awaited in [true, false] {
            let guard = acquired(&lock).await;
            scene.only_holds(kind, &client, std::slice::from_ref(&guard)).await;
            let lost = proxy.intercept(kind.delete(), Fate::LoseReply);
            if awaited {
                release([guard]).await;
            } else {
                drop(guard);
            }
            within(lost.happened()).await;
            scene.assert_nothing_left(kind).await;
        }
        assert_eq!(session_id(&client).await, session, "the session must have lived all the time");
    })
    .await;
}

/// Replies of all kinds are lost all the time, each with its connection, while clients compete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclusion_survives_lost_replies() {
    each_kind(async |scene: &Scene, kind: Kind| {
        let proxy = FaultProxy::start(scene.server.connect_string()).await.unwrap();
        let clients = [connect_patiently_through(&proxy).await, connect_patiently_through(&proxy).await];
        let sessions = [session_id(&clients[0]).await, session_id(&clients[1]).await];
        let losses = AtomicUsize::new(0);
        let requests = [kind.creates(), &[Request::Delete, Request::GetChildren, Request::Exists]].concat();
        let sabotage = async {
            for request in requests.iter().cycle() {
                if losses.load(SeqCst) == repeats(60) {
                    std::future::pending::<()>().await;
                }
                // Out of step with the retries: else it would always be the same request.
                tokio::time::sleep(Duration::from_millis(fastrand::u64(0..30))).await;
                // Whichever request of the kind comes next, if any comes soon.
                let lost = proxy.intercept(*request, Fate::LoseReply);
                if tokio::time::timeout(Duration::from_millis(50), lost.happened()).await.is_ok() {
                    losses.fetch_add(1, SeqCst);
                }
            }
        };
        let competition = async {
            while losses.load(SeqCst) < repeats(30) {
                compete(scene, kind, &clients, 4).await;
            }
        };
        tokio::select! {
            () = within(competition) => {}
            () = sabotage => unreachable!("it goes on"),
        }
        for (client, session) in clients.iter().zip(sessions) {
            assert_eq!(session_id(client).await, session, "all in one session");
        }
        // With the proxy the rest of the releases would have to wait for the end of their sessions.
        scene.assert_nothing_left(kind).await;
    })
    .await;
}
