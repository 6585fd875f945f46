//! What the waiters at barriers conclude from what they see. No I/O, no clock.

/// The name of the node by which members are let in. Every other child is a member.
pub(super) const READY: &str = "ready";

/// A wait at a barrier.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The czxid of the barrier at the first look.
    first: Option<i64>,
}

impl Waiting {
    /// Takes the czxid of the barrier; `None` if there is none. Returns whether the way is open, or has been: a barrier with
    /// another czxid was set after the first one had been removed.
    pub(super) fn has_opened(&mut self, seen: Option<i64>) -> bool {
        match seen {
            None => true,
            Some(czxid) => *self.first.get_or_insert(czxid) != czxid,
        }
    }
}

/// Whether a member is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is, and so is everyone else.
    Ready,
    /// There are enough members: whoever sees that lets all in.
    Enough,
    /// It waits for others to come.
    Wait,
    /// Its own node is gone.
    Lost,
}

/// Decides about a member by the children of the barrier, listed after its own node was created. That `ready` was seen is
/// the admission, however many members there are by then: some may have left already.
pub(super) fn admission(is_ready: bool, children: &[String], own: &str, wanted: usize) -> Admission {
    if is_ready || children.iter().any(|name| name == READY) {
        return Admission::Ready;
    }
    if !children.iter().any(|name| name == own) {
        return Admission::Lost;
    }
    // Nothing but members.
    if children.len() >= wanted { Admission::Enough } else { Admission::Wait }
}

/// Returns the member that someone who leaves waits for: the first one, since Curator's first one leaves last. `None` if
/// all have left.
pub(super) fn next_to_leave(children: &[String]) -> Option<&str> {
    children.iter().map(String::as_str).filter(|name| *name != READY).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_barrier_that_was_set_again_has_been_open() {
        let mut waiting = Waiting::default();
        assert!(!waiting.has_opened(Some(7)) && !waiting.has_opened(Some(7)));
        assert!(waiting.has_opened(Some(9)) && waiting.has_opened(None));
        assert!(Waiting::default().has_opened(None), "there was none");
    }

    #[test]
    fn members_are_let_in_together() {
        let admission = |is_ready, children: &[&str]| admission(is_ready, &names(children), "b", 3);
        assert_eq!(admission(false, &["a", "b"]), Admission::Wait);
        assert_eq!(admission(false, &["a", "b", "c"]), Admission::Enough);
        assert_eq!(admission(false, &["a", "b", "c", "d"]), Admission::Enough, "more may come");
        assert_eq!(admission(false, &["a", "c", "d"]), Admission::Lost);
        assert_eq!(admission(true, &["b"]), Admission::Ready, "the others have left already");
        assert_eq!(admission(false, &["b", "ready"]), Admission::Ready);
        assert_eq!(admission(true, &[]), Admission::Ready);
    }

    #[test]
    fn who_leaves_waits_for_members_only() {
        assert_eq!(next_to_leave(&names(&["c", "ready", "b"])), Some("b"));
        assert_eq!(next_to_leave(&names(&["ready"])), None);
        assert_eq!(next_to_leave(&[]), None);
    }
}
