//! When a holder that leaves hands over within the local queue.
//!
//! Pure, like the local queue: no I/O, no clock.

/// The transactions that a holder has sent on condition that its node exists. The servers carry out none of them
/// after the node is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Transactions {
    /// Those that may still be carried out, as far as is known.
    open: usize,
}

/// When the local waiters behind a leaving holder are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PassOn {
    /// When its delete is sent: whatever the next holder sends arrives after it.
    AtOnce,
    /// When its node is known to be gone. Until then a transaction that it has sent may still be carried out,
    /// possibly by a server that the client has left, and others could see the result under the next holder.
    WhenGone,
}

impl Transactions {
    /// Records that a transaction is about to be sent.
    pub(crate) fn send(&mut self) {
        self.open += 1;
    }

    /// Records the reply. A transaction whose caller has gone never gets one.
    pub(crate) fn answered(&mut self, is_decided: bool) {
        if is_decided {
            self.open -= 1;
        }
    }

    /// Returns when to let the waiters in, if the holder leaves now.
    pub(crate) fn pass_on(&self) -> PassOn {
        if self.open > 0 { PassOn::WhenGone } else { PassOn::AtOnce }
    }
}
