//! What the blocking types have in common with their async twins, written once.

/// Implements `Debug` for a blocking type, which is shown as its async twin.
macro_rules! debug_as_inner {
    ($(<$of:ident>)? $name:ident $(<$arg:tt>)?) => {
        impl $(<$of>)? std::fmt::Debug for $name $(<$arg>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.inner.fmt(f)
            }
        }
    };
}

/// Makes a type with the field `inner` the blocking twin of the async type of the same name.
macro_rules! twin {
    ($name:ident) => {
        twin!($name of crate);
    };
    ($name:ident of $($module:ident)::+) => {
        debug_as_inner!($name);

        impl $name {
            /// Returns the async twin.
            pub fn as_async(&self) -> &$($module)::+::$name {
                &self.inner
            }
        }

        impl From<$($module)::+::$name> for $name {
            fn from(inner: $($module)::+::$name) -> Self {
                Self { inner }
            }
        }

        impl From<$name> for $($module)::+::$name {
            fn from(twin: $name) -> Self {
                twin.inner
            }
        }
    };
}

/// Makes a type the blocking twin of a lock, with the methods that all locks have. `what` is what they acquire.
macro_rules! lock_twin {
    ($name:ident, $what:literal) => {
        twin!($name);

        impl $name {
            /// Returns a handle to the same lock object that acquires with these options.
            #[doc = of_twin!($name, "with_options")]
            ///
            /// # Errors
            /// Same as the async method.
            pub fn with_options(&self, options: crate::LockOptions) -> crate::Result<Self> {
                self.inner.with_options(options).map(Self::from)
            }

            /// Returns a handle to the same lock object that acquires for this owner instead of the current thread.
            #[doc = of_twin!($name, "owned_by")]
            pub fn owned_by(&self, owner: &crate::Owner) -> Self {
                self.inner.owned_by(owner).into()
            }

            #[doc = concat!("Acquires ", $what, ", blocking the thread for as long as it takes.")]
            #[doc = of_twin!($name, "acquire")]
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn acquire(&self) -> crate::Result<super::LockGuard> {
                super::wait::wait(self.inner.acquire()).map(From::from)
            }

            #[doc = concat!("Acquires ", $what, " if that is possible immediately; returns `None` otherwise.")]
            /// Blocks the thread for the round trip.
            #[doc = of_twin!($name, "try_acquire")]
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            pub fn try_acquire(&self) -> crate::Result<Option<super::LockGuard>> {
                Ok(super::wait::wait(self.inner.try_acquire())?.map(From::from))
            }

            #[doc = concat!("Acquires ", $what, ", blocking the thread for at most `within`.")]
            /// Returns `None` if that time elapsed in the queue.
            #[doc = of_twin!($name, "try_acquire_for")]
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn try_acquire_for(
                &self,
                within: std::time::Duration,
            ) -> crate::Result<Option<super::LockGuard>> {
                Ok(super::wait::wait(self.inner.try_acquire_for(within))?.map(From::from))
            }

            /// Returns the holders and all waiters in queue order, the holders first.
            #[doc = of_twin!($name, "participants")]
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn participants(&self) -> crate::Result<Vec<crate::Participant>> {
                super::wait::wait(self.inner.participants())
            }

            /// Returns whether the lock is held, in any process. A semaphore is, while no permit is free; a multi-lock, while
            /// any of its locks is.
            #[doc = of_twin!($name, "is_locked")]
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            pub fn is_locked(&self) -> crate::Result<bool> {
                super::wait::wait(self.inner.is_locked())
            }

            /// Returns the holder of the lock, in any process; of several, the first.
            #[doc = of_twin!($name, "holder")]
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            pub fn holder(&self) -> crate::Result<Option<crate::Participant>> {
                super::wait::wait(self.inner.holder())
            }

            /// Returns whether the path exists; of a multi-lock, whether all paths do.
            #[doc = of_twin!($name, "path_exists")]
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            pub fn path_exists(&self) -> crate::Result<bool> {
                super::wait::wait(self.inner.path_exists())
            }

            /// Returns whether the lock is held through this object. Does not block.
            #[doc = of_twin!($name, "is_acquired_in_this_process")]
            pub fn is_acquired_in_this_process(&self) -> bool {
                self.inner.is_acquired_in_this_process()
            }

            /// Returns whether this owner holds the lock through this object. With
            /// [`Owner::current`](crate::Owner::current), that is the current thread. Does not block.
            #[doc = of_twin!($name, "is_owned_by")]
            pub fn is_owned_by(&self, owner: &crate::Owner) -> bool {
                self.inner.is_owned_by(owner)
            }
        }
    };
}

/// The sentence that leads to the async method.
macro_rules! of_twin {
    ($name:ident, $method:literal) => {
        concat!(
            "The blocking version of [`",
            stringify!($name),
            "::",
            $method,
            "`](crate::",
            stringify!($name),
            "::",
            $method,
            ")."
        )
    };
}
