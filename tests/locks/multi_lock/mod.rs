//! `MultiLock`: all or none, in one order, without deadlock, in few requests.

mod members;

use crate::prelude::*;

const A: &str = "/multi/a";
const B: &str = "/multi/b";
const C: &str = "/multi/c";
const PATHS: [&str; 3] = [A, B, C];

/// Longer than any test, so that nothing is refused because it was not waited for.
const LONG: Duration = secs(600);

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

/// That each member is there, in the order of the paths, with its own token.
async fn assert_holds(zookeeper: &zk::Client, guard: &LockGuard) {
    let mut tokens = Vec::new();
    assert_eq!(guard.members().len(), PATHS.len());
    for (member, path) in guard.members().iter().zip(PATHS) {
        assert_eq!(member.node_path().rsplit_once('/').unwrap().0, path);
        let (_, stat) = zookeeper.get_data(member.node_path()).await.unwrap();
        assert_eq!(member.fencing_token(), stat.czxid);
        assert!(member.members().is_empty());
        tokens.push(stat.czxid);
    }
    assert_eq!(Some(guard.fencing_token()), tokens.into_iter().max());
    assert_eq!(guard.node_path(), guard.members()[0].node_path());
}

fn would_deadlock<T: std::fmt::Debug>(outcome: Result<T>, path: &str) {
    assert_eq!(outcome.unwrap_err(), Error::WouldDeadlock { path: path.to_owned(), cycle: Vec::new() });
}

/// The locks of three paths, and of three locks of different kinds, each with a client of its own.
#[tokio::test]
async fn whoever_waits_for_one_has_those_before_it_and_has_left_the_later_ones() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [own, theirs] = [connect_many(&server).await, connect_many(&server).await];
    let [at_a, at_b, at_c] = mixed(&own);
    for (lock, others) in
        [(multi(&own[0]), mutexes(&theirs[0])), (MultiLock::of([at_c, at_a, at_b]).unwrap(), mixed(&theirs))]
    {
        assert_eq!(lock.paths(), PATHS);
        for (held, other) in others.iter().enumerate() {
            let guard = other.acquire().await.unwrap();
            let waiter = acquiring(&lock);
            watches_of(&server, 1).await;
            // Those before it are taken, those after it are free.
            for (number, other) in others.iter().enumerate() {
                let free = other.owned_by(&Owner::new()).try_acquire().await.unwrap();
                assert_eq!(free.is_some(), number > held, "{number} while {held} is held");
            }
            guard.release().await.unwrap();
            let guard = within(waiter).await.unwrap().unwrap();
            only_left(&zookeeper, &guard.members().iter().map(LockGuard::node_path).collect::<Vec<_>>())
                .await;
            for other in &others {
                assert!(other.try_acquire().await.unwrap().is_none());
            }
            let greatest = guard.members().iter().map(LockGuard::fencing_token).max();
            assert_eq!(Some(guard.fencing_token()), greatest);
            assert!(lock.is_acquired_in_this_process());
            guard.release().await.unwrap();
            assert!(!lock.is_acquired_in_this_process());
            let left = ephemerals_below(&zookeeper, "/multi").await;
            assert_eq!(left, [], "a confirmed release is that of all");
        }
    }
    watches_of(&server, 0).await;
}

/// The lengths of the three queues as they are.
async fn lengths_of_queues(zookeeper: &zk::Client) -> [usize; 3] {
    let mut lengths = [0; 3];
    for (length, path) in lengths.iter_mut().zip(PATHS) {
        *length = children(zookeeper, path).await.len();
    }
    lengths
}

/// Locks of three kinds, each seen through a client of its own: at A a mutex, at B a write lock, at C a semaphore
/// mutex.
fn mixed(clients: &[Client; 3]) -> [Arc<dyn InterProcessLock>; 3] {
    let write = ReadWriteLock::new(&clients[1], B).unwrap().write().clone();
    let semaphore_mutex = SemaphoreMutex::new(&clients[2], C).unwrap();
    [Arc::new(mutex_at(&clients[0], A)), Arc::new(write), Arc::new(semaphore_mutex)]
}

/// The locks of all paths, to be given to a multi-lock.
fn mutexes(client: &Client) -> [Arc<dyn InterProcessLock>; 3] {
    PATHS.map(|path| Arc::new(mutex_at(client, path)) as _)
}

