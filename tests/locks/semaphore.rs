//! `Semaphore`, `SharedCount` and `SemaphoreMutex`: the count, the order, what stays behind, what is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::locks::stage::{sandbox_with_clients, server_behind_proxy, server_with_clients};
use crate::support::room::Room;
use crate::support::*;
use futures_util::FutureExt;
use futures_util::future::{join_all, try_join_all};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use zk_recipes::shared::SharedCount;
use zk_recipes::testing::{Fate, FaultProxy, MemoryServer, Request, Traffic};
use zk_recipes::{
    Client, Error, InterProcessLock, InterProcessMutex, LockGuard, LockOptions, ReadWriteLock, Result,
    RetryPolicy, Semaphore, SemaphoreMutex,
};
use zookeeper_client as zk;

const PATH: &str = "/semaphores/a";
const GATE: &str = "/semaphores/a/locks";
const LEASES: &str = "/semaphores/a/leases";
const COUNT: &str = "/counts/a";

fn semaphore(client: &Client, permits: u32) -> Semaphore {
    Semaphore::new(client, PATH, permits).unwrap()
}

fn acquire_in_task(semaphore: &Semaphore, permits: u32) -> JoinHandle<Result<Vec<LockGuard>>> {
    let semaphore = semaphore.many(permits).unwrap();
    tokio::spawn(async move { semaphore.acquire().await.map(LockGuard::into_permits) })
}

async fn release(guards: Vec<LockGuard>) {
    try_join_all(guards.into_iter().map(LockGuard::release)).await.unwrap();
}

/// Waits until nobody stands at the gate, and this many leases are out.
async fn leases_out(zookeeper: &zk::Client, root: &str, count: usize) -> Vec<String> {
    queue_of(zookeeper, &format!("{root}{GATE}"), 0).await;
    queue_of(zookeeper, &format!("{root}{LEASES}"), count).await
}

async fn nothing_left(server: &Server, zookeeper: &zk::Client) {
    leases_out(zookeeper, "", 0).await;
    watches_of(server, 0).await;
}

// --- The count and the order ---

/// Stays in a room for this many permits.
async fn visit(room: &Room, permits: usize, guards: &[LockGuard]) {
    let share = Room::WHOLE / permits as u32 * guards.len() as u32;
    let _stay = room.share(guards[0].fencing_token(), share);
    // Time for others to come in; on a slow machine they need more, until some have.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if room.most_visitors() > 1 {
            break;
        }
    }
}

