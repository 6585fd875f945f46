//! What is done about held locks: an end to their time, requests to give them back, taking them away, data.

use std::sync::Arc;
use std::time::Duration;

use crate::locks::stage::{sandbox_with_clients, server_behind_proxy, server_with_clients};
use crate::support::kinds::*;
use crate::support::*;
use futures_util::future::{join, join_all};
use zk_recipes::testing::{Fate, FaultProxy, Request, kill_session};
use zk_recipes::{
    Acl, AuthId, Client, ConnectionState, Error, InterProcessMutex, LockGuard, LockOptions, LossReason,
    MultiLock, Owner, Participant, Permission, ReadWriteLock, RetryPolicy, Semaphore, operate,
};
use zookeeper_client as zk;

/// A time to hold that is over soon.
const SOON: Duration = Duration::from_millis(400);

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

#[tokio::test]
async fn a_hold_of_no_time_is_refused() {
    let client = Client::connect_lazily("127.0.0.1:1").unwrap();
    for kind in KINDS {
        let error = kind.lock(&client, LockOptions::new().max_hold(Duration::ZERO)).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { argument: "max_hold", .. }), "{kind:?}: {error}");
    }
    // Locks that a multi-lock was given have options of their own.
    let multi = MultiLock::of([Kind::Mutex.unlimited(&client)]).unwrap();
    let error = multi.with_options(LockOptions::new()).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "options", .. }), "{error}");
}

// --- Requests to give it back ---

#[tokio::test]
async fn a_holder_hears_that_its_lock_is_asked_for() {
    let (server, zookeeper, [holding, other]) = server_with_clients().await;
    for kind in KINDS {
        let guard = kind.unlimited(&holding).acquire().await.unwrap();
        let node = kind.node(&guard);
        let asking = async {
            watches_with_holders(&server, kind.nodes() as u64).await;
            operate::ask(&other, kind.path()).await.unwrap()
        };
        let (asked, holders) = within(join(guard.revoke_requested(), asking)).await;
        assert_eq!(asked, Ok(()), "{kind:?}");
        assert_eq!(node_paths(&holders), [node], "{kind:?}");
        assert!(holders[0].is_holder());
        shows(&zookeeper, node, holding.identity(), 2).await;
        // To do it is up to the holder.
        assert!(kind.rival(&other).try_acquire().await.unwrap().is_none());
        assert_eq!(within(guard.revoke_requested()).await, Ok(()), "it has been asked");
        guard.release().await.unwrap();

        // Asked before anybody awaits it.
        let guard = kind.unlimited(&holding).acquire().await.unwrap();
        operate::ask(&other, kind.path()).await.unwrap();
        assert_eq!(within(guard.revoke_requested()).await, Ok(()), "{kind:?}");
        guard.release().await.unwrap();

        // A new hold is not asked for.
        let guard = kind.unlimited(&holding).acquire().await.unwrap();
        tokio::select! {
            asked = guard.revoke_requested() => panic!("{kind:?}: {asked:?}"),
            () = watches_with_holders(&server, kind.nodes() as u64) => {}
        }
        guard.release().await.unwrap();
        watches_with_holders(&server, 0).await;
    }
}

