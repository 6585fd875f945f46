//! The client, for threads.

use super::twin::twin;
use super::wait::wait;
use super::watch::Watch;
use crate::ConnectionState;
use crate::client::ClientBuilder;
use crate::error::Result;

/// A connection to ZooKeeper that outlives its sessions, for threads. See [`Client`](crate::Client).
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::blocking::Client;
///
/// # fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181")?;
/// // With settings:
/// let client = Client::builder()
///     .session_timeout(Duration::from_secs(10))
///     .connect_blocking("zk1:2181,zk2:2181,zk3:2181")?;
/// client.close()
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "if unused, the client is closed at once"]
pub struct Client {
    pub(super) inner: crate::Client,
}

twin!(Client);

impl Client {
    /// As [`Client::connect`](crate::Client::connect), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn connect(connect_string: &str) -> Result<Self> {
        Self::builder().connect_blocking(connect_string)
    }

    /// The settings of a client, to be changed before it [connects](ClientBuilder::connect_blocking).
    pub fn builder() -> ClientBuilder {
        crate::Client::builder()
    }

    /// As [`Client::connect_lazily`](crate::Client::connect_lazily). It does not block.
    ///
    /// # Errors
    /// As there.
    pub fn connect_lazily(connect_string: &str) -> Result<Self> {
        crate::Client::connect_lazily(connect_string).map(Self::from)
    }

    /// As [`Client::wait_connected`](crate::Client::wait_connected), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn wait_connected(&self) -> Result<()> {
        wait(self.inner.wait_connected())
    }

    /// The state of the connection, now and from now on.
    pub fn connection_state(&self) -> Watch<ConnectionState> {
        self.inner.connection_state().into()
    }

    /// As [`Client::identity`](crate::Client::identity).
    pub fn identity(&self) -> &[u8] {
        self.inner.identity()
    }

    /// As [`Client::close`](crate::Client::close), and blocks the thread: ends the session, so that all its locks are
    /// free, and wakes every thread that waits with [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Errors
    /// [`Error::WithinRuntime`](crate::Error::WithinRuntime): then it is not closed.
    pub fn close(&self) -> Result<()> {
        wait(async {
            self.inner.close().await;
            Ok(())
        })
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}

impl ClientBuilder {
    /// As [`connect`](Self::connect), and blocks the thread. Returns a client for [threads](crate::blocking).
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn connect_blocking(self, connect_string: &str) -> Result<Client> {
        wait(self.connect(connect_string)).map(Client::from)
    }
}
