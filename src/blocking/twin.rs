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
            #[doc = of_twin!(crate, $name, "with_options")]
            ///
            /// # Errors
            /// Same as the async method.
            pub fn with_options(&self, options: crate::LockOptions) -> crate::Result<Self> {
                self.inner.with_options(options).map(Self::from)
            }

            /// Returns a handle to the same lock object that acquires for this owner instead of the current thread.
            #[doc = of_twin!(crate, $name, "owned_by")]
            pub fn owned_by(&self, owner: &crate::Owner) -> Self {
                self.inner.owned_by(owner).into()
            }

            #[doc = concat!("Acquires ", $what, ", blocking the thread for as long as it takes.")]
            #[doc = of_twin!(crate, $name, "acquire")]
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn acquire(&self) -> crate::Result<$crate::blocking::LockGuard> {
                $crate::blocking::wait::wait(self.inner.acquire()).map(From::from)
            }

            #[doc = concat!("Acquires ", $what, " if that is possible immediately; returns `None` otherwise.")]
            /// Blocks the thread for the round trip.
            #[doc = of_twin!(crate, $name, "try_acquire")]
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            pub fn try_acquire(&self) -> crate::Result<Option<$crate::blocking::LockGuard>> {
                Ok($crate::blocking::wait::wait(self.inner.try_acquire())?.map(From::from))
            }

            #[doc = concat!("Acquires ", $what, ", blocking the thread for at most `within`.")]
            /// Returns `None` if that time elapsed in the queue.
            #[doc = of_twin!(crate, $name, "try_acquire_for")]
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn try_acquire_for(
                &self,
                within: std::time::Duration,
            ) -> crate::Result<Option<$crate::blocking::LockGuard>> {
                Ok($crate::blocking::wait::wait(self.inner.try_acquire_for(within))?.map(From::from))
            }

            /// Returns the holders and all waiters in queue order, the holders first.
            #[doc = of_twin!(crate, $name, "participants")]
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn participants(&self) -> crate::Result<Vec<crate::Participant>> {
                $crate::blocking::wait::wait(self.inner.participants())
            }

            /// Returns whether the lock is held, in any process. A semaphore is, while no permit is free; a multi-lock, while
            /// any of its locks is.
            #[doc = of_twin!(crate, $name, "is_locked")]
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            pub fn is_locked(&self) -> crate::Result<bool> {
                $crate::blocking::wait::wait(self.inner.is_locked())
            }

            /// Returns the holder of the lock, in any process; of several, the first.
            #[doc = of_twin!(crate, $name, "holder")]
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            pub fn holder(&self) -> crate::Result<Option<crate::Participant>> {
                $crate::blocking::wait::wait(self.inner.holder())
            }

            /// Returns whether the path exists; of a multi-lock, whether all paths do.
            #[doc = of_twin!(crate, $name, "path_exists")]
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            pub fn path_exists(&self) -> crate::Result<bool> {
                $crate::blocking::wait::wait(self.inner.path_exists())
            }

            /// Returns whether the lock is held through this object. Does not block.
            #[doc = of_twin!(crate, $name, "is_acquired_in_this_process")]
            pub fn is_acquired_in_this_process(&self) -> bool {
                self.inner.is_acquired_in_this_process()
            }

            /// Returns whether this owner holds the lock through this object. With
            /// [`Owner::current`](crate::Owner::current), that is the current thread. Does not block.
            #[doc = of_twin!(crate, $name, "is_owned_by")]
            pub fn is_owned_by(&self, owner: &crate::Owner) -> bool {
                self.inner.is_owned_by(owner)
            }
        }
    };
}

