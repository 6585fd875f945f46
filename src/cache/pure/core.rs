//! The content of a cache, and what is still to be read.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use zookeeper_client::{self as zk, EventType};

use super::super::change::Change;
use super::super::node::CachedNode;
use super::super::options::CacheOptions;
use super::super::snapshot::Snapshot;
use super::super::tree::split;
use super::event::{Found, Op, Rules};
use super::sizes::{Filling, Size, Sizes};
use super::want::{Listed, Reading, Want, What};
use crate::error::{Error, Result};

/// The content of a cache, and what is still to be read.
///
/// [`resume`](Self::resume) begins a load, after the persistent watch is set, and [`interrupt`](Self::interrupt) ends
/// the connection. In between, [`next`](Self::next) yields the reads to make; [`apply`](Self::apply) takes their
/// replies in the order of the requests, and [`event`](Self::event) the events.
pub(in crate::cache) struct Core {
    rules: Rules,
    held: Snapshot,
    /// The nodes whose children are all known, or wanted, or told of by events since.
    listed: HashMap<Arc<str>, Listed>,
    /// Whether the servers are known to be such that tell nothing of a node that may not be read.
    hides_stats: bool,
    wants: HashMap<Arc<str>, Want>,
    queue: VecDeque<Arc<str>>,
    /// What is read when nothing else is left to read.
    postponed: VecDeque<Arc<str>>,
    /// How many wants belong to the load.
    loads: usize,
    sweep: Sweep,
    sizes: Sizes,
    changes: Vec<Change>,
}

/// How far a load is with the nodes that were known before it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sweep {
    /// There is no connection, or the watch is not set.
    Idle,
    /// The nodes up to this one are wanted or read.
    Behind(Arc<str>),
    Done,
}

impl Core {
    pub(in crate::cache) fn new(rules: Rules) -> Self {
        Self {
            rules,
            held: Snapshot::default(),
            listed: HashMap::new(),
            hides_stats: false,
            wants: HashMap::new(),
            queue: VecDeque::new(),
            postponed: VecDeque::new(),
            loads: 0,
            sweep: Sweep::Idle,
            sizes: Sizes::default(),
            changes: Vec::new(),
        }
    }

    pub(in crate::cache) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns what is known. It counts all changes, also those that were not taken yet.
    pub(in crate::cache) fn held(&self) -> &Snapshot {
        &self.held
    }

    /// Returns the changes since the last call, in order.
    pub(in crate::cache) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Whether everything has been read since the watch was set.
    pub(in crate::cache) fn has_loaded(&self) -> bool {
        self.sweep == Sweep::Done && self.loads == 0
    }

    /// Begins a load: the watch is set, so that everything that happens from now on is told.
    pub(in crate::cache) fn resume(&mut self) {
        let root = self.rules.root.clone();
        self.sweep = Sweep::Behind(root.clone());
        self.forget_unknown();
        // What was left of the last load is part of this one.
        self.postponed = std::mem::take(&mut self.queue);
        self.loads = self.wants.len();
        for want in self.wants.values_mut() {
            want.is_load = true;
            want.checks_children = true;
        }
        self.want_load(&root);
    }

    /// Forgets the wants of nodes that are not known, and may be gone by now: their parents are listed again.
    fn forget_unknown(&mut self) {
        let (nodes, listed, rules) = (&self.held.nodes, &mut self.listed, &self.rules);
        self.wants.retain(|path, _| {
            let parent = rules.parent(path).and_then(|parent| nodes.get(parent));
            let is_found_again =
                parent.is_some_and(|parent| parent.is_readable()) && nodes.get(path).is_none();
            if let Some(parent) = parent.filter(|_| is_found_again) {
                listed.remove(parent.path());
            }
            !is_found_again
        });
    }

    /// No replies will come to what is under way, and events may be missed from now on.
    pub(in crate::cache) fn interrupt(&mut self) {
        self.sweep = Sweep::Idle;
        self.queue.append(&mut self.postponed);
        let mut was_under_way = false;
        for (path, want) in &mut self.wants {
            was_under_way |= want.under_way.is_some();
            want.interrupt();
            if !std::mem::replace(&mut want.is_queued, true) {
                self.queue.push_back(path.clone());
            }
        }
        if was_under_way {
            self.sizes.interrupted();
        }
    }