/// Looks at the leases until all workers are done.
async fn watch_over(mut workers: JoinSet<()>, zookeeper: &zk::Client, leases: &str, permits: usize) {
    let watching = async {
        while !workers.is_empty() {
            let out = children(zookeeper, leases).await;
            assert!(out.len() <= permits, "{out:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
            while let Some(done) = workers.try_join_next() {
                done.unwrap();
            }
        }
    };
    within(watching).await;
}

/// Lets tasks of these clients take any number of permits, stay in a room, and give them back.
fn takers(clients: &[Client], tasks: usize, rounds: usize, permits: usize, room: &Arc<Room>) -> JoinSet<()> {
    let mut takers = JoinSet::new();
    for (number, client) in clients.iter().enumerate() {
        for task in 0..tasks {
            let (semaphore, room) = (semaphore(client, permits as u32), room.clone());
            takers.spawn(async move {
                for round in 0..rounds {
                    let guards = match (number + task + round) % permits {
                        0 => vec![semaphore.acquire().await.unwrap()],
                        more => {
                            semaphore.many(more as u32 + 1).unwrap().acquire().await.unwrap().into_permits()
                        }
                    };
                    visit(&room, permits, &guards).await;
                    match round % 2 {
                        0 => release(guards).await,
                        _ => drop(guards),
                    }
                }
            });
        }
    }
    takers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_count_is_never_exceeded() {
    const PERMITS: usize = 5;
    let (sandbox, clients) = sandbox_with_clients::<4>().await;
    let room = Arc::new(Room::default());
    let takers = takers(&clients, 3, 15, PERMITS, &room);
    let zookeeper = zk::Client::connect(&servers()).await.unwrap();
    watch_over(takers, &zookeeper, &format!("/{}{LEASES}", sandbox.root), PERMITS).await;
    assert!(room.most_visitors() > 1, "several must be let in at once");
    sandbox.assert_nothing_left().await;
}

/// Replies of all kinds are lost all the time, each with its connection, while clients compete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_count_is_never_exceeded_when_replies_are_lost() {
    const PERMITS: usize = 3;
    let server = empty_server().await;
    let proxy = Arc::new(FaultProxy::start(server.connect_string()).await.unwrap());
    let zookeeper = bystander(&server).await;
    let builder = Client::builder().session_timeout(Duration::from_secs(10));
    let builder = builder.retry_policy(RetryPolicy::n_times(100, Duration::from_millis(5)));
    let hosts = proxy.connect_string();
    let clients = try_join_all((0..3).map(|_| builder.clone().connect(&hosts))).await.unwrap();
    let sessions = join_all(clients.iter().map(session_id)).await;
    let takers = takers(&clients, 1, 8, PERMITS, &Arc::default());
    let losses = Arc::new(AtomicUsize::new(0));
    let saboteur = tokio::spawn({
        let (proxy, losses) = (proxy.clone(), losses.clone());
        async move {
            for request in
                [Request::Multi, Request::Create, Request::Multi, Request::Delete, Request::GetChildren]
                    .into_iter()
                    .cycle()
            {
                // Whichever request of the kind comes next.
                proxy.intercept(request, Fate::LoseReply).happened().await;
                losses.fetch_add(1, SeqCst);
            }
        }
    });
    watch_over(takers, &zookeeper, LEASES, PERMITS).await;
    saboteur.abort();
    assert!(saboteur.await.unwrap_err().is_cancelled());
    let losses = losses.load(SeqCst);
    assert!(losses > 20, "only {losses} replies were lost");
    assert_eq!(join_all(clients.iter().map(session_id)).await, sessions, "all in one session");
    nothing_left(&server, &zookeeper).await;
}

/// Curator hangs here: each takes one lease after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_who_want_all_permits_do_not_wait_for_each_other() {
    let sandbox = Sandbox::new();
    let room = Arc::new(Room::default());
    let mut workers = JoinSet::new();
    for _ in 0..2 {
        let (semaphore, room) = (semaphore(&sandbox.client().await, 2), room.clone());
        workers.spawn(async move {
            for _ in 0..200 {
                let guards = semaphore.many(2).unwrap().acquire().await.unwrap().into_permits();
                let stay = room.enter(&guards[0]);
                tokio::task::yield_now().await;
                drop(stay);
                release(guards).await;
            }
        });
    }
    within(workers.join_all()).await;
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn first_come_first_served_whoever_wants_how_many() {
    let (sandbox, [holding, other]) = sandbox_with_clients().await;
    let zookeeper = holding.zookeeper().await.unwrap();
    let gate = format!("/{}{GATE}", sandbox.root);
    let held = semaphore(&holding, 3).many(2).unwrap().acquire().await.unwrap().into_permits();
    queue_of(&zookeeper, &gate, 0).await;
    let (granted, mut order) = mpsc::unbounded_channel();
    let mut waiters = JoinSet::new();
    for (number, wanted) in [3, 1, 2, 3, 1].into_iter().enumerate() {
        let (semaphore, granted) = (semaphore(&other, 3), granted.clone());
        waiters.spawn(async move {
            let guards = semaphore.many(wanted).unwrap().acquire().await.unwrap().into_permits();
            granted.send((number, guards[0].fencing_token())).unwrap();
            guards
        });
        // Everybody is at the gate before the next one comes.
        queue_of(&zookeeper, &gate, number + 1).await;
    }
    let semaphore = semaphore(&holding, 3);
    assert_eq!(semaphore.available_permits().await, Ok(1));
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "the free one is kept for who came first");
    assert!(order.try_recv().is_err());
    release(held).await;
    let mut last_token = 0;
    let mut next = async || {
        let (number, token) = within(order.recv()).await.unwrap();
        assert!(token > last_token, "tokens grow");
        last_token = token;
        number
    };
    let mut leave = async || release(within(waiters.join_next()).await.unwrap().unwrap()).await;
    assert_eq!(next().await, 0);
    leave().await;
    // Those two get along.
    assert_eq!([next().await, next().await], [1, 2]);
    assert_eq!(semaphore.available_permits().await, Ok(0));
    leave().await;
    leave().await;
    assert_eq!(next().await, 3);
    leave().await;
    assert_eq!(next().await, 4);
    leave().await;
    sandbox.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_released_each_for_itself_by_anybody() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let semaphore = semaphore(&client, 4);
    let zookeeper = client.zookeeper().await.unwrap();
    let root = format!("/{}", sandbox.root);
    let mut guards = semaphore.many(3).unwrap().acquire().await.unwrap().into_permits();
    // Nobody is known again: the same task has a fourth, and cannot have a fifth.
    guards.push(semaphore.acquire().await.unwrap());
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let mut nodes: Vec<String> = guards.iter().map(|guard| guard.node_path().to_owned()).collect();
    nodes.sort();
    nodes.dedup();
    assert_eq!(nodes.len(), 4, "a node for each permit");
    assert!(guards.iter().all(|guard| guard.hold_count() == 1));

    let [in_task, in_thread, here, last] = guards.try_into().unwrap();
    tokio::spawn(in_task.release()).await.unwrap().unwrap();
    assert_eq!(semaphore.available_permits().await, Ok(1));
    std::thread::spawn(move || drop(in_thread)).join().unwrap();
    let left = leases_out(&zookeeper, &root, 2).await;
    assert!(left.iter().all(|name| [&here, &last].iter().any(|guard| guard.node_path().ends_with(name))));
    drop(here);
    assert_eq!(semaphore.available_permits().await, Ok(3));
    let two = semaphore.many(2).unwrap().try_acquire().await.unwrap().unwrap().into_permits();
    assert!(two.iter().all(|guard| guard.fencing_token() > last.fencing_token()));
    let one = semaphore.many(1).unwrap().try_acquire_for(BOUND).await.unwrap().unwrap().into_permits();
    assert!(semaphore.many(1).unwrap().try_acquire().await.unwrap().is_none());
    last.release().await.unwrap();
    release(two).await;
    release(one).await;
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn holders_and_then_waiters_are_listed_with_their_data() {
    let sandbox = Sandbox::new();
    let client = sandbox.builder().identity("the client").connect(&servers()).await.unwrap();
    let zookeeper = client.zookeeper().await.unwrap();
    let session = session_id(&client).await;
    let semaphore = semaphore(&client, 3);
    assert_eq!(semaphore.participants().await, Ok(Vec::new()), "the path does not exist yet");
    assert_eq!(semaphore.available_permits().await, Ok(3));
    let with_data = |data: &str| semaphore.with_options(LockOptions::new().node_data(data)).unwrap();
    let one = with_data("one").acquire().await.unwrap();
    let two = with_data("two").many(2).unwrap().acquire().await.unwrap().into_permits();
    leases_out(&zookeeper, &format!("/{}", sandbox.root), 3).await;
    let waiters = [acquire_in_task(&with_data("three"), 1), acquire_in_task(&semaphore, 1)];
    queue_of(&zookeeper, &format!("/{}{GATE}", sandbox.root), 2).await;
    let listed = async || {
        let listed = semaphore.participants().await.unwrap();
        assert!(listed.iter().all(|p| p.session_id() == session && p.age() < BOUND), "{listed:?}");
        let line = |p: &zk_recipes::Participant| {
            let place = if p.node_path().starts_with(&format!("/{}{LEASES}/", sandbox.root)) {
                "has a lease"
            } else {
                assert!(p.node_path().starts_with(&format!("/{}{GATE}/", sandbox.root)), "{p:?}");
                "at the gate"
            };
            (String::from_utf8(p.identity().unwrap().to_vec()).unwrap(), place, p.is_holder())
        };
        listed.iter().map(line).collect::<Vec<_>>()
    };
    let holds = |data: &str| (data.to_owned(), "has a lease", true);
    // Whoever waits has no permit yet, and so not its data.
    let waits = ("the client".to_owned(), "at the gate", false);
    let expected = [holds("one"), holds("two"), holds("two"), waits.clone(), waits.clone()];
    assert_eq!(listed().await, expected);
    assert_eq!(semaphore.available_permits().await, Ok(0));
    one.release().await.unwrap();
    let [first, second] = waiters;
    let first = within(first).await.unwrap().unwrap();
    queue_of(&zookeeper, &format!("/{}{GATE}", sandbox.root), 1).await;
    assert_eq!(listed().await, [holds("two"), holds("two"), holds("three"), waits]);
    release(two).await;
    let second = within(second).await.unwrap().unwrap();
    leases_out(&zookeeper, &format!("/{}", sandbox.root), 2).await;
    assert_eq!(listed().await, [holds("three"), holds("the client")]);
    release(first).await;
    release(second).await;
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn whoever_passes_the_gate_while_it_is_listed_is_not_overlooked() {
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let observer = semaphore(&client, 1);
    let other = semaphore(&connect(&server).await, 1);
    let held = other.acquire().await.unwrap();
    let waiter = acquire_in_task(&other, 1);
    watches_of(&server, 1).await;
    let replies = proxy.replies_seen();
    proxy.set_traffic(Traffic::black_hole_to_client());
    let listing = tokio::spawn(async move { observer.participants().await });
    // A sync and a list.
    eventually("the first queue is listed", || async { (proxy.replies_seen() >= replies + 2).then_some(()) })
        .await;
    held.release().await.unwrap();
    let guards = within(waiter).await.unwrap().unwrap();
    leases_out(&zookeeper, "", 1).await;
    proxy.set_traffic(Traffic::pass());
    let participants = within(listing).await.unwrap().unwrap();
    assert_eq!(participants.len(), 1, "{participants:?}");
    assert_eq!(participants[0].node_path(), guards[0].node_path());
}

#[tokio::test]
async fn what_can_never_be_had_is_refused_before_anything_is_sent() {
    // Nobody listens there.
    let client = Client::connect_lazily("127.0.0.1:1").unwrap();
    let refused = |outcome: Result<()>, wanted: &str| match outcome.unwrap_err() {
        Error::InvalidArgument { argument, reason } => {
            assert_eq!(argument, wanted);
            assert!(!reason.is_empty());
        }
        other => panic!("{other}"),
    };
    refused(Semaphore::new(&client, PATH, 0).map(drop), "permits");
    let fixed = semaphore(&client, 3);
    let shared = Semaphore::with_shared_count(&client, PATH, &SharedCount::new(&client, COUNT, 3).unwrap());
    for (semaphore, wanted) in [(&fixed, 0), (&fixed, 4), (&fixed, u32::MAX), (&shared.unwrap(), 0)] {
        refused(semaphore.many(wanted).map(drop), "permits");
    }
    refused(fixed.with_options(LockOptions::new().max_hold(Duration::ZERO)).map(drop), "max_hold");
    for path in ["", "/", "a", "/a/", "/a//b", "/a/.."] {
        let count = SharedCount::new(&client, path, 1);
        assert!(matches!(count, Err(Error::InvalidPath { path: named, .. }) if named == path));
    }
}

// --- Bad days ---

/// Of a node that somebody else makes by hand.
fn ephemeral() -> zk::CreateOptions<'static> {
    zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all())
}