/// The same for a lock that is re-entrant, which has one path, and tickets.
macro_rules! reentrant_twin {
    ($name:ident) => {
        lock_twin!($name, "the lock");

        impl $name {
            /// Enters the queue, blocking the thread until that is done, and returns a
            /// [`Ticket`](crate::blocking::Ticket).
            #[doc = of_twin!(crate, $name, "enqueue")]
            ///
            /// # Errors
            /// Same as [`acquire`](Self::acquire).
            pub fn enqueue(&self) -> crate::Result<$crate::blocking::Ticket> {
                $crate::blocking::wait::wait(self.inner.enqueue()).map(From::from)
            }

            /// Returns the full path of the lock, including the namespace.
            pub fn path(&self) -> &str {
                self.inner.path()
            }
        }
    };
}

/// Makes a type the blocking twin of something that can be lost, with the methods that ask whether it was.
macro_rules! validity_twin {
    ($name:ident) => {
        twin!($name);

        impl $name {
            /// Returns whether it is still held. Does not block.
            #[doc = of_twin!(crate, $name, "is_valid")]
            pub fn is_valid(&self) -> bool {
                self.inner.is_valid()
            }

            /// Returns the time until which it is certainly held. Does not block.
            #[doc = of_twin!(crate, $name, "valid_until")]
            pub fn valid_until(&self) -> std::time::Instant {
                self.inner.valid_until().into_std()
            }

            /// Returns why it was lost, or `None` if it was not. Once lost, it stays lost. Does not block.
            #[doc = of_twin!(crate, $name, "loss")]
            pub fn loss(&self) -> Option<crate::LossReason> {
                self.inner.loss()
            }

            /// Blocks the thread until it is lost.
            #[doc = of_twin!(crate, $name, "lost")]
            ///
            /// # Errors
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn lost(&self) -> crate::Result<crate::LossReason> {
                $crate::blocking::wait::wait(async { Ok(self.inner.lost().await) })
            }

            /// Blocks the thread until it is lost, for at most `within`. Returns `None` if it was not lost within that time.
            ///
            /// # Errors
            /// Same as [`lost`](Self::lost).
            pub fn lost_within(
                &self,
                within: std::time::Duration,
            ) -> crate::Result<Option<crate::LossReason>> {
                $crate::blocking::wait::wait_within(within, async { Ok(self.inner.lost().await) })
            }

            /// Follows the state.
            #[doc = of_twin!(crate, $name, "watch_state")]
            pub fn watch_state(&self) -> crate::Watch<crate::LockState> {
                self.inner.watch_state()
            }

            /// Runs `work` if it is held before the work, and returns the result if it is still held after the work, which a
            /// loss does not stop. The resignation of a leader waits for the work.
            #[doc = of_twin!(crate, $name, "run")]
            ///
            /// # Errors
            /// Same as the async method.
            pub fn run<T>(&self, work: impl FnOnce() -> T) -> crate::Result<T> {
                self.inner.run_blocking(work)
            }
        }
    };
}

/// Makes a type the blocking twin of a candidate, with the methods that do not depend on what it does as a leader.
macro_rules! candidate_twin {
    ($name:ident) => {
        twin!($name);

        impl $name {
            /// Returns whether this candidate leads now and is not about to give the leadership up. Does not block.
            pub fn has_leadership(&self) -> bool {
                self.inner.has_leadership()
            }

            /// Returns what the candidate does at the moment and since when, for probes. Does not block.
            pub fn health(&self) -> crate::LeaderHealth {
                self.inner.health()
            }

            /// Returns the present leadership, if this candidate [has](Self::has_leadership) it. Does not block.
            pub fn leadership(&self) -> Option<$crate::blocking::Leadership> {
                self.inner.leadership().map(From::from)
            }

            /// Follows the state of the candidate.
            #[doc = of_twin!(crate, $name, "watch_state")]
            pub fn watch_state(&self) -> crate::Watch<crate::LeaderState> {
                self.inner.watch_state()
            }

            /// Returns the candidates at this path in queue order.
            #[doc = of_twin!(crate, $name, "participants")]
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn participants(&self) -> crate::Result<Vec<crate::Participant>> {
                $crate::blocking::wait::wait(self.inner.participants())
            }

            /// Returns the leader, in any process.
            #[doc = of_twin!(crate, $name, "leader")]
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            pub fn leader(&self) -> crate::Result<Option<crate::Participant>> {
                $crate::blocking::wait::wait(self.inner.leader())
            }

            /// Asks the present leader to resign, so that the next candidate leads.
            #[doc = of_twin!(crate, $name, "transfer")]
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn transfer(&self) -> crate::Result<Option<crate::Participant>> {
                $crate::blocking::wait::wait(self.inner.transfer())
            }

            /// Returns the id of this candidate. See [`LeaderOptions::id`](crate::LeaderOptions::id).
            pub fn id(&self) -> std::borrow::Cow<'_, str> {
                self.inner.id()
            }

            /// Returns the full path of the election, including the namespace.
            pub fn path(&self) -> &str {
                self.inner.path()
            }
        }
    };
}

