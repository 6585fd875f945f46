//! A ticket that nobody awaits, and whose node is watched, as `front.rs` has it.

use super::client::{Answer, Client, Watch, What};
use super::driver::{Ground, Shown};
use super::queue::contender::{Action, Standing};
use super::task::{Phase, Task};
use super::zookeeper::{Change, Path};

/// The slot of what a minder asks.
pub(crate) const MINDER: usize = usize::MAX - 1;

/// The slot of what somebody asked who has given up, and begins anew.
pub(crate) const GIVEN_UP: usize = usize::MAX - 4;

/// Minds the node of a place while nobody may look after it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Minder {
    /// Until somebody of the local queue waits for the place.
    Resting,
    Asking(Path),
    Watching {
        path: Path,
        watch: Watch,
    },
    /// The node was found to be gone.
    Finding,
    /// The place has left the local queue.
    Over,
}

impl Client {
    /// A ticket is had, and not awaited.
    pub(crate) fn idle(&mut self, task: usize) {
        let task = &mut self.tasks[task];
        task.is_ticket = false;
        task.minder = Some(Minder::Resting);
        task.phase = Phase::Idle;
    }

    /// It is awaited.
    pub(crate) fn resume(&mut self, task: usize) {
        self.drive(task, Action::List, &mut Shown::default(), Ground::List);
    }

    /// Whether its minder has something to do.
    pub(crate) fn is_to_be_minded(&self, task: usize) -> bool {
        let Some(minder) = self.tasks[task].minder.as_ref().filter(|_| !self.is_over(task)) else {
            return false;
        };
        match minder {
            Minder::Resting => self.is_waited_for(task),
            Minder::Asking(_) | Minder::Over => false,
            Minder::Watching { watch, .. } => watch.told.is_some(),
            Minder::Finding => true,
        }
    }

    pub(crate) fn mind(&mut self, task: usize) {
        let node = self.tasks[task].node.as_ref().and_then(|node| node.name.clone());
        let path = Path::Child(node.expect("it is minded"));
        match &self.tasks[task].minder {
            Some(
                Minder::Watching { watch: Watch { told: Some(Change::Deleted), .. }, .. } | Minder::Finding,
            ) => {
                let rank = self.tasks[task].rank.expect("it is in the local queue");
                self.tasks[task].minder = Some(Minder::Over);
                self.leave_rank(task, rank);
            }
            _ => {
                self.tasks[task].minder = Some(Minder::Asking(path.clone()));
                self.send(task, MINDER, What::Watch(path));
            }
        }
    }

    /// Whether its place has left the local queue, since its node is gone.
    pub(crate) fn is_granted_without_node(&self, task: usize) -> bool {
        let task = &self.tasks[task];
        task.contender.standing() == Standing::Granted && task.minder == Some(Minder::Over)
    }
}

impl Task {
    pub(crate) fn is_minder_asking(&self) -> bool {
        matches!(self.minder, Some(Minder::Asking(_)))
    }

    pub(crate) fn answer_minder(&mut self, answer: Answer) {
        let Some(Minder::Asking(path)) = &self.minder else { return };
        self.minder = Some(match answer {
            Answer::Watched(watch) => Minder::Watching { path: path.clone(), watch },
            Answer::Missing => Minder::Finding,
            _ => Minder::Resting,
        });
    }
}
