//! The methods that the blocking re-entrant locks share.

/// Implements the common methods for the blocking twin of a re-entrant lock.
macro_rules! reentrant_lock {
    ($lock:ident) => {
        twin!($lock);

        impl $lock {
            /// Returns a handle to the same lock object that acquires with these options.
            ///
            /// # Errors
            /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the maximum hold time is zero, or the
            ///   node data is not allowed (see [`LockOptions::node_data`](crate::LockOptions::node_data)).
            pub fn with_options(&self, options: LockOptions) -> Result<Self> {
                self.inner.with_options(options).map(Self::from)
            }

            /// Acquires the lock for the current thread, blocking it until the lock is available. The blocking
            /// version of [`acquire`](crate::InterProcessMutex::acquire).
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn acquire(&self) -> Result<LockGuard> {
                wait(self.inner.acquire()).map(LockGuard::from)
            }

            /// Acquires the lock for an explicit owner, blocking the thread until the lock is available. The
            /// blocking version of [`acquire_as`](crate::InterProcessMutex::acquire_as).
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            pub fn acquire_as(&self, owner: &Owner) -> Result<LockGuard> {
                wait(self.inner.acquire_as(owner)).map(LockGuard::from)
            }

            /// Acquires the lock if it is available immediately; returns `None` otherwise. Blocks the thread for
            /// the round trip. The blocking version of [`try_acquire`](crate::InterProcessMutex::try_acquire).
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            pub fn try_acquire(&self) -> Result<Option<LockGuard>> {
                Ok(wait(self.inner.try_acquire())?.map(LockGuard::from))
            }

            /// Acquires the lock for an explicit owner if it is available immediately; returns `None` otherwise.
            /// Blocks the thread for the round trip. The blocking version of
            /// [`try_acquire_as`](crate::InterProcessMutex::try_acquire_as).
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            pub fn try_acquire_as(&self, owner: &Owner) -> Result<Option<LockGuard>> {
                Ok(wait(self.inner.try_acquire_as(owner))?.map(LockGuard::from))
            }

            /// Acquires the lock, blocking the thread for at most `within`. Returns `None` if that time elapsed in
            /// the queue. The blocking version of [`try_acquire_for`](crate::InterProcessMutex::try_acquire_for).
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
                Ok(wait(self.inner.try_acquire_for(within))?.map(LockGuard::from))
            }

            /// Acquires the lock for an explicit owner, blocking the thread for at most `within`. The blocking
            /// version of [`try_acquire_for_as`](crate::InterProcessMutex::try_acquire_for_as).
            ///
            /// # Errors
            /// Same as [`try_acquire_for`](Self::try_acquire_for).
            pub fn try_acquire_for_as(&self, owner: &Owner, within: Duration) -> Result<Option<LockGuard>> {
                Ok(wait(self.inner.try_acquire_for_as(owner, within))?.map(LockGuard::from))
            }

            /// Enters the queue, blocking the thread until that is done, and returns a [`Ticket`]. The blocking
            /// version of [`enqueue`](crate::InterProcessMutex::enqueue).
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            pub fn enqueue(&self) -> Result<Ticket> {
                wait(self.inner.enqueue()).map(Ticket::from)
            }

            /// Enters the queue for an explicit owner, blocking the thread until that is done, and returns a
            /// [`Ticket`]. The blocking version of [`enqueue_as`](crate::InterProcessMutex::enqueue_as).
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            pub fn enqueue_as(&self, owner: &Owner) -> Result<Ticket> {
                wait(self.inner.enqueue_as(owner)).map(Ticket::from)
            }

            /// Returns the holder and all waiters in queue order. The blocking version of
            /// [`participants`](crate::InterProcessMutex::participants).
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn participants(&self) -> Result<Vec<Participant>> {
                wait(self.inner.participants())
            }

            /// Returns whether the lock is held, in any process. The blocking version of
            /// [`is_locked`](crate::InterProcessMutex::is_locked).
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            pub fn is_locked(&self) -> Result<bool> {
                wait(self.inner.is_locked())
            }

            /// Returns the holder of the lock, in any process. The blocking version of
            /// [`holder`](crate::InterProcessMutex::holder).
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            pub fn holder(&self) -> Result<Option<Participant>> {
                wait(self.inner.holder())
            }

            /// Returns whether the path exists. The blocking version of
            /// [`path_exists`](crate::InterProcessMutex::path_exists).
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            pub fn path_exists(&self) -> Result<bool> {
                wait(self.inner.path_exists())
            }

            /// Returns whether any owner holds the lock through this object. Does not block.
            pub fn is_acquired_in_this_process(&self) -> bool {
                self.inner.is_acquired_in_this_process()
            }

            /// Returns whether this thread holds the lock through this object. Does not block.
            ///
            /// Corresponds to Curator's `isOwnedByCurrentThread`.
            pub fn is_owned_by_current(&self) -> bool {
                self.inner.is_owned_by_current()
            }

            /// Returns whether this owner holds the lock through this object. Does not block.
            pub fn is_owned_by(&self, owner: &Owner) -> bool {
                self.inner.is_owned_by(owner)
            }

            /// Returns the full path of the lock, including the namespace.
            pub fn path(&self) -> &str {
                self.inner.path()
            }
        }
    };
}

pub(super) use reentrant_lock;
