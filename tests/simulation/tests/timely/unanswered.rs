//! A server that answers pings and handshakes, but no requests: it keeps the connection, and the session.

use super::prelude::*;

/// Stands before a server, and passes no requests on to it while it is deaf.
struct Front {
    proxy: Proxy,
    is_deaf: Rc<Cell<bool>>,
}

impl Front {
    async fn before(stage: &Stage, number: usize) -> Self {
        let is_deaf = Rc::<Cell<bool>>::default();
        let heard = is_deaf.clone();
        let passes = move |is_handshake, frame: &mut [u8]| {
            // Its number.
            let is_ping = frame.starts_with(&(-2_i32).to_be_bytes());
            is_handshake || is_ping || !heard.get()
        };
        let address = format!("10.2.0.{number}:2181");
        let proxy = Proxy::editing(stage, stage.servers().clone(), &address, passes).await;
        Self { proxy, is_deaf }
    }
}

async fn client(stage: &Stage, fronts: &[Front]) -> Client {
    let servers: Vec<_> = fronts.iter().map(|front| &*front.proxy.address).collect();
    let with = tries(SESSION, SESSION / 4, RetryPolicy::one_time(ms(10)));
    stage.connect_to(0, with, &servers.join(",")).await
}

#[history]
async fn a_server_that_answers_pings_only_is_left_for_another(stage: Stage) {
    let fronts = [Front::before(&stage, 1).await, Front::before(&stage, 2).await];
    let client = client(&stage, &fronts).await;
    let session = session_id(&client).await;
    let waiter = mutex(&client);
    // It is connected to one of them, and finds out about the other.
    for deaf in [[true, false], [false, true], [true, false]] {
        for (front, is_deaf) in fronts.iter().zip(deaf) {
            front.is_deaf.set(is_deaf);
        }
        let start = Instant::now();
        within(waiter.acquire()).await.unwrap().release().await.unwrap();
        assert!(start.elapsed() < 2 * SESSION, "{:?}", start.elapsed());
    }
    assert_eq!(session_id(&client).await, session, "it can be kept at the other");
}

#[history]
async fn at_a_server_that_answers_pings_only_nobody_holds_or_waits_for_too_long(stage: Stage) {
    const BRIEF: Duration = secs(1);
    let front = [Front::before(&stage, 1).await];
    let client = client(&stage, &front).await;
    let guard = mutex(&client).acquire().await.unwrap();
    let other = mutex_at(&client, "/locks/b");
    front[0].is_deaf.set(true);
    let start = Instant::now();
    let tried = within(other.try_acquire_for(BRIEF)).await;
    assert!(matches!(tried, Err(Error::NotConnected { .. })), "{tried:?}");
    assert!(start.elapsed() < BRIEF + A_MOMENT, "{:?}", start.elapsed());
    assert_eq!(within(guard.lost()).await, LossReason::Expired);
    assert!(start.elapsed() < SESSION, "{:?}", start.elapsed());
    // Until the connection is given up, and then for a retry.
    let acquired = within(other.acquire()).await;
    assert!(acquired.as_ref().is_err_and(Error::is_retryable), "{acquired:?}");
    front[0].is_deaf.set(false);
    within(async { while other.acquire().await.is_err() {} }).await;
}
