//! Options of a candidate.

use std::time::Duration;

use tokio::sync::watch;

use crate::lock::{LockOptions, SuspectPolicy};

const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// Options for a [`LeaderLatch`](crate::LeaderLatch) or a [`LeaderSelector`](crate::LeaderSelector).
///
/// ```
/// use std::time::Duration;
/// use zk_recipes::LeaderOptions;
///
/// let options = LeaderOptions::new().id("reports-7").grace(Duration::from_secs(30));
/// ```
#[derive(Clone)]
#[must_use = "options do nothing until a candidate is started with them"]
pub struct LeaderOptions {
    pub(super) id: Option<String>,
    suspect_policy: SuspectPolicy,
    pub(super) grace: Duration,
    pub(super) eligibility: Option<watch::Receiver<bool>>,
}

debug_by!(LeaderOptions, |it|
    id: it.id, suspect_policy: it.suspect_policy, grace: it.grace,
    has_eligibility: it.eligibility.is_some()
);

impl LeaderOptions {
    /// Creates the default options: the client's identity as id, [`SuspectPolicy::Keep`], and a grace period of 5
    /// s. The candidate is always eligible.
    pub fn new() -> Self {
        let suspect_policy = SuspectPolicy::default();
        Self { id: None, suspect_policy, grace: DEFAULT_GRACE, eligibility: None }
    }

    /// Sets the id by which other candidates and observers know this candidate, such as a host and a port. It is
    /// the data of the candidate's node, and need not be unique.
    ///
    /// Corresponds to Curator's `id`.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets what happens to the leadership when it becomes [suspect](crate::LockState::Suspect), for example while
    /// the connection is lost for a moment.
    ///
    /// By default it is kept as long as its validity lasts. [`SuspectPolicy::GiveUp`] corresponds to Curator's
    /// default, `StandardConnectionStateErrorPolicy`.
    pub fn suspect_policy(mut self, policy: SuspectPolicy) -> Self {
        self.suspect_policy = policy;
        self
    }

    /// Sets the grace period: how long the work of a leader may take to end when the leader is to resign.
    /// After that, the work is dropped at the point where it awaits. See
    /// [`Leadership::resign`](crate::Leadership::resign).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Makes the candidate stand for election only while the value of this channel is `true`: for example while the
    /// process has loaded its data, or is in the preferred region.
    ///
    /// While it is `false`, the candidate is not in the queue. A waiting candidate leaves the queue, and a leader
    /// [resigns](crate::Leadership::resign): its work has the [grace period](Self::grace) to end, its node is deleted,
    /// and the next candidate leads. When the value is `true` again, the candidate goes to the end of the queue.
    /// If the sender is dropped, the last value stays in force.
    ///
    /// A [`LeaderSelector`](crate::LeaderSelector) that leads only once does not stand again by itself: its work was
    /// interrupted, as by [`interrupt_leadership`](crate::LeaderSelector::interrupt_leadership).
    ///
    /// Costs no requests but those of leaving and entering the queue. The receiver is never borrowed from on the
    /// client's threads, except on a [runtime of yours](crate::ClientBuilder::runtime).
    ///
    /// ```no_run
    /// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
    /// use tokio::sync::watch;
    /// use zk_recipes::{LeaderLatch, LeaderOptions};
    ///
    /// let (is_warm, eligible) = watch::channel(false);
    /// let latch = LeaderLatch::start(&client, "/leaders/reports", LeaderOptions::new().eligible_while(eligible))?;
    /// // ... loads its data; then:
    /// is_warm.send_replace(true);
    /// let leadership = latch.await_leadership().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn eligible_while(mut self, eligible: watch::Receiver<bool>) -> Self {
        self.eligibility = Some(eligible);
        self
    }

    /// The options with which the candidate's node is created and held.
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
