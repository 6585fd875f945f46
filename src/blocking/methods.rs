//! The methods that the re-entrant locks have in common.

/// Gives the twin of a re-entrant lock the methods that all of them have.
macro_rules! reentrant_lock {
    ($lock:ident) => {
        twin!($lock);

        impl $lock {
            /// The same lock object, whose acquires have these options.
            ///
            /// # Errors
            /// [`Error::InvalidArgument`](crate::Error::InvalidArgument): a maximum hold time of zero.
            pub fn with_options(&self, options: LockOptions) -> Result<Self> {
                self.inner.with_options(options).map(Self::from)
            }

            /// As [`acquire`](crate::InterProcessMutex::acquire) of the async lock, and blocks the thread, which is the
            /// owner.
            ///
            /// # Errors
            /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
            pub fn acquire(&self) -> Result<LockGuard> {
                wait(self.inner.acquire()).map(LockGuard::from)
            }

            /// As [`acquire_as`](crate::InterProcessMutex::acquire_as) of the async lock, and blocks the thread.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire).
            pub fn acquire_as(&self, owner: &Owner) -> Result<LockGuard> {
                wait(self.inner.acquire_as(owner)).map(LockGuard::from)
            }

            /// As [`try_acquire`](crate::InterProcessMutex::try_acquire) of the async lock, and blocks the thread for the
            /// round trip.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire).
            pub fn try_acquire(&self) -> Result<Option<LockGuard>> {
                Ok(wait(self.inner.try_acquire())?.map(LockGuard::from))
            }

            /// As [`try_acquire_as`](crate::InterProcessMutex::try_acquire_as) of the async lock, and blocks the thread for
            /// the round trip.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire).
            pub fn try_acquire_as(&self, owner: &Owner) -> Result<Option<LockGuard>> {
                Ok(wait(self.inner.try_acquire_as(owner))?.map(LockGuard::from))
            }

            /// As [`try_acquire_for`](crate::InterProcessMutex::try_acquire_for) of the async lock, and blocks the thread
            /// for that time at most.
            ///
            /// # Errors
            /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
            pub fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
                Ok(wait(self.inner.try_acquire_for(within))?.map(LockGuard::from))
            }

            /// As [`try_acquire_for_as`](crate::InterProcessMutex::try_acquire_for_as) of the async lock, and blocks the
            /// thread for that time at most.
            ///
            /// # Errors
            /// As [`try_acquire_for`](Self::try_acquire_for).
            pub fn try_acquire_for_as(&self, owner: &Owner, within: Duration) -> Result<Option<LockGuard>> {
                Ok(wait(self.inner.try_acquire_for_as(owner, within))?.map(LockGuard::from))
            }

            /// As [`enqueue`](crate::InterProcessMutex::enqueue) of the async lock, and blocks the thread until it is in
            /// the queue.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire).
            pub fn enqueue(&self) -> Result<Ticket> {
                wait(self.inner.enqueue()).map(Ticket::from)
            }

            /// As [`enqueue_as`](crate::InterProcessMutex::enqueue_as) of the async lock, and blocks the thread until it is
            /// in the queue.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire).
            pub fn enqueue_as(&self, owner: &Owner) -> Result<Ticket> {
                wait(self.inner.enqueue_as(owner)).map(Ticket::from)
            }

            /// As [`participants`](crate::InterProcessMutex::participants) of the async lock, and blocks the thread.
            ///
            /// # Errors
            /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
            pub fn participants(&self) -> Result<Vec<Participant>> {
                wait(self.inner.participants())
            }

            /// As [`is_locked`](crate::InterProcessMutex::is_locked) of the async lock, and blocks the thread.
            ///
            /// # Errors
            /// As [`participants`](Self::participants).
            pub fn is_locked(&self) -> Result<bool> {
                wait(self.inner.is_locked())
            }

            /// As [`holder`](crate::InterProcessMutex::holder) of the async lock, and blocks the thread.
            ///
            /// # Errors
            /// As [`participants`](Self::participants).
            pub fn holder(&self) -> Result<Option<Participant>> {
                wait(self.inner.holder())
            }

            /// As [`path_exists`](crate::InterProcessMutex::path_exists) of the async lock, and blocks the
            /// thread.
            ///
            /// # Errors
            /// As [`participants`](Self::participants).
            pub fn path_exists(&self) -> Result<bool> {
                wait(self.inner.path_exists())
            }

            /// Whether any owner holds the lock through this object. It does not block.
            pub fn is_acquired_in_this_process(&self) -> bool {
                self.inner.is_acquired_in_this_process()
            }

            /// Whether this thread holds the lock through this object. It does not block.
            ///
            /// Curator's `isOwnedByCurrentThread`.
            pub fn is_owned_by_current(&self) -> bool {
                self.inner.is_owned_by_current()
            }

            /// Whether this owner holds the lock through this object. It does not block.
            pub fn is_owned_by(&self, owner: &Owner) -> bool {
                self.inner.is_owned_by(owner)
            }

            /// The full path of the lock, namespace included.
            pub fn path(&self) -> &str {
                self.inner.path()
            }
        }
    };
}

pub(super) use reentrant_lock;
