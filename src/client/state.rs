//! The state of the connection, as users see it.

/// The state of a client's connection to ZooKeeper.
///
/// As Curator's `ConnectionState`, with `Closed` added. Watch it with
/// [`Client::connection_state`](crate::Client::connection_state).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// Connected for the first time.
    Connected,
    /// There is no connection. The session, and every lock, may or may not live on.
    Suspended,
    /// Connected again, with the same session or, after [`Lost`](Self::Lost), with a new one.
    Reconnected,
    /// The session is over, and every lock of it is lost.
    Lost,
    /// Connected to a server that has no quorum and only reads: no lock can be acquired or released. Only an
    /// adopted session can be in this state.
    ReadOnly,
    /// The client is closed.
    Closed,
}

impl ConnectionState {
    /// Whether a server answers.
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::Reconnected | Self::ReadOnly)
    }
}
