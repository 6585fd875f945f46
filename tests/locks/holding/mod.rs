//! What is done about held locks: an end to their time, requests to give them back, taking them away, data.

mod owners;

use crate::prelude::*;
use crate::support::kinds::*;

/// A time to hold that is over soon.
const SOON: Duration = ms(400);

// --- An end to the time ---

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_is_over_also_if_the_runtime_of_the_acquire_is_gone() {
    let sandbox = Sandbox::new();
    let lock = Kind::Mutex.limited(&sandbox.client().await, SOON);
    let acquire = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(lock.acquire()).unwrap()
    };
    let guard = tokio::task::spawn_blocking(acquire).await.unwrap();
    let next = within(Kind::Mutex.rival(&sandbox.client().await).acquire()).await.unwrap();
    assert_eq!(guard.loss(), Some(LossReason::Deadline));
    next.release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

// --- Requests to give it back ---

/// Waits until a node shows this data, and nothing else is to come: its version counts all that was written to it.
async fn shows(zookeeper: &zk::Client, node: &str, data: &[u8], version: i32) {
    eventually("the node shows its holder", || async {
        let (shown, stat) = zookeeper.get_data(node).await.unwrap();
        (stat.version >= version && shown == data).then_some(stat.version)
    })
    .await;
    assert_eq!(zookeeper.check_stat(node).await.unwrap().unwrap().version, version);
}