/// Between its look at what is free and its leases, another has passed the gate.
#[tokio::test]
async fn without_a_place_at_the_gate_no_permit_is_taken() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    // Long enough for its connection to outlast the silence.
    let patient = Client::builder().session_timeout(Duration::from_secs(30));
    let patient = patient.connect(&proxy.connect_string()).await.unwrap();
    let semaphores = [patient, connect(&server).await].map(|c| semaphore(&c, 1));
    let [evicted, other] = &semaphores;
    evicted.acquire().await.unwrap().release().await.unwrap();
    leases_out(&zookeeper, "", 0).await;
    proxy.take_requests();
    let replies = proxy.replies_seen();
    proxy.set_traffic(Traffic::black_hole_to_client());
    let waiter = acquire_in_task(evicted, 1);
    eventually("the server has let it in", || async { (proxy.replies_seen() >= replies + 3).then_some(()) })
        .await;
    let place = queue_of(&zookeeper, GATE, 1).await.remove(0);
    zookeeper.delete(&format!("{GATE}/{place}"), None).await.unwrap();
    let guard = within(other.acquire()).await.unwrap();
    queue_of(&zookeeper, GATE, 0).await;
    proxy.set_traffic(Traffic::pass());
    let again = queue_of(&zookeeper, GATE, 1).await.remove(0);
    assert!(sequence(&again) > sequence(&place));
    assert!(proxy.take_requests().contains(&Request::Multi), "it has tried");
    let leases = children(&zookeeper, LEASES).await;
    assert_eq!(leases, [guard.node_path().rsplit_once('/').unwrap().1]);
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    release(within(waiter).await.unwrap().unwrap()).await;
    nothing_left(&server, &zookeeper).await;
}