/// Waits until nothing is held or waited for but by these nodes.
async fn only_left(zookeeper: &zk::Client, expected: &[&str]) {
    eventually(&format!("nothing is left but {expected:?}"), || async {
        let mut nodes = ephemerals_below(zookeeper, "/multi").await;
        nodes.sort_unstable();
        nodes.iter().map(|(path, _)| path).eq(expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn waiting_for_oneself_is_refused() {
    let (server, zookeeper, [client]) = server_with_clients().await;
    let lock = multi(&client);
    for (held, path) in PATHS.into_iter().enumerate() {
        let own = mutex_at(&client, path).acquire().await.unwrap();
        assert_would_deadlock(&lock, path).await;
        assert_would_deadlock(&MultiLock::of(mutexes(&client)).unwrap(), path).await;
        queues_of(&zookeeper, std::array::from_fn(|number| usize::from(number == held))).await;
        // Another owner may wait.
        let waiter = acquiring(&lock);
        watches_of(&server, 1).await;
        own.release().await.unwrap();
        within(waiter).await.unwrap().unwrap().release().await.unwrap();
    }
    let all = lock.acquire().await.unwrap();
    let others = [multi(&client), MultiLock::new(&client, [C, "/multi/d"]).unwrap()];
    for (other, path) in others.iter().zip([A, C]) {
        would_deadlock(within(other.acquire()).await, path);
    }
    for path in PATHS {
        would_deadlock(within(mutex_at(&client, path).acquire()).await, path);
    }
    queues_of(&zookeeper, [1; 3]).await;
    all.release().await.unwrap();

    // What its owner comes to hold while it waits is known when the turn of that path has come; the earlier ones are given
    // back.
    let first = mutex_at(&connect(&server).await, A).acquire().await.unwrap();
    let acquiring_last = async {
        watches_of(&server, 1).await;
        queues_of(&zookeeper, [2, 0, 0]).await;
        let own = mutex_at(&client, C).acquire().await.unwrap();
        first.release().await.unwrap();
        own
    };
    let (refused, own) = within(futures_util::future::join(lock.acquire(), acquiring_last)).await;
    would_deadlock(refused, C);
    queues_of(&zookeeper, [0, 0, 1]).await;
    own.release().await.unwrap();
    watches_of(&server, 0).await;
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
    let [at_a, at_b, _] = mixed(&[client.clone(), client.clone(), client.clone()]);
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
    let around: Arc<dyn InterProcessLock> = Arc::new(MultiLock::new(&client, [A, C]).unwrap());
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

/// As an operator may create by hand, or a restored backup bring back.
#[tokio::test]
async fn whoever_must_wait_again_for_an_earlier_path_leaves_the_later_ones_and_does_not_ask_again_and_again()
{
    let (server, proxy, zookeeper) = server_with_proxy().await;
    let (own, other) = (quiet(&proxy.connect_string()).await, connect(&server).await);
    // The first number is used up.
    mutex_at(&other, A).acquire().await.unwrap().release().await.unwrap();
    let held = mutex_at(&other, B).acquire().await.unwrap();
    let waiter = acquiring(&multi(&own));
    watches_of(&server, 1).await;
    queues_of(&zookeeper, [1, 2, 0]).await;

    let place = children(&zookeeper, A).await.remove(0);
    let earlier = format!("{A}/{}0000000000", &place[..place.len() - 10]);
    let ephemeral = anyone(CreateMode::Ephemeral);
    zookeeper.create(&earlier, b"", &ephemeral).await.unwrap();
    proxy.take_requests();
    held.release().await.unwrap();
    queues_of(&zookeeper, [2, 0, 0]).await;
    watches_of(&server, 1).await;
    assert!(!waiter.is_finished());
    let requests = proxy.take_requests();
    // Its turn in B, a transaction for C, a look at each path, two deletes and a watch.
    assert!(requests.len() <= 12, "{requests:?}");
    for path in [B, C] {
        let guard = mutex_at(&other, path).try_acquire().await.unwrap();
        guard.expect("it is free").release().await.unwrap();
    }

    zookeeper.delete(&earlier, None).await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap();
    assert_holds(&zookeeper, &guard).await;
    guard.release().await.unwrap();
    watches_of(&server, 0).await;
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
        let second = timeout(LONG, guards.recv()).await;
        assert!(second.is_ok(), "in round {round} one has the locks, and the other waits for its own owner");
        second.unwrap().unwrap().release().await.unwrap();
        first.release().await.unwrap();
    }
}
