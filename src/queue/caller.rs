//! What a queue knows about a caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A caller that wants a place in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    may_wait: bool,
    /// Set when a contender of the caller is known to have been in its queue: from then on the caller has waited
    /// for others, not for the servers.
    reached: Option<Arc<AtomicBool>>,
    /// Whether no one wants the place any more.
    has_gone: Arc<AtomicBool>,
    /// Whether the create of its contender was sent.
    has_sent: Arc<AtomicBool>,
}

impl Caller {
    /// A caller that waits for as long as it takes.
    pub(crate) fn patient() -> Self {
        Self { may_wait: true, reached: None, has_gone: Arc::default(), has_sent: Arc::default() }
    }

    /// A caller with a deadline, which checks afterwards whether it has reached the queue.
    pub(crate) fn with_deadline() -> Self {
        Self {
            may_wait: true,
            reached: Some(Arc::default()),
            has_gone: Arc::default(),
            has_sent: Arc::default(),
        }
    }

    /// A caller that does not wait, and wants to know where it stands.
    pub(crate) fn asking() -> Self {
        Self { may_wait: false, reached: None, has_gone: Arc::default(), has_sent: Arc::default() }
    }

    /// Whether it can use a place whose standing is not known yet.
    pub(super) fn may_wait(&self) -> bool {
        self.may_wait
    }

    pub(super) fn reached(&self) {
        if let Some(reached) = &self.reached {
            reached.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn sends(&self) {
        self.has_sent.store(true, Ordering::Relaxed);
    }

    /// Whether the requests that it makes now are sent behind its create.
    pub(super) fn has_sent(&self) -> bool {
        self.has_sent.load(Ordering::Relaxed)
    }

    pub(super) fn goes(&self) {
        self.has_gone.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_gone(&self) -> bool {
        self.has_gone.load(Ordering::Relaxed)
    }

    pub(crate) fn has_reached(&self) -> bool {
        self.reached.as_ref().is_some_and(|reached| reached.load(Ordering::Relaxed))
    }
}
