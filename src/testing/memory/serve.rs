//! The tasks of a connection: they read and write messages.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::connections::{ConnectionId, Wire};
use super::ensemble::Core;
use super::words;

/// Serves a connection until either side closes it.
pub(super) async fn serve(core: &Core, server: usize, stream: impl AsyncRead + AsyncWrite, peer: SocketAddr) {
    let (source, mut sink) = tokio::io::split(stream);
    let mut source = BufReader::new(source);
    let mut first = [0; 4];
    if source.read_exact(&mut first).await.is_err() {
        return;
    }
    if let Some(word) = words::known(first) {
        let answer = core.served(server, |state| state.answer_word(server, word)).await;
        let _ = sink.write_all(answer.unwrap_or_default().as_bytes()).await;
        return;
    }
    let accepted = core.served(server, |state| state.accept(server, peer)).await;
    let Some(Wire { id, outgoing, cut }) = accepted else { return };
    let disconnect = || core.with(|state| state.disconnect(server, id));
    let reading = async {
        let _ = read(core, server, id, source, first).await;
        disconnect();
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
    disconnect();
}

/// Serves messages until one is too long. `first` is the length of the first message.
async fn read(
    core: &Core,
    server: usize,
    id: ConnectionId,
    mut source: impl AsyncRead + Unpin,
    first: [u8; 4],
) -> io::Result<()> {
    let longest = core.with(|state| state.settings.longest_request);
    let mut length = first;
    loop {
        let length_of_message = usize::try_from(i32::from_be_bytes(length)).ok();
        let Some(length_of_message) = length_of_message.filter(|length| *length <= longest) else {
            return Ok(());
        };
        let mut message = vec![0; length_of_message];
        source.read_exact(&mut message).await?;
        core.served(server, |state| state.receive(server, id, &message)).await;
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
