//! A node that may linger, as `lingering.rs` and its caller have it.

use super::client::{Answer, Client, Watch, What};
use super::driver::{Ground, Shown};
use super::queue::contender::Action as ContenderAction;
use super::queue::linger::{Action, Circumstances, Event, Linger, is_alone};
use super::queue::local_queue::Rank;
use super::task::{Node, Phase};
use super::zookeeper::Path;

/// The slot of what an attendant asks.
pub(crate) const ATTENDANT: usize = usize::MAX - 2;

/// The node by which the lock was granted last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lingering {
    pub(crate) name: String,
    linger: Linger,
    look: Look,
    /// What is kept while nobody holds.
    idle: Option<(Node, Option<Rank>)>,
    epoch: usize,
    /// Whether its time is over, while nobody holds.
    is_over: bool,
    asked: Asked,
}

/// Whether somebody has asked for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    No,
    /// It was heard, and its attendant is late.
    Heard,
    /// That was decided upon.
    Decided,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Look {
    Asked,
    Watching(Watch),
    /// The watch has told, and that was decided upon.
    Over,
}

impl Lingering {
    pub(crate) fn is_idle(&self) -> bool {
        self.idle.is_some()
    }

    /// Whether it lingers though somebody has asked for it.
    pub(crate) fn ignores_a_request(&self) -> bool {
        self.asked == Asked::Decided && self.is_idle()
    }

    pub(crate) fn is_looking(&self) -> bool {
        self.look == Look::Asked
    }

    pub(crate) fn watch(&mut self) -> Option<(Path, &mut Watch)> {
        match &mut self.look {
            Look::Watching(watch) => Some((Path::Children, watch)),
            Look::Asked | Look::Over => None,
        }
    }

    fn has_changed(&self) -> bool {
        matches!(&self.look, Look::Watching(watch) if watch.told.is_some())
    }

    /// Whether its attendant has something to do.
    pub(crate) fn is_to_be_attended(&self) -> bool {
        self.has_changed() || self.asked == Asked::Heard || self.is_over
    }

    pub(crate) fn can_be_over(&self) -> bool {
        self.is_idle() && !self.is_over
    }
}

impl Client {
    /// A task holds by a node of its own.
    pub(crate) fn begin_lingering(&mut self, task: usize) {
        if !self.lingers {
            return;
        }
        let name = self.tasks[task].node.as_ref().and_then(|node| node.name.clone()).expect("it holds");
        self.stop_lingering();
        self.lingering = Some(Lingering {
            name: name.clone(),
            linger: Linger::new(),
            look: Look::Asked,
            idle: None,
            epoch: self.epoch,
            is_over: false,
            asked: Asked::No,
        });
        self.send(task, ATTENDANT, What::Look { node: name });
    }

    /// A task that wants the lock takes the node, or awaits the list, or enters the queue.
    pub(crate) fn take_lingering(&mut self, task: usize) -> Shown {
        let mut shown = Shown::default();
        let queues = |of: &super::task::Task| matches!(of.phase, Phase::Asking(_) | Phase::Awaiting);
        let now = Circumstances {
            is_sound: !self.has_expired,
            is_in_time: self.lingering.as_ref().is_some_and(|lingering| !lingering.is_over),
            has_changed: self.lingering.as_ref().is_some_and(Lingering::has_changed),
            is_asked: self.lingering.as_ref().is_some_and(|lingering| lingering.asked != Asked::No),
            others_queue: self.tasks.iter().any(queues),
        };
        match self.decide(Event::Wanted(now)) {
            Some(Action::Grant) => {
                let lingering = self.lingering.as_mut().expect("it is granted");
                let held = lingering.idle.take();
                shown.granted = Some(Ground::Lingering);
                shown.passes = now.others_queue;
                shown.is_late = lingering.is_over || now.is_asked;
                lingering.is_over = false;
                let tasks = &mut self.tasks[task];
                tasks.epoch = lingering.epoch;
                tasks.phase = Phase::Holding;
                if let Some((node, rank)) = held {
                    (tasks.node, tasks.rank) = (Some(node), rank);
                } else {
                    // Somebody holds by it.
                    let name = lingering.name.clone();
                    tasks.node = Some(Node { id: name.clone(), name: Some(name), under: None, watch: None });
                }
            }
            Some(Action::Await) => self.tasks[task].phase = Phase::Looking,
            _ => self.drive(task, ContenderAction::Create, &mut shown, Ground::List),
        }
        shown
    }

