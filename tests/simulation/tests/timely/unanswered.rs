//! A server that answers pings and handshakes, but no requests: it keeps the connection, and the session.

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, duplex, split};
use zk_recipes_simulation::network::Listener;

use super::prelude::*;

/// Stands before a server, and passes no requests on to it while it is deaf.
struct Front {
    address: String,
    is_deaf: Rc<Cell<bool>>,
}

impl Front {
    fn before(stage: &Stage, number: usize) -> Self {
        let address = format!("10.2.0.{number}:2181");
        let (is_deaf, servers) = (Rc::<Cell<bool>>::default(), stage.servers().clone());
        let (mut listener, heard) = (Listener::bind(&address), is_deaf.clone());
        spawn_local(async move {
            loop {
                let (mut from_client, mut to_client) = split(listener.accept().await);
                let (near, far) = duplex(1 << 20);
                spawn_local(servers.serve(0, far));
                let (mut from_server, mut to_server) = split(near);
                let is_deaf = heard.clone();
                spawn_local(async move {
                    let mut is_handshake = true;
                    while let Ok(length) = from_client.read_u32().await {
                        let mut frame = vec![0; length as usize];
                        from_client.read_exact(&mut frame).await?;
                        // Its number.
                        let is_ping = frame.starts_with(&(-2_i32).to_be_bytes());
                        if std::mem::take(&mut is_handshake) || is_ping || !is_deaf.get() {
                            to_server.write_u32(length).await?;
                            to_server.write_all(&frame).await?;
                        }
                    }
                    to_server.shutdown().await
                });
                spawn_local(async move {
                    copy(&mut from_server, &mut to_client).await?;
                    to_client.shutdown().await
                });
            }
        });
        Self { address, is_deaf }
    }
}

async fn client(stage: &Stage, fronts: &[Front]) -> Client {
    let servers: Vec<_> = fronts.iter().map(|front| &*front.address).collect();
    let with = tries(SESSION, SESSION / 4, RetryPolicy::one_time(ms(10)));
    stage.connect_to(0, with, &servers.join(",")).await
}

#[history]
async fn a_server_that_answers_pings_only_is_left_for_another(stage: Stage) {
    let fronts = [1, 2].map(|number| Front::before(&stage, number));
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
    let front = [Front::before(&stage, 1)];
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