/// More often than the retry policy allows in a row: each time it has waited for a permit.
#[tokio::test]
async fn the_wait_for_a_permit_goes_on_however_often_the_place_is_lost() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = Client::builder()
        .session_timeout(Duration::from_secs(10))
        .retry_policy(RetryPolicy::n_times(3, Duration::from_secs(1)))
        .connect(&server.connect_string())
        .await
        .unwrap();
    let semaphore = semaphore(&client, 1);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    leases_out(&zookeeper, "", 0).await;
    let lease = format!("{LEASES}/_c_other-lease-0000000000");
    zookeeper.create(&lease, b"", &ephemeral()).await.unwrap();
    let waiter = acquire_in_task(&semaphore, 1);
    for _ in 0..5 {
        let place = queue_of(&zookeeper, GATE, 1).await.remove(0);
        watches_of(&server, 1).await;
        zookeeper.delete(&format!("{GATE}/{place}"), None).await.unwrap();
        eventually("it has queued again", || async {
            let now = children(&zookeeper, GATE).await;
            (now.len() == 1 && now[0] != place).then_some(())
        })
        .await;
        assert!(!waiter.is_finished());
    }
    watches_of(&server, 1).await;
    zookeeper.delete(&lease, None).await.unwrap();
    release(within(waiter).await.unwrap().unwrap()).await;
    nothing_left(&server, &zookeeper).await;
}

/// There the order takes a question more. Meanwhile the leases may have changed.
#[tokio::test]
async fn past_the_last_number_the_count_is_not_exceeded_either() {
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let semaphore = semaphore(&client, 1);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    leases_out(&zookeeper, "", 0).await;
    let other = format!("{GATE}/_c_other-lock-2147483647");
    zookeeper.create(&other, b"", &ephemeral()).await.unwrap();
    let replies = proxy.replies_seen();
    proxy.set_traffic(Traffic::black_hole_to_client());
    let waiter = acquire_in_task(&semaphore, 1);
    eventually("the gate and the leases are listed", || async {
        (proxy.replies_seen() >= replies + 3).then_some(())
    })
    .await;
    // The other takes the permit and is gone before anybody asks when it came to the gate.
    let lease = format!("{LEASES}/_c_other-lease-0000000000");
    zookeeper.create(&lease, b"", &ephemeral()).await.unwrap();
    zookeeper.delete(&other, None).await.unwrap();
    proxy.set_traffic(Traffic::pass());
    watches_of(&server, 1).await;
    assert_eq!(children(&zookeeper, LEASES).await, ["_c_other-lease-0000000000"]);
    zookeeper.delete(&lease, None).await.unwrap();
    release(within(waiter).await.unwrap().unwrap()).await;
    nothing_left(&server, &zookeeper).await;
}

#[tokio::test]
async fn leases_whose_reply_was_lost_are_neither_doubled_nor_left_behind() {
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let session = session_id(&client).await;
    let (semaphore, other) = (semaphore(&client, 3), semaphore(&connect(&server).await, 3));
    release(semaphore.many(3).unwrap().acquire().await.unwrap().into_permits()).await;
    leases_out(&zookeeper, "", 0).await;
    for request in [Request::Multi, Request::Create, Request::Delete] {
        let lost = proxy.intercept(request, Fate::LoseReply);
        let guards = within(semaphore.many(2).unwrap().acquire()).await.unwrap().into_permits();
        within(lost.happened()).await;
        let mut leases = leases_out(&zookeeper, "", 2).await;
        leases.sort();
        let mut nodes: Vec<_> = guards.iter().map(|guard| guard.node_path()).collect();
        nodes.sort();
        assert_eq!(nodes, [format!("{LEASES}/{}", leases[0]), format!("{LEASES}/{}", leases[1])]);
        // Nobody is kept out but by the leases.
        let one = within(other.acquire()).await.unwrap();
        assert!(one.fencing_token() > guards[0].fencing_token());
        release(guards).await;
        one.release().await.unwrap();
    }

    // Made in vain when all are wanted: what is undone must not count.
    let lost = proxy.intercept(Request::Multi, Fate::LoseReply);
    release(within(semaphore.many(3).unwrap().acquire()).await.unwrap().into_permits()).await;
    within(lost.happened()).await;
    leases_out(&zookeeper, "", 0).await;

    // Given up with the reply still lost.
    let lost = proxy.intercept(Request::Multi, Fate::LoseReply);
    let acquiring = acquire_in_task(&semaphore, 2);
    within(lost.happened()).await;
    acquiring.abort();
    drop(acquiring.await);
    nothing_left(&server, &zookeeper).await;
    assert_eq!(session_id(&client).await, session);
}

/// The look at the leases that is sent along with the create says nothing about a grant that came later: whoever was
/// before us at the gate may have taken its leases and left before our task is polled.
#[tokio::test]
async fn whoever_takes_its_turn_late_counts_again() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let mutex = SemaphoreMutex::new(&connect(&server).await, PATH).unwrap();
    for _ in 0..3 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    leases_out(&zookeeper, "", 0).await;
    let watches_before = watches(&server).await;
    let acquire = || {
        let mutex = mutex.clone();
        Box::pin(async move { mutex.acquire().await })
    };
    let (mut first, mut second) = (acquire(), acquire());
    // Both are sent before either is answered.
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    let held = within(first).await.unwrap();
    let second = tokio::spawn(second);
    eventually("the second waits for the lease", || async {
        assert!(!second.is_finished(), "two hold one permit");
        (watches(&server).await > watches_before).then_some(())
    })
    .await;
    assert_eq!(children(&zookeeper, LEASES).await.len(), 1);
    held.release().await.unwrap();
    within(second).await.unwrap().unwrap().release().await.unwrap();
    leases_out(&zookeeper, "", 0).await;
}

