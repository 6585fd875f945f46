//! How a candidate stands for election.

use std::time::Duration;

use crate::lock::{LockOptions, SuspectPolicy};

const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// Settings of a [`LeaderLatch`](crate::LeaderLatch) or a [`LeaderSelector`](crate::LeaderSelector).
///
/// ```
/// use std::time::Duration;
/// use zk_recipes::LeaderOptions;
///
/// let options = LeaderOptions::new().id("reports-7").grace(Duration::from_secs(30));
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a candidate is started with them"]
pub struct LeaderOptions {
    id: Option<String>,
    suspect_policy: SuspectPolicy,
    grace: Duration,
}

impl LeaderOptions {
    /// The client's identity as id, [`SuspectPolicy::Keep`], and a grace of 5 s.
    pub fn new() -> Self {
        Self { id: None, suspect_policy: SuspectPolicy::default(), grace: DEFAULT_GRACE }
    }

    /// By what the others know this candidate, and those who watch the election: a host and a port, for instance. It
    /// is the data of the candidate's node. It need not be unique.
    ///
    /// Curator's `id`.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// What becomes of the leadership when it turns doubtful, as by a connection that is lost for a moment.
    ///
    /// By default it is kept for as long as its validity lasts. `GiveUp` is what Curator does unless it is told
    /// otherwise (`StandardConnectionStateErrorPolicy`).
    pub fn suspect_policy(mut self, policy: SuspectPolicy) -> Self {
        self.suspect_policy = policy;
        self
    }

    /// How long the work of a leader may take to end, when it is to give the leadership up. Then it is dropped, where
    /// it awaits. See [`Leadership::resign`](crate::Leadership::resign).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    pub(super) fn given_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(super) fn work_grace(&self) -> Duration {
        self.grace
    }

    /// How the node of the candidate is made and held.
    pub(super) fn lock_options(&self) -> LockOptions {
        let options = LockOptions::new().suspect_policy(self.suspect_policy);
        match &self.id {
            Some(id) => options.node_data(id.as_bytes()),
            None => options,
        }
    }
}

impl Default for LeaderOptions {
    fn default() -> Self {
        Self::new()
    }
}
