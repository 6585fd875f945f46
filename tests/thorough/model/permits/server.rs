//! The servers: the gate and the leases as they are, and as a server that lags behind shows them.

use std::collections::{BTreeSet, VecDeque};

pub(crate) type ClientId = usize;

/// One transaction that creates leases.
pub(crate) type TakeId = (ClientId, usize, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner {
    Client(ClientId),
    Foreigner(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lease {
    pub(crate) owner: Owner,
    /// `None` for one of a foreigner.
    pub(crate) take: Option<TakeId>,
    pub(crate) number: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AtGate {
    pub(crate) name: String,
    pub(crate) owner: Owner,
}

/// What can be watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Path {
    Gate(String),
    Leases,
    /// Where the nodes at the gate are.
    Parent,
    /// Where the leases are.
    LeasesParent,
}

/// Watches that a change fires.
pub(crate) type Fired = Vec<(ClientId, Path)>;

/// What one server shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct View {
    pub(crate) zxid: u8,
    /// In the order of their numbers.
    pub(crate) gate: Vec<AtGate>,
    pub(crate) leases: Vec<Lease>,
    /// Counts how often the parent at the gate was made again.
    parents: u8,
    /// The same for that of the leases.
    leases_parents: u8,
}

impl View {
    pub(crate) fn is_at_gate(&self, name: &str) -> bool {
        self.gate.iter().any(|node| node.name == name)
    }

    pub(crate) fn list(&self) -> Vec<String> {
        self.gate.iter().map(|node| node.name.clone()).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) now: View,
    next_number: i32,
    next_lease: i32,
    /// What it was before; kept as long as somebody may come to a server that lags behind.
    pub(crate) past: VecDeque<View>,
    pub(crate) keeps_past: bool,
    pub(crate) watches: BTreeSet<(ClientId, Path)>,
    /// Of each client, what its server shows if that lags behind.
    pub(crate) lagging: Vec<Option<View>>,
}

impl Server {
    pub(crate) fn new(clients: usize, keeps_past: bool, next_number: i32, next_lease: i32) -> Self {
        Self {
            now: View::default(),
            next_number,
            next_lease,
            past: VecDeque::new(),
            keeps_past,
            watches: BTreeSet::new(),
            lagging: vec![None; clients],
        }
    }

    pub(crate) fn view(&self, client: ClientId) -> &View {
        self.lagging[client].as_ref().unwrap_or(&self.now)
    }

    /// Commits a change, and answers which watches it fires.
    pub(crate) fn commit(&mut self, change: impl FnOnce(&mut View)) -> Fired {
        let before = self.now.clone();
        change(&mut self.now);
        if self.now == before {
            return Vec::new();
        }
        if self.keeps_past {
            self.now.zxid += 1;
            self.past.push_back(before.clone());
        }
        let is_fired = |(client, path): &&(ClientId, Path)| {
            self.lagging[*client].is_none() && has_changed(&before, &self.now, path)
        };
        let fired: Fired = self.watches.iter().filter(is_fired).cloned().collect();
        fired.iter().for_each(|watch| _ = self.watches.remove(watch));
        fired
    }

    pub(crate) fn create(&mut self, prefix: &str, owner: Owner) -> (String, Fired) {
        let name = format!("{prefix}lock-{:010}", self.next_number);
        self.next_number += 1;
        let fired = self.commit(|now| now.gate.push(AtGate { name: name.clone(), owner }));
        (name, fired)
    }

    /// Creates a node at the gate, and leases: if the node gets that number, or nothing. Answers the number of the first
    /// lease as well.
    pub(crate) fn create_with_leases(
        &mut self,
        prefix: &str,
        number: i32,
        owner: Owner,
        take: TakeId,
        wanted: u32,
    ) -> Option<(String, i32, Fired)> {
        if self.next_number != number {
            return None;
        }
        let name = format!("{prefix}lock-{number:010}");
        self.next_number += 1;
        let leases = self.new_leases(owner, Some(take), wanted);
        let first = leases[0].number;
        let fired = self.commit(|now| {
            now.gate.push(AtGate { name: name.clone(), owner });
            now.leases.extend(leases);
        });
        Some((name, first, fired))
    }

    /// Creates leases. Answers the number of the first one.
    pub(crate) fn create_leases(&mut self, owner: Owner, take: Option<TakeId>, wanted: u32) -> (i32, Fired) {
        let leases = self.new_leases(owner, take, wanted);
        (leases[0].number, self.commit(|now| now.leases.extend(leases)))
    }

    fn new_leases(&mut self, owner: Owner, take: Option<TakeId>, wanted: u32) -> Vec<Lease> {
        let numbers = self.next_lease..self.next_lease + wanted as i32;
        self.next_lease = numbers.end;
        numbers.map(|number| Lease { owner, take, number }).collect()
    }

    /// The parent at the gate, which is empty, is deleted and made again.
    pub(crate) fn reap(&mut self) -> Fired {
        self.next_number = 0;
        self.commit(|now| now.parents += 1)
    }

    /// The same with that of the leases.
    pub(crate) fn reap_leases(&mut self) -> Fired {
        self.next_lease = 0;
        self.commit(|now| now.leases_parents += 1)
    }

    /// The server of a client comes up to date. Answers which watches that fires.
    pub(crate) fn catch_up(&mut self, client: ClientId) -> Fired {
        let Some(before) = self.lagging[client].take() else { return Vec::new() };
        let is_fired =
            |(of, path): &&(ClientId, Path)| *of == client && has_changed(&before, &self.now, path);
        let fired: Fired = self.watches.iter().filter(is_fired).cloned().collect();
        fired.iter().for_each(|watch| _ = self.watches.remove(watch));
        fired
    }
}

pub(crate) fn has_changed(before: &View, after: &View, path: &Path) -> bool {
    match path {
        Path::Gate(name) => before.is_at_gate(name) && !after.is_at_gate(name),
        Path::Leases => before.leases != after.leases,
        Path::Parent => before.parents != after.parents,
        Path::LeasesParent => before.leases_parents != after.leases_parents,
    }
}
