use proptest::prelude::*;

use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn members_are_let_in_together() {
    let admitted = |opened, children: &[&str], expected: Admission<'_>| {
        assert_eq!(admission(opened, &names(children), "b", 5, 3), expected, "{opened:?} {children:?}");
    };
    admitted(None, &["a", "b"], Admission::Wait);
    admitted(None, &["a", "b", "c"], Admission::Enough(vec!["b", "a", "c"]));
    admitted(None, &["a", "b", "c", "d"], Admission::Enough(vec!["b", "a", "c"])); // more may come
    admitted(None, &["a", "b", "ready"], Admission::Wait); // created since
    admitted(None, &["a", "c", "d"], Admission::Lost);
    admitted(Some(6), &["b"], Admission::In); // the others have left already
    admitted(Some(6), &[], Admission::In);
    admitted(Some(4), &["a", "b", "c", "ready"], Admission::Late(4));
    admitted(Some(4), &["a", "ready"], Admission::Lost);
}

#[test]
fn who_comes_late_joins_members_that_are_in_and_no_others() {
    const HIDDEN: i64 = 0;
    let late = |members: &[(&str, i64)], expected: Admission<'_>| {
        let dated = |came: i64| (came != HIDDEN).then_some(came);
        let members: Vec<_> = members.iter().map(|(name, came)| ((*name).to_owned(), dated(*came))).collect();
        assert_eq!(late_admission(4, &members, "b", 2), expected, "{members:?}");
    };
    late(&[("a", 3), ("b", 5)], Admission::Join(vec!["a"]));
    late(&[("c", 6), ("b", 5), ("a", 3), ("d", 2)], Admission::Join(vec!["a", "d"]));
    late(&[("c", HIDDEN), ("b", 5), ("a", 3)], Admission::Join(vec!["a"]));
    late(&[("c", HIDDEN), ("b", 5)], Admission::Hidden);
    late(&[("b", 5)], Admission::Wait);
    late(&[("b", 5), ("c", 6)], Admission::Enough(vec!["b", "c"]));
}

#[test]
fn who_leaves_waits_for_members_only() {
    assert_eq!(members_in_order(&names(&["c", "ready", "b"])).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(members_in_order(&names(&["ready"])).next(), None);
}

/// What a process does next, whatever its state.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Comes, looks, looks at the others, or writes: one request each.
    GoOn,
    /// Gives up or leaves, without waiting for others.
    Go,
    /// Deletes `ready` unless there are members.
    Tidy,
}

/// What a process has seen, which may be old.
#[derive(Clone, Debug)]
enum State {
    Out,
    Came,
    Late(i64),
    Opens { counted: Vec<String>, replaces: bool },
    Joins(String),
    In,
}

/// Processes at one barrier, and its nodes: requests of all of them in any order.
struct Play {
    zxid: i64,
    members: Vec<(String, i64)>,
    /// When `ready` was written last.
    opened: Option<i64>,
    states: Vec<State>,
}

const WANTED: usize = 2;
const PROCESSES: usize = 4;

fn process_of(name: &str) -> usize {
    name.split('-').next().unwrap().parse().unwrap()
}

impl Play {
    fn own(&self, process: usize) -> Option<&(String, i64)> {
        self.members.iter().find(|(name, _)| process_of(name) == process)
    }

    fn is_there(&self, name: &str) -> bool {
        self.members.iter().any(|(there, _)| there == name)
    }

    fn state_for(admission: Admission<'_>, replaces: bool) -> State {
        match admission {
            Admission::In => State::In,
            Admission::Join(others) => State::Joins(others[0].to_owned()),
            Admission::Enough(counted) => {
                State::Opens { counted: counted.into_iter().map(str::to_owned).collect(), replaces }
            }
            // It looks again, as after a change.
            Admission::Wait => State::Came,
            Admission::Lost => State::Out,
            Admission::Late(opened) => State::Late(opened),
            Admission::Hidden => unreachable!("all may be read"),
        }
    }

    fn go_on(&mut self, process: usize) {
        self.zxid += 1;
        let next = match (self.states[process].clone(), self.own(process).cloned()) {
            (State::Out, _) => {
                self.members.push((format!("{process}-{}", self.zxid), self.zxid));
                State::Came
            }
            (State::Came, Some((own, came))) => {
                let mut children: Vec<_> = self.members.iter().map(|(name, _)| name.clone()).collect();
                children.extend(self.opened.map(|_| READY.to_owned()));
                Self::state_for(admission(self.opened, &children, &own, came, WANTED), false)
            }
            (State::Late(opened), Some((own, _))) => {
                let dated: Vec<_> =
                    self.members.iter().map(|(name, came)| (name.clone(), Some(*came))).collect();
                Self::state_for(late_admission(opened, &dated, &own, WANTED), true)
            }
            (State::Opens { counted, replaces }, _) => {
                let is_done =
                    counted.iter().all(|name| self.is_there(name)) && self.opened.is_some() == replaces;
                if is_done {
                    assert!(counted.len() >= WANTED);
                    // Those of an earlier round do not count, unless all of these belong to it.
                    let is_in = |name: &String| matches!(self.states[process_of(name)], State::In);
                    let of_one_round = counted.iter().all(|name| {
                        let came = self.members.iter().find(|(there, _)| there == name).unwrap().1;
                        self.opened.is_some_and(|opened| is_admitted(came, opened))
                    });
                    assert!(of_one_round || !counted.iter().any(is_in), "{counted:?} at {:?}", self.opened);
                    self.opened = Some(self.zxid);
                    State::In
                } else {
                    State::Came
                }
            }
            (State::Joins(other), _) => match self.opened {
                Some(opened) if self.is_there(&other) => {
                    assert!(self.members.iter().any(|(_, came)| is_admitted(*came, opened)), "alone");
                    self.opened = Some(self.zxid);
                    State::In
                }
                _ => State::Came,
            },
            (state, _) => state,
        };
        self.states[process] = next;
    }

    fn act(&mut self, process: usize, act: Act) {
        match act {
            Act::GoOn => self.go_on(process),
            Act::Go => {
                self.members.retain(|(name, _)| process_of(name) != process);
                self.states[process] = State::Out;
            }
            Act::Tidy if self.members.is_empty() => self.opened = None,
            Act::Tidy => {}
        }
        for (process, state) in self.states.iter().enumerate() {
            if let (State::In, Some((_, came))) = (state, self.own(process)) {
                assert!(self.opened.is_some_and(|opened| is_admitted(*came, opened)), "{process} is in");
            }
        }
    }
}

proptest! {
    #[test]
    fn nobody_is_let_in_by_members_of_another_round(
        steps in prop::collection::vec(
            (0..PROCESSES, prop_oneof![6 => Just(Act::GoOn), 2 => Just(Act::Go), 1 => Just(Act::Tidy)]),
            1..80,
        )
    ) {
        let mut play =
            Play { zxid: 0, members: Vec::new(), opened: None, states: vec![State::Out; PROCESSES] };
        for (process, act) in steps {
            play.act(process, act);
        }
    }
}
