//! What is still to be read of a node, and what is under way.

/// What is still to be read of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Want {
    /// Its data or stat.
    pub(super) node: bool,
    /// Its children, once the node is known. With the state of the node that made this necessary.
    pub(super) children: Option<Listed>,
    /// How many children there were when the node was read.
    pub(super) names: usize,
    /// The read under way.
    pub(super) under_way: Option<Reading>,
    /// Whether it is in the queue, or postponed.
    pub(super) is_queued: bool,
    /// Whether it belongs to a load, which is complete when no want does any more.
    pub(super) is_load: bool,
    /// Whether the node is known from before the load and was not read since: another one may have taken its place.
    pub(super) may_be_another: bool,
    /// Whether children may be there that no event has told of.
    pub(super) checks_children: bool,
    /// Whether there are children even if the node seems to have none.
    pub(super) has_children: bool,
    /// Whether only its stat can be read.
    pub(super) is_forbidden: bool,
}

/// A read under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) what: What,
    /// Whether there was an event since.
    pub(super) is_overtaken: bool,
    /// The creation of the latest node that is known to be deleted since.
    pub(super) deleted: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Node,
    Children(Listed),
}

/// The state of a node in which its children are known: they are the same as long as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) created: i64,
    pub(super) last_change: i64,
    pub(super) changes: i32,
}

impl Want {
    /// Whether nothing is to be done.
    pub(super) fn is_over(&self) -> bool {
        !self.is_to_be_read() && self.under_way.is_none()
    }

    pub(super) fn is_to_be_read(&self) -> bool {
        self.node || self.children.is_some()
    }

    /// Whether its node is read, or will be.
    pub(super) fn concerns_node(&self) -> bool {
        self.node || self.under_way.is_some_and(|reading| reading.what == What::Node)
    }

    /// An event: what is read may be outdated.
    pub(super) fn overtake(&mut self, deleted: i64) {
        if let Some(reading) = &mut self.under_way {
            reading.is_overtaken = true;
            reading.deleted = reading.deleted.max(deleted);
        }
    }

    /// There was an event of the node or below it. If its data could not be read, they are read once more.
    pub(super) fn may_be_readable(&mut self) {
        if self.is_forbidden {
            self.checks_children = true;
            match self.under_way {
                Some(_) => self.overtake(0),
                None => self.is_forbidden = false,
            }
        }
    }

    /// The connection has ended before the reply.
    pub(super) fn interrupt(&mut self) {
        // It may be readable when it is read again.
        self.is_forbidden = false;
        match self.under_way.take().map(|reading| reading.what) {
            Some(What::Node) => self.node = true,
            Some(What::Children(listed)) => self.children = self.children.or(Some(listed)),
            None => {}
        }
    }
}
