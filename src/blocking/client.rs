//! The client, for threads.

use futures_util::FutureExt;

use super::wait::wait;
use crate::ConnectionState;
use crate::client::{ClientBuilder, ClientHealth};
use crate::error::Result;
use crate::watch::Watch;

/// A connection to ZooKeeper that outlives its sessions, for threads. The blocking twin of
/// [`Client`](crate::Client).
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
#[derive(Clone)]
#[must_use = "if unused, the client is closed at once"]
pub struct Client {
    pub(super) inner: crate::Client,
}

twin!(Client);

impl Client {
    /// Connects to ZooKeeper, blocking the thread. The blocking version of
    /// [`Client::connect`](crate::Client::connect).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn connect(connect_string: &str) -> Result<Self> {
        Self::builder().connect_blocking(connect_string)
    }

    /// Returns a builder with the settings of a client, which you can change before it
    /// [connects](ClientBuilder::connect_blocking).
    pub fn builder() -> ClientBuilder {
        crate::Client::builder()
    }

    /// Creates a client that connects in the background. Does not block. See
    /// [`Client::connect_lazily`](crate::Client::connect_lazily).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn connect_lazily(connect_string: &str) -> Result<Self> {
        crate::Client::connect_lazily(connect_string).map(Self::from)
    }

    /// Blocks the thread until there is a connection. The blocking version of
    /// [`Client::wait_connected`](crate::Client::wait_connected).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn wait_connected(&self) -> Result<()> {
        wait(self.inner.wait_connected())
    }

    /// Returns the state of the connection, since when there has been none, and for how long what the client holds is
    /// certain to stay held. Does not block. See [`Client::health`](crate::Client::health).
    pub fn health(&self) -> ClientHealth {
        self.inner.health()
    }

    /// Follows the state of the connection.
    pub fn watch_connection(&self) -> Watch<ConnectionState> {
        self.inner.watch_connection()
    }

    /// Returns the identity of the client. See [`Client::identity`](crate::Client::identity).
    pub fn identity(&self) -> &[u8] {
        self.inner.identity()
    }

    /// Closes the client, blocking the thread: ends the session, which frees all its locks, and wakes every
    /// waiting thread with [`Error::Closed`](crate::Error::Closed). The blocking version of
    /// [`Client::close`](crate::Client::close).
    ///
    /// # Errors
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    ///   The client is then not closed.
    pub fn close(&self) -> Result<()> {
        wait(self.inner.close().map(Ok))
    }

    /// Returns whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}

impl ClientBuilder {
    /// Connects to ZooKeeper, blocking the thread, and returns a client for [threads](crate::blocking). The
    /// blocking version of [`connect`](Self::connect).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn connect_blocking(self, connect_string: &str) -> Result<Client> {
        wait(self.connect(connect_string)).map(Client::from)
    }
}
