//! A wire that notes what clients send.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

pub(crate) struct Wiretap {
    pub(crate) port: u16,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
    task: AbortHandle,
    pumps: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Wiretap {
    pub(crate) async fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let sent: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let notes = sent.clone();
        let pumps: Arc<Mutex<Vec<AbortHandle>>> = Arc::default();
        let running = pumps.clone();
        let accepting = async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else { continue };
                let connection = {
                    let mut notes = notes.lock().unwrap();
                    notes.push(Vec::new());
                    notes.len() - 1
                };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let notes = notes.clone();
                let there = tokio::spawn(pump(from_client, to_server, move |bytes| {
                    notes.lock().unwrap()[connection].extend_from_slice(bytes);
                }));
                let back = tokio::spawn(pump(from_server, to_client, |_| ()));
                running.lock().unwrap().extend([there.abort_handle(), back.abort_handle()]);
            }
        };
        Self { port, sent, task: tokio::spawn(accepting).abort_handle(), pumps }
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        self.pumps.lock().unwrap().drain(..).for_each(|pump| pump.abort());
    }

    /// What was sent on each connection so far.
    pub(crate) fn sent(&self) -> Vec<Vec<u8>> {
        self.sent.lock().unwrap().clone()
    }

    /// All that was sent are records of TLS.
    pub(crate) fn assert_encrypted(&self) {
        let sent = self.sent();
        assert!(!sent.is_empty(), "nobody connected");
        for connection in sent {
            let mut rest = &connection[..];
            while let [kind, major, _, high, low, behind @ ..] = rest {
                assert!((20..=23).contains(kind) && *major == 3, "no record of TLS: {:?}", &rest[..5]);
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                rest = behind.get(length..).unwrap_or_default();
            }
        }
    }
}

impl Drop for Wiretap {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut note: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 1 << 14];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        note(&buffer[..length]);
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
