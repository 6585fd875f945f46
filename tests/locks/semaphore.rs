//! `Semaphore`, `SharedCount` and `SemaphoreMutex`: what is seen of them, and what is sent. Their order, and how many get in,
//! is in the simulation.

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

/// Two at a new gate, and one at a gate that the client knows.
#[tokio::test]
async fn two_round_trips_or_one_for_any_number_of_permits() {
    use Request::{Confirm, Create, Delete, Exists, GetChildren, GetData, Multi};
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let count = SharedCount::new(&client, COUNT, 3).unwrap();
    assert_eq!(count.get().await, Ok(3));
    let (fixed, shared) =
        (semaphore(&client, 3), Semaphore::with_shared_count(&client, PATH, &count).unwrap());
    // The parents are there, but new to the client.
    visit(&semaphore(&connect(&server).await, 3).many(3).unwrap(), 1).await;
    // Before any reply, and then. The last list of the first is that of the path: whether another kind of lock is there.
    let steps: [(&Semaphore, u32, &[Request], &[Request]); 5] = [
        (&fixed, 3, &[Create, GetChildren, GetChildren, GetChildren], &[Multi, Delete]),
        (&shared, 2, &[Exists, Create, GetChildren, GetChildren, GetData], &[Multi, Delete]),
        (&fixed, 1, &[Multi, GetChildren], &[Delete]),
        // From then on, it is known that no others have permits.
        (&fixed, 3, &[Multi], &[Delete]),
        (&shared, 1, &[Multi, GetData], &[Delete]),
    ];
    for (semaphore, wanted, first, then) in steps {
        leases_out(&zookeeper, "", 0).await;
        // A reply to a request that was sent later: that to the delete at the gate has come before.
        client.zookeeper().await.unwrap().sync("/").await.unwrap();
        proxy.take_requests();
        proxy.set_traffic(Traffic::black_hole_to_client());
        let acquiring = acquire_in_task(semaphore, wanted);
        // Old servers do not tell when the nodes were created, and are asked for that. The session may be, too; and a holder
        // watches its node after a while.
        let counts = |request: &Request| !matches!(request, Exists | Confirm | GetData);
        let expected = async |requests: &[Request]| {
            let expected: Vec<_> = requests.iter().copied().filter(counts).collect();
            let mut sent = Vec::new();
            until(&format!("{requests:?} are sent"), || {
                sent.extend(proxy.take_requests().into_iter().filter(counts));
                sent.len() >= expected.len()
            })
            .await;
            assert_eq!(sent, expected);
        };
        // Before any reply.
        expected(first).await;
        assert!(!acquiring.is_finished());
        let held = proxy.intercept(Delete, Fate::HoldReply);
        proxy.set_traffic(Traffic::pass());
        let guards = within(acquiring).await.unwrap().unwrap();
        assert_eq!(guards.len(), wanted as usize);
        // The node at the gate is removed without waiting for the reply.
        within(held.happened()).await;
        expected(then).await;
        held.release();
        for guard in guards {
            let lease = zookeeper.check_stat(guard.node_path()).await.unwrap().unwrap();
            assert_eq!(lease.czxid, guard.fencing_token());
            guard.release().await.unwrap();
            expected(&[Delete]).await;
        }
    }
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

// --- As many as a `SharedCount` says ---

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