    /// The server has refused a request with several reads. They are made one by one.
    pub(in crate::cache) fn refused(&mut self, ops: &[Op]) {
        self.sizes.refused();
        for path in ops.iter().map(Op::path) {
            if let Some(want) = self.wants.get_mut(path) {
                want.interrupt();
            }
            self.settle(path);
        }
    }

    /// Wants the nodes once more that the client may not read: the servers tell nothing of their changes.
    pub(in crate::cache) fn look_at_unreadable(&mut self) {
        for path in self.held.unreadable.clone().iter() {
            self.want(path, |want| want.checks_children = true);
        }
    }

    /// Returns the next reads, which share a request; none if there is nothing to read at the moment.
    ///
    /// Reads of the stat alone come alone.
    pub(in crate::cache) fn next(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        let mut filling = Filling::default();
        // Events that keep coming must not keep the load from going on.
        if !self.queue.is_empty() && !self.sweep_one() {
            self.queue.append(&mut self.postponed);
        }
        loop {
            let Some(path) = self.queue.front().cloned().or_else(|| self.sweep_on()) else { return ops };
            let known = self.held.nodes.get(&path);
            let may_be_another = self.may_be_another(&path);
            let Some(want) =
                self.wants.get_mut(&path).filter(|want| want.is_queued && want.under_way.is_none())
            else {
                self.queue.pop_front();
                if let Some(want) = self.wants.get_mut(&path) {
                    want.is_queued = false;
                }
                continue;
            };
            // Children first: a node that changes all the time would never have them listed. But another one's would come
            // below this one.
            let (op, size) = if want.node && (want.children.is_none() || may_be_another) {
                let is_alone = want.is_forbidden || !self.rules.options.with_data;
                let size = known.map_or(Size::Unknown, |node| Size::Had(node.data_length()));
                (if is_alone { Op::Stat(path.clone()) } else { Op::Data(path.clone()) }, size)
            } else {
                (Op::Children(path.clone()), Size::Names(want.names))
            };
            let is_alone = matches!(op, Op::Stat(_));
            if is_alone && !ops.is_empty() || !self.sizes.adds(&mut filling, size) {
                return ops;
            }
            self.queue.pop_front();
            want.is_queued = false;
            want.under_way = match op {
                Op::Children(_) => want.children.take().map(|state| Reading::of(What::Children(state))),
                Op::Data(_) | Op::Stat(_) => {
                    want.node = false;
                    let checks_children = std::mem::take(&mut want.checks_children);
                    let is_overtaken = std::mem::take(&mut want.is_outdated);
                    Some(Reading { checks_children, is_overtaken, ..Reading::of(What::Node) })
                }
            };
            if want.under_way.is_some() {
                ops.push(op);
            }
            if is_alone {
                return ops;
            }
        }
    }

    /// Wants the next of the nodes that were known before the load, or else what was postponed.
    fn sweep_on(&mut self) -> Option<Arc<str>> {
        while self.sweep_one() {
            // Unless it is under way already.
            if let Some(path) = self.queue.front() {
                return Some(path.clone());
            }
        }
        self.queue.append(&mut self.postponed);
        self.queue.front().cloned()
    }

    /// Wants one more of the nodes that were known before the load. Returns false if there is none.
    fn sweep_one(&mut self) -> bool {
        let Sweep::Behind(last) = &self.sweep else { return false };
        let Some(next) = self.held.nodes.after(last).next() else {
            self.sweep = Sweep::Done;
            return false;
        };
        let path = next.shared_path().clone();
        self.sweep = Sweep::Behind(path.clone());
        self.want_load(&path);
        true
    }

    /// Whether all nodes that were known before the load are wanted or read.
    fn has_swept(&self) -> bool {
        match &self.sweep {
            Sweep::Idle => false,
            Sweep::Behind(last) => self.held.nodes.after(last).next().is_none(),
            Sweep::Done => true,
        }
    }

    /// Whether the node at this path is known from before the load, and may be another one by now.
    fn may_be_another(&self, path: &str) -> bool {
        !self.is_swept(path) || self.wants.get(path).is_some_and(|want| want.may_be_another)
    }

