//! The methods that candidates have in common.

/// Gives a candidate, a struct with a field `handle: Handle`, the methods that all of them have.
macro_rules! candidate {
    ($candidate:ident) => {
        impl $candidate {
            /// Whether it leads at this moment, by the clock and by all that this client knows, and is not about to
            /// give that up. No request is made. Also the first look after a pause of the process tells the truth;
            /// what it does not tell is how long it stays so: see [`leadership`](Self::leadership).
            pub fn has_leadership(&self) -> bool {
                self.leadership().is_some()
            }

            /// The present leadership, if it [has](Self::has_leadership) it.
            pub fn leadership(&self) -> Option<Leadership> {
                self.handle.leadership()
            }

            /// How the candidate stands, now and from now on: always the latest. The first
            /// [`changed`](watch::Receiver::changed) is the present state. The channel ends when it is closed. A leadership
            /// that is seen here, and not asked for, does not keep the client open.
            ///
            /// ```no_run
            /// use zk_recipes::LeaderState;
            ///
            #[doc = concat!("# async fn example(candidate: zk_recipes::", stringify!($candidate), ") {")]
            /// let mut state = candidate.watch();
            /// while state.changed().await.is_ok() {
            ///     match &*state.borrow_and_update() {
            ///         LeaderState::Leading(leadership) => println!("leads with {}", leadership.fencing_token()),
            ///         LeaderState::Failed(error) => println!("cannot stand: {error}"),
            ///         other => println!("does not lead: {other:?}"),
            ///     }
            /// }
            /// # }
            /// ```
            pub fn watch(&self) -> watch::Receiver<LeaderState> {
                self.handle.watch()
            }

            /// Everybody who stands for election at this path, of whatever process, in order: the leader first.
            ///
            /// # Errors
            /// [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected)
            /// when the queue or a node in it cannot be read; [`Error::Closed`](crate::Error::Closed).
            ///
            /// # Cancel safety
            /// Nothing is changed by it.
            pub async fn participants(&self) -> Result<Vec<Participant>> {
                self.handle.lock().participants().await
            }

            /// Who leads, of whatever process.
            ///
            /// # Errors
            /// As [`participants`](Self::participants).
            ///
            /// # Cancel safety
            /// Nothing is changed by it.
            pub async fn leader(&self) -> Result<Option<Participant>> {
                self.handle.lock().holder().await
            }

            /// Asks the present leader, of whatever process, to resign, so that the next in the queue leads. Answers
            /// who was asked; nobody if nobody waits for the leadership.
            ///
            /// A leader of this library does so [in order](Leadership::resign), and goes to the end of the queue.
            /// Leaders of Curator do not listen. For a preferred leader: when it is the next of the
            /// [participants](Self::participants), let it call this. See [`Revoker`](crate::Revoker) for how it is
            /// done.
            ///
            /// # Errors
            /// As [`participants`](Self::participants); a right to write is needed.
            ///
            /// # Cancel safety
            /// The leader may have been asked.
            pub async fn transfer(&self) -> Result<Option<Participant>> {
                self.handle.transfer().await
            }

            /// The id of this candidate. See [`LeaderOptions::id`](crate::LeaderOptions::id).
            pub fn id(&self) -> Cow<'_, str> {
                self.handle.id()
            }

            /// The full path of the election, namespace included.
            pub fn path(&self) -> &str {
                self.handle.lock().path()
            }
        }
    };
}

pub(super) use candidate;
