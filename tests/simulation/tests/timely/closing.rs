//! Waits that end with their client, or are given up.

use futures_util::future::join3;

use super::every_lock::is_closed;
use super::kinds::Kind;
use super::prelude::*;

#[history]
async fn close_wakes_everybody(stage: Stage) {
    let [client, other, _] = connect_all(&stage).await;
    let (holder, shared) = (mutex(&other), mutex(&client));
    let other_path = mutex_at(&client, "/locks/b");
    let own = other_path.acquire().await.unwrap();
    let held = holder.acquire().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..5 {
        waiters.push(waiter(&shared).await);
    }
    let timed = shared.clone();
    waiters.push(tokio::spawn(async move { timed.try_acquire_for(BOUND).await.map(|guard| guard.unwrap()) }));
    let ticket = shared.enqueue().await.unwrap();
    waiters.push(tokio::spawn(ticket.acquired()));
    sleep(A_MOMENT).await;
    assert_eq!(nodes(stage.servers(), PATH).len(), 8);
    let start = Instant::now();
    within(client.close()).await;
    assert!(client.is_closed());
    for waiter in waiters {
        assert_eq!(within(waiter).await.unwrap().unwrap_err(), Error::Closed);
    }
    assert!(start.elapsed() < A_MOMENT, "long before the session times out: {:?}", start.elapsed());
    // Its session has ended: also what it held is free, at once.
    assert_eq!(nodes(stage.servers(), PATH), [held.node_path()]);
    assert_eq!(nodes(stage.servers(), "/locks/b"), [""; 0]);
    assert_eq!(own.release().await, Err(Error::Closed));
    assert_eq!(shared.acquire().await.unwrap_err(), Error::Closed);
    assert_eq!(shared.try_acquire().await.unwrap_err(), Error::Closed);
    assert_eq!(shared.try_acquire_for(BOUND).await.unwrap_err(), Error::Closed);
    assert_eq!(shared.enqueue().await.unwrap_err(), Error::Closed);
    assert_eq!(shared.participants().await.unwrap_err(), Error::Closed);
    assert_eq!(client.zookeeper().await.unwrap_err(), Error::Closed);
    state_is(&client, ConnectionState::Closed).await;
    drop(held);
    nothing_is_left(stage.servers()).await;
}

/// As `select!` leaves it with something else that is ready. What it may have under way is not waited for for long.
#[history]
async fn a_future_that_nobody_polls_does_not_keep_a_session_from_being_closed(stage: Stage) {
    let client = stage.client(0).await;
    let lock = mutex(&client);
    once(&lock).await;
    let held = mutex_at(&client, "/locks/b").acquire().await.unwrap();
    let mut acquiring = Box::pin(lock.acquire());
    assert!(poll_once(&mut acquiring).is_pending());
    timeout(SOON, client.close()).await.unwrap();
    assert_eq!(ephemerals(stage.servers(), "/locks"), [""; 0]);
    assert!(!held.is_valid());
    assert_eq!(acquiring.await.unwrap_err(), Error::Closed);
}

/// By its client, whether the session ends with that or goes on.
#[history((false, false), (true, false), (true, true))]
async fn closing_wakes_who_listens_and_leaves_no_node(stage: Stage, is_adopted: bool, is_dropped: bool) {
    for kind in KINDS {
        let session = own_session(&stage.address_of(0)).await;
        let client = match is_adopted {
            true => Client::from_zookeeper(session.clone()).unwrap(),
            false => stage.client(0).await,
        };
        let guard = kind.unlimited(&client).acquire().await.unwrap();
        // Its node stays, and nobody holds it.
        let lingering = LockOptions::new().linger(BOUND);
        let lingering = mutex_at(&client, "/locks/lingers").with_options(lingering).unwrap();
        once(&lingering).await;
        let closing = async {
            sleep(A_MOMENT).await;
            client.close().await;
        };
        let (lost, asked, ()) = within(join3(guard.lost(), guard.revoke_requested(), closing)).await;
        assert_eq!((lost, asked), (LossReason::Closed, Err(Error::Closed)), "{kind:?}");
        assert!(guard.revoke_requested().await.is_err(), "{kind:?}");
        assert_eq!(lingering.acquire().await.unwrap_err(), Error::Closed);
        if is_dropped {
            drop(guard);
        } else {
            let error = guard.release().await.unwrap_err();
            assert!(is_closed(&error), "{kind:?}: {error}");
            if kind == Kind::Multi {
                let closed = "the client is closed; create a new one";
                assert_eq!(error.to_string(), format!("{closed}; and then: {closed}"));
            }
        }
        nothing_is_left(stage.servers()).await;
        assert!(session.check_stat("/").await.is_ok());
    }
}
