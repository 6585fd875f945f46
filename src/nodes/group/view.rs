//! What is known of a group on one connection. No I/O.

use std::collections::{BTreeMap, HashSet};

use super::members::Member;
use crate::client::Room;

/// The members that are watched on one connection.
#[derive(Debug, Default)]
pub(super) struct View {
    members: BTreeMap<String, Member>,
}

impl View {
    /// Takes the names of all members, and returns those that are to be read: each one that is not known is read and watched.
    /// So is each that may not be read: its watch may have kept silent when it left and joined again.
    pub(super) fn listed(&mut self, names: &[String]) -> Vec<String> {
        let listed: HashSet<&str> = names.iter().map(String::as_str).collect();
        self.members.retain(|name, _| listed.contains(&**name));
        let is_known = |name: &String| self.members.get(name).is_some_and(|member| member.payload.is_some());
        names.iter().filter(|name| !is_known(name)).cloned().collect()
    }

    /// The room that the payloads leave for others.
    pub(super) fn room(&self) -> Room {
        let payloads = self.members.values().filter_map(|member| member.payload.as_deref());
        Room::beside(payloads.map(<[u8]>::len).sum())
    }

    /// Takes a member that was read; `None` if it has left since it was listed. The next list shows whether it is back.
    pub(super) fn read(&mut self, name: String, member: Option<Member>) {
        match member {
            Some(member) => drop(self.members.insert(name, member)),
            None => drop(self.members.remove(&name)),
        }
    }

    /// A watched member has left.
    pub(super) fn left(&mut self, name: &str) {
        self.members.remove(name);
    }

    /// Returns those that count as members.
    pub(super) fn members(&self, counts: impl Fn(&Member) -> bool) -> BTreeMap<String, Member> {
        let members = self.members.iter().filter(|(_, member)| counts(member));
        members.map(|(name, member)| (name.clone(), member.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_new_members_are_read() {
        let member = |czxid| Some(Member { payload: Some([].into()), czxid, session: czxid });
        let mut view = View::default();
        assert_eq!(view.listed(&names(&["a", "b"])), ["a", "b"]);
        view.read("a".into(), member(1));
        view.read("b".into(), None);
        assert_eq!(view.listed(&names(&["a", "b", "c"])), ["b", "c"], "it is back");
        view.read("b".into(), member(2));
        view.read("c".into(), member(3));
        view.left("a");
        assert_eq!(view.listed(&names(&["a", "c"])), ["a"], "it has left and joined again");
        view.read("a".into(), member(4));
        let counted = view.members(|member| member.session != 3);
        assert_eq!(counted.into_keys().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn what_may_not_be_read_is_looked_at_again_with_each_list() {
        let mut view = View::default();
        for czxid in [1, 2] {
            assert_eq!(view.listed(&names(&["a"])), ["a"]);
            view.read("a".into(), Some(Member { payload: None, czxid, session: 7 }));
        }
    }
}
