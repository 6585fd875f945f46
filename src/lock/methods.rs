//! The methods that locks share: those that know their holders again have all of them.

/// Gives a lock, a struct with a field `lock: Reentrant`, the methods that they all have, and makes it an
/// `InterProcessLock`.
macro_rules! reentrant_lock {
    ($lock:ident) => {
        impl $lock {
            /// The same lock object, whose acquires have these options. Without them an acquire has no maximum hold
            /// time and the client's identity as node data.
            ///
            /// # Errors
            /// [`Error::InvalidArgument`](crate::Error::InvalidArgument): a maximum hold time of zero.
            pub fn with_options(&self, options: LockOptions) -> Result<Self> {
                Ok(Self { lock: self.lock.with_options(options)? })
            }

            /// Acquires the lock for the current task, waiting for as long as it takes.
            ///
            /// Outside of a tokio task, the owner is the thread: under another executor all futures that run on one thread
            /// are one owner, and enter for each other. Give each an [`Owner`] there, with
            /// [`acquire_as`](Self::acquire_as).
            ///
            /// If the owner comes to hold the lock through another acquire or ticket while it waits, it enters again, and
            /// gives its place in the queue up.
            ///
            /// # Errors
            /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the server refuses, as for a missing right; at once.
            ///   Or it cannot be reached, and the client's [retry policy](crate::RetryPolicy) is exhausted.
            /// - [`Error::NotConnected`](crate::Error::NotConnected): the same before anything could be sent.
            /// - [`Error::WouldDeadlock`](crate::Error::WouldDeadlock): the same owner holds this path through
            ///   another lock object of this client, or holds for reading what it wants to write.
            /// - [`Error::KindConflict`](crate::Error::KindConflict): another kind of recipe uses this path: a contender
            ///   of it comes first in the queue, or this client has acquired it through a lock object that it still has.
            /// - [`Error::LockLost`](crate::Error::LockLost): the owner has entered before, and its hold was lost.
            /// - [`Error::Closed`](crate::Error::Closed): the client is closed, now or while waiting.
            ///
            /// A lost connection, an expired session or a deleted node do not end the wait. The place in the queue is
            /// kept for as long as the session lives; otherwise the wait goes on from the end of the queue.
            ///
            /// # Cancel safety
            /// The place in the queue is lost, and nothing stays behind: no node and no watch.
            pub async fn acquire(&self) -> Result<LockGuard> {
                self.acquire_as(&Owner::current()).await
            }

            /// Acquires the lock for an explicit owner.
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
            /// As [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// As [`acquire`](Self::acquire).
            pub async fn acquire_as(&self, owner: &Owner) -> Result<LockGuard> {
                self.lock.acquire(owner).await
            }

            /// Acquires the lock for the current task if no other contender is to be waited for; `None` otherwise.
            ///
            /// `None` says that somebody else has it, or comes first, and that it may be worth a later try. An owner that
            /// keeps itself out gets [`Error::WouldDeadlock`](crate::Error::WouldDeadlock), as by every other acquire: it
            /// could try for ever.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// Nothing stays behind.
            pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
                self.try_acquire_as(&Owner::current()).await
            }

            /// Acquires the lock for an explicit owner if no other contender is to be waited for.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// Nothing stays behind.
            pub async fn try_acquire_as(&self, owner: &Owner) -> Result<Option<LockGuard>> {
                self.lock.try_acquire(owner).await
            }

            /// Acquires the lock for the current task if that can be done within this time; `None` if it waited in the queue
            /// for all of it.
            ///
            /// The time bounds everything, also while the servers are down or silent. Leaving the queue at its end
            /// may take a round trip more, 100 ms at most. Zero is [`try_acquire`](Self::try_acquire).
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire). [`Error::NotConnected`](crate::Error::NotConnected) also if the queue was not
            /// reached within this time: then it is not known whether anybody else has the lock.
            ///
            /// # Cancel safety
            /// As [`acquire`](Self::acquire).
            pub async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
                self.try_acquire_for_as(&Owner::current(), within).await
            }

            /// Acquires the lock for an explicit owner if that can be done within this time.
            ///
            /// # Errors
            /// As [`try_acquire_for`](Self::try_acquire_for).
            ///
            /// # Cancel safety
            /// As [`acquire`](Self::acquire).
            pub async fn try_acquire_for_as(&self, owner: &Owner, within: Duration) -> Result<Option<LockGuard>> {
                self.lock.try_acquire_for(owner, within).await
            }

            /// Enters the queue for the current task, and returns with the place in it.
            ///
            /// While others of this client wait behind it, the node of the ticket is watched, which is one request more.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// Nothing stays in the queue.
            pub async fn enqueue(&self) -> Result<Ticket> {
                self.enqueue_as(&Owner::current()).await
            }

            /// Enters the queue for an explicit owner, and returns with the place in it.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// Nothing stays in the queue.
            pub async fn enqueue_as(&self, owner: &Owner) -> Result<Ticket> {
                Ticket::enter(&self.lock, owner).await
            }

            /// Everybody who holds the lock or waits for it, in order, the holder first; of a read/write lock, those of
            /// this side. Empty also if the path [does not exist](Self::path_exists). Contenders of Curator, go-zookeeper and kazoo are among
            /// them; contenders of another kind of recipe, which must not be at this path, are not. What was done
            /// before the call is seen, also through another server.
            ///
            /// # Errors
            /// [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected)
            /// when the queue cannot be read, or a contender's node: newer servers tell nothing of nodes that one
            /// has no right to read; [`Error::Closed`](crate::Error::Closed).
            ///
            /// # Cancel safety
            /// Nothing is changed by it.
            pub async fn participants(&self) -> Result<Vec<Participant>> {
                self.lock.participants().await
            }

            /// Whether anybody holds the lock, in whatever process. Nobody does if its path does not exist, which is no
            /// error: see [`path_exists`](Self::path_exists).
            ///
            /// # Errors
            /// As [`participants`](Self::participants).
            ///
            /// # Cancel safety
            /// Nothing is changed by it.
            pub async fn is_locked(&self) -> Result<bool> {
                self.lock.is_locked().await
            }

            /// Who holds the lock, in whatever process; of several readers, the first. `None` also if its path [does not
            /// exist](Self::path_exists).
            ///
            /// # Errors
            /// As [`participants`](Self::participants).
            ///
            /// # Cancel safety
            /// Nothing is changed by it.
            pub async fn holder(&self) -> Result<Option<Participant>> {
                self.lock.holder().await
            }

            /// Whether the path exists, to tell a lock that is free from a path that is mistyped. A path exists from the
            /// first acquire on, until nobody has used it for a while (a minute or so, by default) and the servers remove
            /// it; so a free lock may have none. That it exists does not say that it is the path of a lock.
            ///
            /// # Errors
            /// [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected)
            /// when it cannot be looked for; [`Error::Closed`](crate::Error::Closed).
            ///
            /// # Cancel safety
            /// Nothing is changed by it.
            pub async fn path_exists(&self) -> Result<bool> {
                self.lock.path_exists().await
            }

            /// Whether any owner holds the lock through this object. No request is made: a lock that was lost counts
            /// until its last guard is gone.
            pub fn is_acquired_in_this_process(&self) -> bool {
                self.lock.is_acquired_in_this_process()
            }

            /// Whether the current task, or outside of one the thread, holds the lock through this object.
            ///
            /// Curator's `isOwnedByCurrentThread`.
            pub fn is_owned_by_current(&self) -> bool {
                self.is_owned_by(&Owner::current())
            }

            /// Whether this owner holds the lock through this object. No request is made: a lock that was lost
            /// counts until its last guard is gone.
            pub fn is_owned_by(&self, owner: &Owner) -> bool {
                self.lock.is_owned_by(owner)
            }

            /// The full path of the lock, namespace included.
            pub fn path(&self) -> &str {
                self.lock.path()
            }
        }

        super::methods::inter_process_lock!($lock);
    };
}

/// Makes a lock that has methods of these names an `InterProcessLock`.
macro_rules! inter_process_lock {
    ($lock:ident) => {
        #[async_trait::async_trait]
        impl crate::lock::InterProcessLock for $lock {
            async fn acquire(&self) -> crate::Result<crate::LockGuard> {
                self.acquire().await
            }

            async fn try_acquire(&self) -> crate::Result<Option<crate::LockGuard>> {
                self.try_acquire().await
            }

            async fn try_acquire_for(
                &self,
                within: std::time::Duration,
            ) -> crate::Result<Option<crate::LockGuard>> {
                self.try_acquire_for(within).await
            }

            async fn is_locked(&self) -> crate::Result<bool> {
                self.is_locked().await
            }

            async fn holder(&self) -> crate::Result<Option<crate::Participant>> {
                self.holder().await
            }

            async fn path_exists(&self) -> crate::Result<bool> {
                self.path_exists().await
            }

            fn is_acquired_in_this_process(&self) -> bool {
                self.is_acquired_in_this_process()
            }

            fn path(&self) -> &str {
                self.path()
            }
        }
    };
}

pub(crate) use {inter_process_lock, reentrant_lock};
