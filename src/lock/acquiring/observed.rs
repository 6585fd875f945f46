//! One acquire, as metrics and traces show it.

use tracing::Span;
use tracing::field::Empty;

use super::acquirable::Acquirable;
use crate::error::{Error, Result, report};
use crate::lock::holding::guard::LockGuard;
use crate::lock::owner::Owner;
use crate::meters::{Outcome, WaitMeter};

/// An acquire that goes on. It was cancelled if this is dropped without another end.
#[derive(Debug)]
pub(super) struct Observed {
    meter: WaitMeter,
    span: Span,
    outcome: Outcome,
}

impl Observed {
    pub(super) fn begin<L: Acquirable>(lock: &L, owner: &Owner) -> Self {
        let span = tracing::debug_span!(
            "acquire",
            path = %lock.name(),
            recipe = lock.recipe(),
            ?owner,
            outcome = Empty,
            node = Empty,
            token = Empty,
        );
        Self { meter: lock.wait_meter(), span, outcome: Outcome::Cancelled }
    }

    /// The span in which the acquire runs.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// Records that others are ahead.
    pub(super) fn is_behind_others(&mut self) {
        self.meter.is_behind_others();
    }

    pub(super) fn end(self, acquired: &Result<Option<LockGuard>>) {
        match acquired {
            Ok(Some(guard)) => self.granted(guard),
            Ok(None) => self.end_as(Outcome::Unavailable),
            Err(error) => self.failed(error),
        }
    }

    /// Ends the acquire, and begins the span of the hold.
    pub(super) fn granted(self, guard: &LockGuard) {
        self.span.record("node", guard.node_path());
        self.span.record("token", guard.fencing_token());
        self.end_as(Outcome::Granted);
        guard.begin_span();
    }

    pub(super) fn failed(self, error: &Error) {
        tracing::debug!(parent: &self.span, error = %report(error), "cannot acquire");
        self.end_as(Outcome::Failed);
    }

    fn end_as(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.meter.ends_as(self.outcome);
        self.span.record("outcome", self.outcome.name());
        match self.outcome {
            Outcome::Unavailable => tracing::debug!(parent: &self.span, "not available"),
            Outcome::Cancelled => tracing::debug!(parent: &self.span, "given up"),
            Outcome::Granted | Outcome::Failed => {}
        }
    }
}