#[tokio::test]
async fn a_waiter_that_is_asked_hears_of_it_when_it_holds() {
    let (sandbox, [holding, waiting]) = sandbox_with_clients().await;
    let zookeeper = bystander_of(&servers()).await;
    let lock = mutex(&holding);
    let held = lock.acquire().await.unwrap();
    let ticket = mutex(&waiting).enqueue().await.unwrap();
    let participants = lock.participants().await.unwrap();
    assert_eq!(operate::ask_participant(&holding, &participants[1]).await, Ok(true));
    let asked = lock.participants().await.unwrap();
    let requests = [&asked[0], &asked[1]].map(|it| (it.identity().unwrap(), it.is_revoke_requested()));
    let word = &b"__REVOKE__"[..];
    assert_eq!(requests, [(holding.identity(), false), (word, true)], "Curator's word for it");
    held.release().await.unwrap();
    let guard = within(ticket.acquired()).await.unwrap();
    assert_eq!(guard.node_path(), participants[1].node_path());
    assert_eq!(within(guard.revoke_requested()).await, Ok(()));
    shows(&zookeeper, guard.node_path(), waiting.identity(), 2).await;
    guard.release().await.unwrap();
    for gone in &participants {
        assert_eq!(operate::ask_participant(&holding, gone).await, Ok(false));
    }
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_told_from_a_free_lock() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    for kind in KINDS {
        let lock = kind.unlimited(&client);
        // Nobody holds it, and nothing is wrong.
        assert_eq!(lock.is_locked().await, Ok(false), "{kind:?}");
        assert_eq!(lock.holder().await, Ok(None));
        assert_eq!(lock.path_exists().await, Ok(false));
        let missing = Error::NoSuchPath { path: format!("/{}{}", sandbox.root, kind.path()) };
        assert_eq!(operate::ask(&client, kind.path()).await, Err(missing.clone()), "{kind:?}");
        let error = operate::force_release(&client, kind.path()).await.unwrap_err();
        assert_eq!(error, missing, "{kind:?}");
        let message = error.to_string();
        let says = [kind.path(), "spelling", "namespace", "chroot"].map(|what| message.contains(what));
        assert_eq!(says, [true; 4], "{message}");
        assert!(!error.is_retryable());

        let guard = lock.acquire().await.unwrap();
        assert_eq!(lock.path_exists().await, Ok(true), "{kind:?}");
        let holder = lock.holder().await.unwrap().unwrap();
        guard.release().await.unwrap();
        assert_eq!((lock.is_locked().await, lock.path_exists().await), (Ok(false), Ok(true)), "{kind:?}");
        assert_eq!(operate::ask(&client, kind.path()).await, Ok(Vec::new()), "{kind:?}");
        assert_eq!(operate::force_release(&client, kind.path()).await, Ok(Vec::new()), "{kind:?}");
        assert_eq!(operate::force_release_participant(&client, &holder).await, Ok(false));
        assert_eq!(operate::ask_participant(&client, &holder).await, Ok(false));
    }

    let error = operate::ask(&client, "locks").await.unwrap_err();
    assert!(matches!(error, Error::InvalidPath { .. }), "{error}");
    let error = operate::force_release(&client, "/locks/").await.unwrap_err();
    assert!(matches!(error, Error::InvalidPath { .. }), "{error}");

    // Of several paths, it takes one that is mistyped.
    let members = MultiLock::new(&client, [Kind::Mutex.path(), "/locks/mistyped"]).unwrap();
    assert_eq!((members.is_locked().await, members.path_exists().await), (Ok(false), Ok(false)));
    let members = [Kind::Mutex, Kind::Permit].map(|kind| kind.unlimited(&client));
    assert_eq!(MultiLock::of(members).unwrap().path_exists().await, Ok(true));
    let members = [Kind::Mutex.unlimited(&client), Arc::new(mutex(&client))];
    assert_eq!(MultiLock::of(members).unwrap().path_exists().await, Ok(false));

    let semaphore = Semaphore::new(&client, "/semaphores/mistyped", 3).unwrap();
    assert_eq!(
        (semaphore.available_permits().await, semaphore.participants().await),
        (Ok(3), Ok(Vec::new()))
    );
    assert_eq!(semaphore.path_exists().await, Ok(false));
    let permit = semaphore.acquire().await.unwrap();
    assert_eq!(semaphore.path_exists().await, Ok(true));
    permit.release().await.unwrap();

    // With a participant that was found by another client: here there is no such path.
    let guard = mutex(&client).acquire().await.unwrap();
    let holder = mutex(&client).holder().await.unwrap().unwrap();
    let below = Client::connect(&format!("{}/{}", servers(), sandbox.root)).await.unwrap();
    let missing = Error::NoSuchPath { path: sandbox.lock_path() };
    assert_eq!(operate::force_release_participant(&below, &holder).await, Err(missing.clone()));
    assert_eq!(operate::ask_participant(&below, &holder).await, Err(missing));
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn a_missing_right_is_an_error_that_names_the_node() {
    let sandbox = Sandbox::new();
    let holder = async |of_nodes: Permission| {
        let acl = [Acl::new(of_nodes, AuthId::anyone()), only_alice(Permission::ALL)];
        let path = format!("/{}{}/", sandbox.root, Kind::Mutex.path());
        sandbox
            .builder()
            .acl_for_path(move |node| node.starts_with(&path).then(|| acl.to_vec()))
            // A retry would be noticed.
            .retry_policy(RetryPolicy::forever(BOUND))
            .connect(&servers())
            .await
            .unwrap()
    };
    let refused = |error: Error, wanted: &str, node: &str| match &error {
        Error::ZooKeeper { operation, path, source: zk::Error::NoAuth } => {
            assert_eq!((*operation, path.as_str()), (wanted, node));
            assert!(error.to_string().contains("lack a permission"), "{error}");
        }
        other => panic!("{other}"),
    };
    let path = Kind::Mutex.path();
    let alice = sandbox.builder().auth("digest", "alice:secret").connect(&servers()).await.unwrap();

    // May be read, but not written to.
    let client = holder(Permission::READ).await;
    let guard = Kind::Mutex.unlimited(&client).acquire().await.unwrap();
    let error = within(operate::ask(&client, path)).await.unwrap_err();
    refused(error, "ask for the lock of", guard.node_path());
    assert_eq!(node_paths(&operate::ask(&alice, path).await.unwrap()), [guard.node_path()]);
    assert_eq!(within(guard.revoke_requested()).await, Ok(()));
    // So it goes on showing the request, and hears of its end nevertheless.
    let zookeeper = alice.zookeeper().await.unwrap();
    shows(&zookeeper, guard.node_path(), b"__REVOKE__", 1).await;
    assert_eq!(operate::force_release(&alice, path).await.unwrap().len(), 1);
    assert_eq!(within(guard.lost()).await, LossReason::Deleted);

    // May not be taken away.
    let path = "/locks/closed";
    let full_path = format!("/{}{path}", sandbox.root);
    let all_but_delete = Permission::READ | Permission::WRITE | Permission::CREATE;
    let acl = [Acl::new(all_but_delete, AuthId::anyone()), only_alice(Permission::ALL)];
    let zookeeper = alice.zookeeper().await.unwrap();
    zookeeper
        .create(&full_path, b"", &zk::CreateMode::Container.with_acls(zk::Acls::new(&acl)))
        .await
        .unwrap();
    let guard = InterProcessMutex::new(&client, path).unwrap().acquire().await.unwrap();
    refused(within(operate::force_release(&client, path)).await.unwrap_err(), "delete", guard.node_path());
    assert_eq!(operate::force_release(&alice, path).await.unwrap().len(), 1);
    drop(guard);
    sandbox.assert_nothing_left().await;
}

// --- Taking it away ---

#[tokio::test]
async fn a_lock_is_taken_from_all_who_hold_it() {
    let (sandbox, [one, two]) = sandbox_with_clients().await;
    let path = Kind::Read.path();
    let locks = [&one, &two].map(|client| ReadWriteLock::new(client, path).unwrap());
    let readers = [locks[0].read().acquire().await.unwrap(), locks[1].read().acquire().await.unwrap()];
    let writing = locks[0].write().owned_by(&Owner::new()).enqueue().await.unwrap();
    let taken = operate::force_release(&two, path).await.unwrap();
    assert_eq!(node_paths(&taken), readers.each_ref().map(LockGuard::node_path));
    let writer = within(writing.acquired()).await.unwrap();
    for reader in readers {
        assert_lost(&reader.release().await.unwrap_err(), LossReason::Deleted);
    }
    // The writer that reads has two nodes.
    let owner = Owner::new();
    writer.release().await.unwrap();
    let writer = locks[0].write().owned_by(&owner).acquire().await.unwrap();
    let reader = locks[0].read().owned_by(&owner).acquire().await.unwrap();
    let taken = operate::force_release(&two, path).await.unwrap();
    assert_eq!(node_paths(&taken), [writer.node_path(), reader.node_path()]);
    assert!(locks[1].write().try_acquire().await.unwrap().is_some());
    for guard in [writer, reader] {
        assert_lost(&guard.release().await.unwrap_err(), LossReason::Deleted);
    }

    let path = Kind::Permit.path();
    let permits =
        Semaphore::new(&one, path, 3).unwrap().many(3).unwrap().acquire().await.unwrap().into_permits();
    assert_eq!(operate::force_release(&two, path).await.unwrap().len(), 3);
    let all = Semaphore::new(&two, path, 3).unwrap().many(3).unwrap().try_acquire().await.unwrap();
    for permit in permits {
        assert_lost(&permit.release().await.unwrap_err(), LossReason::Deleted);
    }
    drop(all.unwrap());
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn one_contender_can_be_removed() {
    let (sandbox, [one, two]) = sandbox_with_clients().await;
    let zookeeper = bystander_of(&servers()).await;

    // One of several permits.
    let path = Kind::Permit.path();
    let [semaphore, other] = [&one, &two].map(|client| Semaphore::new(client, path, 3).unwrap());
    let permits = [
        semaphore.acquire().await.unwrap(),
        semaphore.acquire().await.unwrap(),
        other.acquire().await.unwrap(),
    ];
    let participants = other.participants().await.unwrap();
    assert_eq!(operate::force_release_participant(&two, &participants[1]).await, Ok(true));
    assert_eq!(operate::force_release_participant(&two, &participants[1]).await, Ok(false), "it is gone");
    assert_eq!(other.available_permits().await, Ok(1));
    let [first, second, third] = permits;
    assert_eq!(node_paths(&participants), [first.node_path(), second.node_path(), third.node_path()]);
    assert_lost(&second.release().await.unwrap_err(), LossReason::Deleted);
    first.release().await.unwrap();
    third.release().await.unwrap();

    // One of those who wait.
    let lock = mutex(&one);
    let guard = lock.acquire().await.unwrap();
    let removed = mutex(&two).owned_by(&Owner::new()).enqueue().await.unwrap();
    let behind = mutex(&two).owned_by(&Owner::new()).enqueue().await.unwrap();
    let participants = lock.participants().await.unwrap();
    assert_eq!(operate::force_release_participant(&one, &participants[1]).await, Ok(true));
    assert_eq!(behind.position().await, Ok(1));
    drop((removed, behind));

    // Another node of the same name is another contender's.
    let participants = lock.participants().await.unwrap();
    let node = guard.node_path().to_owned();
    zookeeper.delete(&node, None).await.unwrap();
    let ephemeral = anyone(CreateMode::Ephemeral);
    zookeeper.create(&node, b"", &ephemeral).await.unwrap();
    assert_eq!(operate::force_release_participant(&one, &participants[0]).await, Ok(false));
    assert!(zookeeper.check_stat(&node).await.unwrap().is_some());
    zookeeper.delete(&node, None).await.unwrap();
    assert_lost(&guard.release().await.unwrap_err(), LossReason::Deleted);
    sandbox.assert_nothing_left().await;
}

// --- Data ---

const DATA: &[u8] = b"\0worker\xff";

#[tokio::test]
async fn others_see_the_data_of_the_node() {
    let sandbox = Sandbox::new();
    let client = sandbox.builder().identity("the client").connect(&servers()).await.unwrap();
    let observer = sandbox.client().await;
    let with_data = || LockOptions::new().node_data(DATA);
    let seen = |participants: &[Participant]| -> Vec<Vec<u8>> {
        participants.iter().map(|p| p.identity().unwrap().to_vec()).collect()
    };
    for kind in KINDS {
        // A holder.
        let guard = kind.lock(&client, with_data()).unwrap().acquire().await.unwrap();
        let holder = kind.unlimited(&observer).holder().await.unwrap().unwrap();
        assert_eq!(holder.identity(), Some(DATA), "{kind:?}");
        guard.release().await.unwrap();
        // The lock that the options were set on is as it was.
        let guard = kind.unlimited(&client).acquire().await.unwrap();
        let holder = kind.unlimited(&observer).holder().await.unwrap().unwrap();
        assert_eq!(holder.identity(), Some(&b"the client"[..]), "{kind:?}");
        guard.release().await.unwrap();
    }

    // Those who wait, and every member of a multi-lock.
    let lock = mutex(&client);
    let tickets = [
        lock.owned_by(&Owner::new()).enqueue().await.unwrap(),
        lock.with_options(with_data()).unwrap().owned_by(&Owner::new()).enqueue().await.unwrap(),
        lock.with_options(LockOptions::new().node_data(""))
            .unwrap()
            .owned_by(&Owner::new())
            .enqueue()
            .await
            .unwrap(),
    ];
    let participants = mutex(&observer).participants().await.unwrap();
    assert_eq!(seen(&participants), [&b"the client"[..], DATA, b""]);
    drop(tickets);
    let lock = ReadWriteLock::new(&client, Kind::Read.path()).unwrap();
    let guards = [
        lock.read().owned_by(&Owner::new()).acquire().await.unwrap(),
        lock.read().with_options(with_data()).unwrap().owned_by(&Owner::new()).acquire().await.unwrap(),
    ];
    let read_by =
        ReadWriteLock::new(&observer, Kind::Read.path()).unwrap().read().participants().await.unwrap();
    assert_eq!(seen(&read_by), [&b"the client"[..], DATA]);
    drop(guards);
    let paths = ["/locks/multi-a", "/locks/multi-b"];
    let guard =
        MultiLock::new(&client, paths).unwrap().with_options(with_data()).unwrap().acquire().await.unwrap();
    for path in paths {
        let participants = InterProcessMutex::new(&observer, path).unwrap().participants().await.unwrap();
        assert_eq!(seen(&participants), [DATA]);
    }
    guard.release().await.unwrap();
    sandbox.assert_nothing_left().await;
}
