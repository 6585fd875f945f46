//! The methods that candidates have in common, written once.

/// Gives a candidate with the field `handle` the methods that do not depend on what it does as a leader.
macro_rules! candidate_methods {
    ($name:ident) => {
        impl $name {
            /// Returns whether this candidate leads now and is not about to give the leadership up, according to
            /// the clock and everything that this client knows. Makes no request.
            ///
            /// The result is right even for the first call after a pause of the process. It does not say how long
            /// it stays so: see [`leadership`](Self::leadership).
            pub fn has_leadership(&self) -> bool {
                self.leadership().is_some()
            }

            /// Returns what the candidate does at the moment and since when, for probes. Makes no request and does not wait.
            pub fn health(&self) -> crate::LeaderHealth {
                self.handle.health()
            }

            /// Returns the present leadership, if this candidate [has](Self::has_leadership) it.
            pub fn leadership(&self) -> Option<crate::Leadership> {
                self.handle.leadership()
            }

            /// Follows the state of the candidate. For a moment, [`has_leadership`](Self::has_leadership) may know better. Ends
            /// when the candidate is closed. A leadership obtained from this [`Watch`](crate::Watch), rather than from
            /// [`leadership`](Self::leadership), does not keep the client open.
            ///
            /// ```no_run
            /// use zk_recipes::LeaderState;
            ///
            /// # async fn example(candidate: zk_recipes::LeaderLatch) {
            /// let mut states = candidate.watch_state();
            /// while let Some(state) = states.changed().await {
            ///     match &state {
            ///         LeaderState::Leading(leadership) => println!("leads with {}", leadership.fencing_token()),
            ///         LeaderState::Failed(error) => println!("cannot stand: {}", zk_recipes::report(error)),
            ///         other => println!("does not lead: {other:?}"),
            ///     }
            /// }
            /// # }
            /// ```
            pub fn watch_state(&self) -> crate::Watch<crate::LeaderState> {
                self.handle.watch()
            }

            /// Returns the candidates at this path, from all processes, in queue order: the leader first.
            ///
            /// # Errors
            /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the queue or a node in it cannot be read.
            /// - [`Error::NotConnected`](crate::Error::NotConnected): the servers cannot be reached.
            /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
            ///
            /// # Cancel safety
            /// Cancel safe: this only reads.
            pub async fn participants(&self) -> crate::Result<Vec<crate::Participant>> {
                self.handle.lock().participants().await
            }

            /// Returns the leader, in any process.
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants).
            ///
            /// # Cancel safety
            /// Cancel safe: this only reads.
            pub async fn leader(&self) -> crate::Result<Option<crate::Participant>> {
                self.handle.lock().holder().await
            }

            /// Asks the present leader, in any process, to resign, so that the next candidate in the queue leads.
            /// Returns the leader that was asked; `None` if no candidate waits for the leadership.
            ///
            /// A leader of this library resigns [in order](crate::Leadership::resign), and goes to the end of the queue.
            /// Leaders of Curator ignore the request. To prefer a candidate as the leader, have it call this when
            /// it is second among the [participants](Self::participants). See [`operate::ask`](crate::operate::ask) for how
            /// the request is made.
            ///
            /// # Errors
            /// Same as [`participants`](Self::participants); permission to write to the node is needed as well.
            ///
            /// # Cancel safety
            /// If cancelled, the leader may have been asked.
            pub async fn transfer(&self) -> crate::Result<Option<crate::Participant>> {
                self.handle.transfer().await
            }

            /// Returns the id of this candidate. See [`LeaderOptions::id`](crate::LeaderOptions::id).
            pub fn id(&self) -> std::borrow::Cow<'_, str> {
                self.handle.id()
            }

            /// Returns the full path of the election, including the namespace.
            pub fn path(&self) -> &str {
                self.handle.lock().path()
            }
        }
    };
}

pub(super) use candidate_methods;
