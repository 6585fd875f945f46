//! `MultiLock`: in few requests, and on threads. That it is all or none, in one order and without deadlock is in the
//! simulation.

use crate::prelude::*;
use crate::support::kinds::Lock;

const A: &str = "/multi/a";
const B: &str = "/multi/b";
const C: &str = "/multi/c";
const PATHS: [&str; 3] = [A, B, C];

fn multi(client: &Client) -> MultiLock {
    MultiLock::new(client, PATHS).unwrap()
}

/// Acquires in a task of its own, which hands out the guard.
fn acquiring(lock: &MultiLock) -> JoinHandle<Result<LockGuard>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire().await })
}

/// Waits until there are as many in the queues of the three paths.
async fn queues_of(zookeeper: &zk::Client, lengths: [usize; 3]) {
    for (path, length) in PATHS.iter().zip(lengths) {
        queue_of(zookeeper, path, length).await;
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    // Nobody is there to send anything to.
    let client = Client::connect_lazily("127.0.0.1:1").unwrap();
    let invalid = |outcome: Result<MultiLock>, mention: &str| match outcome {
        Err(Error::InvalidArgument { argument, reason }) => {
            assert_eq!(argument, "members of a multi-lock");
            assert!(reason.contains(mention), "{reason}");
        }
        other => panic!("{other:?}"),
    };
    invalid(MultiLock::new(&client, [""; 0]), "at least one");
    invalid(MultiLock::new(&client, [B, A, B]), B);
    invalid(MultiLock::of([]), "at least one");
    let at_a: Lock = Arc::new(mutex_at(&client, A));
    let at_b: Lock = Arc::new(ReadWriteLock::new(&client, B).unwrap().write().clone());
    invalid(MultiLock::of([at_b, Arc::new(mutex_at(&client, B)), at_a.clone()]), B);
    for path in ["", "/", "multi", "/multi/", "/a//b", "/a/../b"] {
        let refused = MultiLock::new(&client, [A, path]);
        assert!(
            matches!(&refused, Err(Error::InvalidPath { path: named, .. }) if named == path),
            "{refused:?}"
        );
    }
    // One multi-lock in another counts with all of its paths.
    invalid(MultiLock::of([Arc::new(multi(&client)), at_a]), A);
    let around: Lock = Arc::new(MultiLock::new(&client, [A, C]).unwrap());
    invalid(MultiLock::of([around.clone(), Arc::new(mutex_at(&client, B))]), "the other way round");
    drop(MultiLock::of([around, Arc::new(mutex_at(&client, "/multi/d"))]).unwrap());
}

#[tokio::test]
async fn requests_per_operation() {
    let (server, proxy, zookeeper) = server_with_proxy().await;
    let client = quiet(&proxy.connect_string()).await;
    let session = session_id(&client).await;
    let lock = multi(&client);
    // The parents are there, but new to the client.
    multi(&connect(&server).await).acquire().await.unwrap().release().await.unwrap();

    let dates = if dates_transactions(&zookeeper).await { 0 } else { 3 };
    let count = async || server.session_packets(session).await.unwrap();
    let start = count().await;
    let guard = lock.acquire().await.unwrap();
    let acquired = count().await;
    guard.release().await.unwrap();
    let released = count().await;
    assert_eq!(acquired - start, 1 + 3 + dates, "a transaction and three lists");
    assert_eq!(released - acquired, 1, "a transaction");
    // From the second on the queues are known.
    lock.acquire().await.unwrap().release().await.unwrap();
    proxy.take_requests();

    // As few round trips as can be.
    let sent_without_a_reply = async |requests: &[Request]| {
        until(&format!("{requests:?} are sent before any reply"), || proxy.requests_seen() == requests.len())
            .await;
        assert_eq!(proxy.take_requests(), requests);
        proxy.set_traffic(Traffic::pass());
    };
    proxy.set_traffic(Traffic::black_hole_to_client());
    let acquiring = acquiring(&lock);
    sent_without_a_reply(&[Request::Multi]).await;
    let guard = within(acquiring).await.unwrap().unwrap();
    assert_eq!(proxy.take_requests(), vec![Request::Exists; dates as usize]);
    proxy.set_traffic(Traffic::black_hole_to_client());
    let releasing = tokio::spawn(guard.release());
    sent_without_a_reply(&[Request::Multi]).await;
    within(releasing).await.unwrap().unwrap();

    // A try that fails finds out in which queue somebody else was, and takes the nodes back.
    let held = mutex_at(&connect(&server).await, B).acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let expected = [
        vec![Request::Multi],
        vec![Request::Exists; dates as usize],
        vec![Request::GetChildren],
        vec![Request::Delete; 3],
    ]
    .concat();
    queues_of(&zookeeper, [0, 1, 0]).await;
    assert_eq!(proxy.take_requests(), expected);
    watches_of(&server, 0).await;
    drop(held);
}

/// Two calls of one owner wait, on a thread each: when one has the lock, the other enters it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_many_paths_enters_when_its_owner_has_them() {
    let (server, zookeeper, [holder, client]) = server_with_clients().await;
    let paths: Vec<String> = (0..400).map(|number| format!("/multi/{number:03}")).collect();
    let lock = MultiLock::new(&client, &paths).unwrap().owned_by(&Owner::new());
    for round in 0..repeats(20) {
        let held = mutex_at(&holder, &paths[0]).acquire().await.unwrap();
        let (acquired, mut guards) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..2 {
            let (lock, acquired) = (lock.clone(), acquired.clone());
            std::thread::spawn(move || {
                let _ = acquired.send(futures_executor::block_on(lock.acquire()).unwrap());
            });
        }
        queue_of(&zookeeper, &paths[0], 3).await;
        watches_of(&server, 2).await;
        held.release().await.unwrap();
        let first = within(guards.recv()).await.unwrap();
        let second = timeout(BOUND, guards.recv()).await;
        assert!(second.is_ok(), "in round {round} one has the locks, and the other waits for its own owner");
        second.unwrap().unwrap().release().await.unwrap();
        first.release().await.unwrap();
    }
}