/// An event may have told of the turn at the gate, and no reply. Then the server of the next connection may be further
/// back than that, and would show leases of the past.
#[tokio::test]
async fn a_count_on_another_connection_than_the_grant_is_preceded_by_a_confirmation() {
    let (server, proxy, zookeeper, late) = server_behind_proxy().await;
    let [holding, next] = connect_many(&server).await;
    let held = semaphore(&holding, 1).acquire().await.unwrap();
    leases_out(&zookeeper, "", 1).await;
    let acquiring = acquire_in_task(&semaphore(&next, 1), 1);
    watches_of(&server, 1).await;
    let waiter = acquire_in_task(&semaphore(&late, 1), 1);
    watches_of(&server, 2).await;
    proxy.take_requests();
    let cut = proxy.intercept(Request::GetChildren, Fate::LoseRequest);
    held.release().await.unwrap();
    let guards = within(acquiring).await.unwrap().unwrap();
    within(cut.happened()).await;
    let mut requests = Vec::new();
    eventually("it counts on the next connection", || {
        requests.extend(proxy.take_requests());
        let counts = requests.iter().filter(|request| **request == Request::GetChildren).count();
        std::future::ready((counts > 1).then_some(()))
    })
    .await;
    let [lost, counted] = [0, 1].map(|nth| {
        let mut counts = requests.iter().enumerate().filter(|(_, request)| **request == Request::GetChildren);
        counts.nth(nth).unwrap().0
    });
    // One is that of the connection itself.
    let confirms = requests[lost + 1..counted].iter().filter(|request| **request == Request::Confirm);
    assert!(confirms.count() > 1, "{requests:?}");
    assert!(!waiter.is_finished());
    release(guards).await;
    release(within(waiter).await.unwrap().unwrap()).await;
    leases_out(&zookeeper, "", 0).await;
}

/// Those behind it in the same client watch nothing but the line, and may want fewer permits than it does.
#[tokio::test]
async fn the_loss_of_the_place_at_the_gate_lets_the_next_one_of_its_client_on() {
    let (server, zookeeper, [holding, waiting]) = server_with_clients().await;
    let held = semaphore(&holding, 2).many(1).unwrap().acquire().await.unwrap().into_permits();
    leases_out(&zookeeper, "", 1).await;
    let ours = semaphore(&waiting, 2);
    let both = acquire_in_task(&ours, 2);
    eventually("it waits for the leases", async || (watches_on_children(&server).await == 1).then_some(()))
        .await;
    let place = queue_of(&zookeeper, GATE, 1).await.remove(0);
    let one = acquire_in_task(&ours, 1);
    queue_of(&zookeeper, GATE, 2).await;
    zookeeper.delete(&format!("{GATE}/{place}"), None).await.unwrap();
    let guards = within(one).await.unwrap().unwrap();
    assert!(!both.is_finished());
    release(guards).await;
    release(held).await;
    release(within(both).await.unwrap().unwrap()).await;
    nothing_left(&server, &zookeeper).await;
}

// --- One number of permits for all ---

#[tokio::test]
async fn another_number_of_permits_in_one_client_is_refused_while_the_first_lives() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let five = semaphore(&client, 5);
    for error in [
        Semaphore::new(&client, PATH, 1).unwrap_err(),
        SemaphoreMutex::new(&client, PATH).unwrap_err(),
        Semaphore::new(&client, PATH, 6).unwrap_err(),
    ] {
        assert!(matches!(error, Error::InvalidArgument { argument: "permits", .. }), "{error}");
        assert!(error.to_string().contains("has 5"), "{error}");
    }
    // The same number, another path, another client.
    let same = semaphore(&client, 5);
    drop(Semaphore::new(&client, "/semaphores/b", 1).unwrap());
    drop(Semaphore::new(&sandbox.client().await, PATH, 1).unwrap());
    drop(five);
    Semaphore::new(&client, PATH, 1).unwrap_err();
    drop(same);
    drop(Semaphore::new(&client, PATH, 1).unwrap());
}

#[tokio::test]
async fn more_permits_out_than_there_can_be_is_an_error_with_both_numbers() {
    let (server, zookeeper, [many, few]) = server_with_clients().await;
    let (five, one) = (semaphore(&many, 5), semaphore(&few, 1));
    let mut held = five.many(2).unwrap().acquire().await.unwrap().into_permits();
    // One more could be of a client of Curator that waits.
    assert!(one.try_acquire().await.unwrap().is_none());
    held.extend(five.many(3).unwrap().acquire().await.unwrap().into_permits());
    leases_out(&zookeeper, "", 5).await;
    let expected = Error::PermitsDiffer { path: PATH.into(), permits: 1, leases: 5 };
    assert_eq!(one.try_acquire().await.unwrap_err(), expected);
    assert_eq!(within(one.acquire()).await.unwrap_err(), expected);
    assert!(["5", "1", PATH].iter().all(|told| expected.to_string().contains(told)), "{expected}");
    // Nothing stays, and whoever has more may go on.
    leases_out(&zookeeper, "", 5).await;
    // One who waits hears of it, too.
    release(held.split_off(2)).await;
    let waiter = acquire_in_task(&one, 1);
    watches_of(&server, 1).await;
    zookeeper.create(&format!("{LEASES}/_c_other-lease-0000000099"), b"", &ephemeral()).await.unwrap();
    let expected = Error::PermitsDiffer { path: PATH.into(), permits: 1, leases: 3 };
    assert_eq!(within(waiter).await.unwrap().unwrap_err(), expected);
    release(held).await;
}

// --- What is sent ---

