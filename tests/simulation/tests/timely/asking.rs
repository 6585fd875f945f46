//! Requests to give a lock back.

use super::kinds::{Kind, node_paths};
use super::prelude::*;

/// Its holder is noticed, also if it does not listen.
const NOTICED: Duration = secs(2);
const WORD: &[u8] = b"__REVOKE__";

/// A node shows this data, and was written to so often.
fn shows(stage: &Stage, node: &str, data: &[u8], version: i32) {
    let node = stage.servers().node(node).unwrap();
    assert_eq!((&*node.data, node.version), (data, version));
}

/// It does so until it has been asked.
async fn is_not_asked(guard: &LockGuard) {
    let asked = timeout(NOTICED, guard.revoke_requested()).await;
    assert!(asked.is_err(), "{asked:?}");
}

#[history]
async fn a_holder_hears_that_its_lock_is_asked_for_and_still_shows_who_it_is(stage: Stage) {
    let [holding, other] = stage.clients().await;
    for kind in KINDS {
        let lock = kind.lock(&holding, LockOptions::new().node_data("billing")).unwrap();
        for is_listening in [true, false] {
            // An earlier hold was asked for, and not this one.
            let guard = lock.acquire().await.unwrap();
            let node = kind.node(&guard);
            if is_listening {
                is_not_asked(&guard).await;
            }
            // Whoever no longer listens misses nothing.
            for polls in 1..4 {
                let asked = timeout(A_MOMENT, poll_times(guard.revoke_requested(), polls)).await;
                assert!(!matches!(asked, Ok(Some(_))), "{kind:?}: {asked:?}");
            }
            // Each request is a new write, and is noticed.
            for request in 1..=3 {
                let asking = async {
                    sleep(A_MOMENT).await;
                    let asked = operate::ask(&other, kind.path()).await.unwrap();
                    assert_eq!((node_paths(&asked), asked[0].is_holder()), (vec![node], true), "{kind:?}");
                };
                if is_listening {
                    let (asked, ()) = within(join(guard.revoke_requested(), asking)).await;
                    assert_eq!(asked, Ok(()), "{kind:?}");
                } else {
                    asking.await;
                }
                sleep(NOTICED).await;
                shows(&stage, node, b"billing", 2 * request);
                let holder = if kind == Kind::Multi { kind.rival(&other) } else { kind.unlimited(&other) };
                let holder = holder.holder().await.unwrap().unwrap();
                assert_eq!((&*holder.id(), holder.is_revoke_requested()), ("billing", true), "{kind:?}");
            }
            // To do it is up to the holder.
            assert!(kind.rival(&other).try_acquire().await.unwrap().is_none());
            assert_eq!(guard.revoke_requested().await, Ok(()), "it has been asked");
            guard.release().await.unwrap();
        }
    }
    nothing_is_left(stage.servers()).await;
}

/// Asks, and sees that these are asked and no one else.
async fn are_asked(client: &Client, path: &str, guards: Vec<LockGuard>) {
    let asked = operate::ask(client, path).await.unwrap();
    let (mut asked, mut nodes) =
        (node_paths(&asked), Vec::from_iter(guards.iter().map(LockGuard::node_path)));
    asked.sort_unstable();
    nodes.sort_unstable();
    assert_eq!(asked, nodes);
    for guard in guards {
        assert_eq!(within(guard.revoke_requested()).await, Ok(()));
        guard.release().await.unwrap();
    }
}

#[history]
async fn all_holders_are_asked_and_only_they(stage: Stage) {
    let clients = connect_all(&stage).await;
    let locks = clients.each_ref().map(|client| ReadWriteLock::new(client, PATH).unwrap());
    let readers = vec![locks[0].read().acquire().await.unwrap(), locks[1].read().acquire().await.unwrap()];
    let writing = locks[2].write().enqueue().await.unwrap();
    let behind = locks[2].read().owned_by(&Owner::new()).enqueue().await.unwrap();
    are_asked(&clients[2], PATH, readers).await;
    for ticket in [writing, behind] {
        let guard = within(ticket.acquired()).await.unwrap();
        is_not_asked(&guard).await;
        shows(&stage, guard.node_path(), clients[2].identity(), 0);
        guard.release().await.unwrap();
    }
    let semaphores = clients.each_ref().map(|client| Semaphore::new(client, "/locks/s", 3).unwrap());
    let mut permits = semaphores[0].many(2).unwrap().acquire().await.unwrap().into_permits();
    permits.push(semaphores[1].acquire().await.unwrap());
    let waiting = acquiring(&semaphores[2]);
    sleep(A_MOMENT).await;
    are_asked(&clients[0], "/locks/s", permits).await;
    let permit = granted(waiting).await;
    shows(&stage, permit.node_path(), clients[2].identity(), 0);
    permit.release().await.unwrap();
}

#[history]
async fn no_request_is_lost_by_showing_who_holds(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let asks = |node: &str| assert!(stage.servers().set_data(node, WORD));
    // A second one comes when the first was read.
    let guard = mutex(&client).acquire().await.unwrap();
    let held = proxy.intercept(Request::GetData, Fate::HoldReply);
    asks(guard.node_path());
    let asking = async {
        within(held.happened()).await;
        asks(guard.node_path());
        proxy.take_requests();
        held.release();
    };
    let (asked, ()) = within(join(guard.revoke_requested(), asking)).await;
    assert_eq!(asked, Ok(()));
    sleep(NOTICED).await;
    shows(&stage, guard.node_path(), client.identity(), 3);
    let writes = proxy.take_requests().into_iter().filter(|request| *request == Request::SetData).count();
    assert_eq!(writes, 2, "the first was not to be done");
    guard.release().await.unwrap();
    // The connection breaks before the write, or after it.
    for fate in [Fate::LoseRequest, Fate::LoseReply] {
        let guard = mutex(&client).acquire().await.unwrap();
        let lost = proxy.intercept(Request::SetData, fate);
        asks(guard.node_path());
        assert_eq!(within(guard.revoke_requested()).await, Ok(()), "{fate:?}");
        within(lost.happened()).await;
        sleep(NOTICED).await;
        shows(&stage, guard.node_path(), client.identity(), 2);
        assert_eq!(within(guard.revoke_requested()).await, Ok(()), "{fate:?}");
        guard.release().await.unwrap();
    }
}

#[history]
async fn other_data_is_no_request(stage: Stage) {
    let client = stage.client(0).await;
    let guard = mutex(&client).acquire().await.unwrap();
    for data in [&b""[..], b"hello", b"__REVOKE", b"__REVOKE__ ", b"__revoke__"] {
        assert!(stage.servers().set_data(guard.node_path(), data));
        is_not_asked(&guard).await;
    }
    assert!(stage.servers().set_data(guard.node_path(), WORD));
    assert_eq!(within(guard.revoke_requested()).await, Ok(()));
}
