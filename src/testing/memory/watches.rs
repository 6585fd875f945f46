//! Who watches what. Watches belong to connections: a client sets them again when it has reconnected.

use std::collections::{BTreeMap, BTreeSet};

use super::connections::ConnectionId;
use super::tree::{Change, Event};

/// What a watch at a path looks at, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watch {
    /// The data of the node and whether it exists, until the watch has fired.
    Data,
    /// The list of children, until the watch has fired.
    Children,
    /// Both, for as long as the connection lasts.
    Persistent,
    /// The nodes at and below the path, but no lists of children, for as long as the connection lasts.
    Recursive,
}

impl Watch {
    fn sees_nodes(self) -> bool {
        self != Self::Children
    }

    fn sees_children(self) -> bool {
        matches!(self, Self::Children | Self::Persistent)
    }

    fn is_one_shot(self) -> bool {
        matches!(self, Self::Data | Self::Children)
    }
}

#[derive(Debug, Default)]
pub(super) struct Watches(BTreeMap<String, BTreeSet<(ConnectionId, Watch)>>);

impl Watches {
    pub(super) fn add(&mut self, path: &str, connection: ConnectionId, watch: Watch) {
        self.0.entry(path.into()).or_default().insert((connection, watch));
    }

    /// Whether a connection has a watch at a path; `None` stands for any.
    pub(super) fn contains(&self, path: &str, connection: ConnectionId, watch: Option<Watch>) -> bool {
        let is_meant = |(of, it): &(_, _)| *of == connection && watch.is_none_or(|watch| watch == *it);
        self.0.get(path).is_some_and(|watches| watches.iter().any(is_meant))
    }

    /// Removes a watch of a connection at a path, or all of them. Returns whether there was one.
    pub(super) fn remove(&mut self, path: &str, connection: ConnectionId, watch: Option<Watch>) -> bool {
        let is_removed = self.contains(path, connection, watch);
        self.retain_at(path, |of, it| of != connection || watch.is_some_and(|watch| watch != it));
        is_removed
    }

    pub(super) fn forget(&mut self, connection: ConnectionId) {
        self.0.retain(|_, watches| {
            watches.retain(|(of, _)| *of != connection);
            !watches.is_empty()
        });
    }

    /// Returns whom a change is to be told, each once, and forgets the watches that have fired.
    pub(super) fn fire(&mut self, change: &Change) -> BTreeSet<ConnectionId> {
        let is_of_node = change.event != Event::ChildrenChanged;
        let is_of_children = matches!(change.event, Event::ChildrenChanged | Event::Deleted);
        let mut watchers = BTreeSet::new();
        self.retain_at(&change.path, |connection, watch| {
            let sees = is_of_node && watch.sees_nodes() || is_of_children && watch.sees_children();
            if sees {
                watchers.insert(connection);
            }
            !sees || !watch.is_one_shot()
        });
        if is_of_node {
            for (connection, watch) in ancestors(&change.path).filter_map(|path| self.0.get(path)).flatten() {
                if *watch == Watch::Recursive {
                    watchers.insert(*connection);
                }
            }
        }
        watchers
    }

    fn retain_at(&mut self, path: &str, mut is_kept: impl FnMut(ConnectionId, Watch) -> bool) {
        let Some(watches) = self.0.get_mut(path) else { return };
        watches.retain(|(connection, watch)| is_kept(*connection, *watch));
        if watches.is_empty() {
            self.0.remove(path);
        }
    }

    /// Returns the watches on nodes: those of one connection at one path are one.
    pub(super) fn on_nodes(&self) -> impl Iterator<Item = (&str, ConnectionId)> {
        self.seeing(Watch::sees_nodes)
    }

    /// Returns how many watches there are: those of one connection at one path count at most twice, once for the node
    /// and once for its children.
    pub(super) fn len(&self) -> usize {
        self.on_nodes().count() + self.seeing(Watch::sees_children).count()
    }

    fn seeing(&self, sees: fn(Watch) -> bool) -> impl Iterator<Item = (&str, ConnectionId)> {
        self.0.iter().flat_map(move |(path, watches)| {
            let seeing = watches.iter().filter(|(_, watch)| sees(*watch));
            let watchers: BTreeSet<_> = seeing.map(|(connection, _)| *connection).collect();
            watchers.into_iter().map(|connection| (&**path, connection))
        })
    }
}

/// Returns the paths above a path, the nearest first.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.rmatch_indices('/').map(|(index, _)| index);
    let is_root = path == "/";
    ends.filter(move |_| !is_root).map(|end| if end == 0 { "/" } else { &path[..end] })
}
