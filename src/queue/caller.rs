//! What a queue knows about a caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A caller that wants a place in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Arc<Flags>);

#[derive(Debug)]
struct Flags {
    may_wait: bool,
    /// Whether it waits for a time only.
    has_deadline: bool,
    /// Whether it has waited for others, as far as is known, and not for the servers.
    has_reached: AtomicBool,
    /// Whether it has waited for others before it entered the queue.
    has_waited: AtomicBool,
    /// Whether no one wants the place any more.
    has_gone: AtomicBool,
    /// Whether the create of its contender was sent.
    has_sent: AtomicBool,
}

impl Caller {
    /// A caller that does not wait, and wants to know where it stands.
    pub(crate) fn asking() -> Self {
        Self::new(false, false)
    }

    /// A caller that waits or not, with a deadline or without.
    pub(crate) fn new(may_wait: bool, has_deadline: bool) -> Self {
        let [has_reached, has_waited, has_gone, has_sent] = Default::default();
        Self(Arc::new(Flags { may_wait, has_deadline, has_reached, has_waited, has_gone, has_sent }))
    }

    /// Whether it can use a place whose standing is not known yet.
    pub(crate) fn may_wait(&self) -> bool {
        self.0.may_wait
    }

    /// Whether it waits for a time only.
    pub(crate) fn has_deadline(&self) -> bool {
        self.0.has_deadline
    }

    /// Records that a contender of the caller is in its queue.
    pub(crate) fn reached(&self) {
        self.0.has_reached.store(true, Ordering::Relaxed);
    }

    /// Records that what it wants is free, so that from now on it waits for the servers only.
    pub(crate) fn takes(&self) {
        self.0.has_reached.store(false, Ordering::Relaxed);
    }

    /// Whether it has waited for others, as far as is known, and not for the servers.
    pub(crate) fn has_reached(&self) -> bool {
        self.0.has_reached.load(Ordering::Relaxed)
    }

    /// Records that it has waited for others before it entered the queue.
    pub(crate) fn has_waited_in_line(&self) {
        self.0.has_waited.store(true, Ordering::Relaxed);
    }

    /// Whether it has ever waited for others, as far as is known.
    pub(crate) fn has_waited(&self) -> bool {
        self.has_reached() || self.0.has_waited.load(Ordering::Relaxed)
    }

    pub(super) fn sends(&self) {
        self.0.has_sent.store(true, Ordering::Relaxed);
    }

    /// Whether the requests that it makes now are sent behind its create.
    pub(crate) fn has_sent(&self) -> bool {
        self.0.has_sent.load(Ordering::Relaxed)
    }

    pub(super) fn goes(&self) {
        self.0.has_gone.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_gone(&self) -> bool {
        self.0.has_gone.load(Ordering::Relaxed)
    }
}
