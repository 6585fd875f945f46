//! The methods that the locks share. Re-entrant locks have all of them.

/// Implements the common methods and `InterProcessLock` for a re-entrant lock: a struct with a field `lock:
/// Reentrant`.
macro_rules! reentrant_lock {
    ($lock:ident) => {
        impl $lock {
            /// Returns a handle to the same lock object that acquires with these options. By default an acquire
            /// has no maximum hold time, and its node data is the client's identity.
            ///
            /// # Errors
            /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the maximum hold time is zero, or the
            ///   node data is not allowed (see [`LockOptions::node_data`](crate::LockOptions::node_data)).
            pub fn with_options(&self, options: LockOptions) -> Result<Self> {
                Ok(Self { lock: self.lock.with_options(options)? })
            }

            /// Acquires the lock for the current task, waiting until it is available.
            ///
            /// Outside of a tokio task, the owner is the thread. Under another executor, all futures that run on
            /// one thread are therefore one owner and re-enter each other's locks; give each an [`Owner`] there,
            /// with [`acquire_as`](Self::acquire_as).
            ///
            /// If the owner acquires the lock through another call or ticket while this call waits, this call
            /// re-enters the lock and gives up its place in the queue.
            ///
            /// A lost connection, an expired session or a deleted node does not end the wait. The place in the
            /// queue is kept as long as the session lives; otherwise the wait continues from the end of the queue.
            ///
            /// # Errors
            /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the server refuses the request, for example
            ///   because permission is missing, which is reported immediately; or it cannot be reached, and the
            ///   client's [retry policy](crate::RetryPolicy) is exhausted.
            /// - [`Error::NotConnected`](crate::Error::NotConnected): the server cannot be reached, the retry
            ///   policy is exhausted, and nothing could be sent.
            /// - [`Error::WouldDeadlock`](crate::Error::WouldDeadlock): the same owner holds this path through
            ///   another lock object of this client, or holds the read lock while acquiring the write lock.
            /// - [`Error::KindConflict`](crate::Error::KindConflict): another kind of recipe uses this path.
            ///   Either a contender of that kind comes first in the queue, or this client has acquired the path
            ///   through a lock object of that kind that still exists.
            /// - [`Error::LockLost`](crate::Error::LockLost): the owner already held the lock, and that hold was
            ///   lost.
            /// - [`Error::Closed`](crate::Error::Closed): the client is closed, or is closed while waiting.
            ///
            /// # Cancel safety
            /// If cancelled, the place in the queue is given up, and neither a node nor a watch is left behind.
            pub async fn acquire(&self) -> Result<LockGuard> {
                self.acquire_as(&Owner::current()).await
            }

            /// Acquires the lock for an explicit owner, waiting until it is available.
            ///
            /// ```no_run
            #[doc = concat!("# async fn example(lock: zk_recipes::", stringify!($lock), ") -> zk_recipes::Result<()> {")]
            /// let owner = zk_recipes::Owner::new();
            /// let guard = lock.acquire_as(&owner).await?;
            /// // Another task that works for the same owner may enter.
            /// tokio::spawn(async move {
            ///     let again = lock.acquire_as(&owner).await?;
            ///     again.release().await
            /// });
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// Same as [`acquire`](Self::acquire).
            pub async fn acquire_as(&self, owner: &Owner) -> Result<LockGuard> {
                self.lock.acquire(owner).await
            }

            /// Acquires the lock for the current task if it is available immediately; returns `None` otherwise.
            ///
            /// `None` means that another owner holds the lock or is ahead in the queue, so a later try may
            /// succeed. An owner that would wait for itself gets
            /// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock) instead, as from every other acquire: no
            /// later try could succeed.
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// If cancelled, nothing is left behind.
            pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
                self.try_acquire_as(&Owner::current()).await
            }

            /// Acquires the lock for an explicit owner if it is available immediately; returns `None` otherwise.
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// If cancelled, nothing is left behind.
            pub async fn try_acquire_as(&self, owner: &Owner) -> Result<Option<LockGuard>> {
                self.lock.try_acquire(owner).await
            }

            /// Acquires the lock for the current task, waiting at most `within`. Returns `None` if that time
            /// elapsed in the queue.
            ///
            /// The bound holds even while the servers are down or do not respond. Leaving the queue afterwards may
            /// take another round trip, at most 100 ms. Zero is the same as [`try_acquire`](Self::try_acquire).
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire), and:
            /// - [`Error::NotConnected`](crate::Error::NotConnected): the queue was not reached within this time,
            ///   so it is unknown whether another owner holds the lock.
            ///
            /// # Cancel safety
            /// Same as [`acquire`](Self::acquire).
            pub async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
                self.try_acquire_for_as(&Owner::current(), within).await
            }

            /// Acquires the lock for an explicit owner, waiting at most `within`.
            ///
            /// # Errors
            /// Same as [`try_acquire_for`](Self::try_acquire_for).
            ///
            /// # Cancel safety
            /// Same as [`acquire`](Self::acquire).
            pub async fn try_acquire_for_as(&self, owner: &Owner, within: Duration) -> Result<Option<LockGuard>> {
                self.lock.try_acquire_for(owner, within).await
            }

            /// Enters the queue for the current task, and returns a [`Ticket`] for the place in it.
            ///
            /// While other contenders of this client wait behind the ticket, its node is watched, which takes one
            /// more request.
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// If cancelled, nothing is left in the queue.
            pub async fn enqueue(&self) -> Result<Ticket> {
                self.enqueue_as(&Owner::current()).await
            }

            /// Enters the queue for an explicit owner, and returns a [`Ticket`] for the place in it.
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// If cancelled, nothing is left in the queue.
            pub async fn enqueue_as(&self, owner: &Owner) -> Result<Ticket> {
                Ticket::enter(&self.lock, owner).await
            }

            /// Returns the holder and all waiters in queue order, the holder first. For a read/write lock, only
            /// those of this side. Empty if the path [does not exist](Self::path_exists).
            ///
            /// The list includes contenders of Curator, go-zookeeper and kazoo. It does not include contenders of
            /// another kind of recipe, which must not use this path. It reflects everything that was done before
            /// the call, even through another server.
            ///
            /// # Errors
            /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the queue or a contender's node cannot be read.
            ///   Newer servers reveal nothing about nodes that the client has no permission to read.
            /// - [`Error::NotConnected`](crate::Error::NotConnected): the servers cannot be reached.
            /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
            ///
            /// # Cancel safety
            /// Cancel safe: this only reads.
            pub async fn participants(&self) -> Result<Vec<Participant>> {
                self.lock.participants().await
            }

            /// Returns whether the lock is held, in any process. A lock whose path does not exist is not held,
            /// which is no error: see [`path_exists`](Self::path_exists).
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            ///
            /// # Cancel safety
            /// Cancel safe: this only reads.
            pub async fn is_locked(&self) -> Result<bool> {
                self.lock.is_locked().await
            }

            /// Returns the holder of the lock, in any process; of several readers, the first. `None` if the lock
            /// is free or its path [does not exist](Self::path_exists).
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            ///
            /// # Cancel safety
            /// Cancel safe: this only reads.
            pub async fn holder(&self) -> Result<Option<Participant>> {
                self.lock.holder().await
            }

            /// Returns whether the path exists, which tells a free lock from a mistyped path.
            ///
            /// The path exists from the first acquire until it has been unused for a while (about a minute by
            /// default) and the servers remove it, so the path of a free lock may not exist. An existing path is
            /// not necessarily the path of a lock.
            ///
            /// # Errors
            /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the server refuses the request or cannot be
            ///   reached.
            /// - [`Error::NotConnected`](crate::Error::NotConnected): the servers cannot be reached, and nothing
            ///   could be sent.
            /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
            ///
            /// # Cancel safety
            /// Cancel safe: this only reads.
            pub async fn path_exists(&self) -> Result<bool> {
                self.lock.path_exists().await
            }

            /// Returns whether any owner holds the lock through this object. Makes no request: a lost lock counts
            /// until its last guard is gone.
            pub fn is_acquired_in_this_process(&self) -> bool {
                self.lock.is_acquired_in_this_process()
            }

            /// Returns whether the current task, or outside of a task the current thread, holds the lock through
            /// this object.
            ///
            /// Corresponds to Curator's `isOwnedByCurrentThread`.
            pub fn is_owned_by_current(&self) -> bool {
                self.is_owned_by(&Owner::current())
            }

            /// Returns whether this owner holds the lock through this object. Makes no request: a lost lock counts
            /// until its last guard is gone.
            pub fn is_owned_by(&self, owner: &Owner) -> bool {
                self.lock.is_owned_by(owner)
            }

            /// Returns the full path of the lock, including the namespace.
            pub fn path(&self) -> &str {
                self.lock.path()
            }
        }

        super::inter_process_lock::inter_process_lock!($lock);
    };
}

pub(crate) use reentrant_lock;
