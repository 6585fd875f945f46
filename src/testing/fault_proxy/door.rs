//! The port on which clients connect.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time;

use crate::testing::ports::Port;

/// The pause after a failed accept: the system is short of something, such as file descriptors.
const RECOVERY: Duration = Duration::from_millis(10);

/// A port on which connections are accepted or refused.
pub(super) struct Door {
    port: Port,
    runtime: Handle,
    /// `None` while connections are refused.
    listener: Mutex<Option<TcpListener>>,
    opened: Notify,
}

impl Door {
    /// Opens a port, on the runtime that this is called on.
    pub(super) fn open() -> io::Result<Self> {
        let port = Port::reserve()?;
        let listener = Mutex::new(Some(port.listen()?));
        Ok(Self { port, runtime: Handle::current(), listener, opened: Notify::new() })
    }

    pub(super) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(super) fn is_open(&self) -> bool {
        self.listener.lock().is_some()
    }

    /// Refuses connections from now on.
    pub(super) fn close(&self) {
        *self.listener.lock() = None;
    }

    pub(super) fn reopen(&self) -> io::Result<()> {
        let mut listener = self.listener.lock();
        if listener.is_none() {
            let _entered = self.runtime.enter();
            *listener = Some(self.port.listen()?);
            self.opened.notify_one();
        }
        Ok(())
    }

    /// Returns the next connection. For use by one task only.
    pub(super) async fn next(&self) -> TcpStream {
        loop {
            tokio::select! {
                accepted = poll_fn(|cx| self.poll_accept(cx)) => match accepted {
                    Ok(stream) => return stream,
                    Err(_) => time::sleep(RECOVERY).await,
                },
                () = self.opened.notified() => {}
            }
        }
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        match &*self.listener.lock() {
            Some(listener) => listener.poll_accept(cx).map_ok(|(stream, _)| stream),
            None => Poll::Pending,
        }
    }
}
