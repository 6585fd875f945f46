//! A node that may linger, as `lingering.rs` and its caller have it.

use super::client::{Answer, Client, Watch, What};
use super::driver::{Ground, Shown};
use super::queue::contender::Action as ContenderAction;
use super::queue::linger::{Action, Circumstances, Event, Linger, Release, Terms, is_alone};
use super::queue::local_queue::Rank;
use super::task::{Node, Phase};
use super::zookeeper::Path;

/// The slot of what an attendant asks.
pub(crate) const ATTENDANT: usize = usize::MAX - 2;
/// The slot of the watch on the node itself.
pub(crate) const MONITOR: usize = usize::MAX - 3;

/// The node by which the lock was granted last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lingering {
    pub(crate) name: String,
    linger: Linger,
    look: Look,
    own: Own,
    /// What is kept while nobody holds.
    idle: Option<(Node, Option<Rank>)>,
    epoch: usize,
    /// Whether its time is over, while nobody holds.
    is_over: bool,
    /// Whether the time is over for which the cohort may keep others out.
    cohort: Time,
    /// Who has been passed by those to whom the node was handed on, and how often.
    passed: Option<(String, u32)>,
    asked: Asked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Time {
    Running,
    Over,
    /// That was decided upon.
    Decided,
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

/// The watch on the node itself: from the first time it stays; in a cohort, from the grant on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Own {
    Unwatched,
    Asked,
    Watching(Watch),
    Gone,
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

    pub(crate) fn watches(&mut self) -> impl Iterator<Item = (Path, &mut Watch)> {
        let children = match &mut self.look {
            Look::Watching(watch) => Some((Path::Children, watch)),
            Look::Asked | Look::Over => None,
        };
        let own = match &mut self.own {
            Own::Watching(watch) => Some((Path::Child(self.name.clone()), watch)),
            Own::Unwatched | Own::Asked | Own::Gone => None,
        };
        children.into_iter().chain(own)
    }

    /// Whether it waits for what a watch tells, or has asked for the watch.
    pub(crate) fn listens_to(&self, path: &Path) -> bool {
        match path {
            Path::Parent => false,
            Path::Children => match &self.look {
                Look::Asked => true,
                Look::Watching(watch) => watch.waits(),
                Look::Over => false,
            },
            Path::Child(node) => self.name == *node && (self.is_being_watched() || self.is_watched()),
        }
    }

    pub(crate) fn is_being_watched(&self) -> bool {
        self.own == Own::Asked
    }

    /// Whether the client knows that the node is gone.
    fn is_gone(&self) -> bool {
        match &self.own {
            Own::Gone => true,
            Own::Watching(watch) => watch.told.is_some(),
            Own::Unwatched | Own::Asked => false,
        }
    }

    /// Whether the node is watched, and no event has come.
    fn is_watched(&self) -> bool {
        matches!(&self.own, Own::Watching(watch) if watch.told.is_none())
    }

    pub(crate) fn is_handed_on(&self) -> bool {
        self.linger.is_handed_on()
    }

    /// Whether the cohort keeps others out although its time is over, and its attendant knows.
    pub(crate) fn ignores_the_time(&self) -> bool {
        self.cohort == Time::Decided && self.is_idle()
    }

    /// Whether the cohort can keep others out for so long that its time is over.
    pub(crate) fn can_keep_too_long(&self) -> bool {
        self.cohort == Time::Running && self.linger.may_keep_others_out()
    }

    pub(crate) fn linger_from_now(&mut self) {
        self.is_over = false;
    }

    fn on(&mut self, event: Event) -> Action {
        let action = self.linger.on(event);
        if !self.linger.may_keep_others_out() {
            self.cohort = Time::Running;
        }
        action
    }

    /// Notes that somebody is passed. Answers how often it was so far.
    pub(crate) fn passes(&mut self, passed: String) -> u32 {
        let before = self.passed.take().filter(|(before, _)| *before == passed).map_or(0, |(_, times)| times);
        self.passed = Some((passed, before + 1));
        before + 1
    }

    fn has_changed(&self) -> bool {
        matches!(&self.look, Look::Watching(watch) if watch.told.is_some())
    }

    /// Whether its attendant has something to do.
    pub(crate) fn is_to_be_attended(&self) -> bool {
        self.has_changed() || self.asked == Asked::Heard || self.is_late()
    }

    /// Whether the time is over for which it stays.
    fn is_late(&self) -> bool {
        if self.is_handed_on() { self.cohort == Time::Over } else { self.is_over }
    }

    pub(crate) fn can_be_over(&self) -> bool {
        self.is_idle() && !self.is_handed_on() && !self.is_over
    }
}