#[tokio::test]
async fn two_round_trips_for_any_number_of_permits() {
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let count = SharedCount::new(&client, COUNT, 3).unwrap();
    let shared = Semaphore::with_shared_count(&client, PATH, &count).unwrap();
    let fixed = semaphore(&client, 3);
    // The parents are there, but new to the client.
    release(semaphore(&connect(&server).await, 3).many(3).unwrap().acquire().await.unwrap().into_permits())
        .await;
    assert_eq!(count.get().await, Ok(3));
    let fresh = async || {
        leases_out(&zookeeper, "", 0).await;
        // A reply to a request that was sent later: that to the delete at the gate has come before.
        client.zookeeper().await.unwrap().sync("/").await.unwrap();
        proxy.take_requests();
    };
    // The last list is that of the path, by the first acquire only: whether another kind of lock is there.
    let new = [Request::Create, Request::GetChildren, Request::GetChildren, Request::GetChildren];
    let again =
        [Request::Exists, Request::Create, Request::GetChildren, Request::GetChildren, Request::GetData];
    for (semaphore, wanted, first) in [(&fixed, 3, &new[..]), (&shared, 2, &again)] {
        fresh().await;
        proxy.set_traffic(Traffic::black_hole_to_client());
        let acquiring = acquire_in_task(semaphore, wanted);
        eventually("the first round trip is sent before any reply", || async {
            (proxy.requests_seen() >= first.len()).then_some(())
        })
        .await;
        assert!(!acquiring.is_finished());
        assert_eq!(proxy.take_requests(), first);
        // The node at the gate is removed without waiting for the reply.
        let held = proxy.intercept(Request::Delete, Fate::HoldReply);
        proxy.set_traffic(Traffic::pass());
        let guards = within(acquiring).await.unwrap().unwrap();
        // The delete is answered, but nobody hears it.
        within(held.happened()).await;
        let mut requests = proxy.take_requests();
        // Old servers do not tell when they were created; then that is asked for, in one more round trip.
        let all = requests.len();
        requests.retain(|request| *request != Request::Exists);
        let dates = all - requests.len();
        assert!(dates == 0 || dates == wanted as usize, "{dates} dates");
        assert_eq!(requests, [Request::Multi, Request::Delete]);
        held.release();
        for guard in guards {
            guard.release().await.unwrap();
            assert_eq!(proxy.take_requests(), [Request::Delete], "a release is a delete");
        }
    }
}

#[tokio::test]
async fn a_failed_try_makes_no_lease_and_sets_no_watch() {
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let semaphore = semaphore(&client, 2);
    let held = semaphore.acquire().await.unwrap();
    leases_out(&zookeeper, "", 1).await;
    let leases_ever_changed = async || zookeeper.check_stat(LEASES).await.unwrap().unwrap().cversion;
    let before = leases_ever_changed().await;
    proxy.take_requests();
    assert!(semaphore.many(2).unwrap().try_acquire().await.unwrap().is_none());
    assert_eq!(
        proxy.take_requests(),
        [Request::Exists, Request::Create, Request::GetChildren, Request::GetChildren, Request::Delete]
    );
    // The same behind somebody who waits: also if there are enough for the one who tries.
    let waiter = acquire_in_task(&Semaphore::new(&connect(&server).await, PATH, 2).unwrap(), 2);
    watches_of(&server, 1).await;
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let mut requests = proxy.take_requests();
    // Of a holder that has held for a second: it watches its node.
    requests.retain(|request| *request != Request::GetData);
    assert_eq!(requests, [Request::Create, Request::GetChildren, Request::GetChildren, Request::Delete]);
    assert_eq!(leases_ever_changed().await, before);
    assert_eq!(watches(&server).await, 1);
    held.release().await.unwrap();
    release(within(waiter).await.unwrap().unwrap()).await;
}

// --- The shared count ---

#[tokio::test]
async fn a_shared_count_is_four_bytes_in_a_node() {
    let (sandbox, [one, other]) = sandbox_with_clients().await;
    let zookeeper = zk::Client::connect(&servers()).await.unwrap();
    let path = format!("/{}{COUNT}", sandbox.root);
    // Another server may lag behind.
    let data = async || {
        zookeeper.sync(&path).await.unwrap();
        zookeeper.get_data(&path).await.unwrap().0
    };
    let count = SharedCount::new(&one, COUNT, 258).unwrap();
    assert_eq!(count.path(), path);
    assert_eq!(zookeeper.check_stat(&path).await, Ok(None), "nothing is sent before it is needed");
    assert_eq!(count.get().await, Ok(258));
    assert_eq!(data().await, [0, 0, 1, 2]);
    assert_eq!(zookeeper.check_stat(&path).await.unwrap().unwrap().ephemeral_owner, 0);
    // The seed is for the first only.
    let same = SharedCount::new(&other, COUNT, 7).unwrap();
    assert_eq!(same.get().await, Ok(258));
    for (number, bytes) in [(-2, [255, 255, 255, 254]), (i32::MIN, [128, 0, 0, 0]), (0, [0; 4])] {
        same.set(number).await.unwrap();
        assert_eq!(data().await, bytes);
        assert_eq!(count.get().await, Ok(number));
    }
    zookeeper.set_data(&path, &[0, 1, 0, 0], None).await.unwrap();
    assert_eq!(count.get().await, Ok(65536));
    // Set before it was ever read.
    let fresh = SharedCount::new(&one, "/counts/deep/down/b", 1).unwrap();
    fresh.set(2).await.unwrap();
    assert_eq!(SharedCount::new(&other, "/counts/deep/down/b", 3).unwrap().get().await, Ok(2));
    // Deleted by hand: made again.
    zookeeper.delete(&path, None).await.unwrap();
    assert_eq!(same.get().await, Ok(7));
}

#[tokio::test]
async fn of_two_who_make_a_count_the_first_has_its_seed() {
    let (server, proxy, _, client) = server_behind_proxy().await;
    let late = SharedCount::new(&client, COUNT, 1).unwrap();
    let early = SharedCount::new(&connect(&server).await, COUNT, 2).unwrap();
    let held = proxy.intercept(Request::GetData, Fate::HoldReply);
    let reading = tokio::spawn(async move { late.get().await });
    // It finds no node.
    within(held.happened()).await;
    assert_eq!(early.get().await, Ok(2));
    held.release();
    assert_eq!(within(reading).await.unwrap(), Ok(2));
    assert_eq!(early.get().await, Ok(2));
}

