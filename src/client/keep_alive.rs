//! How a session is kept confirmed while somebody holds a lock.

/// Which answers of the servers confirm that a session is alive, and so keep a lock valid. Set it with
/// [`ClientBuilder::keep_alive`](crate::ClientBuilder::keep_alive).
///
/// Either way only answers in which the leader takes part count. They differ in what a leader may answer that
/// has lost its followers and does not know it yet.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeepAlive {
    /// Only what a majority of the servers has committed confirms the session. The default.
    ///
    /// An isolated leader cannot commit anything, so no lock stays valid there while the other servers elect
    /// a new leader, expire the session and give the lock away.
    ///
    /// While a client holds a lock and writes nothing, it sends a transaction that only checks a version, every
    /// seventh of the session timeout. It changes no node, but the servers log it as they log a write.
    #[default]
    Quorum,
    /// The answers to `sync` confirm the session, too, and `sync` is what is sent while a client holds a lock and
    /// writes nothing. The servers log nothing for it.
    ///
    /// An isolated leader answers `sync` by itself until it notices that it has lost its followers, which takes up to
    /// `syncLimit` ticks of the servers (10 s with ZooKeeper's sample configuration). If the other servers elect a
    /// leader earlier than that, two clients can both believe that they hold one lock for the rest of that time.
    /// Choose this only where the log is the bottleneck, and what the lock protects checks fencing tokens.
    Leader,
}
