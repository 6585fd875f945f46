//! The methods that all blocking candidates share.

/// Implements the common methods for the blocking twin of a candidate.
macro_rules! candidate {
    ($candidate:ident) => {
        twin!($candidate);

        impl $candidate {
            /// Returns whether this candidate leads now and is not about to give the leadership up. Does not
            /// block.
            pub fn has_leadership(&self) -> bool {
                self.inner.has_leadership()
            }

            /// Returns the present leadership, if this candidate [has](Self::has_leadership) it. Does not block.
            pub fn leadership(&self) -> Option<Leadership> {
                self.inner.leadership().map(Leadership::from)
            }

            /// Returns a [`Watch`] that always shows the latest state of the candidate. See
            /// [`LeaderLatch::watch`](crate::LeaderLatch::watch).
            pub fn watch(&self) -> Watch<LeaderState> {
                self.inner.watch().into()
            }

            /// Returns the candidates at this path in queue order. The blocking version of
            /// [`participants`](crate::LeaderLatch::participants).
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn participants(&self) -> Result<Vec<Participant>> {
                wait(self.inner.participants())
            }

            /// Returns the leader, in any process. The blocking version of [`leader`](crate::LeaderLatch::leader).
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            pub fn leader(&self) -> Result<Option<Participant>> {
                wait(self.inner.leader())
            }

            /// Asks the present leader to resign, so that the next candidate leads. The blocking version of
            /// [`transfer`](crate::LeaderLatch::transfer).
            ///
            /// # Errors
            /// Same as the async method, and:
            /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
            pub fn transfer(&self) -> Result<Option<Participant>> {
                wait(self.inner.transfer())
            }

            /// Returns the id of this candidate. See [`LeaderOptions::id`](crate::LeaderOptions::id).
            pub fn id(&self) -> Cow<'_, str> {
                self.inner.id()
            }

            /// Returns the full path of the election, including the namespace.
            pub fn path(&self) -> &str {
                self.inner.path()
            }
        }
    };
}

pub(super) use candidate;
