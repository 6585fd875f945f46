//! What is to be done about a kept node. No I/O, no clock.

/// How long a kept node is there. It decides whose a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// As long as the session that has created it.
    Session,
    /// Until its value ends, which deletes it.
    Value,
    /// As long as anyone touches it.
    Touched,
}

/// A node at the path of the kept node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The session whose ephemeral node it is, or 0.
    pub(super) owner: i64,
    pub(super) czxid: i64,
    pub(super) version: i32,
}

/// What a look at the path has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    Nothing,
    Node(Seen),
    /// A node that may not be read. Some servers do not even show its stat.
    Hidden {
        /// Whether it belongs to the present session, which is asked for [`Lifetime::Session`] only.
        is_own: bool,
    },
}

/// What is known of the data of the own node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) czxid: i64,
    pub(super) version: i32,
    pub(super) data: Data,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// The value's data of this generation.
    Of(u64),
    /// Something else, in a node that is ours all the same.
    Other,
    /// Something else, by which the node is someone else's: see [`IsSame`].
    Strangers,
}

/// Compares what is there with the data of the value. A persistent node does not say whose it is; with this, it is ours if
/// they are the same.
pub(crate) type IsSame = fn(there: &[u8], wanted: &[u8]) -> bool;

impl Known {
    /// Whether it is this node, unchanged.
    pub(super) fn is_of(&self, seen: &Seen) -> bool {
        self.czxid == seen.czxid && self.version == seen.version
    }

    /// The same node after a write.
    pub(super) fn written(self) -> Self {
        Self { version: self.version.wrapping_add(1), data: Data::Other, ..self }
    }

    pub(super) fn of_unknown_data(self) -> Self {
        Self { data: Data::Other, ..self }
    }
}

/// The next step. Each conditional one follows a look, and fails without an effect if the node has another version by then.
/// ZooKeeper cannot compare owners: a node of someone else's that takes the place of ours within that round trip, and has
/// the same version, is not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Look,
    Create,
    /// Deletes the node of an ended session of this client, and creates another in the same transaction.
    Replace {
        version: i32,
    },
    /// Reads the data.
    Compare,
    /// Without a version, it is a node that does not show it.
    Write {
        version: Option<i32>,
    },
    /// Has the servers keep it for another time to live.
    Touch,
    /// The own node is there with the wanted data.
    Rest,
    /// Someone else's node is there.
    Yield,
}

/// What is to be done at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// There is nothing of ours.
    Gone,
    /// Without a version, it is a node that does not show it.
    Delete { version: Option<i32> },
    /// It may not be read, so it does not show whether it is ours.
    Unknown,
}

/// Returns the first step on a connection, or after something has changed. What is there already is only looked at: it may
/// be another node than before.
pub(super) fn first(
    known: Option<Known>,
    is_taken: bool,
    is_to_be_read: bool,
    is_to_be_touched: bool,
) -> Step {
    match known {
        // What becomes of its data must not keep it from being touched.
        Some(_) if is_to_be_touched => Step::Touch,
        Some(_) if is_to_be_read => Step::Compare,
        None if !is_taken => Step::Create,
        Some(_) | None => Step::Look,
    }
}

/// Decides about the next step. The kept node belongs to `session`, and is to have the data of the generation `wanted`.
///
/// `left_over` is the node of an earlier session that the look before has shown. A node is replaced only if two looks have
/// shown the same: it may disappear with its session at any time, and someone may have waited for that.
pub(super) fn next(
    lifetime: Lifetime,
    sight: Sight,
    known: Option<Known>,
    left_over: Option<i64>,
    session: i64,
    has_ended: impl Fn(i64) -> bool,
    wanted: u64,
) -> Step {
    let seen = match sight {
        Sight::Nothing => return Step::Create,
        Sight::Node(seen) => seen,
        Sight::Hidden { is_own } => return next_of_hidden(lifetime, is_own, known, wanted),
    };
    // One of no session does not say whose it is, nor whether it has a time to live.
    let our_owner = if lifetime == Lifetime::Session { session } else { 0 };
    if seen.owner != our_owner {
        let is_of_earlier_session = lifetime == Lifetime::Session && seen.owner != 0 && has_ended(seen.owner);
        return match is_of_earlier_session {
            true if left_over == Some(seen.czxid) => Step::Replace { version: seen.version },
            true => Step::Look,
            false => Step::Yield,
        };
    }
    let known = known.filter(|known| known.is_of(&seen));
    match known.map(|known| known.data) {
        None => Step::Compare,
        Some(Data::Of(generation)) if generation == wanted => Step::Rest,
        Some(Data::Strangers) => Step::Yield,
        Some(Data::Of(_) | Data::Other) => Step::Write { version: Some(seen.version) },
    }
}