/// Makes a type the blocking twin of a node that is kept for as long as a value lives.
macro_rules! kept_node_twin {
    ($name:ident, $options:ident) => {
        twin!($name of crate::nodes);

        impl $name {
            /// Starts to keep a node at `path`. Does not block.
            #[doc = of_twin!(crate::nodes, $name, "start")]
            ///
            /// # Errors
            /// Same as the async method.
            pub fn start(
                client: &$crate::blocking::Client,
                path: &str,
                data: impl Into<Vec<u8>>,
                options: crate::nodes::$options,
            ) -> crate::Result<Self> {
                crate::nodes::$name::start(&client.inner, path, data, options).map(Self::from)
            }

            /// Blocks the thread until the node is there.
            #[doc = of_twin!(crate::nodes, $name, "wait_present")]
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn wait_present(&self) -> crate::Result<String> {
                $crate::blocking::wait::wait(self.inner.wait_present())
            }

            /// Blocks the thread until the node is there, for at most `within`. Returns `None` if it is not by then; it is
            /// still to be created.
            ///
            /// # Errors
            /// Same as [`wait_present`](Self::wait_present).
            pub fn wait_present_within(&self, within: std::time::Duration) -> crate::Result<Option<String>> {
                $crate::blocking::wait::wait_within(within, self.inner.wait_present())
            }

            /// Replaces the data of the node, and blocks the thread until that is confirmed.
            #[doc = of_twin!(crate::nodes, $name, "set_data")]
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks. The
            ///   node keeps its earlier data.
            pub fn set_data(&self, data: impl Into<Vec<u8>>) -> crate::Result<()> {
                $crate::blocking::wait::wait(self.inner.set_data(data))
            }

            /// Returns the data that the node has, or is to have. Does not block.
            pub fn data(&self) -> Vec<u8> {
                self.inner.data()
            }

            /// Returns the state of the node as far as this client knows. Does not block.
            pub fn state(&self) -> crate::nodes::NodeState {
                self.inner.state()
            }

            /// Follows the state of the node.
            #[doc = of_twin!(crate::nodes, $name, "watch_state")]
            pub fn watch_state(&self) -> crate::Watch<crate::nodes::NodeState> {
                self.inner.watch_state()
            }

            /// Returns the full path as it was given, namespace included.
            pub fn path(&self) -> &str {
                self.inner.path()
            }

            /// Stops keeping the node, blocking the thread until that is done.
            #[doc = of_twin!(crate::nodes, $name, "close")]
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks. The
            ///   rest is done in the background.
            pub fn close(self) -> crate::Result<()> {
                $crate::blocking::wait::wait(self.inner.close())
            }
        }
    };
}

/// The sentence that leads to the async method.
macro_rules! of_twin {
    ($module:path, $name:ident, $method:literal) => {
        concat!(
            "See [`",
            stringify!($name),
            "::",
            $method,
            "`](",
            stringify!($module),
            "::",
            stringify!($name),
            "::",
            $method,
            ")."
        )
    };
}
