//! What the waiters at double barriers conclude from what they see. No I/O, no clock.

use std::iter;

/// The name of the node by which members are let in. Every other child is a member.
pub(super) const READY: &str = "ready";

/// Whether a member is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Admission<'a> {
    /// It is.
    In,
    /// It is if it writes `ready` while one of these members is still there.
    Join(Vec<&'a str>),
    /// All are if it creates `ready` while these members are still there.
    Enough(Vec<&'a str>),
    /// It waits for others to come.
    Wait,
    /// Its own node is gone.
    Lost,
    /// It depends on when the others came: `ready` was written before this member came, by this transaction.
    Late(i64),
    /// It depends on members that may not be read.
    Hidden,
}

/// Whether `ready`, last written by the transaction `opened`, lets in the member that came by the transaction `came`.
///
/// Each write of `ready` lets in all members that are there. So every member that is in came before the last write.
pub(super) fn is_admitted(came: i64, opened: i64) -> bool {
    came < opened
}

/// Decides about the member `own`, which came by the transaction `came`, when `ready` was last written by the transaction
/// `opened`, and the children of the barrier were listed afterwards.
pub(super) fn admission<'a>(
    opened: Option<i64>,
    children: &'a [String],
    own: &'a str,
    came: i64,
    wanted: usize,
) -> Admission<'a> {
    match opened {
        // However many there are: some may have left already.
        Some(opened) if is_admitted(came, opened) => Admission::In,
        _ if !children.iter().any(|name| name == own) => Admission::Lost,
        Some(opened) => Admission::Late(opened),
        None => if_enough(children.iter().map(String::as_str), own, wanted),
    }
}

/// Decides about the member `own`, which came after `ready` was last written by the transaction `opened`, by the members and
/// the transactions by which they came; `None` for those that may not be read. While one that was let in is still there,
/// the round goes on. Otherwise `ready` is stale: it was left behind, and these are the members of the next round.
pub(super) fn late_admission<'a>(
    opened: i64,
    members: &'a [(String, Option<i64>)],
    own: &'a str,
    wanted: usize,
) -> Admission<'a> {
    let is_in = |came: Option<i64>| came.is_some_and(|came| is_admitted(came, opened));
    let admitted: Vec<_> =
        members.iter().filter(|(_, came)| is_in(*came)).map(|(name, _)| name.as_str()).collect();
    if !admitted.is_empty() {
        return Admission::Join(admitted);
    }
    if members.iter().any(|(_, came)| came.is_none()) {
        return Admission::Hidden;
    }
    if_enough(members.iter().map(|(name, _)| name.as_str()), own, wanted)
}

fn if_enough<'a>(children: impl Iterator<Item = &'a str>, own: &'a str, wanted: usize) -> Admission<'a> {
    let others = children.filter(|name| *name != READY && *name != own);
    let counted: Vec<_> = iter::once(own).chain(others).take(wanted).collect();
    if counted.len() == wanted { Admission::Enough(counted) } else { Admission::Wait }
}

/// Returns the members in the order in which someone who leaves waits for them: by name, since Curator's first one leaves
/// last.
pub(super) fn members_in_order(children: &[String]) -> impl Iterator<Item = &str> {
    let mut members: Vec<_> = children.iter().map(String::as_str).filter(|name| *name != READY).collect();
    members.sort_unstable();
    members.into_iter()
}

#[cfg(test)]
mod tests;