/// Decides about the next step where a node may not be read.
fn next_of_hidden(lifetime: Lifetime, is_own: bool, known: Option<Known>, wanted: u64) -> Step {
    match known {
        _ if lifetime == Lifetime::Session && !is_own => Step::Yield,
        Some(known) if known.data == Data::Of(wanted) => Step::Rest,
        _ if lifetime == Lifetime::Session => Step::Write { version: None },
        Some(known) => Step::Write { version: Some(known.version) },
        None => Step::Yield,
    }
}

/// Decides about the end of the kept node.
pub(super) fn end(lifetime: Lifetime, sight: Sight, known: Option<Known>, session: i64) -> End {
    let seen = match sight {
        Sight::Nothing => return End::Gone,
        Sight::Node(seen) => seen,
        Sight::Hidden { is_own: true } => return End::Delete { version: None },
        Sight::Hidden { is_own: false } if lifetime == Lifetime::Session => return End::Gone,
        Sight::Hidden { .. } => {
            return known.map_or(End::Unknown, |known| End::Delete { version: Some(known.version) });
        }
    };
    let is_ours = match lifetime {
        // No one else makes nodes of this session.
        Lifetime::Session => seen.owner == session,
        Lifetime::Value => seen.owner == 0 && known.is_some_and(|known| known.czxid == seen.czxid),
        // Others may keep it.
        Lifetime::Touched => false,
    };
    if is_ours { End::Delete { version: Some(seen.version) } } else { End::Gone }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 7;
    const BEFORE: i64 = 6;
    const STRANGER: i64 = 99;

    fn seen(owner: i64, version: i32) -> Sight {
        Sight::Node(Seen { owner, czxid: 100, version })
    }

    fn step(sight: Sight, known: Option<Known>) -> Step {
        next(Lifetime::Session, sight, known, Some(100), NOW, |session| session == BEFORE, 3)
    }

    #[test]
    fn whose_node_it_is_decides_what_may_be_done() {
        let known = |data| Some(Known { czxid: 100, version: 5, data });
        assert_eq!(step(Sight::Nothing, None), Step::Create);
        assert_eq!(step(seen(BEFORE, 2), known(Data::Of(3))), Step::Replace { version: 2 });
        for owner in [STRANGER, 0] {
            assert_eq!(step(seen(owner, 5), known(Data::Of(3))), Step::Yield, "{owner}");
        }
        assert_eq!(step(seen(NOW, 5), known(Data::Of(3))), Step::Rest);
        assert_eq!(step(seen(NOW, 5), known(Data::Of(2))), Step::Write { version: Some(5) });
        assert_eq!(step(seen(NOW, 5), known(Data::Other)), Step::Write { version: Some(5) });
        assert_eq!(step(seen(NOW, 6), known(Data::Of(3))), Step::Compare, "someone has written");
        assert_eq!(step(seen(NOW, 5), None), Step::Compare, "the reply to the create was lost");
        let other = Some(Known { czxid: 99, version: 5, data: Data::Of(3) });
        assert_eq!(step(seen(NOW, 5), other), Step::Compare, "another node");
    }

    #[test]
    fn a_node_of_no_session_is_taken_over() {
        for lifetime in [Lifetime::Value, Lifetime::Touched] {
            let step = |sight| next(lifetime, sight, None, None, NOW, |_| true, 3);
            assert_eq!(step(seen(0, 1)), Step::Compare);
            assert_eq!(step(seen(STRANGER, 1)), Step::Yield);
            assert_eq!(step(seen(NOW, 1)), Step::Yield, "an ephemeral node is another kind of node");
        }
    }

    #[test]
    fn a_persistent_node_of_others_is_left_alone() {
        let known = |data| Some(Known { czxid: 100, version: 5, data });
        let step =
            |version, data| next(Lifetime::Value, seen(0, version), known(data), None, NOW, |_| true, 3);
        assert_eq!(step(5, Data::Strangers), Step::Yield);
        assert_eq!(step(6, Data::Strangers), Step::Compare, "it may be ours by now");
        assert_eq!(step(5, Data::Of(2)), Step::Write { version: Some(5) });
    }

    #[test]
    fn what_is_left_over_is_replaced_after_two_looks() {
        let step = |left_over| {
            let has_ended = |session| session == BEFORE;
            next(Lifetime::Session, seen(BEFORE, 0), None, left_over, NOW, has_ended, 3)
        };
        assert_eq!(step(None), Step::Look);
        assert_eq!(step(Some(99)), Step::Look, "another one");
        assert_eq!(step(Some(100)), Step::Replace { version: 0 });
    }

    #[test]
    fn what_is_hidden_is_ours_if_its_session_is() {
        let known = |data| Some(Known { czxid: 100, version: 5, data });
        for known in [None, known(Data::Of(3)), known(Data::Other)] {
            assert_eq!(step(Sight::Hidden { is_own: false }, known), Step::Yield, "{known:?}");
        }
        let own = Sight::Hidden { is_own: true };
        assert_eq!(step(own, known(Data::Of(3))), Step::Rest);
        for known in [None, known(Data::Of(2)), known(Data::Other)] {
            assert_eq!(step(own, known), Step::Write { version: None }, "{known:?}");
        }
    }

    #[test]
    fn what_is_hidden_and_has_no_session_is_ours_if_we_know_it() {
        let known = |data| Some(Known { czxid: 100, version: 5, data });
        for lifetime in [Lifetime::Value, Lifetime::Touched] {
            let step = |known| next(lifetime, Sight::Hidden { is_own: false }, known, None, NOW, |_| true, 3);
            assert_eq!(step(None), Step::Yield);
            assert_eq!(step(known(Data::Of(3))), Step::Rest);
            assert_eq!(step(known(Data::Of(2))), Step::Write { version: Some(5) });
        }
    }

    #[test]
    fn what_may_be_someone_elses_is_looked_at_first() {
        let known = Some(Known { czxid: 100, version: 5, data: Data::Of(2) });
        assert_eq!(first(None, false, false, false), Step::Create);
        assert_eq!(first(None, true, true, false), Step::Look);
        assert_eq!(first(known, false, false, false), Step::Look);
        assert_eq!(first(known, false, true, false), Step::Compare);
        assert_eq!(first(known, false, false, true), Step::Touch);
        assert_eq!(first(known, false, true, true), Step::Touch);
        assert_eq!(first(None, true, false, true), Step::Look);
    }

    #[test]
    fn only_what_is_ours_is_deleted_at_the_end() {
        let known = |czxid| Some(Known { czxid, version: 5, data: Data::Other });
        let delete = |version| End::Delete { version: Some(version) };
        {
            let end = |sight, known| end(Lifetime::Session, sight, known, NOW);
            for known in [None, known(100), known(99)] {
                assert_eq!(end(Sight::Nothing, known), End::Gone);
                assert_eq!(end(seen(NOW, 7), known), delete(7), "{known:?}");
                for owner in [STRANGER, BEFORE, 0] {
                    assert_eq!(end(seen(owner, 5), known), End::Gone, "{owner}, {known:?}");
                }
            }
            for known in [None, known(100)] {
                assert_eq!(end(Sight::Hidden { is_own: true }, known), End::Delete { version: None });
                assert_eq!(end(Sight::Hidden { is_own: false }, known), End::Gone, "{known:?}");
            }
        }
        let end = |sight, known| end(Lifetime::Value, sight, known, NOW);
        assert_eq!(end(seen(0, 7), known(100)), delete(7));
        assert_eq!(end(seen(0, 7), known(99)), End::Gone, "another one");
        assert_eq!(end(seen(0, 7), None), End::Gone, "it was never taken over");
        assert_eq!(end(seen(STRANGER, 7), known(100)), End::Gone);
        assert_eq!(end(Sight::Hidden { is_own: false }, known(100)), delete(5));
        assert_eq!(end(Sight::Hidden { is_own: false }, None), End::Unknown);
        let touched = super::end(Lifetime::Touched, seen(0, 7), known(100), NOW);
        assert_eq!(touched, End::Gone, "others may keep it");
    }

    /// A server with one path, as far as this is about it.
    #[derive(Clone, Debug, Default)]
    struct Server {
        node: Option<(Seen, u64)>,
        zxid: i64,
    }

    /// What others do between two steps.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        Delete,
        Write,
        StrangerCreates,
        StrangerLeaves,
        OurSessionEnds,
        /// The next step is carried out, but its reply is lost.
        LoseReply,
        SetData,
        Nothing,
    }

    const FOREIGN: u64 = u64::MAX;

    impl Server {
        fn create(&mut self, owner: i64, data: u64) -> bool {
            self.zxid += 1;
            let is_free = self.node.is_none();
            if is_free {
                self.node = Some((Seen { owner, czxid: self.zxid, version: 0 }, data));
            }
            is_free
        }
    }

    struct Keeper {
        session: i64,
        ended: Vec<i64>,
        known: Option<Known>,
        left_over: Option<i64>,
        wanted: u64,
    }

    impl Keeper {
        /// As the driver does: the step, and a look in the same round trip.
        fn perform(&mut self, step: Step, server: &mut Server, is_reply_lost: bool) {
            let learn = |known: &mut Option<Known>, new| *known = if is_reply_lost { None } else { new };
            match step {
                Step::Create => {
                    if server.create(self.session, self.wanted) {
                        let czxid = server.zxid;
                        let made = Known { czxid, version: 0, data: Data::Of(self.wanted) };
                        learn(&mut self.known, Some(made));
                    }
                }
                Step::Replace { version } => {
                    let (node, _) = server.node.expect("no one acts within a step");
                    assert!(self.ended.contains(&node.owner), "only own nodes are deleted");
                    assert_eq!(node.version, version);
                    server.node = None;
                    server.create(self.session, self.wanted);
                    let made = Known { czxid: server.zxid, version: 0, data: Data::Of(self.wanted) };
                    learn(&mut self.known, Some(made));
                }
                Step::Compare => {
                    let (node, data) = server.node.expect("no one acts within a step");
                    let data = if data == self.wanted { Data::Of(data) } else { Data::Other };
                    learn(&mut self.known, Some(Known { czxid: node.czxid, version: node.version, data }));
                }
                Step::Write { version } => {
                    let (node, data) = server.node.as_mut().expect("no one acts within a step");
                    assert_eq!(node.owner, self.session, "only own nodes are written to");
                    assert_eq!(Some(node.version), version);
                    node.version += 1;
                    *data = self.wanted;
                    let written =
                        Known { czxid: node.czxid, version: node.version, data: Data::Of(self.wanted) };
                    learn(&mut self.known, Some(written));
                }
                Step::Look | Step::Touch | Step::Rest | Step::Yield => {}
            }
        }

        fn next(&mut self, server: &Server) -> Step {
            let sight = server.node.map_or(Sight::Nothing, |(seen, _)| Sight::Node(seen));
            let has_ended = |session| self.ended.contains(&session);
            let (known, before) = (self.known, self.left_over.take());
            if let Sight::Node(seen) = sight {
                self.left_over = has_ended(seen.owner).then_some(seen.czxid);
            }
            next(Lifetime::Session, sight, known, before, self.session, has_ended, self.wanted)
        }
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        use Act::*;
        let act = prop_oneof![
            Just(Delete),
            Just(Write),
            Just(StrangerCreates),
            Just(StrangerLeaves),
            Just(OurSessionEnds),
            Just(LoseReply),
            Just(SetData),
            Just(Nothing)
        ];
        proptest::collection::vec(act, 0..40)
    }

    proptest! {
        #[test]
        fn it_is_there_with_the_newest_data_whatever_happens(acts in acts()) {
            let mut server = Server::default();
            let mut keeper = Keeper { session: 1, ended: Vec::new(), known: None, left_over: None, wanted: 1 };
            for act in acts {
                match act {
                    Act::Delete => server.node = None,
                    Act::Write => if let Some((node, data)) = &mut server.node {
                        node.version += 1;
                        *data = FOREIGN;
                    },
                    Act::StrangerCreates => drop(server.create(STRANGER, FOREIGN)),
                    Act::StrangerLeaves => server.node = server.node.filter(|(node, _)| node.owner != STRANGER),
                    Act::OurSessionEnds => {
                        keeper.ended.push(keeper.session);
                        keeper.session += 1;
                        keeper.known = None;
                    }
                    Act::SetData => keeper.wanted += 1,
                    Act::Nothing | Act::LoseReply => {}
                }
                let step = keeper.next(&server);
                keeper.perform(step, &mut server, matches!(act, Act::LoseReply));
            }
            for _ in 0..6 {
                let step = keeper.next(&server);
                keeper.perform(step, &mut server, false);
            }
            let (node, data) = server.node.expect("there is a node");
            if node.owner == STRANGER {
                prop_assert_eq!(keeper.next(&server), Step::Yield);
                prop_assert_eq!(data, FOREIGN);
            } else {
                prop_assert_eq!(keeper.next(&server), Step::Rest);
                prop_assert_eq!((node.owner, data), (keeper.session, keeper.wanted));
            }
        }
    }
}
