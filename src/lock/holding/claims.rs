//! What the owners of one client hold and wait for, as far as the client knows. Finds owners that wait for each other.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::cycle::{Blocked, cycle};
use super::held_node::HeldNode;
use crate::client::Client;
use crate::error::{Error, OwnerWaits, Result};
use crate::lock::owner::Owner;
use crate::queue::{Kind, exclude_each_other};

/// The holds and the waits of one client. Nothing is asked of the servers.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Counts the holds and the waits.
    count: u64,
    /// By the full path of the lock, and by number.
    holds: HashMap<Owner, BTreeMap<(Arc<str>, u64), HoldClaim>>,
    waits: HashMap<Owner, Vec<Arc<WaitClaim>>>,
    queues: HashMap<Arc<str>, Queue>,
    /// The waits for permits, by the path of the leases.
    permits: HashMap<Arc<str>, BTreeMap<u64, Arc<WaitClaim>>>,
}

/// The waits in one queue.
#[derive(Debug, Default)]
struct Queue {
    all: InOrder,
    /// Those of writers among them: readers need not be looked through for each reader.
    exclusive: InOrder,
}

/// Waits in the order of a queue: by the transactions that created their nodes, and by number.
type InOrder = BTreeMap<(i64, u64), Arc<WaitClaim>>;

/// One hold.
#[derive(Clone, Debug)]
pub(super) struct HoldClaim {
    pub(super) kind: Kind,
    pub(super) node: Weak<HeldNode>,
}

/// One wait, at the last of its places.
#[derive(Debug)]
struct WaitClaim {
    number: u64,
    owner: Owner,
    /// Whether it has a deadline.
    ends: bool,
    awaited: Awaited,
}

/// What an owner waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// The full path of the lock, for messages.
    pub(crate) path: Arc<str>,
    /// All places that it has in queues. It waits in the last one, for all who are ahead there.
    pub(crate) places: Vec<Place>,
    /// Permits that it wants besides.
    pub(crate) permits: Option<Permits>,
}

/// A place in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The full path of the queue.
    pub(crate) queue: Arc<str>,
    pub(crate) kind: Kind,
    /// The transaction that created its node.
    pub(crate) czxid: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permits {
    /// The full path of the leases.
    pub(crate) leases: Arc<str>,
    /// How many permits may be held by others when it gets its own.
    pub(crate) spare: u32,
}

/// The wait of one acquire, which is registered until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    client: &'a Client,
    owner: &'a Owner,
    ends: bool,
    /// Where it is registered, and as what.
    wait: Option<(Arc<Claims>, Arc<WaitClaim>)>,
}

/// The owners that wait for one owner, directly or not, and all of their waits.
#[derive(Debug, Default)]
struct Snapshot {
    owners: Vec<Owner>,
    numbers: HashMap<Owner, usize>,
    waits: Vec<Arc<WaitClaim>>,
    /// The waits in `waits`, by number.
    indices: HashMap<u64, usize>,
    /// For each of `waits`, the holds that its owner re-enters.
    again: Vec<Vec<usize>>,
    blocks: Vec<Blocks>,
    /// Of the holds in `again` and `blocks`.
    nodes: Vec<Arc<HeldNode>>,
}

/// A wait, and an owner for whom it waits.
#[derive(Debug)]
struct Blocks {
    wait: usize,
    owner: usize,
    by: By,
}

#[derive(Debug)]
enum By {
    Place,
    /// With the index of its node.
    Hold(usize),
    Permit(usize),
}

impl Claims {
    /// Registers a hold. Returns its number.
    pub(super) fn hold(&self, owner: &Owner, path: &Arc<str>, kind: Kind, node: &Arc<HeldNode>) -> u64 {
        let mut state = self.0.lock();
        let number = state.next();
        let held = HoldClaim { kind, node: Arc::downgrade(node) };
        state.holds.entry(owner.clone()).or_default().insert((path.clone(), number), held);
        number
    }

    /// Removes a hold.
    pub(super) fn end_hold(&self, owner: &Owner, path: &Arc<str>, number: u64) {
        drop_empty(&mut self.0.lock().holds, owner, |holds| {
            holds.remove(&(path.clone(), number));
            holds.is_empty()
        });
    }

    /// Returns the holds of this owner at this path, through any lock object.
    pub(super) fn holds(&self, owner: &Owner, path: &Arc<str>) -> Vec<HoldClaim> {
        self.0.lock().holds_at(owner, path).cloned().collect()
    }