#[tokio::test]
async fn something_else_in_the_node_of_a_count_is_an_error() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let zookeeper = client.zookeeper().await.unwrap();
    let count = SharedCount::new(&client, COUNT, 1).unwrap();
    let semaphore = Semaphore::with_shared_count(&client, PATH, &count).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    for garbage in [&b""[..], b"3", b"three", b"\0\0\0\0\x03"] {
        zookeeper.set_data(count.path(), garbage, None).await.unwrap();
        let error = count.get().await.unwrap_err();
        assert!(matches!(&error, Error::NotACount { path } if path == count.path()), "{error}");
        assert!(error.to_string().contains("four bytes"), "{error}");
        // Without waiting for better times.
        for error in [
            within(semaphore.acquire()).await.unwrap_err(),
            within(semaphore.try_acquire()).await.unwrap_err(),
            within(semaphore.available_permits()).await.unwrap_err(),
        ] {
            assert!(matches!(&error, Error::NotACount { path } if path == count.path()), "{error}");
            assert!(error.to_string().contains("four bytes"), "{error}");
        }
    }
    count.set(1).await.unwrap();
    within(semaphore.acquire()).await.unwrap().release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

/// Its path may mean another node to that client, and what one session sees is not known to the other.
#[tokio::test]
async fn a_count_of_another_client_is_refused_before_anything_is_sent() {
    let (sandbox, [client, other]) = sandbox_with_clients().await;
    let count = SharedCount::new(&other, COUNT, 3).unwrap();
    let error = Semaphore::with_shared_count(&client, PATH, &count).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "count", .. }), "{error}");
    assert!(error.to_string().contains(count.path()), "{error}");
    let handle = other.clone();
    let semaphore = Semaphore::with_shared_count(&handle, PATH, &count).unwrap();
    release(semaphore.many(3).unwrap().acquire().await.unwrap().into_permits()).await;
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn the_limit_follows_the_shared_count() {
    let (server, zookeeper, clients) = server_with_clients::<2>().await;
    let counts = clients.each_ref().map(|client| SharedCount::new(client, COUNT, 2).unwrap());
    let [semaphore, other] =
        [0, 1].map(|i| Semaphore::with_shared_count(&clients[i], PATH, &counts[i]).unwrap());
    let count = &counts[1];
    let mut held = semaphore.many(2).unwrap().acquire().await.unwrap().into_permits();
    leases_out(&zookeeper, "", 2).await;

    // Raising wakes. As many as there never were are waited for, and not refused.
    let waiter = acquire_in_task(&other, 3);
    watches_of(&server, 2).await;
    let session = session_id(&clients[1]).await;
    let packets = server.session_packets(session).await.unwrap();
    zookeeper.set_data(COUNT, &4_i32.to_be_bytes(), None).await.unwrap();
    eventually("it looks again", || async {
        (server.session_packets(session).await.unwrap() >= packets + 3).then_some(())
    })
    .await;
    // Replies come in order: behind the first it has decided, behind the second it would have its leases.
    for _ in 0..2 {
        clients[1].zookeeper().await.unwrap().sync("/").await.unwrap();
    }
    assert_eq!(children(&zookeeper, LEASES).await.len(), 2, "four are not enough");
    assert!(!waiter.is_finished());
    count.set(5).await.unwrap();
    let more = within(waiter).await.unwrap().unwrap();
    leases_out(&zookeeper, "", 5).await;

    // Lowering revokes nothing, and keeps others out until enough are given back.
    count.set(1).await.unwrap();
    assert_eq!(semaphore.available_permits().await, Ok(0));
    let waiter = acquire_in_task(&other, 1);
    watches_of(&server, 2).await;
    for guard in more {
        guard.release().await.unwrap();
    }
    for left in [2, 1] {
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        assert_eq!(semaphore.available_permits().await, Ok(0));
        assert_eq!(children(&zookeeper, LEASES).await.len(), left);
        assert!(!waiter.is_finished());
        assert_eq!(held[0].loss(), None);
        held.pop().unwrap().release().await.unwrap();
    }
    release(within(waiter).await.unwrap().unwrap()).await;
    leases_out(&zookeeper, "", 0).await;

    // Below one nobody is let in, though nobody is inside.
    for none in [0, -1, i32::MIN] {
        count.set(none).await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        assert_eq!(semaphore.available_permits().await, Ok(0));
        let waiter = acquire_in_task(&semaphore, 1);
        watches_of(&server, 2).await;
        assert!(!waiter.is_finished());
        count.set(1).await.unwrap();
        release(within(waiter).await.unwrap().unwrap()).await;
        leases_out(&zookeeper, "", 0).await;
    }
    nothing_left(&server, &zookeeper).await;
}

// --- The lock that knows no owner ---

#[tokio::test]
async fn a_semaphore_mutex_knows_no_owner() {
    let sandbox = Sandbox::new();
    let client = sandbox.builder().identity("the client").connect(&servers()).await.unwrap();
    let one = SemaphoreMutex::new(&client, PATH).unwrap();
    let other = SemaphoreMutex::new(&client, PATH).unwrap();
    let bystander = SemaphoreMutex::new(&sandbox.client().await, PATH).unwrap();
    assert_eq!(one.path(), format!("/{}{PATH}", sandbox.root));
    assert_eq!((one.is_locked().await, one.holder().await), (Ok(false), Ok(None)));
    let guard = one.acquire().await.unwrap();
    // An object knows of what was acquired through it and its clones.
    assert!(one.is_acquired_in_this_process() && one.clone().is_acquired_in_this_process());
    assert!(!other.is_acquired_in_this_process());
    for lock in [&one, &other, &bystander] {
        assert_eq!(lock.is_locked().await, Ok(true));
        let holder = lock.holder().await.unwrap().unwrap();
        assert!(holder.is_holder());
        assert_eq!(holder.node_path(), guard.node_path());
        assert_eq!(holder.identity(), Some(&b"the client"[..]));
        // The task that holds it is kept out like everybody else.
        assert!(lock.try_acquire().await.unwrap().is_none());
    }
    let zookeeper = client.zookeeper().await.unwrap();
    let gate = format!("/{}{GATE}", sandbox.root);
    let waiting = [one.clone(), other.clone()];
    let waiters = join_all(waiting.iter().map(|lock| async {
        let guard = lock.acquire().await.unwrap();
        assert!(lock.is_acquired_in_this_process());
        guard.release().await.unwrap();
    }));
    // Waited for in this very task, released by another.
    let releasing = async {
        queue_of(&zookeeper, &gate, 2).await;
        let participants = bystander.participants().await.unwrap();
        assert_eq!(participants.iter().map(|p| p.is_holder()).collect::<Vec<_>>(), [true, false, false]);
        tokio::spawn(guard.release()).await.unwrap().unwrap();
    };
    within(async { tokio::join!(waiters, releasing) }).await;
    assert!(!one.is_acquired_in_this_process() && !other.is_acquired_in_this_process());
    assert_eq!(bystander.is_locked().await, Ok(false));
    assert_eq!(bystander.participants().await, Ok(Vec::new()));
    // Options are those of the acquires, not of the lock.
    let with_data = one.with_options(LockOptions::new().node_data("data")).unwrap();
    let guard = with_data.try_acquire_for(BOUND).await.unwrap().unwrap();
    assert_eq!(bystander.holder().await.unwrap().unwrap().identity(), Some(&b"data"[..]));
    assert!(one.is_acquired_in_this_process());
    drop(guard);
    sandbox.assert_nothing_left().await;
}