impl Client {
    /// A task holds by a node of its own.
    pub(crate) fn begin_lingering(&mut self, task: usize) {
        if !self.lingers && self.cohort == 0 {
            return;
        }
        self.try_turn(task);
        let name = self.tasks[task].node.as_ref().and_then(|node| node.name.clone()).expect("it holds");
        self.stop_lingering();
        self.lingering = Some(Lingering {
            name: name.clone(),
            linger: Linger::new(Terms { lingers: self.lingers, cohort: self.cohort }),
            look: Look::Asked,
            own: Own::Unwatched,
            idle: None,
            epoch: self.epoch,
            is_over: false,
            cohort: Time::Running,
            passed: None,
            asked: Asked::No,
        });
        if self.cohort > 0 {
            // Its attendant waits for both answers.
            self.watch_own();
        }
        self.send(task, ATTENDANT, What::Look { node: name });
    }

    /// A task that wants the lock takes the node, or awaits the list, or enters the queue.
    pub(crate) fn take_lingering(&mut self, task: usize) -> Shown {
        let mut shown = Shown::default();
        let now = Circumstances {
            is_sound: !self.has_expired && !self.lingering.as_ref().is_some_and(Lingering::is_gone),
            is_in_time: self.lingering.as_ref().is_some_and(|lingering| !lingering.is_over),
            is_in_cohort_time: self.is_in_cohort_time(),
            is_watched: self.is_watched(),
            has_changed: self.lingering.as_ref().is_some_and(Lingering::has_changed),
            is_asked: self.lingering.as_ref().is_some_and(|lingering| lingering.asked != Asked::No),
            others_queue: self.others_queue(),
        };
        if self.cohort > 0 && !self.has_turn(task) {
            self.drive(task, ContenderAction::Create, &mut shown, Ground::List);
            return shown;
        }
        let is_handed_on = self.lingering.as_ref().is_some_and(Lingering::is_handed_on);
        match self.decide(Event::Wanted(now)) {
            Some(Action::Grant) => {
                let lingering = self.lingering.as_mut().expect("it is granted");
                let held = lingering.idle.take();
                shown.granted = Some(if is_handed_on { Ground::HandedOn } else { Ground::Lingering });
                shown.passes = now.others_queue;
                let time_is_over = if is_handed_on { !now.is_in_cohort_time } else { lingering.is_over };
                shown.is_late = time_is_over || now.is_asked;
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

    fn is_watched(&self) -> bool {
        self.lingering.as_ref().is_some_and(Lingering::is_watched)
    }

    fn is_in_cohort_time(&self) -> bool {
        self.lingering.as_ref().is_some_and(|lingering| lingering.cohort == Time::Running)
    }

    /// Whether tasks are in the queue, or on their way into it.
    fn others_queue(&self) -> bool {
        let mut tasks = self.tasks.iter();
        tasks.any(|task| matches!(task.phase, Phase::Asking(_) | Phase::Awaiting | Phase::Idle))
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
            let release = Release {
                pass_on: self.tasks[task].transactions.pass_on(),
                is_next_in_line: self.has_turn(task) && self.is_anyone_in_line(),
                is_in_cohort_time: self.is_in_cohort_time(),
                is_watched: self.is_watched(),
            };
            if let Some(lingering) = &mut self.lingering {
                let is_lost = self.has_expired || lingering.is_gone();
                if lingering.on(Event::Released(release)) == Action::Keep && !is_lost {
                    let tasks = &mut self.tasks[task];
                    lingering.idle = tasks.node.take().map(|node| (node, tasks.rank.take()));
                    self.watch_own();
                } else {
                    self.lingering = None;
                }
            }
        }
        self.end(task);
    }

    fn watch_own(&mut self) {
        let Some(lingering) = self.lingering.as_mut().filter(|lingering| lingering.own == Own::Unwatched)
        else {
            return;
        };
        lingering.own = Own::Asked;
        let path = Path::Child(lingering.name.clone());
        self.send(0, MONITOR, What::Watch(path));
    }

    pub(crate) fn answer_monitor(&mut self, answer: Answer) {
        if let Some(lingering) = self.lingering.as_mut().filter(|lingering| lingering.own == Own::Asked) {
            lingering.own = match answer {
                Answer::Watched(watch) => Own::Watching(watch),
                _ => Own::Gone,
            };
        }
    }

    /// Does what its attendant has to do.
    pub(crate) fn attend(&mut self) {
        if !self.attend_to_watch() && !self.attend_to_request() {
            if let Some(lingering) = self.lingering.as_mut().filter(|lingering| lingering.is_handed_on()) {
                lingering.cohort = Time::Decided;
            }
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

    pub(crate) fn lapse_cohort(&mut self) {
        self.lingering.as_mut().expect("there is a node").cohort = Time::Over;
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
            // That on the node is set again.
            if matches!(lingering.own, Own::Asked | Own::Watching(_)) {
                lingering.own = Own::Unwatched;
                self.watch_own();
            }
            self.decide(Event::Changed);
        }
    }

    pub(crate) fn decide(&mut self, event: Event) -> Option<Action> {
        let action = self.lingering.as_mut()?.on(event);
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
