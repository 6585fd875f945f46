//! The methods that candidates have in common.

/// Gives the twin of a candidate the methods that all of them have.
macro_rules! candidate {
    ($candidate:ident) => {
        twin!($candidate);

        impl $candidate {
            /// Whether it leads at this moment, and is not about to give that up. It does not block.
            pub fn has_leadership(&self) -> bool {
                self.inner.has_leadership()
            }

            /// The present leadership, if it [has](Self::has_leadership) it. It does not block.
            pub fn leadership(&self) -> Option<Leadership> {
                self.inner.leadership().map(Leadership::from)
            }

            /// How the candidate stands, now and from now on. See [`LeaderLatch::watch`](crate::LeaderLatch::watch).
            pub fn watch(&self) -> Watch<LeaderState> {
                self.inner.watch().into()
            }

            /// As [`participants`](crate::LeaderLatch::participants) of the async candidate, and blocks the thread.
            ///
            /// # Errors
            /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
            pub fn participants(&self) -> Result<Vec<Participant>> {
                wait(self.inner.participants())
            }

            /// As [`leader`](crate::LeaderLatch::leader) of the async candidate, and blocks the thread.
            ///
            /// # Errors
            /// As [`participants`](Self::participants).
            pub fn leader(&self) -> Result<Option<Participant>> {
                wait(self.inner.leader())
            }

            /// As [`transfer`](crate::LeaderLatch::transfer) of the async candidate, and blocks the thread.
            ///
            /// # Errors
            /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
            pub fn transfer(&self) -> Result<Option<Participant>> {
                wait(self.inner.transfer())
            }

            /// The id of this candidate. See [`LeaderOptions::id`](crate::LeaderOptions::id).
            pub fn id(&self) -> Cow<'_, str> {
                self.inner.id()
            }

            /// The full path of the election, namespace included.
            pub fn path(&self) -> &str {
                self.inner.path()
            }
        }
    };
}

pub(super) use candidate;
