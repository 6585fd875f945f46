//! Locks by key.

use crate::prelude::*;
use std::collections::HashSet;
use std::fmt::Display;

use crate::support::kinds::Lock;

const BASE: &str = "/locks/orders";

fn locks(client: &Client) -> Locks {
    Locks::new(client, BASE).unwrap()
}

/// A guard, and nothing else of the lock that it is of.
async fn held(locks: &Locks, key: impl Display, owner: &Owner) -> LockGuard {
    locks.mutex(key).unwrap().owned_by(owner).acquire().await.unwrap()
}

#[tokio::test]
async fn any_text_is_a_key_of_its_own() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let long = "order ".repeat(1_000);
    let longer = long.clone() + ".";
    let short = [
        "4711", "", "/", "//", ".", "..", "...", "%", "%2E", "%2F", "%empty", "a b", "a+b", "a*b", "\0",
        "\n", "\u{7f}", "\u{85}", "\u{e000}", "\u{fffd}", "ü", "u\u{308}", "鍵", "😀",
    ];
    let others = ["a-b_c.d:e@f~", "zookeeper", "/etc/../passwd", "_c_0-lock-0000000001", &long, &longer];
    let keys = [&short[..], &others].concat();
    for base in ["/", BASE] {
        let locks = Locks::new(&client, base).unwrap();
        let owner = Owner::new();
        // All at the same time: so none is the same as another one.
        let guards = join_all(keys.iter().map(|key| held(&locks, key, &owner))).await;
        let parents: HashSet<_> =
            guards.iter().map(|guard| guard.node_path().rsplit_once('/').unwrap().0).collect();
        assert_eq!(parents.len(), keys.len());
        for (guard, key) in guards.into_iter().zip(&keys) {
            assert_eq!(guard.hold_count(), 1, "{key:?}");
            let path = format!("/{}{}/", sandbox.root, locks.path_of(key));
            assert!(guard.node_path().starts_with(&path), "{key:?}: {guard:?}");
            guard.release().await.unwrap();
        }
    }
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn the_root_of_the_servers_is_a_base() {
    let (_server, _, [client]) = server_with_clients().await;
    let locks = Locks::new(&client, "/").unwrap();
    let guard = held(&locks, "zookeeper", &Owner::new()).await;
    assert!(guard.node_path().starts_with("/%7Aookeeper/"), "{guard:?}");
    let semaphore = locks.semaphore("zookeeper/quota", 2).unwrap();
    assert_eq!(semaphore.many(2).unwrap().acquire().await.unwrap().members().len(), 2);
}