    /// Whether this node, which is known, is still to be read for the load.
    fn is_part_of_load(&self, path: &str) -> bool {
        !self.is_swept(path) || self.wants.get(path).is_some_and(|want| want.is_load)
    }

    /// Whether the node at this path is wanted or read, if it was known before the load.
    fn is_swept(&self, path: &str) -> bool {
        match &self.sweep {
            Sweep::Idle => false,
            Sweep::Behind(last) => split(path) <= split(last),
            Sweep::Done => true,
        }
    }

    /// Whether a node that is new would come below one that may be gone, and be told as created before that one is told as
    /// deleted.
    fn comes_too_early(&self, path: &str) -> bool {
        self.rules.parent(path).is_some_and(|parent| self.may_be_another(parent))
    }

    /// Reads a node once more, behind the nodes that were known before the load.
    fn postpone(&mut self, path: &Arc<str>, reading: Reading) {
        if let Some(want) = self.wants.get_mut(path) {
            want.node = true;
            want.is_forbidden = false;
            want.checks_children |= reading.checks_children;
            if !std::mem::replace(&mut want.is_queued, true) {
                self.postponed.push_back(path.clone());
            }
        }
        if self.rules.parent(path).is_some_and(|parent| self.is_part_of_load(parent)) {
            self.mark_load(path);
        }
    }

    /// Records that a node was read since the watch was set, or was deleted since. It is part of the load no more, even if it
    /// has changed meanwhile and is read once more.
    fn is_loaded(&mut self, path: &str) {
        if let Some(want) = self.wants.get_mut(path).filter(|want| want.is_load && want.children.is_none()) {
            want.is_load = false;
            self.loads -= 1;
        }
    }

    /// Wants a node as part of the load.
    fn want_load(&mut self, path: &Arc<str>) {
        self.want(path, |want| {
            want.checks_children = true;
            want.may_be_another = true;
        });
        self.mark_load(path);
    }

    fn mark_load(&mut self, path: &Arc<str>) {
        let want = self.wants.get_mut(path);
        if let Some(want) = want.filter(|want| !want.is_load) {
            want.is_load = true;
            self.loads += 1;
        }
    }

    /// Wants a node to be read. What is under way may be too old.
    fn want(&mut self, path: &Arc<str>, how: impl FnOnce(&mut Want)) {
        let want = self.wants.entry(path.clone()).or_default();
        how(want);
        match want.under_way.map(|reading| reading.what) {
            Some(What::Node) => want.overtake(),
            _ => {
                want.is_outdated |= want.is_forbidden;
                want.node = true;
            }
        }
        self.enqueue(path);
    }

    fn enqueue(&mut self, path: &Arc<str>) {
        if let Some(want) = self.wants.get_mut(path)
            && want.is_to_be_read()
            && want.under_way.is_none()
            && !std::mem::replace(&mut want.is_queued, true)
        {
            self.queue.push_back(path.clone());
        }
    }

    /// Forgets a want if nothing is left of it.
    fn settle(&mut self, path: &Arc<str>) {
        self.enqueue(path);
        if let Entry::Occupied(want) = self.wants.entry(path.clone())
            && want.get().is_over()
        {
            self.loads -= usize::from(want.remove().is_load);
        }
    }

    /// Takes an event of the persistent watch, with the number of its transaction, if the server tells it.
    ///
    /// # Errors
    /// The cache cannot go on.
    pub(in crate::cache) fn event(&mut self, kind: EventType, path: &str, zxid: Option<i64>) -> Result<()> {
        self.take(kind, path, zxid)?;
        self.ensure_room()
    }