/// It is Curator's on the wire: a semaphore with one permit.
#[tokio::test]
async fn a_semaphore_mutex_is_a_semaphore_with_one_permit() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let (mutex, semaphore) = (SemaphoreMutex::new(&client, PATH).unwrap(), semaphore(&client, 1));
    let guard = mutex.acquire().await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let guard = semaphore.acquire().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(mutex.is_locked().await, Ok(true));
    guard.release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn a_mutex_among_the_leases_is_an_error() {
    let (_server, _, [one, two]) = server_with_clients().await;
    let mutex = InterProcessMutex::new(&one, "/locks/a/leases").unwrap();
    let held = mutex.acquire().await.unwrap();
    let semaphore = Semaphore::new(&two, "/locks/a", 2).unwrap();
    let error = within(semaphore.acquire()).await.unwrap_err();
    let Error::KindConflict { node, expected, found, .. } = &error else { panic!("{error}") };
    assert_eq!((node.as_deref(), *expected, *found), (Some(held.node_path()), "semaphore", "mutex"));
    held.release().await.unwrap();
    // One that comes to a semaphore at work is refused, and does no harm there. But the gate is one.
    let permit = within(semaphore.acquire()).await.unwrap();
    let of_the_same_client = InterProcessMutex::new(&two, "/locks/a").unwrap();
    for refused in [&mutex, &of_the_same_client] {
        let error = within(refused.acquire()).await.unwrap_err();
        assert!(matches!(error, Error::KindConflict { found: "semaphore", .. }), "{error}");
    }
    let gate = InterProcessMutex::new(&one, "/locks/a/locks").unwrap();
    within(gate.acquire()).await.unwrap().release().await.unwrap();
    drop(within(semaphore.acquire()).await.unwrap());
    permit.release().await.unwrap();
}

/// A semaphore and another kind of lock, of two clients, whichever comes first.
#[tokio::test]
async fn beside_another_kind_of_lock_of_another_client_it_is_an_error() {
    let server = MemoryServer::start().unwrap();
    let connect = async || Client::connect(&server.connect_string()).await.unwrap();
    let (one, two) = (connect().await, connect().await);
    type Make = fn(&Client, &str) -> Arc<dyn InterProcessLock>;
    let kinds: [(&str, Make); 3] = [
        ("mutex", |client, path| Arc::new(InterProcessMutex::new(client, path).unwrap())),
        ("read/write lock", |client, path| {
            Arc::new(ReadWriteLock::new(client, path).unwrap().write().clone())
        }),
        ("read/write lock", |client, path| {
            Arc::new(ReadWriteLock::new(client, path).unwrap().read().clone())
        }),
    ];
    for (index, (kind, other)) in kinds.into_iter().enumerate() {
        for semaphore_first in [true, false] {
            // So that the path is new, and so that it is not.
            for is_used in [false, true] {
                let path = format!("/mixed/{index}-{semaphore_first}-{is_used}");
                let semaphore = Semaphore::new(&one, &path, 2).unwrap();
                let other = other(&two, &path);
                let (first, second): (Arc<dyn InterProcessLock>, Arc<dyn InterProcessLock>) =
                    if semaphore_first { (Arc::new(semaphore), other) } else { (other, Arc::new(semaphore)) };
                if is_used {
                    within(first.acquire()).await.unwrap().release().await.unwrap();
                }
                let held = within(first.acquire()).await.unwrap();
                let error = within(second.acquire()).await.unwrap_err();
                let Error::KindConflict { path: at, node, expected, found } = &error else {
                    panic!("{path}: {error}")
                };
                assert_eq!((at, node.as_deref()), (&path, Some(held.node_path())), "{path}");
                let names = if semaphore_first { (kind, "semaphore") } else { ("semaphore", kind) };
                assert_eq!((*expected, *found), names, "{path}");
                assert!(matches!(second.try_acquire().await, Err(Error::KindConflict { .. })), "{path}");
                held.release().await.unwrap();
                // Nothing of it is in the way.
                within(first.acquire()).await.unwrap().release().await.unwrap();
            }
        }
    }
}

/// All permits are free; the servers are silent while they are taken.
#[tokio::test]
async fn a_timed_acquire_of_free_permits_does_not_say_that_somebody_has_them() {
    let (_server, proxy, _, client) = server_behind_proxy().await;
    let semaphore = Semaphore::new(&client, PATH, 3).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let silent = proxy.intercept(Request::Multi, Fate::HoldReply);
    let outcome = within(semaphore.try_acquire_for(Duration::from_secs(2))).await;
    within(silent.happened()).await;
    silent.release();
    assert!(!matches!(outcome, Ok(None)), "nobody else is there");
}