    /// Returns the waits of a deadlock that this one closes, itself first. Then it is no longer registered.
    fn give_up(&self, closing: &Arc<WaitClaim>) -> Option<Vec<Arc<WaitClaim>>> {
        loop {
            let snapshot = self.0.lock().snapshot(closing);
            // Not under the lock: holds are asked whether they are lost, and may end here.
            let cycle = snapshot.cycle(closing)?;
            let mut state = self.0.lock();
            // Of two that close the same cycle, the second one finds the first one gone.
            if cycle.iter().all(|wait| state.waits_of(&wait.owner).any(|known| known.number == wait.number)) {
                state.remove(closing);
                return Some(cycle);
            }
        }
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn holds_at(&self, owner: &Owner, path: &Arc<str>) -> impl Iterator<Item = &HoldClaim> {
        let at = (path.clone(), 0)..=(path.clone(), u64::MAX);
        self.holds.get(owner).into_iter().flat_map(move |holds| holds.range(at.clone())).map(|(_, held)| held)
    }

    fn waits_of(&self, owner: &Owner) -> impl Iterator<Item = &Arc<WaitClaim>> {
        self.waits.get(owner).into_iter().flatten()
    }

    fn add(&mut self, wait: &Arc<WaitClaim>) {
        self.waits.entry(wait.owner.clone()).or_default().push(wait.clone());
        if let Some(place) = wait.awaited.places.last() {
            self.queues.entry(place.queue.clone()).or_default().add(place, wait);
        }
        if let Some(permits) = &wait.awaited.permits {
            self.permits.entry(permits.leases.clone()).or_default().insert(wait.number, wait.clone());
        }
    }

    fn remove(&mut self, wait: &WaitClaim) {
        drop_empty(&mut self.waits, &wait.owner, |waits| {
            waits.retain(|other| other.number != wait.number);
            waits.is_empty()
        });
        if let Some(place) = wait.awaited.places.last() {
            drop_empty(&mut self.queues, &place.queue, |queue| {
                queue.all.remove(&(place.czxid, wait.number));
                queue.exclusive.remove(&(place.czxid, wait.number));
                queue.all.is_empty()
            });
        }
        if let Some(permits) = &wait.awaited.permits {
            drop_empty(&mut self.permits, &permits.leases, |wanted| {
                wanted.remove(&wait.number);
                wanted.is_empty()
            });
        }
    }

    /// Returns the holds that the owner of this wait re-enters, lost ones included. By any other one, the wait ends.
    fn again(&self, wait: &WaitClaim) -> impl Iterator<Item = &HoldClaim> {
        wait.awaited.places.iter().flat_map(|place| self.holds_at(&wait.owner, &place.queue))
    }

    /// Collects those who wait for the owner of this wait.
    fn snapshot(&self, closing: &WaitClaim) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.add(self, &closing.owner);
        let mut next = 0;
        while let Some(owner) = snapshot.owners.get(next).cloned() {
            for ((path, _), held) in self.holds.get(&owner).into_iter().flatten() {
                let Some(node) = held.node.upgrade() else { continue };
                let (token, is_owners) = (node.token(), node.is_owners());
                let node = snapshot.keep(node);
                if !is_owners {
                    continue;
                }
                for wait in self.behind(path, (token, u64::MAX), held.kind) {
                    snapshot.block(self, wait, next, By::Hold(node));
                }
                for wait in self.permits.get(path).into_iter().flat_map(BTreeMap::values) {
                    snapshot.block(self, wait, next, By::Permit(node));
                }
            }
            for wait in self.waits_of(&owner) {
                for place in &wait.awaited.places {
                    for behind in self.behind(&place.queue, (place.czxid, wait.number), place.kind) {
                        snapshot.block(self, behind, next, By::Place);
                    }
                }
            }
            next += 1;
        }
        snapshot
    }

    /// Returns those who wait for this place in a queue; not those who are behind one that waits for it as surely.
    fn behind(
        &self,
        queue: &Arc<str>,
        place: (i64, u64),
        kind: Kind,
    ) -> impl Iterator<Item = &Arc<WaitClaim>> {
        let behind = (std::ops::Bound::Excluded(place), std::ops::Bound::Unbounded);
        let queue = self.queues.get(queue).map(|queue| match kind {
            Kind::Shared => &queue.exclusive,
            _ => &queue.all,
        });
        let behind = queue.into_iter().flat_map(move |queue| queue.range(behind));
        let mut is_hidden = false;
        behind
            .map(|(_, wait)| wait)
            .take_while(move |wait| {
                let hides = wait.kind() == Kind::Exclusive
                    && self.waits_of(&wait.owner).count() == 1
                    && !wait.ends
                    && self.again(wait).next().is_none();
                !std::mem::replace(&mut is_hidden, hides)
            })
            .filter(move |wait| exclude_each_other(kind, wait.kind()))
    }
}

/// Changes a value, and removes it if `change` says that it is empty.
fn drop_empty<K: Eq + Hash, V>(map: &mut HashMap<K, V>, key: &K, change: impl FnOnce(&mut V) -> bool) {
    if map.get_mut(key).is_some_and(change) {
        map.remove(key);
    }
}

impl Queue {
    fn add(&mut self, place: &Place, wait: &Arc<WaitClaim>) {
        self.all.insert((place.czxid, wait.number), wait.clone());
        if exclude_each_other(Kind::Shared, place.kind) {
            self.exclusive.insert((place.czxid, wait.number), wait.clone());
        }
    }
}

