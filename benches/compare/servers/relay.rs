//! A hop before a server that counts bytes.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::Result;

/// Of one server. What goes through it takes longer; so it is there in rounds of their own only.
#[derive(Debug)]
pub(crate) struct Relay {
    address: String,
    bytes: Arc<Bytes>,
    _forwarding: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Bytes {
    to_server: AtomicU64,
    to_client: AtomicU64,
}

impl Relay {
    pub(crate) async fn start(server: String) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?.to_string();
        let bytes = Arc::new(Bytes::default());
        let mut forwarding = JoinSet::new();
        forwarding.spawn(accept(listener, server, bytes.clone()));
        Ok(Self { address, bytes, _forwarding: forwarding })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// To the server and to its clients, so far.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        [&self.bytes.to_server, &self.bytes.to_client].map(|bytes| bytes.load(Ordering::Relaxed))
    }
}

async fn accept(listener: TcpListener, server: String, bytes: Arc<Bytes>) {
    // Ends with this task.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (server, bytes) = (server.clone(), bytes.clone());
        // A connection that fails is one for its client to hear of.
        connections.spawn(async move { forward(client, server, bytes).await.ok() });
    }
}

async fn forward(client: TcpStream, server: String, bytes: Arc<Bytes>) -> std::io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::try_join!(
        copy(from_client, to_server, &bytes.to_server),
        copy(from_server, to_client, &bytes.to_client),
    )?;
    Ok(())
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    bytes: &AtomicU64,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        bytes.fetch_add(length as u64, Ordering::Relaxed);
        to.write_all(&buffer[..length]).await?;
    }
}
