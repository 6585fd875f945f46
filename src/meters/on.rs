//! Meters over the facade of the crate `metrics`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub(crate) use metrics::Counter;
use metrics::{
    Gauge, Histogram, Label, SharedString, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram,
};
use parking_lot::Mutex;

use super::{Outcome, Request};
use crate::error::LossReason;

const WAIT: &str = "zk_recipes_wait_seconds";
const HOLD: &str = "zk_recipes_hold_seconds";
const WAITERS: &str = "zk_recipes_waiters";
const HOLDERS: &str = "zk_recipes_holders";
const HAND_OVERS: &str = "zk_recipes_hand_overs_total";
const LOSSES: &str = "zk_recipes_losses_total";
const LEADERS: &str = "zk_recipes_leaders";
const ELECTIONS: &str = "zk_recipes_elections_total";
const REQUESTS: &str = "zk_recipes_requests_total";
const CLIENTS: &str = "zk_recipes_clients";
const CACHED: &str = "zk_recipes_cached_nodes";
const RESYNCS: &str = "zk_recipes_cache_resyncs_total";
const KEPT: &str = "zk_recipes_kept_nodes";
const WRONG_CLOCKS: &str = "zk_recipes_wrong_clocks_total";
const VALUE_WRITES: &str = "zk_recipes_value_writes_total";
const VALIDITY: &str = "zk_recipes_validity_left_seconds";

/// The reasons of losses. A leader that resigns has not lost its leadership.
const REASONS: [(LossReason, &str); 5] = [
    (LossReason::Expired, "expired"),
    (LossReason::Suspect, "suspect"),
    (LossReason::Deadline, "deadline"),
    (LossReason::Deleted, "deleted"),
    (LossReason::Closed, "closed"),
];

/// In the order of their declaration.
const OUTCOMES: [Outcome; 4] = [Outcome::Granted, Outcome::Unavailable, Outcome::Failed, Outcome::Cancelled];

type LabelOf = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// How locks are named in metrics.
#[derive(Clone, Default)]
pub(crate) struct Labels {
    /// The path is the label if it is `None`.
    label_of: Option<LabelOf>,
}

/// The meters of one lock object. They are gone with it: a lock for each order must not leave memory behind.
#[derive(Clone, Debug)]
pub(crate) struct LockMeters(Arc<Meters>);

#[derive(Debug)]
struct Meters {
    /// In the order of the outcomes.
    waits: [Histogram; OUTCOMES.len()],
    released: Histogram,
    lost: Histogram,
    waiters: Gauge,
    holders: Gauge,
    hand_overs: Counter,
    /// In the order of the reasons. Present before the first loss, without which its increase would not be seen.
    losses: [Counter; REASONS.len()],
    election: Option<Election>,
}

/// What is measured of an election besides. Each hold is a term.
#[derive(Debug)]
struct Election {
    leaders: Gauge,
    elections: Counter,
}

/// Measures one wait, until it is dropped. Cancelled unless another outcome is set.
#[derive(Debug)]
pub(crate) struct WaitMeter {
    locks: Vec<LockMeters>,
    since: Instant,
    outcome: Outcome,
    is_behind_others: bool,
}

/// Measures one hold, until it is dropped.
#[derive(Debug)]
pub(crate) struct HoldMeter {
    lock: LockMeters,
    since: Instant,
    is_lost: bool,
}

/// Counts the requests of a session.
#[derive(Clone, Debug)]
pub(crate) struct Requests(Arc<[Counter; 10]>);

/// Counts the clients of the process in each state.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    counted: Mutex<Option<&'static str>>,
}

/// The meters of one cache.
#[derive(Debug)]
pub(crate) struct CacheMeters {
    nodes: Gauge,
    resyncs: Counter,
    /// How many nodes this cache has in the gauge, which counts those of all caches of the path.
    held: AtomicUsize,
}

/// Counts a kept node in its state.
#[derive(Debug)]
pub(crate) struct NodeMeter {
    label: String,
    counted: Option<&'static str>,
}

/// Counts the writes of one shared value or number.
#[derive(Clone, Debug)]
pub(crate) struct ValueMeters {
    written: Counter,
    conflicts: Counter,
}

/// Measures how much validity is left when a session is confirmed.
#[derive(Debug)]
pub(crate) struct ValidityMeter(Histogram);

impl Labels {
    pub(crate) fn new(label_of: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self { label_of: Some(Arc::new(label_of)) }
    }

    /// Returns the meters of the lock at this full path.
    pub(crate) fn meters(&self, path: &str, recipe: &'static str) -> LockMeters {
        LockMeters::new(self.label_of(path), recipe, false)
    }

