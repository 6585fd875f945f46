//! Requests to give a lock back.

use super::*;

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
async fn other_data_is_no_request() {
    let (server, proxy, zookeeper) = server_with_proxy().await;
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
        until("it reads the data", || proxy.take_requests().contains(&Request::GetData)).await;
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
    let server = empty_server().await;
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
}
