//! One contender of a queue as a state machine: events in, actions out; no I/O, no clock.
//!
//! Whoever drives it does what an [`Action`] says and reports the outcome as the next [`Event`]. Everything
//! that decides who may believe to hold a lock is in here and in the pure files beside it.

use super::name::Names;
use super::order::{Contenders, Queued, in_order_of_creation};
use super::rule::{Verdict, verdict};

/// What became of the last action, or what happened meanwhile.
#[derive(Debug)]
pub(crate) enum Event {
    /// The contender enters.
    Start,
    /// Our node exists under this name; the children listed right behind the create, if that list came.
    Created { name: String, children: Option<Vec<String>> },
    /// The reply to the create was lost.
    CreateUnknown,
    /// The parent of the queue does not exist.
    ParentMissing,
    /// The parents exist now.
    ParentsMade,
    /// The node whose create was in doubt was looked for; its name if it exists.
    Settled(Option<String>),
    /// The children of the queue.
    Listed(Vec<String>),
    /// When the contenders asked for were created; those that are gone by now are missing.
    Dated(Vec<(Queued, i64)>),
    /// The blocker exists and is watched.
    Watched,
    /// The blocker is gone, or its watch has fired.
    BlockerChanged,
    /// The session that our node belongs to is over.
    SessionOver,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Create a node with a fresh id, and list the queue right behind it.
    Create,
    /// Our node is gone: create another at the end of the queue, unless that has happened too often.
    Requeue,
    /// Make the parents of the queue.
    MakeParents,
    /// Find out whether the node whose create was in doubt exists.
    Settle,
    /// List the queue.
    List,
    /// Ask when these contenders were created.
    Date(Vec<Queued>),
    /// Tell the caller: it holds, or it must wait. In the latter case the caller goes on with
    /// [`Contender::park`] when it wants to wait.
    Report,
    /// Watch the node of this name, if it still exists.
    Watch(String),
    /// Wait for the watch to fire.
    Await,
}

/// Where a contender stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not known to be in the queue.
    Outside,
    /// It holds.
    Granted,
    /// It waits.
    Waiting {
        /// How many contenders are before it.
        position: usize,
        /// The contender to watch.
        blocker: String,
    },
}

/// One contender: at most one node at any time.
#[derive(Debug)]
pub(crate) struct Contender {
    names: &'static Names,
    own: Option<String>,
    standing: Standing,
}

impl Contender {
    pub(crate) fn new(names: &'static Names) -> Self {
        Self { names, own: None, standing: Standing::Outside }
    }

    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// The next action of a contender that was told to wait and wants to.
    pub(crate) fn park(&self) -> Action {
        match &self.standing {
            Standing::Waiting { blocker, .. } => Action::Watch(blocker.clone()),
            Standing::Granted | Standing::Outside => Action::Report,
        }
    }

    /// Takes in an event. `stranger` hears of children that are no contenders.
    pub(crate) fn on(&mut self, event: Event, stranger: impl FnMut(&str)) -> Action {
        match event {
            Event::Start | Event::ParentsMade => Action::Create,
            Event::ParentMissing => Action::MakeParents,
            Event::CreateUnknown => Action::Settle,
            Event::Created { name, children } => {
                self.own = Some(name);
                match children {
                    Some(children) => self.look(children, stranger),
                    None => Action::List,
                }
            }
            Event::Settled(found) => {
                self.own = found;
                if self.own.is_some() { Action::List } else { Action::Create }
            }
            Event::Listed(children) => self.look(children, stranger),
            Event::Dated(created) => self.judge(in_order_of_creation(created)),
            Event::Watched => Action::Await,
            Event::BlockerChanged => Action::List,
            Event::SessionOver => {
                // A node of the old session may outlive it for a while. It must never be taken for ours.
                self.leave();
                Action::Create
            }
        }
    }

    fn look(&mut self, children: Vec<String>, stranger: impl FnMut(&str)) -> Action {
        match Contenders::among(children, self.names, stranger).in_order() {
            Ok(queue) => self.judge(queue),
            Err(names) => Action::Date(names),
        }
    }

