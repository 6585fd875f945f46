//! What several nodes are given back by: one transaction, and single deletes where it cannot be done.

use super::prelude::*;

const PATHS: [&str; 3] = ["/together/a", "/together/b", "/together/c"];

/// A client behind a proxy, and a lock of it whose queues it knows.
async fn known(stage: &Stage) -> (Proxy, Client, MultiLock) {
    let (proxy, client) = stage.far(session).await;
    let lock = MultiLock::new(&client, PATHS).unwrap();
    for _ in 0..3 {
        once(&lock).await;
    }
    (proxy, client, lock)
}

async fn held(proxy: &Proxy, lock: &dyn InterProcessLock) -> LockGuard {
    let guard = within(lock.acquire()).await.unwrap();
    sleep(A_MOMENT).await;
    proxy.take_requests();
    guard
}

/// What was sent since.
async fn sent(proxy: &Proxy) -> Vec<Request> {
    sleep(A_MOMENT).await;
    let mut requests = proxy.take_requests();
    requests.retain(|request| *request != Request::Confirm);
    requests
}

fn lengths(stage: &Stage) -> [usize; 3] {
    PATHS.map(|path| queue(stage, path))
}

/// Nothing of an earlier hold is in the way, here or elsewhere.
async fn is_free(stage: &Stage, lock: &MultiLock) {
    sleep(A_MOMENT).await;
    assert_eq!(lengths(stage), [0; 3]);
    once(lock).await;
    once(&MultiLock::new(&stage.client(1).await, PATHS).unwrap()).await;
    sleep(A_MOMENT).await;
    assert_eq!((lengths(stage), watched(stage.servers()).await.len()), ([0; 3], 0));
}

fn lost(guard: &LockGuard, member: usize) -> Error {
    let path = guard.members()[member].node_path().to_owned();
    Error::LockLost { path, reason: LossReason::Deleted }
}

#[history]
async fn a_member_that_was_deleted_keeps_no_other_in_place(stage: Stage) {
    let (proxy, _, lock) = known(&stage).await;
    for members in [vec![0], vec![1], vec![0, 2], vec![0, 1, 2]] {
        for is_dropped in [false, true] {
            let guard = held(&proxy, &lock).await;
            // The last member is released first.
            let expected: Vec<_> = members.iter().rev().map(|member| lost(&guard, *member)).collect();
            for member in &members {
                assert!(stage.servers().delete(guard.members()[*member].node_path()));
            }
            if is_dropped {
                drop(guard);
            } else {
                let told = match guard.release().await.unwrap_err() {
                    Error::Several { first, others } => [vec![*first], others].concat(),
                    error => vec![error],
                };
                assert_eq!(told, expected);
                assert_eq!(lengths(&stage), [0; 3], "confirmed for the others");
            }
            assert_eq!(sent(&proxy).await, [&[Request::Multi][..], &[Request::Delete; 3]].concat());
        }
    }
    is_free(&stage, &lock).await;
    // One that is known to be lost is not in the transaction.
    let guard = held(&proxy, &lock).await;
    let error = lost(&guard, 1);
    assert!(stage.servers().delete(guard.members()[1].node_path()));
    assert_eq!(within(guard.lost()).await, LossReason::Deleted);
    sent(&proxy).await;
    assert_eq!(guard.release().await, Err(error));
    assert_eq!(sent(&proxy).await, [Request::Multi]);
    is_free(&stage, &lock).await;
}

