//! How a session is kept confirmed while a lock is held.

/// Selects the replies of the servers that confirm that a session is alive, and so keep a lock valid. Set it with
/// [`ClientBuilder::keep_alive`](crate::ClientBuilder::keep_alive).
///
/// Either way, only replies that involve the leader count. The difference is what a leader may answer that has lost
/// its followers and does not know it yet.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeepAlive {
    /// Only what a majority of the servers has committed confirms the session. The default.
    ///
    /// An isolated leader cannot commit anything, so no lock stays valid there while the other servers elect a new
    /// leader, expire the session and give the lock to another client.
    ///
    /// While a client holds a lock and writes nothing, it sends a transaction that only checks a version, every
    /// seventh of the session timeout. The transaction changes no node, but the servers log it like a write.
    #[default]
    Quorum,
    /// Replies to `sync` confirm the session as well, and `sync` is sent while a client holds a lock and writes
    /// nothing. The servers do not log it.
    ///
    /// An isolated leader answers `sync` by itself until it notices that it has lost its followers, which takes up
    /// to `syncLimit` ticks of the servers (10 s with ZooKeeper's sample configuration). If the other servers elect
    /// a leader earlier than that, two clients can both consider themselves holders of one lock for the rest of
    /// that time; and a [`Barrier`](crate::barriers::Barrier) that is set may look open. Choose this only if the log is
    /// the bottleneck, and if the protected resource checks fencing tokens.
    Leader,
}
