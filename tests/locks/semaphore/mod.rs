//! `Semaphore`, `SharedCount` and `SemaphoreMutex`: the count, the order, what stays behind, what is sent.

mod in_trouble;
mod shared_count;

use crate::prelude::*;
use zk_recipes::shared::SharedCount;

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
    let three = semaphore.many(3).unwrap().acquire().await.unwrap();
    assert_eq!((three.members().len(), three.node_path()), (3, three.members()[0].node_path()));
    let mut guards = three.into_permits();
    // Nobody is known again: the same task has a fourth, and cannot have a fifth.
    let one = semaphore.acquire().await.unwrap();
    assert!(one.members().is_empty());
    guards.extend(one.into_permits());
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
    until("the first queue is listed", || proxy.replies_seen() >= replies + 2).await;
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
        until("the first round trip is sent before any reply", || proxy.requests_seen() >= first.len()).await;
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

// --- The lock that knows no owner ---

/// An object knows of what was acquired through it and its clones.
#[tokio::test]
async fn a_semaphore_mutex_knows_no_owner() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let [one, other] = [(); 2].map(|()| SemaphoreMutex::new(&client, PATH).unwrap());
    assert_eq!(one.path(), format!("/{}{PATH}", sandbox.root));
    let guard = one.acquire().await.unwrap();
    assert!(one.is_acquired_in_this_process() && one.clone().is_acquired_in_this_process());
    assert!(!other.is_acquired_in_this_process());
    // It is a semaphore with one permit.
    let semaphore = semaphore(&client, 1);
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let waiters = join_all([&one, &other].map(async |lock| {
        let guard = lock.acquire().await.unwrap();
        assert!(lock.is_acquired_in_this_process());
        guard.release().await.unwrap();
    }));
    // Waited for in this very task, released by another.
    let releasing = async {
        queue_of(&client.zookeeper().await.unwrap(), &format!("/{}{GATE}", sandbox.root), 2).await;
        let participants = other.participants().await.unwrap();
        assert_eq!(participants.iter().map(Participant::is_holder).collect::<Vec<_>>(), [true, false, false]);
        tokio::spawn(guard.release()).await.unwrap().unwrap();
    };
    within(join(waiters, releasing)).await;
    assert!(!one.is_acquired_in_this_process() && !other.is_acquired_in_this_process());
    let permit = semaphore.acquire().await.unwrap();
    assert!(one.try_acquire().await.unwrap().is_none() && one.is_locked().await.unwrap());
    permit.release().await.unwrap();
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
