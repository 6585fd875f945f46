//! The state of the connection, as users see it.

/// The state of a client's connection to ZooKeeper.
///
/// It corresponds to Curator's `ConnectionState`, with `Closed` in addition. Watch it with
/// [`Client::watch_connection`](crate::Client::watch_connection).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// Connected for the first time.
    Connected,
    /// There is no connection. The session, and every lock on it, may or may not still be alive.
    Suspended,
    /// Connected again, with the same session or, after [`Lost`](Self::Lost), with a new one.
    Reconnected,
    /// The session is over, and every lock on it is lost.
    Lost,
    /// Connected to a server that has no quorum and only serves reads: no lock can be acquired or released. Only an
    /// adopted session can be in this state.
    ReadOnly,
    /// The client is closed.
    Closed,
}

impl ConnectionState {
    /// Its name in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connected | Self::Reconnected => "connected",
            Self::Suspended => "suspended",
            Self::Lost => "lost",
            Self::ReadOnly => "read_only",
            Self::Closed => "closed",
        }
    }

    pub(super) fn accepts_writes(self) -> bool {
        matches!(self, Self::Connected | Self::Reconnected)
    }

    /// Returns whether there is a connection to a server.
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::Reconnected | Self::ReadOnly)
    }
}