    fn take(&mut self, kind: EventType, path: &str, zxid: Option<i64>) -> Result<()> {
        if !self.rules.is_in_depth(path) {
            return Ok(());
        }
        let known = self.held.nodes.get(path).cloned();
        let deleted_by = zxid;
        // Not before it is read: the numbers of the servers may have begun anew.
        let zxid = zxid.filter(|_| !self.may_be_another(path));
        match kind {
            EventType::NodeCreated => {
                if known.is_some_and(|node| zxid.is_some_and(|zxid| node.created_by() >= zxid)) {
                    return Ok(());
                }
                if self.is_followed(path)? {
                    self.want(&path.into(), |want| want.checks_children = true);
                } else if let Some(parent) =
                    self.rules.parent(path).and_then(|parent| self.wants.get_mut(parent))
                {
                    // The parent is about to be read, perhaps as it was before.
                    parent.has_children = true;
                    parent.may_be_readable();
                } else {
                    self.want_unknown(path)?;
                }
            }
            EventType::NodeDataChanged => {
                let is_covered =
                    known.as_ref().is_some_and(|node| zxid.is_some_and(|zxid| node.modified_by() >= zxid));
                let is_wanted = self.wants.get(path).is_some_and(Want::concerns_node);
                if !is_covered && (known.is_some() || is_wanted) {
                    self.want(&path.into(), |_| {});
                } else if known.is_none() {
                    self.want_unknown(path)?;
                }
            }
            EventType::NodeDeleted => {
                if let Some(want) = self.wants.get_mut(path) {
                    want.overtake_by_deletion(known.as_ref().map(|node| node.created_by()), deleted_by);
                    want.node = want.under_way.is_some() && want.node;
                    want.children = None;
                    // What comes there is new, and told.
                    self.is_loaded(path);
                    self.settle(&path.into());
                }
                if known.is_some() {
                    self.remove(path);
                }
            }
            EventType::NodeChildrenChanged | EventType::Session => {}
        }
        Ok(())
    }

    /// The servers have told of a node that is not known, as nothing is told of a node that the client may not read: it,
    /// or a node above it, may be read since. Wants the first of those that are not known.
    fn want_unknown(&mut self, path: &str) -> Result<()> {
        let mut unknown = path;
        while let Some(parent) = self.rules.parent(unknown)
            && self.held.nodes.get(parent).is_none()
        {
            unknown = parent;
        }
        if let Some(want) = self.wants.get_mut(unknown) {
            want.may_be_readable();
            return Ok(());
        }
        if self.held.nodes.get(unknown).is_some() || !self.is_followed(unknown)? {
            return Ok(());
        }
        self.want(&unknown.into(), |want| want.checks_children = true);
        Ok(())
    }

    /// Whether a node is to be held, given that it is there: its parent is held, and descended into.
    fn is_followed(&self, path: &str) -> Result<bool> {
        let has_parent = match self.rules.parent(path) {
            Some(parent) => self.held.nodes.get(parent).is_some() && self.rules.descends(parent)?,
            None => true,
        };
        Ok(has_parent && self.rules.accepts(path)?)
    }

    /// Takes the replies to the reads of one request.
    ///
    /// # Errors
    /// The cache cannot go on.
    pub(in crate::cache) fn apply(&mut self, replies: Vec<(Op, Found)>) -> Result<()> {
        let mut sizes = Vec::new();
        for (op, found) in replies {
            match (op, found) {
                (Op::Data(path), Found::Node(data, stat)) => {
                    let before = self.held.nodes.get(&path).map(|node| node.data_length());
                    sizes.push((stat.data_length.try_into().unwrap_or_default(), before));
                    self.node_read(&path, data, &stat, true)?;
                }
                (Op::Stat(path), Found::Node(_, stat)) => {
                    // Without data, only a list tells whether a node may be read, unless the stat does.
                    let is_readable = match self.rules.options.with_data {
                        true => !self.wants.get(&path).is_some_and(|want| want.is_forbidden),
                        false => {
                            self.hides_stats
                                || self.held.nodes.get(&path).is_none_or(|node| node.is_readable())
                        }
                    };
                    self.node_read(&path, None, &stat, is_readable)?;
                }
                (Op::Children(path), Found::Children(names)) => self.children_read(&path, names)?,
                (Op::Children(path), Found::Forbidden) if !self.rules.options.with_data => {
                    let _ = self.finish_reading_children(&path);
                    self.listed.remove(&path);
                    self.show_readable(&path, false);
                    self.settle(&path);
                }
                // It has gone since, or may not be read any more: the node itself tells.
                (Op::Children(path), _) => {
                    let _ = self.finish_reading_children(&path);
                    if self.held.nodes.get(&path).is_some() {
                        self.want(&path, |want| want.checks_children = true);
                    }
                    self.settle(&path);
                }
                (Op::Data(path), Found::Forbidden) => {
                    if let Some(want) = self.wants.get_mut(&path) {
                        // An event since may be of a node that may be read.
                        want.is_outdated |= want.under_way.is_some_and(|reading| reading.is_overtaken);
                        want.interrupt();
                        want.is_forbidden = true;
                    }
                    self.settle(&path);
                }
                (Op::Stat(path), Found::Forbidden) => self.node_hidden(&path)?,
                (Op::Data(path) | Op::Stat(path), _) => {
                    // It was absent after everything that is known of it.
                    let _ = self.finish_reading(&path);
                    self.remove(&path);
                    self.settle(&path);
                }
            }
        }
        self.sizes.replied(&sizes);
        self.ensure_room()
    }

