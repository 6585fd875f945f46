//! The methods that locks have in common, written once.

/// Gives a lock the methods that do not depend on its kind. Each calls that of the same name of the field `$of`.
macro_rules! lock_methods {
    ($name:ident, $of:ident) => {
        impl $name {
            /// Acquires the lock if it is available immediately; returns `None` otherwise.
            ///
            /// `None` means that someone else holds the lock or is ahead in the queue, so a later try may succeed. If the
            /// lock knows its owner, and the owner holds this path itself, so that it cannot be granted, this fails with
            /// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock), as every other acquire: no later try could succeed.
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// If cancelled, nothing is left behind.
            pub async fn try_acquire(&self) -> crate::Result<Option<crate::LockGuard>> {
                self.$of.try_acquire().await
            }

            /// Acquires the lock, waiting at most `within`. Returns `None` if that time elapsed in the queue.
            ///
            /// The bound holds even while the servers are down or do not respond. Leaving the queue afterwards may take
            /// another round trip, at most 100 ms. Zero is the same as [`try_acquire`](Self::try_acquire).
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire), and:
            /// - [`Error::NotConnected`](crate::Error::NotConnected): the queue was not reached within this time, or the
            ///   lock was free and could not be taken, so it is unknown whether someone else holds it.
            ///
            /// # Cancel safety
            /// Same as [`acquire`](Self::acquire).
            pub async fn try_acquire_for(
                &self,
                within: std::time::Duration,
            ) -> crate::Result<Option<crate::LockGuard>> {
                self.$of.try_acquire_for(within).await
            }

            /// Returns the holder and all waiters in queue order, the holder first; of one side of a read/write lock, those
            /// of that side. Empty if the path [does not exist](Self::path_exists).
            ///
            /// The list includes contenders of other libraries that share the path. It does not include contenders of
            /// another kind of recipe, which must not use this path. It reflects everything that was done before the call,
            /// even through another server, as far as a `sync` goes (see [how new a value
            /// is](crate::guide::values#how-new-a-value-is)).
            ///
            /// # Errors
            /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the queue or a contender's node cannot be read. Newer
            ///   servers reveal nothing about nodes that the client has no permission to read.
            /// - [`Error::NotConnected`](crate::Error::NotConnected): the servers cannot be reached.
            /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
            ///
            /// # Cancel safety
            /// Cancel safe: this only reads.
            pub async fn participants(&self) -> crate::Result<Vec<crate::Participant>> {
                self.$of.participants().await
            }

            /// Returns whether the lock is held, in any process. A lock whose path does not exist is not held, which is no
            /// error: see [`path_exists`](Self::path_exists).
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            ///
            /// # Cancel safety
            /// Cancel safe: this only reads.
            pub async fn is_locked(&self) -> crate::Result<bool> {
                self.$of.is_locked().await
            }

            /// Returns the holder of the lock, in any process; of several readers, the first. `None` if the lock is free or
            /// its path [does not exist](Self::path_exists).
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            ///
            /// # Cancel safety
            /// Cancel safe: this only reads.
            pub async fn holder(&self) -> crate::Result<Option<crate::Participant>> {
                self.$of.holder().await
            }

            /// Returns whether the path exists, which tells a free lock from a mistyped path.
            ///
            /// The path exists from the first acquire until it has been unused for a while (about a minute by default) and
            /// the servers remove it, so the path of a free lock may not exist. An existing path is not necessarily the
            /// path of a lock.
            ///
            /// # Errors
            /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the server refuses the request or cannot be reached.
            /// - [`Error::NotConnected`](crate::Error::NotConnected): the servers cannot be reached, and nothing could be
            ///   sent.
            /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
            ///
            /// # Cancel safety
            /// Cancel safe: this only reads.
            pub async fn path_exists(&self) -> crate::Result<bool> {
                self.$of.path_exists().await
            }

            /// Returns whether any owner holds the lock through this object. Makes no request: a lost lock counts until its
            /// last guard is gone.
            pub fn is_acquired_in_this_process(&self) -> bool {
                self.$of.is_acquired_in_this_process()
            }

            /// Returns whether this owner holds the lock through this object. Makes no request: a lost lock counts until
            /// its last guard is gone. With [`Owner::current`](crate::Owner::current), corresponds to Curator's
            /// `isOwnedByCurrentThread`.
            pub fn is_owned_by(&self, owner: &crate::Owner) -> bool {
                self.$of.is_owned_by(owner)
            }

            /// Returns the full path of the lock, including the namespace.
            pub fn path(&self) -> &str {
                self.$of.path()
            }
        }
    };
}

/// The same for a lock that is made of a [`Reentrant`](super::Reentrant), in the field `lock`.
macro_rules! reentrant_methods {
    ($name:ident) => {
        $crate::lock::methods::lock_methods!($name, lock);

        impl $name {
            /// Returns a handle to the same lock object that acquires for this owner instead of the current task.
            ///
            /// ```no_run
            /// # async fn example(mutex: zk_recipes::InterProcessMutex) -> zk_recipes::Result<()> {
            /// let owner = zk_recipes::Owner::new();
            /// let mutex = mutex.owned_by(&owner);
            /// let guard = mutex.acquire().await?;
            /// // Another task that works for the same owner may enter.
            /// tokio::spawn(async move {
            ///     let again = mutex.acquire().await?;
            ///     again.release().await
            /// });
            /// # Ok(())
            /// # }
            /// ```
            pub fn owned_by(&self, owner: &crate::Owner) -> Self {
                Self { lock: self.lock.owned_by(owner) }
            }

            /// Enters the queue, and returns a [`Ticket`](crate::Ticket) for the place in it.
            ///
            /// While other contenders of this client wait behind the ticket for longer than a second, its node is watched,
            /// which takes one more request.
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// If cancelled, nothing is left in the queue.
            pub async fn enqueue(&self) -> crate::Result<crate::Ticket> {
                crate::Ticket::enter(&self.lock).await
            }
        }
    };
}

pub(super) use {lock_methods, reentrant_methods};
