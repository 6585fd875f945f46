//! When the line passes on from a holder that goes.
//!
//! Pure, as the line: no I/O, no clock.

/// The transactions that a holder has sent under its node. The servers do one only while that node exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Transactions {
    /// Those that may yet be done, for all that is known.
    open: usize,
}

/// When those behind a holder are let in that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PassOn {
    /// When its delete is sent: whatever the next holder sends arrives after it.
    AtOnce,
    /// When its node is known to be gone. Until then something that it has sent may be done, be it by a server that
    /// the client has left; and others might see that it is done under the next holder.
    WhenGone,
}

impl Transactions {
    /// One is about to be sent.
    pub(crate) fn send(&mut self) {
        self.open += 1;
    }

    /// It is answered. One that nobody waits for any more never is.
    pub(crate) fn answered(&mut self, is_decided: bool) {
        if is_decided {
            self.open -= 1;
        }
    }

    /// When to let those in who wait, if the holder goes now.
    pub(crate) fn pass_on(&self) -> PassOn {
        if self.open > 0 { PassOn::WhenGone } else { PassOn::AtOnce }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_waits_for_what_may_yet_be_done() {
        let mut transactions = Transactions::default();
        assert_eq!(transactions.pass_on(), PassOn::AtOnce);
        transactions.send();
        transactions.send();
        transactions.answered(true);
        assert_eq!(transactions.pass_on(), PassOn::WhenGone);
        transactions.answered(false);
        assert_eq!(transactions.pass_on(), PassOn::WhenGone, "the connection was lost");
        transactions.answered(true);
        assert_eq!(transactions.pass_on(), PassOn::AtOnce);
    }
}
