//! Who watches what. Watches belong to connections: a client sets them again when it has reconnected.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::connections::ConnectionId;
use super::tree::{Change, Event};

/// How long a watch lasts, and how far it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// Until it has fired.
    OneShot,
    Persistent,
    /// Sees all nodes below as well, but no lists of children.
    Recursive,
}

/// What watches look at, as requests that look for watches name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// One-shot watches on children.
    Children,
    /// One-shot watches on data and existence.
    Data,
    Persistent,
    Recursive,
    Any,
}

impl Target {
    /// Returns the modes to look for in the tables of data and of children.
    fn modes(self) -> (&'static [Mode], &'static [Mode]) {
        match self {
            Self::Children => (&[], &[Mode::OneShot]),
            Self::Data => (&[Mode::OneShot], &[]),
            Self::Persistent => (&[Mode::Persistent], &[Mode::Persistent]),
            Self::Recursive => (&[Mode::Recursive], &[]),
            Self::Any => {
                (&[Mode::OneShot, Mode::Persistent, Mode::Recursive], &[Mode::OneShot, Mode::Persistent])
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    /// On the data of a node and on whether it exists.
    data: Table,
    children: Table,
}

impl Watches {
    pub(super) fn watch_data(&mut self, path: &str, connection: ConnectionId) {
        self.data.add(path, connection, Mode::OneShot);
    }

    pub(super) fn watch_children(&mut self, path: &str, connection: ConnectionId) {
        self.children.add(path, connection, Mode::OneShot);
    }

    /// Adds a watch that lasts.
    pub(super) fn watch(&mut self, path: &str, connection: ConnectionId, mode: Mode) {
        self.data.add(path, connection, mode);
        if mode != Mode::Recursive {
            self.children.add(path, connection, mode);
        }
    }

    pub(super) fn contains(&self, path: &str, connection: ConnectionId, target: Target) -> bool {
        let (data, children) = target.modes();
        data.iter().any(|mode| self.data.contains(path, connection, *mode))
            || children.iter().any(|mode| self.children.contains(path, connection, *mode))
    }

    /// Removes the watches of a connection at a path. Returns whether there was one.
    pub(super) fn remove(&mut self, path: &str, connection: ConnectionId, target: Target) -> bool {
        let (data, children) = target.modes();
        let mut is_removed = false;
        for mode in data {
            is_removed |= self.data.remove(path, connection, *mode);
        }
        for mode in children {
            is_removed |= self.children.remove(path, connection, *mode);
        }
        is_removed
    }

    pub(super) fn forget(&mut self, connection: ConnectionId) {
        self.data.forget(connection);
        self.children.forget(connection);
    }

    /// Returns whom a change is to be told, each once, and forgets the watches that have fired.
    pub(super) fn fire(&mut self, change: &Change) -> BTreeSet<ConnectionId> {
        let path = &change.path;
        match change.event {
            Event::Created | Event::DataChanged => self.data.fire(path),
            Event::ChildrenChanged => self.children.fire(path),
            Event::Deleted => {
                let mut watchers = self.data.fire(path);
                watchers.extend(self.children.fire(path));
                watchers
            }
        }
    }

    /// Returns the watches on nodes: those of one connection at one path are one.
    pub(super) fn on_nodes(&self) -> impl Iterator<Item = (&str, ConnectionId)> {
        let paths = self.data.paths.iter();
        paths.flat_map(|(path, watchers)| watchers.keys().map(move |connection| (&**path, *connection)))
    }

    /// Returns how many watches there are; those of one connection at one path count once in each table.
    pub(super) fn len(&self) -> usize {
        self.data.len() + self.children.len()
    }
}

#[derive(Debug, Default)]
struct Table {
    paths: BTreeMap<String, BTreeMap<ConnectionId, BTreeSet<Mode>>>,
    of: HashMap<ConnectionId, BTreeSet<String>>,
}

impl Table {
    fn add(&mut self, path: &str, connection: ConnectionId, mode: Mode) {
        self.paths.entry(path.into()).or_default().entry(connection).or_default().insert(mode);
        self.of.entry(connection).or_default().insert(path.into());
    }

    fn contains(&self, path: &str, connection: ConnectionId, mode: Mode) -> bool {
        let modes = self.paths.get(path).and_then(|watchers| watchers.get(&connection));
        modes.is_some_and(|modes| modes.contains(&mode))
    }

    fn remove(&mut self, path: &str, connection: ConnectionId, mode: Mode) -> bool {
        let modes = self.paths.get_mut(path).and_then(|watchers| watchers.get_mut(&connection));
        let Some(modes) = modes else { return false };
        let is_removed = modes.remove(&mode);
        if modes.is_empty() {
            self.remove_all(path, connection);
        }
        is_removed
    }

    fn remove_all(&mut self, path: &str, connection: ConnectionId) {
        if let Some(watchers) = self.paths.get_mut(path) {
            watchers.remove(&connection);
            if watchers.is_empty() {
                self.paths.remove(path);
            }
        }
        if let Some(paths) = self.of.get_mut(&connection) {
            paths.remove(path);
        }
    }

    fn forget(&mut self, connection: ConnectionId) {
        for path in self.of.remove(&connection).unwrap_or_default() {
            self.remove_all(&path, connection);
        }
    }

    fn fire(&mut self, path: &str) -> BTreeSet<ConnectionId> {
        let mut watchers = BTreeSet::new();
        let mut done = Vec::new();
        for (connection, modes) in self.paths.get_mut(path).into_iter().flatten() {
            watchers.insert(*connection);
            modes.remove(&Mode::OneShot);
            if modes.is_empty() {
                done.push(*connection);
            }
        }
        for connection in done {
            self.remove_all(path, connection);
        }
        for ancestor in ancestors(path) {
            let above = self.paths.get(ancestor).into_iter().flatten();
            watchers.extend(
                above
                    .filter(|(_, modes)| modes.contains(&Mode::Recursive))
                    .map(|(connection, _)| *connection),
            );
        }
        watchers
    }

    fn len(&self) -> usize {
        self.paths.values().map(BTreeMap::len).sum()
    }
}

/// Returns the paths above a path, the nearest first.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.rmatch_indices('/').map(|(index, _)| index);
    let is_root = path == "/";
    ends.filter(move |_| !is_root).map(|end| if end == 0 { "/" } else { &path[..end] })
}
