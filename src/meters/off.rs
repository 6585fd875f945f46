//! Meters that measure nothing.

use std::time::Duration;

use super::{Outcome, Request};
use crate::error::LossReason;

/// How locks are named in metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Labels(());

/// The meters of one lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockMeters;

/// Measures one wait.
#[derive(Debug)]
pub(crate) struct WaitMeter;

/// Measures one hold.
#[derive(Debug)]
pub(crate) struct HoldMeter;

/// Counts the requests of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests(());

/// Counts the clients in each state.
#[derive(Debug, Default)]
pub(crate) struct Connections(());

/// The meters of one cache.
#[derive(Debug)]
pub(crate) struct CacheMeters;

/// Counts a kept node in its state.
#[derive(Debug)]
pub(crate) struct NodeMeter;

/// Counts what keeps one job from running.
#[derive(Debug)]
pub(crate) struct JobMeter;

/// Counts the writes of one shared value or number.
#[derive(Clone, Debug)]
pub(crate) struct ValueMeters;

/// Measures how much validity is left when a session is confirmed.
#[derive(Debug, Default)]
pub(crate) struct ValidityMeter(());

impl Labels {
    pub(crate) fn meters(&self, _path: &str, _recipe: &'static str) -> LockMeters {
        LockMeters
    }

    pub(crate) fn cache_meters(&self, _path: &str) -> CacheMeters {
        CacheMeters
    }

    pub(crate) fn job_meter(&self, _path: &str) -> JobMeter {
        JobMeter
    }

    pub(crate) fn node_meter(&self, _path: &str) -> NodeMeter {
        NodeMeter
    }

    pub(crate) fn value_meters(&self, _path: &str) -> ValueMeters {
        ValueMeters
    }

    pub(crate) fn election_meters(&self, _path: &str, _recipe: &'static str) -> LockMeters {
        LockMeters
    }
}

impl LockMeters {
    pub(crate) fn wait<'a>(_locks: impl IntoIterator<Item = &'a Self>) -> WaitMeter {
        WaitMeter
    }

    pub(crate) fn granted_at_once(&self) {}

    pub(crate) fn hold(&self) -> HoldMeter {
        HoldMeter
    }
}

impl HoldMeter {
    pub(crate) fn lost(self, _reason: LossReason) {}
}

impl WaitMeter {
    pub(crate) fn is_behind_others(&mut self) {}

    pub(crate) fn ends_as(&mut self, _outcome: Outcome) {}
}

impl CacheMeters {
    pub(crate) fn holds(&self, _nodes: usize) {}

    pub(crate) fn resyncs(&self) {}
}

impl NodeMeter {
    pub(crate) fn is(&mut self, _state: &'static str) {}
}

impl JobMeter {
    pub(crate) fn refused_by_clock(&self) {}
}

impl ValueMeters {
    pub(crate) fn written(&self) {}

    pub(crate) fn conflict(&self) {}
}

impl Requests {
    pub(crate) fn count(&self, _request: Request) {}
}

impl Connections {
    pub(crate) fn changed(&self, _state: &'static str) {}
}

impl ValidityMeter {
    pub(crate) fn confirmed(&self, _left: impl FnOnce() -> Duration) {}
}