    fn judge(&mut self, mut queue: Vec<Queued>) -> Action {
        let Some(position) = queue.iter().position(|queued| Some(&queued.name) == self.own.as_ref()) else {
            return self.requeue();
        };
        self.standing = match verdict(&queue, position) {
            Verdict::Granted => Standing::Granted,
            Verdict::BlockedBy(place) => {
                Standing::Waiting { position, blocker: queue.swap_remove(place).name }
            }
        };
        Action::Report
    }

    fn requeue(&mut self) -> Action {
        self.leave();
        Action::Requeue
    }

    fn leave(&mut self) {
        self.own = None;
        self.standing = Standing::Outside;
    }
}

#[cfg(test)]
mod tests {
    use super::super::name::{Kind, MUTEX, READ_WRITE};
    use super::*;

    fn name(sequence: i32) -> String {
        format!("_c_id{sequence}-lock-{sequence:010}")
    }

    fn names(sequences: &[i32]) -> Vec<String> {
        sequences.iter().copied().map(name).collect()
    }

    fn contender() -> Contender {
        Contender::new(&MUTEX)
    }

    fn on(contender: &mut Contender, event: Event) -> Action {
        contender.on(event, |_| ())
    }

    fn waiting_behind(own: i32, queue: &[i32]) -> Contender {
        let mut contender = contender();
        let created = Event::Created { name: name(own), children: Some(names(queue)) };
        assert_eq!(on(&mut contender, created), Action::Report);
        contender
    }

    #[test]
    fn alone_in_the_queue_it_is_granted() {
        let mut contender = contender();
        assert_eq!(on(&mut contender, Event::Start), Action::Create);
        let created = Event::Created { name: name(1), children: Some(names(&[1])) };
        assert_eq!(on(&mut contender, created), Action::Report);
        assert_eq!(*contender.standing(), Standing::Granted);
    }

    #[test]
    fn it_waits_for_the_one_right_before_it() {
        let mut contender = waiting_behind(3, &[2, 3, 1, 4]);
        let waiting = Standing::Waiting { position: 2, blocker: name(2) };
        assert_eq!(*contender.standing(), waiting);
        assert_eq!(contender.park(), Action::Watch(name(2)));
        assert_eq!(on(&mut contender, Event::Watched), Action::Await);
        assert_eq!(on(&mut contender, Event::BlockerChanged), Action::List);
        assert_eq!(on(&mut contender, Event::Listed(names(&[3, 4]))), Action::Report);
        assert_eq!(*contender.standing(), Standing::Granted);
    }

    #[test]
    fn behind_a_blocker_that_gave_up_it_waits_for_the_next() {
        let mut contender = waiting_behind(3, &[1, 2, 3]);
        on(&mut contender, Event::BlockerChanged);
        on(&mut contender, Event::Listed(names(&[1, 3])));
        let waiting = Standing::Waiting { position: 1, blocker: name(1) };
        assert_eq!(*contender.standing(), waiting);
    }

    #[test]
    fn without_the_second_reply_it_lists_again() {
        let mut contender = contender();
        let created = Event::Created { name: name(1), children: None };
        assert_eq!(on(&mut contender, created), Action::List);
        assert_eq!(*contender.standing(), Standing::Outside);
    }

    #[test]
    fn a_create_in_doubt_is_settled_before_anything_else() {
        let mut contender = contender();
        assert_eq!(on(&mut contender, Event::CreateUnknown), Action::Settle);
        assert_eq!(on(&mut contender, Event::Settled(Some(name(5)))), Action::List);
        assert_eq!(on(&mut contender, Event::Listed(names(&[5]))), Action::Report);
        assert_eq!(*contender.standing(), Standing::Granted);
        assert_eq!(on(&mut contender, Event::CreateUnknown), Action::Settle);
        assert_eq!(on(&mut contender, Event::Settled(None)), Action::Create);
    }

