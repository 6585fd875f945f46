//! The tasks of a connection: they read and write messages.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::connections::{ConnectionId, Wire};
use super::database::Fate;
use super::words;

/// The address of a client at the other end of a stream that has none.
pub(super) const PEER_OF_STREAM: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A server, as the tasks of its connections see it.
pub(super) trait Host: Send + Sync {
    /// Returns the length of the longest message.
    fn longest_message(&self) -> usize;

    /// Opens a connection. `None` if the server takes none.
    fn accept(&self, peer: SocketAddr) -> impl Future<Output = Option<Wire>> + Send;

    /// Does what a message says, as soon as the server is not paused.
    fn receive(&self, id: ConnectionId, message: &[u8]) -> impl Future<Output = Fate> + Send;

    /// Forgets a connection.
    fn disconnect(&self, id: ConnectionId);

    /// Answers a four-letter word.
    fn answer(&self, word: &str) -> impl Future<Output = Option<String>> + Send;
}

/// Serves a connection until either side closes it.
pub(super) async fn serve<H: Host, S: AsyncRead + AsyncWrite>(host: Arc<H>, stream: S, peer: SocketAddr) {
    let (source, mut sink) = tokio::io::split(stream);
    let mut source = BufReader::new(source);
    let mut first = [0; 4];
    if source.read_exact(&mut first).await.is_err() {
        return;
    }
    if let Some(word) = words::known(first) {
        let answer = host.answer(word).await;
        let _ = sink.write_all(answer.unwrap_or_default().as_bytes()).await;
        return;
    }
    let Some(Wire { id, outgoing, cut }) = host.accept(peer).await else { return };
    let reading = async {
        let _ = read(&*host, id, source, first).await;
        host.disconnect(id);
        // What is left to be sent is sent.
        std::future::pending::<()>().await;
    };
    // In a fixed order, so that a simulation can be repeated.
    tokio::select! {
        biased;
        () = cut.cancelled() => {}
        () = write(outgoing, sink) => {}
        () = reading => {}
    }
    host.disconnect(id);
}

/// Serves messages until the connection is to be closed. `first` is the length of the first message.
async fn read(
    host: &impl Host,
    id: ConnectionId,
    mut source: impl AsyncRead + Unpin,
    first: [u8; 4],
) -> io::Result<()> {
    let mut length = first;
    loop {
        let length_of_message = usize::try_from(i32::from_be_bytes(length)).ok();
        let Some(length_of_message) = length_of_message.filter(|length| *length <= host.longest_message())
        else {
            return Ok(());
        };
        let mut message = vec![0; length_of_message];
        source.read_exact(&mut message).await?;
        if host.receive(id, &message).await == Fate::Close {
            return Ok(());
        }
        source.read_exact(&mut length).await?;
    }
}

async fn write(mut outgoing: mpsc::UnboundedReceiver<Vec<u8>>, mut sink: impl AsyncWrite + Unpin) {
    while let Some(mut messages) = outgoing.recv().await {
        while let Ok(more) = outgoing.try_recv() {
            messages.extend(more);
        }
        if sink.write_all(&messages).await.is_err() {
            return;
        }
    }
}