    /// Returns the meters of the election at this full path.
    pub(crate) fn election_meters(&self, path: &str, recipe: &'static str) -> LockMeters {
        LockMeters::new(self.label_of(path), recipe, true)
    }

    /// Returns the meters of a cache at this full path.
    pub(crate) fn cache_meters(&self, path: &str) -> CacheMeters {
        let labels = [("path", self.label_of(path))];
        CacheMeters {
            nodes: gauge!(CACHED, &labels),
            resyncs: counter!(RESYNCS, &labels),
            held: AtomicUsize::new(0),
        }
    }

    /// Returns what counts how often a process led the job at this full path, and did not run it, since its clock was
    /// wrong.
    pub(crate) fn wrong_clocks(&self, path: &str) -> Counter {
        counter!(WRONG_CLOCKS, "path" => self.label_of(path))
    }

    /// Returns the meter of a kept node at this full path.
    pub(crate) fn node_meter(&self, path: &str) -> NodeMeter {
        NodeMeter { label: self.label_of(path), counted: None }
    }

    /// Returns the meters of a shared value or number at this full path.
    pub(crate) fn value_meters(&self, path: &str) -> ValueMeters {
        let label = self.label_of(path);
        let of = |outcome| counter!(VALUE_WRITES, "path" => label.clone(), "outcome" => outcome);
        ValueMeters { written: of("written"), conflicts: of("conflict") }
    }

    fn label_of(&self, path: &str) -> String {
        self.label_of.as_ref().map_or_else(|| path.to_owned(), |label_of| label_of(path))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Labels")
    }
}

impl LockMeters {
    fn new(label: String, recipe: &'static str, is_election: bool) -> Self {
        let lock = SharedString::from_shared(label.into());
        let labels = || vec![Label::new("lock", lock.clone()), Label::from_static_parts("recipe", recipe)];
        let and = |name: &'static str, value: &'static str| {
            let mut labels = labels();
            labels.push(Label::from_static_parts(name, value));
            labels
        };
        let timed = |name: &'static str, outcome| histogram!(name, and("outcome", outcome));
        Self(Arc::new(Meters {
            waits: OUTCOMES.map(|outcome| timed(WAIT, outcome.name())),
            released: timed(HOLD, "released"),
            lost: timed(HOLD, "lost"),
            waiters: gauge!(WAITERS, labels()),
            holders: gauge!(HOLDERS, labels()),
            hand_overs: counter!(HAND_OVERS, labels()),
            losses: REASONS.map(|(_, reason)| counter!(LOSSES, and("reason", reason))),
            election: is_election.then(|| Election {
                leaders: gauge!(LEADERS, labels()),
                elections: counter!(ELECTIONS, labels()),
            }),
        }))
    }

    /// Begins a wait for all of these locks.
    pub(crate) fn wait<'a>(locks: impl IntoIterator<Item = &'a Self>) -> WaitMeter {
        let locks: Vec<_> = locks.into_iter().cloned().collect();
        locks.iter().for_each(|lock| lock.0.waiters.increment(1));
        WaitMeter { locks, since: Instant::now(), outcome: Outcome::Cancelled, is_behind_others: false }
    }

    /// Records an acquire that did not have to wait for the servers.
    pub(crate) fn granted_at_once(&self) {
        self.0.waits[Outcome::Granted as usize].record(0.0);
    }

    /// Begins a hold.
    pub(crate) fn hold(&self) -> HoldMeter {
        let Meters { holders, election, .. } = &*self.0;
        holders.increment(1);
        if let Some(election) = election {
            election.leaders.increment(1);
            election.elections.increment(1);
        }
        HoldMeter { lock: self.clone(), since: Instant::now(), is_lost: false }
    }
}

impl WaitMeter {
    /// Records that others are ahead.
    pub(crate) fn is_behind_others(&mut self) {
        self.is_behind_others = true;
    }

