//! Forwards what workers and a server say to each other, and can fall silent.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Forwards each connection to the server, for as long as it is polled.
pub(crate) async fn forward(listener: TcpListener, server: String, silent: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    // It is closed after all who forward have ended.
    while let Ok((worker, _)) = listener.accept().await {
        connections.spawn(connect(worker, server.clone(), silent.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(worker: TcpStream, server: String, mut silent: watch::Receiver<bool>) -> io::Result<()> {
    end_of_silence(&mut silent).await;
    let server = TcpStream::connect(server).await?;
    for end in [&worker, &server] {
        end.set_nodelay(true)?;
    }
    let (from_worker, to_worker) = worker.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::try_join!(
        copy(from_worker, to_server, silent.clone()),
        copy(from_server, to_worker, silent.clone())
    )?;
    Ok(())
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut silent: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).await;
        // Not even an end is heard before. What was said meanwhile comes after it, as TCP would send it again.
        end_of_silence(&mut silent).await;
        match read? {
            0 => return to.shutdown().await,
            length => to.write_all(&buffer[..length]).await?,
        }
    }
}

async fn end_of_silence(silent: &mut watch::Receiver<bool>) {
    // Who could end it has gone: then this ends, too.
    let _ = silent.wait_for(|is_silent| !is_silent).await;
}
