//! Contenders that take one path after the other, as Curator's `InterProcessMultiLock` does, at the server's pace.

use super::world::{Node, Owner, Queues};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Other {
    /// In the order in which it takes them.
    paths: Vec<usize>,
    /// An operator puts its first node before all others.
    pub(crate) intrudes: bool,
    /// Whether it has a node in the first queue that it has not taken.
    is_queued: bool,
    /// How many it has taken.
    taken: usize,
    is_done: bool,
}

impl Other {
    pub(crate) fn new(paths: &[usize], intrudes: bool) -> Self {
        Self { paths: paths.to_vec(), intrudes, is_queued: false, taken: 0, is_done: false }
    }

    /// Whether it has done nothing yet, or all that it will do.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_done || self.intrudes && self.taken == 0 && !self.is_queued
    }

    pub(crate) fn can_go_on(&self, owner: Owner, queues: &Queues) -> bool {
        let waits = |path: &usize| queues[*path].first().is_some_and(|first| first.owner != owner);
        !(self.is_done || self.is_queued && self.paths.get(self.taken).is_some_and(waits))
    }

    pub(crate) fn go_on(&mut self, owner: Owner, queues: &mut Queues) {
        match self.paths.get(self.taken) {
            Some(_) if self.is_queued => {
                self.taken += 1;
                self.is_queued = false;
            }
            Some(path) => {
                let at = if self.intrudes && self.taken == 0 { 0 } else { queues[*path].len() };
                queues[*path].insert(at, Node { owner, id: 0 });
                self.is_queued = true;
            }
            None => {
                queues.iter_mut().for_each(|queue| queue.retain(|node| node.owner != owner));
                self.is_done = true;
            }
        }
    }

    /// Whether it holds there by right.
    pub(crate) fn holds(&self, path: usize) -> bool {
        let taken = self.paths[..self.taken].iter().skip(usize::from(self.intrudes));
        !self.is_done && taken.into_iter().any(|taken| *taken == path)
    }
}
