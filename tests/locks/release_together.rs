//! What several nodes are given back by: one transaction, and single deletes where it cannot be done.

use crate::prelude::*;

const PATHS: [&str; 3] = ["/together/a", "/together/b", "/together/c"];
const LEASES: &str = "/permits/leases";

/// A server, a client whose requests go through a proxy, and somebody who looks.
struct Scene {
    server: PooledServer,
    proxy: FaultProxy,
    client: Client,
    zookeeper: zk::Client,
    lock: MultiLock,
}

impl Scene {
    /// One in which the queues exist and are known, so that an acquire is one transaction.
    async fn new() -> Self {
        let (server, proxy, zookeeper, client) = server_behind_proxy().await;
        let lock = MultiLock::new(&client, PATHS).unwrap();
        visit(&lock, 2).await;
        Self { server, proxy, client, zookeeper, lock }
    }

    async fn acquire(&self) -> LockGuard {
        let guard = within(self.lock.acquire()).await.unwrap();
        self.settle().await;
        guard
    }

    /// Whatever was sent is done, and counts no more.
    async fn settle(&self) {
        self.client.zookeeper().await.unwrap().check_stat("/settled").await.unwrap();
        self.proxy.take_requests();
    }

    /// The requests since then.
    async fn requests(&self) -> Vec<Request> {
        self.client.zookeeper().await.unwrap().check_stat("/settled").await.unwrap();
        let mut requests = self.proxy.take_requests();
        // Something in the background may have been sent behind it.
        let settled = requests.iter().rposition(|request| *request == Request::Exists).unwrap();
        requests.remove(settled);
        requests.retain(|request| *request != Request::Confirm);
        requests
    }

    async fn assert_gone(&self) {
        for path in PATHS {
            queue_of(&self.zookeeper, path, 0).await;
        }
    }

    /// Nothing of an earlier hold is in the way, here or elsewhere.
    async fn assert_free(&self) {
        self.assert_gone().await;
        within(self.lock.acquire()).await.unwrap().release().await.unwrap();
        let other = MultiLock::new(&connect(&self.server).await, PATHS).unwrap();
        within(other.acquire()).await.unwrap().release().await.unwrap();
        self.assert_gone().await;
        watches_of(&self.server, 0).await;
    }
}

fn lost(guard: &LockGuard, member: usize) -> Error {
    let path = guard.members()[member].node_path().to_owned();
    Error::LockLost { path, reason: LossReason::Deleted }
}

#[tokio::test]
async fn permits_are_released_in_one_request() {
    let scene = Scene::new().await;
    let semaphore = Semaphore::new(&scene.client, "/permits", 5).unwrap();
    let three = semaphore.many(3).unwrap();
    three.acquire().await.unwrap().release().await.unwrap();
    let guard = three.acquire().await.unwrap();
    queue_of(&scene.zookeeper, LEASES, 3).await;
    scene.settle().await;
    guard.release().await.unwrap();
    assert!(children(&scene.zookeeper, LEASES).await.is_empty());
    assert_eq!(scene.requests().await, [Request::Multi]);

    let guard = three.acquire().await.unwrap();
    scene.settle().await;
    drop(guard);
    assert_eq!(scene.requests().await, [Request::Multi]);
    queue_of(&scene.zookeeper, LEASES, 0).await;

    // Each by itself, if they are taken apart.
    let mut permits = three.acquire().await.unwrap().into_permits();
    scene.settle().await;
    drop(permits.pop());
    permits.pop().unwrap().release().await.unwrap();
    assert_eq!(scene.requests().await, [Request::Delete; 2]);
    queue_of(&scene.zookeeper, LEASES, 1).await;
    drop(permits);
    queue_of(&scene.zookeeper, LEASES, 0).await;
}

#[tokio::test]
async fn a_member_that_was_deleted_keeps_no_other_in_place() {
    let scene = Scene::new().await;
    for members in [vec![0], vec![1], vec![0, 2], vec![0, 1, 2]] {
        for is_dropped in [false, true] {
            let guard = scene.acquire().await;
            let mut expected = Vec::new();
            for member in &members {
                scene.zookeeper.delete(guard.members()[*member].node_path(), None).await.unwrap();
                expected.push(lost(&guard, *member));
            }
            if is_dropped {
                drop(guard);
                scene.assert_gone().await;
            } else {
                // The last member is released first.
                expected.reverse();
                let told = match guard.release().await.unwrap_err() {
                    Error::Several { first, others } => [vec![*first], others].concat(),
                    error => vec![error],
                };
                assert_eq!(told, expected);
                for path in PATHS {
                    assert!(children(&scene.zookeeper, path).await.is_empty(), "confirmed for the others");
                }
            }
            // Those of a drop may be sent when nothing is left to delete.
            let requests = tokio::sync::Mutex::new(Vec::new());
            eventually("each is deleted by itself", || async {
                let mut requests = requests.lock().await;
                requests.extend(scene.requests().await);
                (requests.len() >= 4).then_some(())
            })
            .await;
            assert_eq!(requests.into_inner(), [&[Request::Multi][..], &[Request::Delete; 3]].concat());
        }
    }
    scene.assert_free().await;
}

