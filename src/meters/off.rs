//! Meters that measure nothing.

use std::time::Duration;

use super::{Outcome, Request};
use crate::error::LossReason;

/// Stands for each meter, and for the labels of all. It has the methods of all of them; `on.rs` says whose they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Off(());

pub(crate) use self::{
    Off as CacheMeters, Off as Connections, Off as Counter, Off as HoldMeter, Off as Labels,
    Off as LockMeters, Off as NodeMeter, Off as Requests, Off as ValidityMeter, Off as ValueMeters,
    Off as WaitMeter,
};

impl Off {
    pub(crate) fn meters(&self, _path: &str, _recipe: &'static str) -> Self {
        Self(())
    }

    pub(crate) fn election_meters(&self, _path: &str, _recipe: &'static str) -> Self {
        Self(())
    }

    pub(crate) fn cache_meters(&self, _path: &str) -> Self {
        Self(())
    }

    pub(crate) fn node_meter(&self, _path: &str) -> Self {
        Self(())
    }

    pub(crate) fn value_meters(&self, _path: &str) -> Self {
        Self(())
    }

    pub(crate) fn wrong_clocks(&self, _path: &str) -> Self {
        Self(())
    }

    pub(crate) fn wait<'a>(_locks: impl IntoIterator<Item = &'a Self>) -> Self {
        Self(())
    }

    pub(crate) fn is_behind_others(&mut self) {}

    pub(crate) fn ends_as(&mut self, _outcome: Outcome) {}

    pub(crate) fn granted_at_once(&self) {}

    pub(crate) fn hold(&self) -> Self {
        Self(())
    }

    pub(crate) fn lost(self, _reason: LossReason) {}

    pub(crate) fn holds(&self, _nodes: usize) {}

    pub(crate) fn resyncs(&self) {}

    pub(crate) fn is(&mut self, _state: &'static str) {}

    pub(crate) fn increment(&self, _by: u64) {}

    pub(crate) fn written(&self) {}

    pub(crate) fn conflict(&self) {}

    pub(crate) fn count(&self, _request: Request) {}

    pub(crate) fn changed(&self, _state: &'static str) {}

    pub(crate) fn confirmed(&self, _left: impl FnOnce() -> Duration) {}
}
