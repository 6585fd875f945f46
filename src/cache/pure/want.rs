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
    /// Whether the node is known from before the load and was not read since, or was deleted while it was read: another
    /// one may have taken its place.
    pub(super) may_be_another: bool,
    /// Whether children may be there that no event has told of.
    pub(super) checks_children: bool,
    /// Whether there are children even if the node seems to have none.
    pub(super) has_children: bool,
    /// Whether only its stat can be read.
    pub(super) is_forbidden: bool,
    /// Whether there was an event since that was found, so that it is read once more after the stat.
    pub(super) is_outdated: bool,
}

/// A read under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) what: What,
    /// Whether it is to show whether there are children that no event has told of.
    pub(super) checks_children: bool,
    /// Whether there was an event since.
    pub(super) is_overtaken: bool,
    /// The creation of the latest node that is known to be deleted since. That of `/` is 0.
    pub(super) deleted: Option<i64>,
    /// The latest deletion since.
    pub(super) deletion: Option<Deletion>,
}

/// The transaction that has deleted a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Deletion {
    By(i64),
    /// The server does not tell.
    Unknown,
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

impl Reading {
    pub(super) fn of(what: What) -> Self {
        Self { what, checks_children: false, is_overtaken: false, deleted: None, deletion: None }
    }

    /// Whether the node that was found, which this transaction has created, may be gone since.
    pub(super) fn may_be_gone(&self, created: i64) -> bool {
        self.deletion.is_some_and(|deletion| deletion > Deletion::By(created))
    }
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
    pub(super) fn overtake(&mut self) {
        if let Some(reading) = &mut self.under_way {
            reading.is_overtaken = true;
        }
    }

    /// The node is deleted. If it was known, `created` is its creation. What is read may be of it, or of one before it.
    pub(super) fn overtake_by_deletion(&mut self, created: Option<i64>, zxid: Option<i64>) {
        self.overtake();
        if let Some(reading) = &mut self.under_way {
            reading.deleted = reading.deleted.max(created);
            reading.deletion = reading.deletion.max(Some(zxid.map_or(Deletion::Unknown, Deletion::By)));
        }
    }

    /// There was an event of the node or below it. If its data could not be read, they are read once more, after its stat.
    pub(super) fn may_be_readable(&mut self) {
        if self.is_forbidden {
            self.checks_children = true;
            self.is_outdated |= self.under_way.is_none();
            self.overtake();
        }
    }

    /// The connection has ended before the reply.
    pub(super) fn interrupt(&mut self) {
        // It may be readable when it is read again.
        self.is_forbidden = false;
        let Some(reading) = self.under_way.take() else { return };
        self.checks_children |= reading.checks_children;
        match reading.what {
            What::Node => self.node = true,
            What::Children(listed) => self.children = self.children.or(Some(listed)),
        }
    }
}