#[tokio::test]
async fn locks_of_one_key_are_entered_again_by_whoever_holds_one() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let (one, other) = (Owner::new(), Owner::new());

    let first = held(&locks(&client), "a", &one).await;
    // Nothing is left of the lock but its guard.
    let again = locks(&client).mutex("a").unwrap();
    assert!(again.is_owned_by(&one) && again.is_acquired_in_this_process());
    let second = again.owned_by(&one).try_acquire().await.unwrap().unwrap();
    assert_eq!((second.hold_count(), second.node_path()), (2, first.node_path()));
    let limited = again.with_options(LockOptions::new().max_hold(BOUND)).unwrap();
    assert_eq!(limited.owned_by(&one).acquire().await.unwrap().hold_count(), 3);
    assert!(again.owned_by(&other).try_acquire().await.unwrap().is_none());
    first.release().await.unwrap();
    assert!(locks(&client).mutex("a").unwrap().is_owned_by(&one));
    second.release().await.unwrap();
    assert!(!again.is_owned_by(&one));
    again.owned_by(&other).acquire().await.unwrap().release().await.unwrap();

    let writing = locks(&client).read_write("b").unwrap().write().owned_by(&one).acquire().await.unwrap();
    let reading = locks(&client).read_write("b").unwrap().read().owned_by(&one).acquire().await.unwrap();
    writing.release().await.unwrap();
    let upgrade = locks(&client).read_write("b").unwrap().write().owned_by(&one).acquire().await.unwrap_err();
    assert!(matches!(upgrade, Error::WouldDeadlock { .. }), "{upgrade}");
    let beside = locks(&client).read_write("b").unwrap().read().owned_by(&other).try_acquire().await.unwrap();
    assert!(beside.is_some());
    drop((reading, beside));

    // Permits have no owners; but they are held through this client.
    let permit = locks(&client).semaphore("c", 2).unwrap().acquire().await.unwrap();
    let again = locks(&client).semaphore("c", 2).unwrap();
    assert!(again.is_acquired_in_this_process());
    let last = again.try_acquire().await.unwrap().unwrap();
    assert!(again.try_acquire().await.unwrap().is_none());
    drop((permit, last));
    let held = locks(&client).semaphore_mutex("d").unwrap().acquire().await.unwrap();
    assert!(locks(&client).semaphore_mutex("d").unwrap().is_acquired_in_this_process());
    assert!(locks(&client).semaphore_mutex("d").unwrap().try_acquire().await.unwrap().is_none());
    drop(held);
    assert!(!locks(&client).semaphore_mutex("d").unwrap().is_acquired_in_this_process());
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn what_was_made_otherwise_is_another_party() {
    let (_, clients) = sandbox_with_clients::<2>().await;
    let owner = Owner::new();
    let guard = held(&locks(&clients[0]), "a", &owner).await;
    // Of another client.
    assert!(locks(&clients[1]).mutex("a").unwrap().owned_by(&owner).try_acquire().await.unwrap().is_none());
    // At another base.
    let elsewhere = Locks::new(&clients[0], "/locks/users").unwrap();
    assert_eq!(held(&elsewhere, "a", &owner).await.hold_count(), 1);
    // By its path.
    let of_path = InterProcessMutex::new(&clients[0], &locks(&clients[0]).path_of("a")).unwrap();
    assert!(of_path.owned_by(&Owner::new()).try_acquire().await.unwrap().is_none());
    let error = of_path.owned_by(&owner).try_acquire().await.unwrap_err();
    assert!(matches!(error, Error::WouldDeadlock { .. }), "{error}");
    drop(guard);
}

#[tokio::test]
async fn two_kinds_of_lock_of_one_key_are_refused() {
    let (_, [client]) = sandbox_with_clients().await;
    let locks = locks(&client);
    let _guard = locks.mutex("a").unwrap().acquire().await.unwrap();
    let error = within(locks.read_write("a").unwrap().read().acquire()).await.unwrap_err();
    assert!(matches!(error, Error::KindConflict { .. }), "{error}");
    // A semaphore with one permit and a `SemaphoreMutex` are the same, but not one with two.
    let permit = locks.semaphore("permits", 2).unwrap();
    let error = locks.semaphore_mutex("permits").unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "permits", .. }), "{error}");
    drop(permit);
    assert!(locks.semaphore_mutex("permits").is_ok());
}

#[tokio::test]
async fn several_keys_are_locked_at_once_and_asked_for_by_their_paths() {
    let (_, [client]) = sandbox_with_clients().await;
    let locks = locks(&client);
    let both = ["b/2", "a/1"].map(|key| Arc::new(locks.mutex(key).unwrap()) as Lock);
    let guard = MultiLock::of(both).unwrap().acquire().await.unwrap();
    assert_eq!(held(&locks, "a/1", &Owner::current()).await.hold_count(), 2);
    operate::ask(&client, &locks.path_of("a/1")).await.unwrap();
    within(guard.revoke_requested()).await.unwrap();
    operate::force_release(&client, &locks.path_of("b/2")).await.unwrap();
    within(guard.lost()).await;
}

#[tokio::test]
async fn an_owner_that_waits_enters_when_it_comes_to_hold_elsewhere() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let locks = locks(&client);
    let (holder, owner) = (Owner::new(), Owner::new());
    let guard = held(&locks, "a", &holder).await;
    // Two requests of one owner, which know nothing of each other.
    let waiting = [(); 2].map(|()| {
        let (locks, owner) = (locks.clone(), owner.clone());
        tokio::spawn(async move { held(&locks, "a", &owner).await })
    });
    eventually("both wait", || async {
        (locks.mutex("a").unwrap().participants().await.unwrap().len() == 3).then_some(())
    })
    .await;
    guard.release().await.unwrap();
    let [one, two] = waiting;
    let guards = [within(one).await.unwrap(), within(two).await.unwrap()];
    assert_eq!(guards[0].node_path(), guards[1].node_path());
    drop(guards);
    sandbox.assert_nothing_left().await;
}
