//! A server that answers pings and handshakes, but no requests: it keeps the connection, and the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use zk_recipes::testing::MemoryServer;
use zk_recipes::{Client, Error, InterProcessMutex, LossReason, RetryPolicy};

const TIMEOUT: Duration = Duration::from_secs(2);

/// Stands before a server, and passes no requests on to it while it is deaf.
struct Front {
    port: u16,
    is_deaf: Arc<AtomicBool>,
}

impl Front {
    async fn of(server: &MemoryServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_deaf, server) = (Arc::new(AtomicBool::new(false)), server.connect_string());
        let heard = is_deaf.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let is_deaf = heard.clone();
                tokio::spawn(async move {
                    let mut is_handshake = true;
                    while let Ok(length) = from_client.read_u32().await {
                        let mut frame = vec![0; length as usize];
                        from_client.read_exact(&mut frame).await?;
                        // Its number.
                        let is_ping = frame.starts_with(&(-2_i32).to_be_bytes());
                        if std::mem::take(&mut is_handshake) || is_ping || !is_deaf.load(SeqCst) {
                            to_server.write_u32(length).await?;
                            to_server.write_all(&frame).await?;
                        }
                    }
                    to_server.shutdown().await
                });
                tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            }
        });
        Self { port, is_deaf }
    }

    async fn client(&self, others: &[&Self]) -> Client {
        let builder = Client::builder()
            .session_timeout(TIMEOUT)
            .connection_timeout(TIMEOUT / 4)
            .retry_policy(RetryPolicy::one_time(Duration::from_millis(10)));
        let fronts = std::iter::once(&self).chain(others);
        let servers: Vec<_> = fronts.map(|front| format!("127.0.0.1:{}", front.port)).collect();
        connected(builder, &servers.join(",")).await
    }
}

#[tokio::test]
async fn a_server_that_answers_pings_only_is_left_for_another() {
    let server = MemoryServer::start().unwrap();
    let fronts = [Front::of(&server).await, Front::of(&server).await];
    let client = fronts[0].client(&[&fronts[1]]).await;
    let session = session_id(&client).await;
    let waiter = mutex(&client);
    // It is connected to one of them, and finds out about the other.
    for deaf in [[true, false], [false, true]] {
        for (front, is_deaf) in fronts.iter().zip(deaf) {
            front.is_deaf.store(is_deaf, SeqCst);
        }
        within(waiter.acquire()).await.unwrap().release().await.unwrap();
    }
    assert_eq!(session_id(&client).await, session, "it can be kept at the other");
}

#[tokio::test]
async fn at_a_server_that_answers_pings_only_nobody_holds_or_waits_for_too_long() {
    let server = MemoryServer::start().unwrap();
    let front = Front::of(&server).await;
    let client = front.client(&[]).await;
    let guard = mutex(&client).acquire().await.unwrap();
    let other = InterProcessMutex::new(&client, "/locks/b").unwrap();
    front.is_deaf.store(true, SeqCst);
    let start = Instant::now();
    let tried = within(other.try_acquire_for(TIMEOUT / 10)).await;
    assert!(matches!(tried, Err(Error::NotConnected { .. })), "{tried:?}");
    assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
    assert_eq!(within(guard.lost()).await, LossReason::Expired);
    assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
    // Until the connection is given up, and then for a retry.
    let acquired = within(other.acquire()).await;
    assert!(acquired.as_ref().is_err_and(Error::is_retryable), "{acquired:?}");
    front.is_deaf.store(false, SeqCst);
    within(async { while other.acquire().await.is_err() {} }).await;
}
