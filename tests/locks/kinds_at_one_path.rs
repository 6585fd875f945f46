//! Locks of two kinds at one path, and locks beside other recipes: whoever comes second is refused, and does no harm.

use crate::prelude::*;
use crate::support::kinds::Lock;

type Make = fn(&Client, &str) -> Lock;

/// What a kind of lock is called in errors, and how it is made.
const KINDS: [(&str, Make); 4] = [
    ("mutex", |client, path| Arc::new(InterProcessMutex::new(client, path).unwrap())),
    ("read/write lock", |client, path| Arc::new(ReadWriteLock::new(client, path).unwrap().write().clone())),
    ("read/write lock", |client, path| Arc::new(ReadWriteLock::new(client, path).unwrap().read().clone())),
    ("semaphore", |client, path| Arc::new(Semaphore::new(client, path, 2).unwrap())),
];

#[tokio::test]
async fn the_second_of_two_kinds_of_lock_is_refused() {
    let (_server, zookeeper, [one, two]) = server_with_clients().await;
    for (first, second) in (0..KINDS.len()).flat_map(|first| [0, 1, 2, 3].map(|second| (first, second))) {
        let ((found, make_first), (expected, make_second)) = (KINDS[first], KINDS[second]);
        if found == expected {
            continue;
        }
        // The second is of the same client or of another one, and the path is new or not.
        for (is_own, is_used) in [(false, false), (false, true), (true, false), (true, true)] {
            let path = format!("/mixed/{first}-{second}-{is_own}-{is_used}");
            let first = make_first(&one, &path);
            let second = make_second(if is_own { &one } else { &two }, &path).owned_by(&Owner::new());
            if is_used {
                within(first.acquire()).await.unwrap().release().await.unwrap();
            }
            let held = within(first.acquire()).await.unwrap();
            let before = zookeeper.check_stat(&path).await.unwrap().unwrap();
            let error = within(second.acquire()).await.unwrap_err();
            // What is known of the own client is refused before anything is sent.
            let node = (!is_own).then(|| held.node_path().to_owned());
            assert_eq!(error, Error::KindConflict { path: path.clone(), node, expected, found });
            assert!(matches!(second.try_acquire().await, Err(Error::KindConflict { .. })), "{path}");
            let after = zookeeper.check_stat(&path).await.unwrap().unwrap();
            assert!(!is_own || after == before, "{path}: {before:?}, {after:?}");
            assert!(held.is_valid(), "{path}");
            held.release().await.unwrap();
            // Nothing of it is in the way.
            within(first.acquire()).await.unwrap().release().await.unwrap();
            if is_own {
                // To have the first is enough: whether the two hold at the same time is a matter of luck.
                assert!(matches!(second.try_acquire().await, Err(Error::KindConflict { .. })), "{path}");
                drop(first);
                within(second.acquire()).await.unwrap().release().await.unwrap();
            }
        }
    }
}

/// Makes a node as another library does, or another kind of recipe.
async fn place(zookeeper: &zk::Client, path: &str, prefix: &str) -> String {
    let mode = anyone(CreateMode::EphemeralSequential);
    let (_, sequence) = zookeeper.create(&format!("{path}/{prefix}"), b"", &mode).await.unwrap();
    format!("{path}/{prefix}{sequence}")
}

/// What was found on the path, by which node.
fn found(error: &Error) -> (&'static str, Option<&str>) {
    match error {
        Error::KindConflict { path, node, expected: "mutex", found } if path == "/locks/a" => {
            (found, node.as_deref())
        }
        other => panic!("{other}"),
    }
}