#[tokio::test]
async fn the_watched_state_of_existing_locks_outlives_the_runtime_of_one_of_them() {
    let server = empty_server().await;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let clients = [builder().runtime(runtime.handle().clone()), builder()];
    let [first, second] = clients.map(|builder| builder.connect_lazily(&server.connect_string()).unwrap());
    let locks = [mutex_at(&first, A), mutex_at(&second, B)];
    let guard = MultiLock::of(locks.map(|lock| Arc::new(lock) as _)).unwrap().acquire().await.unwrap();
    let mut state = guard.watch_state();
    runtime.shutdown_background();
    let lost = within(state.wait_for(|state| state.is_lost())).await;
    assert_eq!(lost, Some(LockState::Lost(LossReason::Closed)));
}

#[tokio::test]
async fn a_member_that_may_not_be_deleted_keeps_no_other_in_place() {
    let (_server, zookeeper, [client]) = server_with_clients().await;
    let lock = multi(&client);
    visit(&lock, 1).await;
    // Nobody may delete in the second queue.
    let no_delete = Permission::READ | Permission::WRITE | Permission::CREATE | Permission::ADMIN;
    zookeeper.set_acl(B, &[Acl::new(no_delete, AuthId::anyone())], None).await.unwrap();
    let guard = lock.acquire().await.unwrap();
    let path = guard.members()[1].node_path().to_owned();
    let denied = Error::ZooKeeper { operation: "delete", path, source: zk::Error::NoAuth };
    assert_eq!(guard.release().await.unwrap_err(), denied);
    queues_of(&zookeeper, [0, 1, 0]).await;
}

#[tokio::test]
async fn hundreds_of_members_are_released_in_one_request() {
    let (server, zookeeper, []) = server_with_clients().await;
    let client = quiet(&server.connect_string()).await;
    let session = session_id(&client).await;
    let paths: Vec<String> = (0..500).map(|number| format!("/many/{}-{number}", "x".repeat(100))).collect();
    let guard = within(MultiLock::new(&client, &paths).unwrap().acquire()).await.unwrap();
    let before = server.session_packets(session).await.unwrap();
    within(guard.release()).await.unwrap();
    assert_eq!(server.session_packets(session).await.unwrap() - before, 1);
    assert!(ephemerals_below(&zookeeper, "/many").await.is_empty());
}