impl WaitClaim {
    fn kind(&self) -> Kind {
        self.awaited.places.last().map_or(Kind::Exclusive, |place| place.kind)
    }
}

impl Snapshot {
    /// Adds an owner, and all of its waits. Returns its number.
    fn add(&mut self, state: &State, owner: &Owner) -> usize {
        if let Some(number) = self.numbers.get(owner) {
            return *number;
        }
        let number = self.owners.len();
        self.owners.push(owner.clone());
        self.numbers.insert(owner.clone(), number);
        for wait in state.waits_of(owner) {
            self.indices.insert(wait.number, self.waits.len());
            self.waits.push(wait.clone());
            let nodes: Vec<_> = state.again(wait).filter_map(|held| held.node.upgrade()).collect();
            let again = nodes.into_iter().map(|node| self.keep(node)).collect();
            self.again.push(again);
        }
        number
    }

    /// Keeps a node, so that it is not dropped under the lock. Returns its index.
    fn keep(&mut self, node: Arc<HeldNode>) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Records that a wait waits for the owner of this number.
    fn block(&mut self, state: &State, wait: &Arc<WaitClaim>, owner: usize, by: By) {
        // Its own places do not keep an owner out. Its own permits do.
        if wait.owner == self.owners[owner] && !matches!(by, By::Permit(_)) || wait.ends {
            return;
        }
        self.add(state, &wait.owner);
        self.blocks.push(Blocks { wait: self.indices[&wait.number], owner, by });
    }

    /// Returns the waits of a deadlock that this one closes, itself first.
    fn cycle(&self, closing: &WaitClaim) -> Option<Vec<Arc<WaitClaim>>> {
        let closing = self.indices[&closing.number];
        if self.blocks.iter().all(|blocks| blocks.wait != closing) {
            return None;
        }
        let is_held = |node: &usize| self.nodes[*node].loss().is_none();
        let blocked = |(wait, again): (&Arc<WaitClaim>, &Vec<usize>)| Blocked {
            owner: self.numbers[&wait.owner],
            ends: wait.ends || again.iter().any(is_held),
            spare: wait.awaited.permits.as_ref().map_or(0, |permits| permits.spare as usize),
            ..Blocked::default()
        };
        let mut waits: Vec<Blocked> = self.waits.iter().zip(&self.again).map(blocked).collect();
        for Blocks { wait, owner, by } in &self.blocks {
            let wait = &mut waits[*wait];
            match by {
                By::Place => wait.behind.push(*owner),
                By::Hold(node) if is_held(node) => wait.behind.push(*owner),
                By::Permit(node) if is_held(node) => wait.permits.push(*owner),
                By::Hold(_) | By::Permit(_) => {}
            }
        }
        let cycle = cycle(&waits, closing)?;
        Some(cycle.into_iter().map(|wait| self.waits[wait].clone()).collect())
    }
}

impl<'a> Claim<'a> {
    /// Prepares to register the wait of an owner. `ends` says that it has a deadline.
    pub(crate) fn new(client: &'a Client, owner: &'a Owner, ends: bool) -> Self {
        Self { client, owner, ends, wait: None }
    }

    /// Registers what the owner waits for from now on; `None` if that is not known.
    ///
    /// # Errors
    /// - [`Error::WouldDeadlock`]: those for whom it waits wait for this owner, and none of them has a deadline. Then the
    ///   wait is not registered.
    pub(crate) fn waits_for(&mut self, awaited: Option<Awaited>) -> Result<()> {
        if self.wait.as_ref().map(|(_, wait)| &wait.awaited) != awaited.as_ref() {
            self.withdraw();
            self.wait = awaited.map(|awaited| self.register(awaited));
        }
        let Some((claims, wait)) = self.wait.as_ref().filter(|_| !self.ends) else { return Ok(()) };
        // Also if it waits for the same as before: what its owner would have entered again may be lost.
        let Some(cycle) = claims.give_up(wait) else { return Ok(()) };
        let waits = |wait: &Arc<WaitClaim>| OwnerWaits {
            owner: wait.owner.clone(),
            path: wait.awaited.path.as_ref().into(),
        };
        let cycle = cycle.iter().map(waits).collect();
        let error = Error::WouldDeadlock { path: wait.awaited.path.as_ref().into(), cycle };
        self.wait = None;
        Err(error)
    }

    fn register(&self, awaited: Awaited) -> (Arc<Claims>, Arc<WaitClaim>) {
        let claims: Arc<Claims> = self.client.extension();
        let mut state = claims.0.lock();
        let wait = WaitClaim { number: state.next(), owner: self.owner.clone(), ends: self.ends, awaited };
        let wait = Arc::new(wait);
        state.add(&wait);
        drop(state);
        (claims, wait)
    }

    fn withdraw(&mut self) {
        if let Some((claims, wait)) = self.wait.take() {
            claims.0.lock().remove(&wait);
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}