    /// Ends the read of a node that is under way. It is read once more if there was an event since.
    fn finish_reading(&mut self, path: &Arc<str>) -> Option<Reading> {
        let want = self.wants.get_mut(path)?;
        let reading = want.under_way.take()?;
        want.node |= reading.is_overtaken;
        Some(reading)
    }

    fn node_read(
        &mut self,
        path: &Arc<str>,
        data: Option<Vec<u8>>,
        stat: &zk::Stat,
        is_readable: bool,
    ) -> Result<()> {
        let Some(reading) = self.finish_reading(path) else { return Ok(()) };
        if reading.deleted >= Some(stat.czxid) || !self.is_followed(path)? {
            self.settle(path);
            return Ok(());
        }
        let known = self.held.nodes.get(path).cloned();
        let is_new = known.as_ref().is_none_or(|node| !node.is_unknown() && node.created_by() != stat.czxid);
        let is_readable_now = is_readable && known.as_ref().is_some_and(|node| !node.is_readable());
        let may_be_new = is_new || known.as_ref().is_some_and(|node| node.is_unknown());
        if may_be_new && self.comes_too_early(path) {
            self.postpone(path, reading);
            return Ok(());
        }
        if is_new {
            self.remove(path);
        }
        // Not by its numbers alone: those of the servers may have begun anew.
        let node = CachedNode::new(path.clone(), data, is_readable, stat);
        if is_new || known.is_some_and(|known| *known != node) {
            self.put(node);
        }
        if let Some(want) = self.wants.get_mut(path) {
            want.is_forbidden = false;
            // If so, it is read once more.
            want.may_be_another = reading.may_be_gone(stat.czxid);
            let checks = reading.checks_children || is_new || is_readable_now;
            want.names = stat.num_children.try_into().unwrap_or_default();
            let has_children = std::mem::take(&mut want.has_children) || stat.num_children > 0;
            if checks && self.rules.descends(path)? {
                self.check_children(path, has_children, is_readable, Listed::of(stat));
            }
        }
        self.is_loaded(path);
        self.settle(path);
        Ok(())
    }

    /// A node is there of which the server tells nothing else.
    fn node_hidden(&mut self, path: &Arc<str>) -> Result<()> {
        self.hides_stats = true;
        let Some(reading) = self.finish_reading(path) else { return Ok(()) };
        if let Some(want) = self.wants.get_mut(path) {
            want.is_forbidden = false;
            want.has_children = false;
        }
        // If it was deleted since, it is read once more, and may be gone.
        if reading.deletion.is_none() && self.is_followed(path)? {
            let known = self.held.nodes.get(path);
            if known.is_none() && self.comes_too_early(path) {
                self.postpone(path, reading);
                return Ok(());
            }
            self.listed.remove(path);
            if let Some(want) = self.wants.get_mut(path) {
                want.may_be_another = false;
            }
            if known.is_none_or(|known| known.is_readable()) {
                self.put(
                    known
                        .map_or_else(|| CachedNode::hidden(path.clone()), |known| known.with_readable(false)),
                );
            }
        }
        self.is_loaded(path);
        self.settle(path);
        Ok(())
    }

    /// Wants the children of a node to be listed, if they may not be known.
    fn check_children(&mut self, path: &Arc<str>, has_children: bool, is_readable: bool, state: Listed) {
        if !is_readable && self.rules.options.with_data {
            // They cannot be listed. Those that are known are read one by one.
            self.listed.remove(path);
            if let Some(want) = self.wants.get_mut(path) {
                want.children = None;
            }
        } else if !has_children {
            self.listed.remove(path);
            let gone: Vec<_> = self.held.nodes.children(path).cloned().collect();
            gone.iter().for_each(|node| self.remove(node.path()));
        } else if self.listed.get(path) != Some(&state)
            && let Some(want) = self.wants.get_mut(path)
        {
            want.children = Some(state);
        }
    }

