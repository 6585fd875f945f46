//! Which connection something was learnt on.

/// Distinguishes one connection to the servers from the next. What was seen on a connection is only known to be
/// followed by the events of that same connection: after a reconnect, events arrive in no particular order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Connection(pub(crate) u64);

impl Connection {
    /// None yet. Nothing is ever learnt on it.
    pub(crate) const NONE: Self = Self(0);
}
