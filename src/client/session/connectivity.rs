//! The connections of a session, one after the other.

use std::sync::Arc;

use zookeeper_client as zk;

use super::super::connection::Connection;

/// The state of the connection of a session.
#[derive(Clone)]
pub(in crate::client) enum Connectivity {
    Connected(Arc<Connection>),
    /// The connection of that number is over, and there is no other yet.
    Down(u64),
    /// An adopted session continues, but is no longer followed. Remaining requests are made without any guarantee.
    Left(Arc<Connection>),
    Over,
}

impl Connectivity {
    /// Returns the connection to make requests on.
    ///
    /// # Errors
    /// [`ConnectionLoss`](zk::Error::ConnectionLoss) if there is none at the moment.
    /// [`SessionExpired`](zk::Error::SessionExpired) if the session is over.
    pub(super) fn usable(&self) -> Result<&Arc<Connection>, zk::Error> {
        match self {
            Self::Connected(connection) if connection.is_alive() => Ok(connection),
            Self::Left(connection) => Ok(connection),
            Self::Connected(_) | Self::Down(_) => Err(zk::Error::ConnectionLoss),
            Self::Over => Err(zk::Error::SessionExpired),
        }
    }

    /// Whether a request would be sent, or fail for good.
    pub(super) fn is_settled(&self) -> bool {
        !matches!(self.usable(), Err(zk::Error::ConnectionLoss))
    }
}
