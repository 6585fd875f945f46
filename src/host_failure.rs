//! Why a server of the connect string gave no session.

use std::fmt;

/// A server of the connect string that gave no session, and why. See
/// [`Error::NotConnected`](crate::Error::NotConnected).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostFailure {
    /// The server, as `host:port`.
    pub host: String,
    /// What was found out about it.
    pub cause: ConnectFailure,
}

/// Why a server gave no session, as far as a separate probe connection could find out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// Nothing listens on the port.
    Refused,
    /// The host name does not resolve to an address.
    NameNotFound,
    /// The server has not answered so far: the host is down, or a firewall drops the packets.
    NoAnswer,
    /// Something other than ZooKeeper listens on the port.
    NotZooKeeper,
    /// The server expects encrypted connections.
    NeedsTls,
    /// The server runs, but has no quorum.
    NotServing,
    /// The server runs, but gave no session. It may have too many connections, or be restarting.
    NoSession,
    /// The server accepts connections, but gave no session over TLS. Check certificates and host names.
    NoTlsSession,
    /// Any other failure to connect, as reported by the operating system.
    Other(String),
}

impl fmt::Display for HostFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.host, self.cause)
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::NameNotFound => "name not found",
            Self::NoAnswer => "no answer",
            Self::NotZooKeeper => "not a ZooKeeper server",
            Self::NeedsTls => "expects TLS, write tcp+tls://",
            Self::NotServing => "not serving, it has no quorum",
            Self::NoSession => "runs, but gave no session",
            Self::NoTlsSession => "reachable, but gave no session over TLS",
            Self::Other(reason) => reason,
        })
    }
}