    #[test]
    fn a_lost_node_goes_back_to_the_end() {
        let mut contender = waiting_behind(2, &[1, 2]);
        assert_eq!(on(&mut contender, Event::Listed(names(&[1, 3]))), Action::Requeue);
        assert_eq!(*contender.standing(), Standing::Outside);
        let mut contender = waiting_behind(2, &[1, 2]);
        assert_eq!(on(&mut contender, Event::Listed(Vec::new())), Action::Requeue);
    }

    #[test]
    fn the_node_of_an_old_session_is_never_granted() {
        let mut contender = waiting_behind(2, &[1, 2]);
        assert_eq!(on(&mut contender, Event::SessionOver), Action::Create);
        assert_eq!(*contender.standing(), Standing::Outside);
        // The server still shows the old node, and it is first.
        let created = Event::Created { name: name(3), children: Some(names(&[2, 3])) };
        assert_eq!(on(&mut contender, created), Action::Report);
        let waiting = Standing::Waiting { position: 1, blocker: name(2) };
        assert_eq!(*contender.standing(), waiting);
    }

    #[test]
    fn strangers_never_block() {
        let mut contender = contender();
        let children = Some(vec!["0-foreign".into(), name(1), "zebra".into()]);
        on(&mut contender, Event::Created { name: name(1), children });
        assert_eq!(*contender.standing(), Standing::Granted);
    }

    #[test]
    fn a_reader_waits_for_the_nearest_writer_and_a_writer_for_whoever_is_before_it() {
        let queue: Vec<String> =
            ["WRIT__0000000001", "READ__0000000002", "WRIT__0000000003", "READ__0000000004"]
                .map(|end| format!("_c_id-__{end}"))
                .into();
        let standing = |own: usize, first: usize| {
            let mut contender = Contender::new(&READ_WRITE);
            let children = Some(queue[first..].to_vec());
            on(&mut contender, Event::Created { name: queue[own].clone(), children });
            contender.standing().clone()
        };
        let waiting =
            |position, blocker: usize| Standing::Waiting { position, blocker: queue[blocker].clone() };
        assert_eq!(standing(3, 0), waiting(3, 2));
        assert_eq!(standing(2, 0), waiting(2, 1));
        assert_eq!(standing(1, 0), waiting(1, 0));
        assert_eq!(standing(1, 1), Standing::Granted);
    }

    #[test]
    fn repeated_numbers_at_the_wrap_grant_one_only() {
        let children: Vec<String> = ["a", "b", "c"].map(|id| format!("_c_{id}-lock-2147483647")).into();
        let queued = |name: &String| Queued { name: name.clone(), kind: Kind::Exclusive, sequence: i32::MAX };
        let undated: Vec<Queued> = children.iter().map(queued).collect();
        let dates: Vec<(Queued, i64)> = undated.iter().cloned().zip([30, 10, 20]).collect();
        let standing = |own: &String| {
            let mut contender = contender();
            let created = Event::Created { name: own.clone(), children: Some(children.clone()) };
            assert_eq!(on(&mut contender, created), Action::Date(undated.clone()));
            assert_eq!(on(&mut contender, Event::Dated(dates.clone())), Action::Report);
            contender.standing().clone()
        };
        let [a, b, c] = [standing(&children[0]), standing(&children[1]), standing(&children[2])];
        let waiting = |position, blocker: &String| Standing::Waiting { position, blocker: blocker.clone() };
        assert_eq!(b, Standing::Granted);
        assert_eq!(c, waiting(1, &children[1]));
        assert_eq!(a, waiting(2, &children[2]));
    }

    #[test]
    fn own_node_gone_while_dates_were_fetched() {
        let mut contender = contender();
        let children = vec!["_c_a-lock-2147483647".to_owned(), "_c_b-lock-2147483647".to_owned()];
        on(&mut contender, Event::Created { name: children[0].clone(), children: Some(children.clone()) });
        let other = Queued { name: children[1].clone(), kind: Kind::Exclusive, sequence: i32::MAX };
        assert_eq!(on(&mut contender, Event::Dated(vec![(other, 4)])), Action::Requeue);
    }
}