#[history]
async fn a_member_that_is_held_more_than_once_stays(stage: Stage) {
    let (proxy, client, known) = known(&stage).await;
    let owner = Owner::new();
    let mutexes = PATHS.map(|path| mutex_at(&client, path));
    let lock = MultiLock::of(mutexes.clone().map(|mutex| Arc::new(mutex) as Lock)).unwrap().owned_by(&owner);
    for is_dropped in [false, true] {
        let guard = held(&proxy, &lock).await;
        let again = mutexes[1].owned_by(&owner).acquire().await.unwrap();
        assert_eq!(again.hold_count(), 2);
        if is_dropped {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        assert_eq!(sent(&proxy).await, [Request::Multi]);
        assert_eq!((lengths(&stage), again.is_valid(), again.hold_count()), ([0, 1, 0], true, 1));
        again.release().await.unwrap();
        assert_eq!(sent(&proxy).await, [Request::Delete]);
    }
    is_free(&stage, &known).await;
}

#[history]
async fn each_client_gives_back_what_it_has(stage: Stage) {
    let (proxy, client, known) = known(&stage).await;
    let other_proxy = stage.proxy_of(0, 2).await;
    let other = other_proxy.client(session).await;
    let members = [(PATHS[0], &client), (PATHS[1], &other), (PATHS[2], &client)];
    let lock = MultiLock::of(members.map(|(path, client)| lock_at(client, path))).unwrap();
    let guard = held(&proxy, &lock).await;
    sent(&other_proxy).await;
    guard.release().await.unwrap();
    assert_eq!((sent(&proxy).await, sent(&other_proxy).await), (vec![Request::Multi], vec![Request::Delete]));
    is_free(&stage, &known).await;
}

/// Also if an operator was faster with one node: whether the transaction or the operator has deleted it is not known when
/// the reply is lost.
#[history((Fate::LoseReply, false), (Fate::LoseReply, true), (Fate::LoseRequest, false))]
async fn a_reply_that_is_lost_leaves_no_member_behind(stage: Stage, fate: Fate, is_robbed: bool) {
    let (proxy, client, lock) = known(&stage).await;
    let session = session_id(&client).await;
    for is_dropped in [false, true] {
        let guard = held(&proxy, &lock).await;
        if is_robbed {
            assert!(stage.servers().delete(guard.members()[1].node_path()));
        }
        let intercepted = proxy.intercept(Request::Multi, fate);
        if is_dropped {
            drop(guard);
            within(intercepted.happened()).await;
            sleep(SOON).await;
        } else {
            assert_eq!(within(guard.release()).await, Ok(()), "{fate:?}");
            within(intercepted.happened()).await;
        }
        assert_eq!(lengths(&stage), [0; 3]);
        assert_eq!(session_id(&client).await, session);
    }
    is_free(&stage, &lock).await;
}

#[history]
async fn a_waiter_of_the_same_client_does_not_wait_for_the_reply(stage: Stage) {
    let (proxy, client, lock) = known(&stage).await;
    let guard = held(&proxy, &lock).await;
    let waiters = PATHS.map(|path| acquiring(&mutex_at(&client, path)));
    sleep(A_MOMENT).await;
    proxy.set_traffic(Traffic::black_hole_to_client());
    let releasing = spawn_local(guard.release());
    for waiter in waiters {
        drop(granted(waiter).await);
    }
    assert!(!releasing.is_finished());
    proxy.set_traffic(Traffic::pass());
    within(releasing).await.unwrap().unwrap();
    is_free(&stage, &lock).await;
}

#[history]
async fn a_member_that_becomes_a_reader_is_waited_for(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let owner = Owner::new();
    let read_write = ReadWriteLock::new(&client, PATHS[1]).unwrap();
    let writer = Arc::new(read_write.write().clone()) as Lock;
    let members = [lock_at(&client, PATHS[0]), writer, lock_at(&client, PATHS[2])];
    let guard = held(&proxy, &MultiLock::of(members).unwrap().owned_by(&owner)).await;
    let stalled = proxy.intercept(Request::Multi, Fate::HoldReply);
    let reading = acquiring(&read_write.read().owned_by(&owner));
    within(stalled.happened()).await;
    proxy.take_requests();
    let releasing = spawn_local(guard.release());
    sleep(A_MOMENT).await;
    assert_eq!((queue(&stage, PATHS[0]), queue(&stage, PATHS[2])), (0, 0));
    assert_eq!(sent(&proxy).await, [Request::Multi]);
    assert!(!releasing.is_finished());
    drop(stalled);
    within(releasing).await.unwrap().unwrap();
    granted(reading).await.release().await.unwrap();
    assert_eq!(queue(&stage, PATHS[1]), 0);
}

#[history]
async fn a_release_without_a_connection_fails_under_the_policy_and_goes_on(stage: Stage) {
    let (proxy, client) =
        stage.far(|builder| session(builder).retry_policy(RetryPolicy::n_times(0, ms(1)))).await;
    let guard = held(&proxy, &MultiLock::new(&client, PATHS).unwrap()).await;
    let lost = proxy.intercept(Request::Multi, Fate::LoseRequest);
    let Err(Error::Several { others, first }) = within(guard.release()).await else {
        panic!("each of them could not be deleted");
    };
    for error in others.iter().chain([&*first]) {
        assert!(matches!(error, Error::ZooKeeper { operation: "delete", .. }), "{error}");
    }
    assert_eq!(others.len(), 2);
    within(lost.happened()).await;
    sleep(SOON).await;
    assert_eq!(lengths(&stage), [0; 3]);
}

#[history]
async fn permits_are_released_in_one_request(stage: Stage) {
    const LEASES: &str = "/permits/leases";
    let (proxy, client) = stage.far(session).await;
    let three = Semaphore::new(&client, "/permits", 5).unwrap().many(3).unwrap();
    for is_dropped in [false, true] {
        let guard = held(&proxy, &three).await;
        if is_dropped {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        assert_eq!((sent(&proxy).await, queue(&stage, LEASES)), (vec![Request::Multi], 0));
    }
    // Each by itself, if they are taken apart.
    let mut permits = held(&proxy, &three).await.into_permits();
    drop(permits.pop());
    permits.pop().unwrap().release().await.unwrap();
    assert_eq!((sent(&proxy).await, queue(&stage, LEASES)), (vec![Request::Delete; 2], 1));
}
