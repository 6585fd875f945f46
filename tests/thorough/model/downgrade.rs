//! A writer that goes on as a reader, as `downgrade.rs` and its caller have it.

use super::client::{Answer, Client, What};
use super::queue::contender::Action;
use super::queue::name::Kind;
use super::queue::order::Queued;
use super::task::{Asking, Node, Phase};
use super::zookeeper::number;

impl Client {
    /// A writer that holds begins to go on as a reader.
    pub(crate) fn downgrade(&mut self, task: usize) {
        let writer = self.tasks[task].node.as_ref().and_then(|node| node.name.clone()).expect("it holds");
        self.tasks[task].creates += 1;
        let marker = self.names.marker(Kind::Shared);
        let number = number(self.names, &writer);
        let name = format!("{}{task}{}-{marker}{number:010}", self.id, self.tasks[task].creates);
        self.ask(task, Action::Report, vec![What::CreateReader { name, writer }]);
        if let Phase::Asking(asking) = std::mem::replace(&mut self.tasks[task].phase, Phase::Outside) {
            self.tasks[task].phase = Phase::Downgrading(asking);
        }
    }

    /// Answers whether a reader that was created is given back.
    ///
    /// The library lets nobody read whose writer is lost by then. Here the local queue alone decides, which must be enough.
    pub(crate) fn downgraded(&mut self, task: usize, asking: Asking) -> bool {
        let is_lost = self.tasks[task].node.is_none();
        self.tasks[task].phase = Phase::Holding;
        let [(What::CreateReader { name, writer }, answer)] = &*asking.slots else { return false };
        let mut gives_back = false;
        match answer {
            Some(Answer::Done) => {
                let queued = |name: &str, kind| Queued {
                    kind,
                    sequence: number(self.names, name),
                    name: name.to_owned(),
                };
                let (own, writer) = (queued(name, Kind::Shared), queued(writer, Kind::Exclusive));
                let epoch = self.tasks[task].epoch;
                let rank = self.with(epoch, |local, now| local.follow(&own, &writer, now, usize::MAX));
                let node = Node { id: name.clone(), name: Some(name.clone()), under: None, watch: None };
                if let Some(rank) = rank {
                    self.tasks[task].reader = Some((node, rank));
                    self.tasks[task].phase = if is_lost { Phase::Reading } else { Phase::HoldingBoth };
                    return false;
                }
                self.remove(task, node);
                gives_back = true;
            }
            Some(Answer::Lost) => self.sweep_reader(task, &asking),
            _ => {}
        }
        if is_lost {
            self.end(task);
        }
        gives_back
    }

    /// Of a downgrade whose outcome is unknown.
    pub(crate) fn sweep_reader(&mut self, task: usize, asking: &Asking) {
        if let ([(What::CreateReader { name, .. }, _)], false) = (&*asking.slots, self.is_over(task)) {
            self.send(task, 0, What::Sweep { id: name.clone() });
        }
    }

    /// It holds as a reader only, from now on.
    pub(crate) fn release_writer(&mut self, task: usize) {
        self.give_back(task);
        self.tasks[task].phase = Phase::Reading;
    }
}
