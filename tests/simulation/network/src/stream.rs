//! The ends of connections.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::pipe::{Pipe, Reader};
use crate::{Link, MACHINE, NETWORK};

/// One end of a connection. Dropping it closes the connection.
#[derive(Debug)]
pub struct TcpStream {
    incoming: Reader,
    outgoing: Pipe,
    link: u64,
}

/// Accepts the connections of an address.
#[derive(Debug)]
pub struct Listener(mpsc::UnboundedReceiver<TcpStream>);

/// What `connect` takes.
pub trait ToAddress {
    fn to_address(self) -> String;
}

impl ToAddress for (&str, u16) {
    fn to_address(self) -> String {
        format!("{}:{}", self.0, self.1)
    }
}

impl ToAddress for &[SocketAddr] {
    fn to_address(self) -> String {
        self.first().map(SocketAddr::to_string).unwrap_or_default()
    }
}

impl Listener {
    pub fn bind(address: &str) -> Self {
        let (connections, accepted) = mpsc::unbounded_channel();
        NETWORK.with_borrow_mut(|network| network.listeners.insert(address.to_owned(), connections));
        Self(accepted)
    }

    pub async fn accept(&mut self) -> TcpStream {
        match self.0.recv().await {
            Some(stream) => stream,
            None => std::future::pending().await,
        }
    }
}

impl TcpStream {
    /// # Errors
    /// `ConnectionRefused`.
    pub async fn connect(address: impl ToAddress) -> io::Result<Self> {
        let address = address.to_address();
        let machine = MACHINE.get();
        let delay = NETWORK.with_borrow_mut(|network| network.delay());
        tokio::time::sleep(delay).await;
        NETWORK.with_borrow_mut(|network| {
            let listener = network.listeners.get(&address).filter(|_| !network.refused.contains(&address));
            let listener = listener.ok_or(io::ErrorKind::ConnectionRefused)?;
            let (requests, replies) = (Pipe::default(), Pipe::default());
            let link = network.last_link + 1;
            let end = |incoming: &Pipe, outgoing: &Pipe| Self {
                incoming: Reader::new(incoming.clone()),
                outgoing: outgoing.clone(),
                link,
            };
            let client = end(&replies, &requests);
            listener.send(end(&requests, &replies)).map_err(|_| io::ErrorKind::ConnectionRefused)?;
            network.last_link = link;
            network.links.insert(link, Link { machine, address, requests, replies });
            Ok(client)
        })
    }

    /// # Errors
    /// None.
    pub fn set_nodelay(&self, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        NETWORK.with_borrow_mut(|network| {
            let arrives = Instant::now() + network.delay();
            let arrives = self.outgoing.send(bytes, arrives)?;
            network.note(self.link, arrives, bytes);
            Ok(bytes.len())
        })
    }

    fn close(&self) {
        self.outgoing.close();
        self.incoming.pipe().close();
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.close();
        // Not while the thread ends, or the network is replaced.
        let _ = NETWORK.try_with(|network| {
            if let Ok(mut network) = network.try_borrow_mut() {
                network.links.remove(&self.link);
            }
        });
    }
}

impl futures_io::AsyncRead for TcpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.incoming.poll_read(cx, buffer)
    }
}

impl futures_io::AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        Poll::Ready(self.write(&bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close();
        Poll::Ready(Ok(()))
    }
}

impl tokio::io::AsyncRead for TcpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = ready!(self.incoming.poll_read(cx, buffer.initialize_unfilled()))?;
        buffer.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl tokio::io::AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close();
        Poll::Ready(Ok(()))
    }
}