#[tokio::test]
async fn a_member_that_is_known_to_be_lost_is_not_in_the_transaction() {
    let scene = Scene::new().await;
    let guard = scene.acquire().await;
    let error = lost(&guard, 1);
    scene.zookeeper.delete(guard.members()[1].node_path(), None).await.unwrap();
    assert_eq!(within(guard.lost()).await, LossReason::Deleted);
    scene.settle().await;
    assert_eq!(guard.release().await, Err(error));
    assert_eq!(scene.requests().await, [Request::Multi]);
    scene.assert_free().await;
}

#[tokio::test]
async fn a_member_that_is_held_more_than_once_stays() {
    let scene = Scene::new().await;
    let mutexes = PATHS.map(|path| mutex_at(&scene.client, path));
    let lock = MultiLock::of(mutexes.clone().map(|mutex| Arc::new(mutex) as Arc<dyn InterProcessLock>));
    let (lock, owner) = (lock.unwrap(), Owner::new());
    let lock = lock.owned_by(&owner);
    for is_dropped in [false, true] {
        let guard = within(lock.acquire()).await.unwrap();
        let again = mutexes[1].owned_by(&owner).acquire().await.unwrap();
        assert_eq!(again.hold_count(), 2);
        scene.settle().await;
        if is_dropped {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        assert_eq!(scene.requests().await, [Request::Multi]);
        for (path, length) in PATHS.into_iter().zip([0, 1, 0]) {
            queue_of(&scene.zookeeper, path, length).await;
        }
        assert!(again.is_valid());
        assert_eq!(again.hold_count(), 1);
        again.release().await.unwrap();
        assert_eq!(scene.requests().await, [Request::Delete]);
    }
    scene.assert_free().await;
}

#[tokio::test]
async fn each_client_gives_back_what_it_has() {
    let scene = Scene::new().await;
    let other_proxy = FaultProxy::start(scene.server.connect_string()).await.unwrap();
    let other = connect_through(&other_proxy).await;
    let members = [(PATHS[0], &scene.client), (PATHS[1], &other), (PATHS[2], &scene.client)];
    let members = members.map(|(path, client)| Arc::new(mutex_at(client, path)) as Arc<dyn InterProcessLock>);
    let lock = MultiLock::of(members).unwrap();
    let guard = within(lock.acquire()).await.unwrap();
    let settle = async || {
        other.zookeeper().await.unwrap().check_stat("/settled").await.unwrap();
        other_proxy.take_requests()
    };
    settle().await;
    scene.settle().await;
    guard.release().await.unwrap();
    assert_eq!(scene.requests().await, [Request::Multi]);
    assert_eq!(settle().await, [Request::Delete, Request::Exists]);
    scene.assert_free().await;
}

/// Also if an operator was faster with one node: whether the transaction or the operator has deleted it is not known when
/// the reply is lost.
#[tokio::test]
async fn a_reply_that_is_lost_leaves_no_member_behind() {
    let scene = Scene::new().await;
    let session = session_id(&scene.client).await;
    for (fate, is_robbed, is_dropped) in [
        (Fate::LoseReply, false, false),
        (Fate::LoseReply, false, true),
        (Fate::LoseReply, true, false),
        (Fate::LoseRequest, false, false),
        (Fate::LoseRequest, false, true),
    ] {
        let guard = scene.acquire().await;
        if is_robbed {
            scene.zookeeper.delete(guard.members()[1].node_path(), None).await.unwrap();
        }
        let intercepted = scene.proxy.intercept(Request::Multi, fate);
        if is_dropped {
            drop(guard);
            within(intercepted.happened()).await;
            scene.assert_gone().await;
        } else {
            assert_eq!(within(guard.release()).await, Ok(()), "{fate:?}");
            within(intercepted.happened()).await;
            for path in PATHS {
                assert!(children(&scene.zookeeper, path).await.is_empty(), "confirmed");
            }
        }
        assert_eq!(session_id(&scene.client).await, session);
    }
    scene.assert_free().await;
}

#[tokio::test]
async fn a_waiter_of_the_same_client_does_not_wait_for_the_reply() {
    let scene = Scene::new().await;
    let guard = scene.acquire().await;
    let waiters = PATHS.map(|path| acquire_in_task(&mutex_at(&scene.client, path).owned_by(&Owner::new())));
    watches_of(&scene.server, 3).await;
    // The client has heard of them, too.
    scene.settle().await;
    scene.proxy.set_traffic(Traffic::black_hole_to_client());
    let releasing = tokio::spawn(guard.release());
    for waiter in waiters {
        drop(within(waiter).await.unwrap().unwrap());
    }
    assert!(!releasing.is_finished());
    scene.proxy.set_traffic(Traffic::pass());
    within(releasing).await.unwrap().unwrap();
    scene.assert_free().await;
}

#[tokio::test]
async fn a_member_that_becomes_a_reader_is_waited_for() {
    let scene = Scene::new().await;
    let read_write = ReadWriteLock::new(&scene.client, PATHS[1]).unwrap();
    let owner = Owner::new();
    let [first, _, third] = PATHS.map(|path| mutex_at(&scene.client, path));
    // Writers and mutexes are not for one path.
    drop(scene.lock);
    let writer = read_write.write().clone();
    let members: [Arc<dyn InterProcessLock>; 3] = [Arc::new(first), Arc::new(writer), Arc::new(third)];
    let lock = MultiLock::of(members).unwrap().owned_by(&owner);
    let guard = within(lock.acquire()).await.unwrap();
    let held = scene.proxy.intercept(Request::Multi, Fate::HoldReply);
    let reader = read_write.read().owned_by(&owner);
    let reading = tokio::spawn(async move { reader.acquire().await });
    within(held.happened()).await;
    scene.proxy.take_requests();
    let releasing = tokio::spawn(guard.release());
    queue_of(&scene.zookeeper, PATHS[0], 0).await;
    queue_of(&scene.zookeeper, PATHS[2], 0).await;
    assert_eq!(scene.proxy.take_requests(), [Request::Multi]);
    assert!(!releasing.is_finished());
    drop(held);
    within(releasing).await.unwrap().unwrap();
    within(reading).await.unwrap().unwrap().release().await.unwrap();
    queue_of(&scene.zookeeper, PATHS[1], 0).await;
}

#[tokio::test]
async fn a_member_that_may_not_be_deleted_keeps_no_other_in_place() {
    let scene = Scene::new().await;
    // Nobody may delete in the second queue.
    let no_delete = Permission::READ | Permission::WRITE | Permission::CREATE | Permission::ADMIN;
    let acl = vec![Acl::new(no_delete, AuthId::anyone())];
    scene.zookeeper.set_acl(PATHS[1], &acl, None).await.unwrap();
    let guard = scene.acquire().await;
    let path = guard.members()[1].node_path().to_owned();
    let error = guard.release().await.unwrap_err();
    let expected = Error::ZooKeeper { operation: "delete", path, source: zk::Error::NoAuth };
    assert_eq!(error, expected);
    for (path, length) in PATHS.into_iter().zip([0, 1, 0]) {
        assert_eq!(children(&scene.zookeeper, path).await.len(), length);
    }
}

#[tokio::test]
async fn a_release_without_a_connection_fails_under_the_policy_and_goes_on() {
    let (_server, proxy, zookeeper) = server_with_proxy().await;
    let builder = Client::builder().session_timeout(secs(30)).drop_timeout(Duration::ZERO);
    let builder = builder.retry_policy(RetryPolicy::n_times(0, ms(1)));
    let client = builder.connect(&proxy.connect_string()).await.unwrap();
    let lock = MultiLock::new(&client, PATHS).unwrap();
    let guard = lock.acquire().await.unwrap();
    let intercepted = proxy.intercept(Request::Multi, Fate::LoseRequest);
    let Err(Error::Several { others, first }) = within(guard.release()).await else {
        panic!("each of them could not be deleted");
    };
    for error in others.iter().chain([&*first]) {
        assert!(matches!(error, Error::ZooKeeper { operation: "delete", .. }), "{error}");
    }
    assert_eq!(others.len(), 2);
    within(intercepted.happened()).await;
    for path in PATHS {
        queue_of(&zookeeper, path, 0).await;
    }
}

#[tokio::test]
async fn hundreds_of_members_are_released_in_one_request() {
    let scene = Scene::new().await;
    // It sends no ping meanwhile.
    let builder = Client::builder().session_timeout(secs(60));
    let client = builder.connect(&scene.server.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    let paths: Vec<String> = (0..500).map(|number| format!("/many/{}-{number}", "x".repeat(100))).collect();
    let lock = MultiLock::new(&client, &paths).unwrap();
    let guard = within(lock.acquire()).await.unwrap();
    let before = scene.server.session_packets(session).await.unwrap();
    within(guard.release()).await.unwrap();
    assert_eq!(scene.server.session_packets(session).await.unwrap() - before, 1);
    assert!(ephemerals_below(&scene.zookeeper, "/many").await.is_empty());
}
