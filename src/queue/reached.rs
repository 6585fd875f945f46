//! Whether an acquire has reached its queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Told when a node of an acquire is known to have been in its queue: from then on it waited for others, and not for the
/// servers. The default is told for nobody.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached(Option<Arc<AtomicBool>>);

impl Reached {
    /// For somebody who asks.
    pub(crate) fn watched() -> Self {
        Self(Some(Arc::default()))
    }

    pub(super) fn note(&self) {
        if let Some(reached) = &self.0 {
            reached.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_noted(&self) -> bool {
        self.0.as_ref().is_some_and(|reached| reached.load(Ordering::Relaxed))
    }
}
