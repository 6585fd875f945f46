//! The members of a group, and how they have changed. No I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The members of a [`Group`](super::Group), by id.
///
/// Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Members {
    is_current: bool,
    members: Arc<BTreeMap<String, Member>>,
}

debug_by!(Members, |it| is_current: it.is_current, ids: it.members.keys());

/// A member of a [`Group`](super::Group).
#[derive(Clone, PartialEq, Eq)]
pub struct Member {
    pub(super) payload: Option<Arc<[u8]>>,
    pub(super) czxid: i64,
    pub(super) session: i64,
}

debug_by!(Member, |it|
    czxid: it.czxid, session_id: it.session, payload_length: it.payload.as_ref().map(|payload| payload.len())
);

/// A difference between two looks at the members of a group. From [`Members::changes_since`].
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A member has left.
    Left {
        /// Its id.
        id: String,
        /// The member as it was.
        member: Member,
    },
    /// A member has joined.
    Joined {
        /// Its id.
        id: String,
        /// The member.
        member: Member,
    },
    /// The payload of a member has changed.
    Changed {
        /// Its id.
        id: String,
        /// The member with its present payload.
        member: Member,
    },
}

impl Members {
    pub(super) fn current(members: BTreeMap<String, Member>) -> Self {
        Self { is_current: true, members: Arc::new(members) }
    }

    /// The same members, which may have changed since.
    pub(super) fn stale(self) -> Self {
        Self { is_current: false, ..self }
    }

    /// Returns whether these are the members as the servers show them to this client, as opposed to the last ones that were
    /// seen before the connection was lost, or to none that were ever seen.
    pub fn is_current(&self) -> bool {
        self.is_current
    }

    /// Returns the member of this id.
    pub fn get(&self, id: &str) -> Option<&Member> {
        self.members.get(id)
    }

    /// Returns the ids and the members, in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.members.iter().map(|(id, member)| (&**id, member))
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns how the members differ from those before, in the order of the ids. A member that has left and joined again
    /// meanwhile gives two changes, even if its payload is the same, but none if it does not show its
    /// [czxid](Member::czxid). A member that joined and left in between gives none.
    pub fn changes_since(&self, before: &Self) -> Vec<MemberChange> {
        if Arc::ptr_eq(&self.members, &before.members) {
            return Vec::new();
        }
        let ids: std::collections::BTreeSet<_> = before.members.keys().chain(self.members.keys()).collect();
        let mut changes = Vec::new();
        for id in ids {
            let (was, is) = (before.get(id), self.get(id));
            if let (Some(was), Some(is)) = (was, is)
                && was.czxid == is.czxid
            {
                if was.payload != is.payload {
                    changes.push(MemberChange::Changed { id: id.clone(), member: is.clone() });
                }
                continue;
            }
            let left = was.map(|member| MemberChange::Left { id: id.clone(), member: member.clone() });
            let joined = is.map(|member| MemberChange::Joined { id: id.clone(), member: member.clone() });
            changes.extend(left.into_iter().chain(joined));
        }
        changes
    }
}

impl Member {
    /// Returns the payload; `None` if this client may not read it, or if it is compressed and there is no room for it: a
    /// client that [compresses](crate::ClientBuilder::enable_compression) has 64 MiB for all payloads of a group, before
    /// compression.
    pub fn payload(&self) -> Option<&[u8]> {
        self.payload.as_deref()
    }

    /// Returns the transaction by which it has joined, which no other membership has; 0 if this client may not read the
    /// member and the servers do not tell, as of ZooKeeper 3.9.5.
    pub fn czxid(&self) -> i64 {
        self.czxid
    }

    /// Returns the ZooKeeper session of the member; 0 where [`czxid`](Self::czxid) is 0.
    pub fn session_id(&self) -> i64 {
        self.session
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(czxid: i64, payload: &str) -> Member {
        Member { payload: Some(payload.as_bytes().into()), czxid, session: 1 }
    }

    fn members(members: &[(&str, Member)]) -> Members {
        Members::current(members.iter().map(|(id, member)| ((*id).to_owned(), member.clone())).collect())
    }

    #[test]
    fn a_rejoin_is_two_changes() {
        let (a, b, c) = (member(1, "a"), member(2, "b"), member(3, "c"));
        let before = members(&[("a", a.clone()), ("b", b.clone()), ("c", c.clone())]);
        let (again, changed, d) = (member(9, "a"), member(2, "new"), member(8, "d"));
        let now = members(&[("a", again.clone()), ("b", changed.clone()), ("d", d.clone())]);
        assert_eq!(
            now.changes_since(&before),
            [
                MemberChange::Left { id: "a".into(), member: a },
                MemberChange::Joined { id: "a".into(), member: again },
                MemberChange::Changed { id: "b".into(), member: changed },
                MemberChange::Left { id: "c".into(), member: c },
                MemberChange::Joined { id: "d".into(), member: d },
            ]
        );
        assert_eq!(now.changes_since(&now.clone().stale()), []);
        assert_eq!(Members::default().changes_since(&Members::default()), []);
    }
}