    /// Whether the tasks that await the list are to ask again.
    pub(crate) fn await_no_more(&self) -> bool {
        !self.lingering.as_ref().is_some_and(|lingering| lingering.is_looking() && lingering.is_idle())
    }

    /// A holder gives the lock back: its node may stay.
    pub(crate) fn release(&mut self, task: usize) {
        let name = self.tasks[task].node.as_ref().and_then(|node| node.name.as_deref());
        let is_of_it = |lingering: &Lingering| Some(&*lingering.name) == name;
        if self.lingering.as_ref().is_some_and(is_of_it) {
            self.attend_to_watch();
            self.attend_to_request();
            let pass_on = self.tasks[task].transactions.pass_on();
            if let Some(lingering) = &mut self.lingering {
                if lingering.linger.on(Event::Released(pass_on)) == Action::Keep && !self.has_expired {
                    let tasks = &mut self.tasks[task];
                    lingering.idle = tasks.node.take().map(|node| (node, tasks.rank.take()));
                } else {
                    self.lingering = None;
                }
            }
        }
        self.end(task);
    }

    /// Does what its attendant has to do.
    pub(crate) fn attend(&mut self) {
        if !self.attend_to_watch() && !self.attend_to_request() {
            self.decide(Event::Deadline);
        }
    }

    fn attend_to_watch(&mut self) -> bool {
        let Some(lingering) = self.lingering.as_mut().filter(|lingering| lingering.has_changed()) else {
            return false;
        };
        lingering.look = Look::Over;
        self.decide(Event::Changed);
        true
    }

    fn attend_to_request(&mut self) -> bool {
        let heard = self.lingering.as_mut().filter(|lingering| lingering.asked == Asked::Heard);
        let Some(lingering) = heard else { return false };
        lingering.asked = Asked::Decided;
        self.decide(Event::Asked);
        true
    }

    /// Its time is over.
    pub(crate) fn lapse(&mut self) {
        self.lingering.as_mut().expect("it lingers").is_over = true;
    }

    /// Somebody asks for the lock, and that is heard.
    pub(crate) fn hear_request(&mut self) {
        self.lingering.as_mut().expect("there is a node").asked = Asked::Heard;
    }

    pub(crate) fn answer_attendant(&mut self, answer: Answer) {
        let Some(lingering) = self.lingering.as_mut().filter(|lingering| lingering.is_looking()) else {
            return;
        };
        match answer {
            Answer::Looked { node, children } if node == lingering.name => {
                lingering.look = Look::Watching(Watch::default());
                let is_alone = is_alone(&children, &node);
                self.decide(Event::Looked { is_alone });
            }
            // Of an earlier node.
            Answer::Looked { .. } => {}
            _ => {
                lingering.look = Look::Over;
                self.decide(Event::Changed);
            }
        }
    }

    /// The watch ends with the connection, and the list is not answered.
    pub(crate) fn lose_lingering_watch(&mut self) {
        if let Some(lingering) = &mut self.lingering {
            lingering.look = Look::Over;
            self.decide(Event::Changed);
        }
    }

    fn decide(&mut self, event: Event) -> Option<Action> {
        let action = self.lingering.as_mut()?.linger.on(event);
        if action == Action::Delete {
            self.stop_lingering();
        }
        Some(action)
    }

    /// Deletes the node.
    fn stop_lingering(&mut self) {
        let Some(lingering) = self.lingering.take().filter(|lingering| lingering.epoch == self.epoch) else {
            return;
        };
        match lingering.idle {
            Some((_, rank)) => {
                if let Some(rank) = rank {
                    let woken = self.with(lingering.epoch, |local, _| local.leave(rank));
                    self.wake(woken);
                }
            }
            // Should somebody hold by it, it does not know.
            None if self.tasks.iter().any(|task| task.holds_by(&lingering.name)) => {}
            None => return,
        }
        self.send(0, 0, What::Delete { name: lingering.name });
    }
}
