//! The line in which the tasks of a client wait in front of the queue, as `lock/holding/line.rs` has it.

use super::client::Client;
use super::queue::linger::{Action, Event};
use super::task::Phase;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Line {
    /// Who has the turn.
    turn: Option<usize>,
    waiting: Vec<usize>,
}

impl Client {
    /// Whether this task stands in line as others do.
    pub(crate) fn lines_up(&self, task: usize) -> bool {
        self.cohort > 0 && !self.tasks[task].is_ticket
    }

    /// A task stands in line. Answers whether it has the turn at once.
    pub(crate) fn line_up(&mut self, task: usize) -> bool {
        self.tasks[task].phase = Phase::InLine;
        self.line.waiting.push(task);
        self.pass_turn();
        self.has_turn(task)
    }

    pub(crate) fn has_turn(&self, task: usize) -> bool {
        self.line.turn == Some(task)
    }

    /// Takes the turn for a task that has not stood in line.
    pub(crate) fn try_turn(&mut self, task: usize) {
        if self.cohort > 0 && self.line.turn.is_none() {
            self.line.turn = Some(task);
        }
    }

    pub(crate) fn is_anyone_in_line(&self) -> bool {
        self.cohort > 0
            && self
                .tasks
                .iter()
                .any(|task| !task.is_ticket && matches!(task.phase, Phase::InLine | Phase::Looking))
    }

    fn pass_turn(&mut self) {
        if self.line.turn.is_none() && !self.line.waiting.is_empty() {
            self.line.turn = Some(self.line.waiting.remove(0));
        }
    }

    /// A task is done, or has given up.
    pub(crate) fn leave_waiting(&mut self, task: usize, was_in_line: bool) {
        self.line.waiting.retain(|waiting| *waiting != task);
        if self.has_turn(task) {
            self.line.turn = None;
            self.pass_turn();
        }
        if was_in_line && !self.is_anyone_in_line() {
            let was_handed_on = self.lingering.as_ref().is_some_and(|lingering| lingering.is_handed_on());
            if self.decide(Event::LineLeft) == Some(Action::Keep)
                && was_handed_on
                && let Some(lingering) = &mut self.lingering
            {
                lingering.linger_from_now();
            }
        }
    }
}