    /// Sets the outcome. The wait ends when this is dropped.
    pub(crate) fn ends_as(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for WaitMeter {
    fn drop(&mut self) {
        let waited = self.since.elapsed();
        for LockMeters(lock) in &self.locks {
            lock.waiters.decrement(1);
            lock.waits[self.outcome as usize].record(waited);
            if self.is_behind_others && self.outcome == Outcome::Granted {
                lock.hand_overs.increment(1);
            }
        }
    }
}

impl HoldMeter {
    /// Ends the hold, since the lock is lost.
    pub(crate) fn lost(mut self, reason: LossReason) {
        if let Some(at) = REASONS.iter().position(|(known, _)| *known == reason) {
            self.is_lost = true;
            self.lock.0.losses[at].increment(1);
        }
    }
}

impl Drop for HoldMeter {
    fn drop(&mut self) {
        let Meters { holders, released, lost, election, .. } = &*self.lock.0;
        holders.decrement(1);
        if let Some(election) = election {
            election.leaders.decrement(1);
        }
        if self.is_lost { lost } else { released }.record(self.since.elapsed());
    }
}

impl Default for Requests {
    fn default() -> Self {
        describe();
        let kinds = [
            "create",
            "delete",
            "set_data",
            "multi",
            "list",
            "get_data",
            "exists",
            "sync",
            "watch",
            "multi_read",
        ];
        Self(Arc::new(kinds.map(|kind| counter!(REQUESTS, "kind" => kind))))
    }
}

impl Requests {
    pub(crate) fn count(&self, request: Request) {
        self.0[request as usize].increment(1);
    }
}

impl Connections {
    /// Counts a client whose connection is now in this state.
    pub(crate) fn changed(&self, state: &'static str) {
        let before = self.counted.lock().replace(state);
        if let Some(before) = before {
            gauge!(CLIENTS, "state" => before).decrement(1);
        }
        gauge!(CLIENTS, "state" => state).increment(1);
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        if let Some(last) = *self.counted.lock() {
            gauge!(CLIENTS, "state" => last).decrement(1);
        }
    }
}

impl CacheMeters {
    /// Records how many nodes the cache holds now.
    pub(crate) fn holds(&self, nodes: usize) {
        let before = self.held.swap(nodes, Relaxed);
        if nodes > before {
            self.nodes.increment((nodes - before) as f64);
        } else {
            self.nodes.decrement((before - nodes) as f64);
        }
    }

    /// Records that the cache has to be read again.
    pub(crate) fn resyncs(&self) {
        self.resyncs.increment(1);
    }
}

impl Drop for CacheMeters {
    fn drop(&mut self) {
        self.holds(0);
    }
}

impl NodeMeter {
    /// The node is in this state now.
    pub(crate) fn is(&mut self, state: &'static str) {
        self.leave();
        gauge!(KEPT, "path" => self.label.clone(), "state" => state).increment(1);
        self.counted = Some(state);
    }

    fn leave(&mut self) {
        if let Some(state) = self.counted.take() {
            gauge!(KEPT, "path" => self.label.clone(), "state" => state).decrement(1);
        }
    }
}

impl Drop for NodeMeter {
    fn drop(&mut self) {
        self.leave();
    }
}

impl ValueMeters {
    /// Records a write that was done.
    pub(crate) fn written(&self) {
        self.written.increment(1);
    }

    /// Records one that was refused, since another client has written first.
    pub(crate) fn conflict(&self) {
        self.conflicts.increment(1);
    }
}

impl Default for ValidityMeter {
    fn default() -> Self {
        Self(histogram!(VALIDITY))
    }
}

impl ValidityMeter {
    pub(crate) fn confirmed(&self, left: impl FnOnce() -> Duration) {
        self.0.record(left());
    }
}

/// Tells the recorder what the metrics are.
fn describe() {
    let seconds = |name: &'static str, text: &'static str| describe_histogram!(name, Unit::Seconds, text);
    seconds(WAIT, "How long acquires took, by outcome");
    seconds(HOLD, "How long locks were held, by outcome");
    seconds(VALIDITY, "How much longer a session with locks was valid when it was confirmed");
    describe_gauge!(WAITERS, "Acquires that wait now");
    describe_gauge!(HOLDERS, "Locks that are held now");
    describe_gauge!(CLIENTS, "Clients of this process, by the state of their connection");
    describe_counter!(HAND_OVERS, "Locks that were granted after waiting for someone else");
    describe_counter!(LOSSES, "Locks that were lost, by reason");
    describe_gauge!(CACHED, "Nodes that caches of this process hold");
    describe_counter!(RESYNCS, "How often a cache had to be read again, since changes may have been missed");
    describe_gauge!(KEPT, "Nodes that this process keeps, by state");
    describe_counter!(
        WRONG_CLOCKS,
        "How often a leader gave a job up, since its clock differs from that of the servers"
    );
    describe_counter!(VALUE_WRITES, "Writes of shared values and numbers, by outcome");
    describe_counter!(REQUESTS, "Requests to the servers, by kind");
    describe_gauge!(LEADERS, "Candidates of this process that lead now");
    describe_counter!(ELECTIONS, "How often a candidate of this process was elected");
}