    fn children_read(&mut self, path: &Arc<str>, names: Vec<String>) -> Result<()> {
        let reading = self.finish_reading_children(path);
        let (Some(What::Children(state)), true) = (reading, self.held.nodes.get(path).is_some()) else {
            self.settle(path);
            return Ok(());
        };
        let is_load = self.wants.get(path).is_some_and(|want| want.is_load);
        let mut here: BTreeSet<Arc<str>> = BTreeSet::new();
        for name in &names {
            let child = Rules::child(path, name);
            if self.rules.accepts(&child)? {
                here.insert(child);
            }
        }
        let gone: Vec<_> =
            self.held.nodes.children(path).filter(|node| !here.contains(node.path())).cloned().collect();
        gone.iter().for_each(|node| self.remove(node.path()));
        for child in &here {
            if self.held.nodes.get(child).is_some() {
                continue;
            }
            // An event may have told of it already.
            if !self.wants.get(child).is_some_and(Want::concerns_node) {
                self.want(child, |want| want.checks_children = true);
            }
            if is_load {
                self.mark_load(child);
            }
        }
        self.listed.insert(path.clone(), state);
        self.show_readable(path, true);
        self.is_loaded(path);
        self.settle(path);
        Ok(())
    }

    /// Shows whether a node that is known may be read.
    fn show_readable(&mut self, path: &str, is_readable: bool) {
        let known = self.held.nodes.get(path).filter(|node| node.is_readable() != is_readable);
        if let Some(node) = known.map(|node| node.with_readable(is_readable)) {
            self.put(node);
        }
    }

    fn finish_reading_children(&mut self, path: &Arc<str>) -> Option<What> {
        Some(self.wants.get_mut(path)?.under_way.take()?.what)
    }

    fn put(&mut self, node: CachedNode) {
        let new = Arc::new(node);
        let old = self.held.insert(&new);
        self.changes.push(match old {
            Some(old) => Change::Changed { old, new },
            None => Change::Created(new),
        });
    }

    /// While something is still to be read, what is known may be of different times: what has come and what has gone for it,
    /// each within the limits. Together they may have twice as much.
    ///
    /// # Errors
    /// There are too many nodes or bytes, or will be when those that are there are read.
    fn ensure_room(&self) -> Result<()> {
        let is_of_one_time = self.wants.is_empty() && self.has_swept();
        let most = |limit: usize| limit.saturating_mul(if is_of_one_time { 1 } else { 2 });
        let CacheOptions { max_nodes, max_bytes, .. } = self.rules.options;
        let most_nodes = most(max_nodes);
        // What is under way may have gone since, and is little.
        let is_unknown = |(path, want): &(&Arc<str>, &Want)| {
            want.under_way.is_none() && self.held.nodes.get(path).is_none()
        };
        let unknown = || self.wants.iter().filter(is_unknown).count();
        if self.held.nodes.len() <= most_nodes
            && (self.wants.len() <= most_nodes || unknown() <= most_nodes)
            && self.held.bytes() <= most(max_bytes)
        {
            return Ok(());
        }
        Err(Error::CacheTooLarge { path: self.rules.full_path.to_string(), max_nodes, max_bytes })
    }

    /// Removes a node and everything below it, from the bottom up.
    fn remove(&mut self, path: &str) {
        let mut stack = Vec::from_iter(self.held.nodes.get(path).cloned());
        let mut gone = Vec::new();
        while let Some(node) = stack.pop() {
            stack.extend(self.held.nodes.children(node.path()).cloned());
            gone.push(node);
        }
        for node in gone.into_iter().rev() {
            self.held.remove(&node);
            self.listed.remove(node.path());
            self.changes.push(Change::Deleted(node));
        }
    }
}

impl Listed {
    fn of(stat: &zk::Stat) -> Self {
        Self { created: stat.czxid, last_change: stat.pzxid, changes: stat.cversion }
    }
}