#[tokio::test]
async fn all_holders_are_asked_and_only_they() {
    let (sandbox, clients) = sandbox_with_clients::<3>().await;
    let [one, two, three] = &clients;
    let zookeeper = zk::Client::connect(&servers()).await.unwrap();
    let identity = async |node: &str| zookeeper.get_data(node).await.unwrap().0;

    let path = Kind::Read.path();
    let locks = clients.each_ref().map(|client| ReadWriteLock::new(client, path).unwrap());
    let readers = [locks[0].read().acquire().await.unwrap(), locks[1].read().acquire().await.unwrap()];
    let writing = locks[2].write().enqueue().await.unwrap();
    let behind = locks[2].read().owned_by(&Owner::new()).enqueue().await.unwrap();
    let asked = operate::ask(three, path).await.unwrap();
    assert_eq!(node_paths(&asked), readers.each_ref().map(LockGuard::node_path));
    for reader in readers {
        assert_eq!(within(reader.revoke_requested()).await, Ok(()));
        reader.release().await.unwrap();
    }
    let writer = within(writing.acquired()).await.unwrap();
    assert_eq!(identity(writer.node_path()).await, three.identity());
    writer.release().await.unwrap();
    let reader = within(behind.acquired()).await.unwrap();
    assert_eq!(identity(reader.node_path()).await, three.identity());
    reader.release().await.unwrap();

    let path = Kind::Permit.path();
    let semaphores = [one, two, three].map(|client| Semaphore::new(client, path, 3).unwrap());
    let mut permits = semaphores[0].many(2).unwrap().acquire().await.unwrap().into_permits();
    permits.push(semaphores[1].acquire().await.unwrap());
    let waiter = tokio::spawn({
        let semaphore = semaphores[2].clone();
        async move { semaphore.acquire().await }
    });
    queue_of(&zookeeper, &format!("/{}{path}/locks", sandbox.root), 1).await;
    let asked = operate::ask(one, path).await.unwrap();
    let mut nodes = node_paths(&asked);
    let mut expected: Vec<_> = permits.iter().map(LockGuard::node_path).collect();
    nodes.sort();
    expected.sort();
    assert_eq!(nodes, expected);
    for permit in permits {
        assert_eq!(within(permit.revoke_requested()).await, Ok(()));
        permit.release().await.unwrap();
    }
    let permit = within(waiter).await.unwrap().unwrap();
    assert_eq!(identity(permit.node_path()).await, three.identity());
    permit.release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn a_waiter_that_is_asked_hears_of_it_when_it_holds() {
    let (sandbox, [holding, waiting]) = sandbox_with_clients().await;
    let zookeeper = zk::Client::connect(&servers()).await.unwrap();
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

/// Waits until a node shows this data, and nothing else is to come: its version counts all that was written to it.
async fn shows(zookeeper: &zk::Client, node: &str, data: &[u8], version: i32) {
    eventually("the node shows its holder", || async {
        let (shown, stat) = zookeeper.get_data(node).await.unwrap();
        (stat.version >= version && shown == data).then_some(stat.version)
    })
    .await;
    assert_eq!(zookeeper.check_stat(node).await.unwrap().unwrap().version, version);
}

/// Also one that does not listen, when it has held the lock for a while.
#[tokio::test]
async fn a_holder_that_was_asked_still_shows_who_it_is() {
    let (sandbox, [holding, other]) = sandbox_with_clients().await;
    let zookeeper = zk::Client::connect(&servers()).await.unwrap();
    within(join_all(KINDS.map(async |kind| {
        let options = LockOptions::new().node_data("billing");
        let guard = kind.lock(&holding, options).unwrap().acquire().await.unwrap();
        let node = kind.node(&guard);
        for request in 1..=3 {
            operate::ask(&other, kind.path()).await.unwrap();
            // It is a new write each time, and is noticed each time.
            shows(&zookeeper, node, b"billing", 2 * request).await;
            let holder = if kind == Kind::Multi { kind.rival(&other) } else { kind.unlimited(&other) };
            let holder = holder.holder().await.unwrap().unwrap();
            assert_eq!((&*holder.id(), holder.is_revoke_requested()), ("billing", true), "{kind:?}");
            // The holder knows it nevertheless.
            assert_eq!(within(guard.revoke_requested()).await, Ok(()), "{kind:?}");
        }
        assert_eq!(guard.loss(), None);
        guard.release().await.unwrap();
    })))
    .await;
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn no_request_is_lost_by_showing_who_holds() {
    let (_server, proxy, zookeeper, client) = server_behind_proxy().await;
    let ask = async |node: &str| zookeeper.set_data(node, b"__REVOKE__", None).await.unwrap();

    // A second one comes when the first was read.
    let guard = mutex(&client).acquire().await.unwrap();
    let held = proxy.intercept(Request::GetData, Fate::HoldReply);
    ask(guard.node_path()).await;
    let asking = async {
        within(held.happened()).await;
        ask(guard.node_path()).await;
        proxy.take_requests();
        held.release();
    };
    let (asked, ()) = within(join(guard.revoke_requested(), asking)).await;
    assert_eq!(asked, Ok(()));
    shows(&zookeeper, guard.node_path(), client.identity(), 3).await;
    let writes = proxy.take_requests().into_iter().filter(|request| *request == Request::SetData).count();
    assert_eq!(writes, 2, "the first was not to be done");
    guard.release().await.unwrap();

    // The connection breaks before the write, or after it.
    for fate in [Fate::LoseRequest, Fate::LoseReply] {
        let guard = mutex(&client).acquire().await.unwrap();
        let lost = proxy.intercept(Request::SetData, fate);
        ask(guard.node_path()).await;
        assert_eq!(within(guard.revoke_requested()).await, Ok(()), "{fate:?}");
        within(lost.happened()).await;
        shows(&zookeeper, guard.node_path(), client.identity(), 2).await;
        assert_eq!(within(guard.revoke_requested()).await, Ok(()), "{fate:?}");
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn of_a_free_lock_there_is_nobody_to_ask_and_nobody_to_take_it_from() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    for kind in KINDS {
        kind.unlimited(&client).acquire().await.unwrap().release().await.unwrap();
        assert_eq!(operate::ask(&client, kind.path()).await, Ok(Vec::new()), "{kind:?}");
        assert_eq!(operate::force_release(&client, kind.path()).await, Ok(Vec::new()), "{kind:?}");
    }
    let error = operate::ask(&client, "locks").await.unwrap_err();
    assert!(matches!(error, Error::InvalidPath { .. }), "{error}");
    let error = operate::force_release(&client, "/locks/").await.unwrap_err();
    assert!(matches!(error, Error::InvalidPath { .. }), "{error}");
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
        assert_eq!(operate::force_release_participant(&client, &holder).await, Ok(false));
        assert_eq!(operate::ask_participant(&client, &holder).await, Ok(false));
    }

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
async fn other_data_is_no_request() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = Client::connect(&proxy.connect_string()).await.unwrap();
    let guard = Arc::new(mutex(&client).acquire().await.unwrap());
    let asked = tokio::spawn({
        let guard = guard.clone();
        async move { guard.revoke_requested().await }
    });
    watches_with_holders(&server, 1).await;
    for data in [&b""[..], b"hello", b"__REVOKE", b"__REVOKE__ ", b"__revoke__"] {
        proxy.take_requests();
        zookeeper.set_data(guard.node_path(), data, None).await.unwrap();
        eventually("it reads the data", || async {
            proxy.take_requests().contains(&Request::GetData).then_some(())
        })
        .await;
        // Replies come in order: when this one is here, it has read them.
        client.zookeeper().await.unwrap().sync("/").await.unwrap();
        watches_with_holders(&server, 1).await;
        assert!(!asked.is_finished(), "{data:?}");
    }
    zookeeper.set_data(guard.node_path(), b"__REVOKE__", None).await.unwrap();
    assert_eq!(within(asked).await.unwrap(), Ok(()));
}

#[tokio::test]
async fn whoever_no_longer_waits_for_a_request_misses_none() {
    let (server, _, [holding, other]) = server_with_clients().await;
    for kind in KINDS {
        let guard = kind.unlimited(&holding).acquire().await.unwrap();
        for awaits in 1..20 {
            let asked = poll_times(guard.revoke_requested(), awaits);
            tokio::select! {
                biased;
                asked = asked => assert!(asked.is_none(), "{kind:?}"),
                // It is parked, and woken no more.
                () = watches_with_holders(&server, kind.nodes() as u64) => {}
            }
        }
        // Nothing is lost by it.
        assert_eq!(operate::ask(&other, kind.path()).await.unwrap().len(), 1);
        assert_eq!(within(guard.revoke_requested()).await, Ok(()));
        guard.release().await.unwrap();
    }
}

/// How a lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Deleted,
    Taken,
    Overdue,
    Killed,
    Closed,
}

impl End {
    fn reason(self) -> LossReason {
        match self {
            Self::Deleted | Self::Taken => LossReason::Deleted,
            Self::Overdue => LossReason::Deadline,
            Self::Killed => LossReason::Expired,
            Self::Closed => LossReason::Closed,
        }
    }
}

#[tokio::test]
async fn whoever_waits_for_a_request_hears_that_the_lock_is_lost() {
    let (server, zookeeper, [other]) = server_with_clients().await;
    for kind in KINDS {
        for end in [End::Deleted, End::Taken, End::Overdue, End::Killed, End::Closed] {
            let client = connect(&server).await;
            let lock = match end {
                End::Overdue => kind.limited(&client, SOON),
                _ => kind.unlimited(&client),
            };
            let guard = lock.acquire().await.unwrap();
            let losing = async {
                if end != End::Overdue {
                    watches_with_holders(&server, kind.nodes() as u64).await;
                }
                match end {
                    End::Deleted => zookeeper.delete(kind.node(&guard), None).await.unwrap(),
                    End::Taken => {
                        let taken = operate::force_release(&other, kind.path()).await.unwrap();
                        assert_eq!(node_paths(&taken), [kind.node(&guard)]);
                    }
                    End::Overdue => {}
                    End::Killed => kill_session(&client).await.unwrap(),
                    End::Closed => client.close().await,
                }
            };
            let (asked, ()) = within(join(guard.revoke_requested(), losing)).await;
            let error = asked.unwrap_err();
            match end {
                End::Closed => assert_eq!(error, Error::Closed, "{kind:?}"),
                _ => assert_lost(&error, end.reason()),
            }
            assert_eq!(guard.loss(), Some(end.reason()), "{kind:?}, {end:?}");
            let later = within(guard.revoke_requested()).await;
            assert!(later.is_err(), "{kind:?}, {end:?}");
            let error = guard.release().await.unwrap_err();
            watches_with_holders(&server, 0).await;
            match (end, kind) {
                (End::Closed, Kind::Multi) => {
                    assert_eq!(
                        error.to_string(),
                        "the client is closed; create a new one; and then: the client is closed; create a new one"
                    );
                }
                (End::Closed, _) => assert_eq!(error, Error::Closed, "{kind:?}"),
                _ => assert_lost(&error, end.reason()),
            }
        }
    }
}

#[tokio::test]
async fn closing_also_wakes_who_waits_for_a_request_if_the_session_goes_on() {
    let mut server = empty_server().await;
    // It is not this library's to end.
    let client = Client::from_zookeeper(bystander(&server).await).unwrap();
    let guard = Kind::Mutex.unlimited(&client).acquire().await.unwrap();
    let closing = async {
        watches_with_holders(&server, 1).await;
        client.close().await;
    };
    let (asked, ()) = within(join(guard.revoke_requested(), closing)).await;
    assert_eq!((asked, guard.loss()), (Err(Error::Closed), Some(LossReason::Closed)));
    drop(guard);
    watches_with_holders(&server, 0).await;

    // There is nobody to tell.
    let client =
        Client::builder().session_timeout(2 * BOUND).connect(&server.connect_string()).await.unwrap();
    let guard = Kind::Mutex.unlimited(&client).acquire().await.unwrap();
    let closing = async {
        watches_with_holders(&server, 1).await;
        server.kill().await.unwrap();
        let mut state = client.watch_connection();
        state.wait_for(|state| *state == ConnectionState::Suspended).await.unwrap();
        client.close().await;
    };
    let (asked, ()) = within(join(guard.revoke_requested(), closing)).await;
    assert_eq!((asked, guard.loss()), (Err(Error::Closed), Some(LossReason::Closed)));
}

/// What only Alice may do, whose password is "secret": the server keeps base64(sha1("alice:secret")).
fn only_alice(permission: Permission) -> Acl {
    Acl::new(permission, AuthId::new("digest", "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E="))
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

    // May be written to, but its owner may not read the answer.
    let client = holder(Permission::WRITE).await;
    let guard = Kind::Mutex.unlimited(&client).acquire().await.unwrap();
    assert_eq!(node_paths(&operate::ask(&alice, path).await.unwrap()), [guard.node_path()]);
    refused(within(guard.revoke_requested()).await.unwrap_err(), "watch", guard.node_path());
    assert_eq!(guard.loss(), None);
    guard.release().await.unwrap();

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
async fn the_next_gets_what_was_taken_from_the_holder() {
    let (sandbox, [holding, waiting, operator]) = sandbox_with_clients().await;
    let zookeeper = zk::Client::connect(&servers()).await.unwrap();
    for kind in KINDS {
        let guard = kind.unlimited(&holding).acquire().await.unwrap();
        let node = kind.node(&guard).to_owned();
        let waiter = in_task(kind.rival(&waiting));
        let queue = format!("/{}{}", sandbox.root, kind.queue());
        let place = eventually("it waits", || async {
            let mut places: Vec<_> = children(&zookeeper, &queue)
                .await
                .into_iter()
                .map(|name| format!("{queue}/{name}"))
                .collect();
            places.retain(|place| *place != node);
            zookeeper.check_stat(places.first()?).await.unwrap()
        })
        .await;
        let taken = operate::force_release(&operator, kind.path()).await.unwrap();
        assert_eq!(node_paths(&taken), [&node], "{kind:?}");
        assert!(taken[0].is_holder());
        let next = within(waiter).await.unwrap().unwrap();
        if kind != Kind::Permit {
            assert_eq!(next.fencing_token(), place.czxid, "{kind:?}: who waited has kept its place");
        }
        let stat = zookeeper.check_stat(kind.node(&next)).await.unwrap().unwrap();
        assert_eq!(next.fencing_token(), stat.czxid, "{kind:?}");

        let error = guard.release().await.unwrap_err();
        let reason = LossReason::Deleted;
        assert_eq!(error, Error::LockLost { path: node.clone(), reason }, "{kind:?}");
        assert_eq!(
            error.to_string(),
            format!("the lock {node} was lost: its node was deleted; acquire it again")
        );
        next.release().await.unwrap();
    }
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn what_was_taken_is_told_also_if_the_reply_was_lost() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let operator = Client::connect(&proxy.connect_string()).await.unwrap();
    let guard = Kind::Mutex.unlimited(&connect(&server).await).acquire().await.unwrap();
    let lost = proxy.intercept(Request::Delete, Fate::LoseReply);
    let taken = within(operate::force_release(&operator, Kind::Mutex.path())).await.unwrap();
    within(lost.happened()).await;
    assert_eq!(node_paths(&taken), [guard.node_path()]);
    assert_lost(&guard.release().await.unwrap_err(), LossReason::Deleted);
}

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
    let zookeeper = zk::Client::connect(&servers()).await.unwrap();

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

    // One of those who wait: it goes to the end of the queue when its turn would have come.
    let lock = mutex(&one);
    let held = lock.acquire().await.unwrap();
    let removed = mutex(&two).owned_by(&Owner::new()).enqueue().await.unwrap();
    let behind = mutex(&two).owned_by(&Owner::new()).enqueue().await.unwrap();
    let participants = lock.participants().await.unwrap();
    assert_eq!(operate::force_release_participant(&one, &participants[1]).await, Ok(true));
    assert_eq!(behind.position().await, Ok(1));
    let removed = tokio::spawn(removed.acquired());
    queue_of(&zookeeper, &sandbox.lock_path(), 3).await;
    held.release().await.unwrap();
    let guard = within(behind.acquired()).await.unwrap();
    assert_eq!(guard.node_path(), participants[2].node_path());
    assert!(!removed.is_finished());
    guard.release().await.unwrap();
    let guard = within(removed).await.unwrap().unwrap();
    assert!(guard.fencing_token() > participants[2].fencing_token());

    // Another node of the same name is another contender's.
    let participants = lock.participants().await.unwrap();
    let node = guard.node_path().to_owned();
    zookeeper.delete(&node, None).await.unwrap();
    let ephemeral = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
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

#[tokio::test]
async fn every_lock_knows_for_whom_it_was_acquired() {
    let (_server, _, [client]) = server_with_clients().await;
    let (owner, other) = (Owner::new(), Owner::new());
    for kind in KINDS {
        let lock = kind.unlimited(&client);
        assert_eq!(lock.paths().last(), Some(&kind.path()), "{kind:?}");
        let guard = within(lock.owned_by(&owner).acquire()).await.unwrap();
        assert!(lock.is_owned_by(&owner) && !lock.is_owned_by(&other), "{kind:?}");
        assert!(!lock.is_owned_by(&Owner::current()) && lock.is_acquired_in_this_process(), "{kind:?}");
        let participants = lock.participants().await.unwrap();
        assert!(participants.iter().all(Participant::is_holder), "{kind:?}: {participants:?}");
        assert_eq!(lock.holder().await.unwrap().as_ref(), participants.first(), "{kind:?}");
        // The owner may enter again, except for permits, which it may have several of.
        let again = within(lock.owned_by(&owner).try_acquire()).await.unwrap();
        assert_eq!(again.is_some(), kind != Kind::Permit, "{kind:?}");
        drop(again);
        let refused = within(lock.owned_by(&other).try_acquire()).await.unwrap();
        assert_eq!(refused.is_some(), kind == Kind::Read, "{kind:?}");
        drop(refused);
        within(guard.release()).await.unwrap();
        assert!(!lock.is_owned_by(&owner) && !lock.is_acquired_in_this_process(), "{kind:?}");
        assert!(lock.path_exists().await.unwrap(), "{kind:?}");
    }
}

#[tokio::test]
async fn several_permits_are_one_guard_or_many() {
    let (_server, _, [client]) = server_with_clients().await;
    let semaphore = Semaphore::new(&client, "/semaphores/a", 3).unwrap();
    let owner = Owner::new();
    let three = within(semaphore.many(3).unwrap().owned_by(&owner).acquire()).await.unwrap();
    assert_eq!((three.members().len(), semaphore.available_permits().await), (3, Ok(0)));
    assert_eq!(three.node_path(), three.members()[0].node_path());
    let mut permits = three.into_permits();
    for left in [2, 1, 0] {
        assert!(semaphore.is_owned_by(&owner));
        within(permits.pop().unwrap().release()).await.unwrap();
        assert_eq!(semaphore.available_permits().await, Ok(3 - left));
    }
    assert!(!semaphore.is_owned_by(&owner));
    // Any other guard stays as it is.
    let one = within(semaphore.acquire()).await.unwrap();
    assert!(one.members().is_empty());
    let path = one.node_path().to_owned();
    let mut parts = one.into_permits();
    assert_eq!(parts.iter().map(LockGuard::node_path).collect::<Vec<_>>(), [path]);
    within(parts.remove(0).release()).await.unwrap();
}