// Curator, which takes every child for a contender, waits there; who goes by the names of its own recipe only would
// hold beside the other one.
#[tokio::test]
async fn behind_the_node_of_another_kind_of_recipe_it_fails_and_leaves_nothing() {
    let (_server, zookeeper, [client]) = server_with_clients().await;
    let mutex = mutex(&client);
    drop(mutex.acquire().await.unwrap());
    queue_of(&zookeeper, "/locks/a", 0).await;
    let id = "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-";
    for (end, kind) in [
        ("__WRIT__", "read/write lock"),
        ("__READ__", "read/write lock"),
        ("latch-", "leader latch"),
        ("lease-", "semaphore"),
    ] {
        let node = place(&zookeeper, "/locks/a", &format!("{id}{end}")).await;
        let error = within(mutex.acquire()).await.unwrap_err();
        assert_eq!(found(&error), (kind, Some(&*node)));
        assert!(error.to_string().contains(kind) && error.to_string().contains("as a mutex"), "{error}");
        assert_eq!(found(&within(mutex.try_acquire()).await.unwrap_err()).0, kind);
        let both = MultiLock::new(&client, ["/locks/a", "/locks/b"]).unwrap();
        assert_eq!(found(&within(both.acquire()).await.unwrap_err()).0, kind);
        assert_eq!(queue_of(&zookeeper, "/locks/a", 1).await, [node.rsplit('/').next().unwrap()]);
        zookeeper.delete(&node, None).await.unwrap();
        within(mutex.acquire()).await.unwrap().release().await.unwrap();
    }
    // What kazoo writes is a mutex.
    let kazoo = place(&zookeeper, "/locks/a", "3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f__lock__").await;
    assert!(within(mutex.try_acquire()).await.unwrap().is_none());
    zookeeper.delete(&kazoo, None).await.unwrap();
    drop(within(mutex.acquire()).await.unwrap());
}

#[tokio::test]
async fn who_comes_to_the_path_of_another_kind_of_recipe_does_no_harm_there() {
    let (server, zookeeper, [one, two, late]) = server_with_clients().await;
    let held = mutex(&one).acquire().await.unwrap();
    let second = acquire_in_task(&mutex(&two));
    queue_of(&zookeeper, "/locks/a", 2).await;
    let latecomer = place(&zookeeper, "/locks/a", "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-__WRIT__").await;
    let third = mutex(&late).enqueue().await.unwrap();
    assert_eq!(third.position().await, Ok(2));
    held.release().await.unwrap();
    let second = within(second).await.unwrap().unwrap();
    // It was told by no list that the latecomer has left.
    let third = tokio::spawn(third.acquired());
    watches_of(&server, 1).await;
    zookeeper.delete(&latecomer, None).await.unwrap();
    second.release().await.unwrap();
    let third = within(third).await.unwrap().unwrap();
    // One that stays until it is the first of all keeps those out that are behind it, as long as it is there.
    let latecomer = place(&zookeeper, "/locks/a", "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-__WRIT__").await;
    let behind = acquire_in_task(&mutex(&one));
    queue_of(&zookeeper, "/locks/a", 3).await;
    third.release().await.unwrap();
    let error = within(behind).await.unwrap().unwrap_err();
    assert_eq!(found(&error), ("read/write lock", Some(&*latecomer)));
    zookeeper.delete(&latecomer, None).await.unwrap();
    drop(within(mutex(&one).acquire()).await.unwrap());
}

#[tokio::test]
async fn a_waiter_that_finds_another_kind_of_recipe_after_a_reconnect_fails() {
    let (server, proxy, zookeeper) = server_with_proxy().await;
    let (one, two) = (connect(&server).await, connect_through(&proxy).await);
    let held = mutex(&one).acquire().await.unwrap();
    let other = place(&zookeeper, "/locks/a", "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-latch-").await;
    let waiting = acquire_in_task(&mutex(&two));
    queue_of(&zookeeper, "/locks/a", 3).await;
    watches_of(&server, 1).await;
    cut_off(&proxy);
    held.release().await.unwrap();
    assert!(!waiting.is_finished());
    mend(&proxy);
    let error = within(waiting).await.unwrap().unwrap_err();
    assert_eq!(found(&error), ("leader latch", Some(&*other)));
    assert_eq!(queue_of(&zookeeper, "/locks/a", 1).await.len(), 1);
}

#[tokio::test]
async fn a_mutex_below_another_may_be_called_leases() {
    let (_server, _, clients) = server_with_clients::<2>().await;
    for client in &clients {
        let below = InterProcessMutex::new(client, "/app/leases").unwrap();
        let below = within(below.acquire()).await.unwrap();
        let above = InterProcessMutex::new(client, "/app").unwrap();
        within(above.acquire()).await.unwrap().release().await.unwrap();
        below.release().await.unwrap();
    }
}

/// The lock objects and tickets of one recipe are gone: another may follow at once.
#[tokio::test]
async fn another_recipe_may_follow_a_ticket_that_is_dropped() {
    let (_server, _, [client]) = server_with_clients().await;
    let lock = mutex(&client);
    let ticket = lock.enqueue().await.unwrap();
    drop((ticket, lock));
    let other = ReadWriteLock::new(&client, "/locks/a").unwrap();
    let guard = within(other.write().acquire()).await;
    assert!(guard.is_ok(), "{guard:?}");
}
