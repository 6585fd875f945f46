//! The owner map, by which a lock recognizes its owner.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::claims::{Claims, HoldClaim};
use super::held_node::HeldNode;
use super::hold::{Hold, Share};
use crate::client::ByPath;
use crate::error::Result;
use crate::lock::owner::Owner;
use crate::queue::{Kind, LockInternals};

/// The owners that hold through one lock object, including its clones. Corresponds to Curator's `threadData`.
#[derive(Debug)]
pub(crate) struct Owners {
    /// The full path of the lock.
    path: Arc<str>,
    entries: Mutex<Entries>,
    claims: Arc<Claims>,
    /// Of a [shared](Self::shared) map: where the next lock object finds it, and the queue, of which more is known for as long
    /// as somebody holds.
    shared: Option<(Arc<Registry>, Arc<LockInternals>)>,
}

/// The shared maps of one client, by the recipes.
type Registry = ByPath<&'static str, Owners>;

#[derive(Debug, Default)]
struct Entries {
    /// None of them is dropped before it is [unregistered](Owners::unregister).
    holds: HashMap<(Owner, Kind), Weak<Hold>>,
    /// Waiting owners: in how many places each waits, and what notifies it that it holds through another place.
    waiting: HashMap<Owner, (usize, Arc<Notify>)>,
}

/// A waiting owner, which is notified when it acquires the lock through another place.
#[derive(Debug)]
pub(crate) struct Waiting {
    owners: Arc<Owners>,
    owner: Owner,
    holds: Arc<Notify>,
}

impl Owners {
    /// Creates the owner map of a lock object that is a separate contender.
    pub(crate) fn new(queue: &Arc<LockInternals>) -> Arc<Self> {
        Arc::new(Self::of(queue, None))
    }

    /// Returns the owner map that all lock objects that ask for it here share, for as long as one of them, one of
    /// their guards or one of their contenders exists.
    pub(crate) fn shared(queue: &Arc<LockInternals>) -> Arc<Self> {
        let registry: Arc<Registry> = queue.client().extension();
        registry
            .share(queue.path(), queue.recipe(), || Self::of(queue, Some((registry.clone(), queue.clone()))))
    }

    fn of(queue: &LockInternals, shared: Option<(Arc<Registry>, Arc<LockInternals>)>) -> Self {
        let claims = queue.client().extension();
        Self { path: queue.path().clone(), entries: Mutex::default(), claims, shared }
    }

    /// Returns the hold of the owner. It may end at any moment, and may already be lost.
    pub(crate) fn hold_of(&self, owner: &Owner, kind: Kind) -> Option<Arc<Hold>> {
        self.entries.lock().hold_of(owner, kind)
    }

    pub(crate) fn holds(&self, owner: &Owner, kind: Kind) -> bool {
        self.entries.lock().holds.contains_key(&(owner.clone(), kind))
    }

    /// Whether a permit was acquired for this owner.
    pub(crate) fn has_permit(&self, owner: &Owner) -> bool {
        let entries = self.entries.lock();
        entries.holds.values().filter_map(Weak::upgrade).any(|hold| hold.acquired_by == *owner)
    }

    pub(crate) fn is_empty(&self, kind: Kind) -> bool {
        self.entries.lock().holds.keys().all(|(_, held)| *held != kind)
    }

    /// Whether this owner holds this path with a token and kind that match, but not through this lock object. Lost
    /// holds do not count.
    pub(crate) fn holds_elsewhere(&self, owner: &Owner, is_meant: impl Fn(i64, Kind) -> bool) -> bool {
        let holds = self.claims.holds(owner, &self.path);
        let is_held = |held: &HoldClaim| {
            held.node.upgrade().is_some_and(|node| is_meant(node.token(), held.kind) && node.loss().is_none())
        };
        holds.iter().any(is_held) && !self.holds(owner, Kind::Exclusive) && !self.holds(owner, Kind::Shared)
    }

    /// Registers a hold, and notifies the waiters of its owner. If the owner holds already, by a grant that came at
    /// the same time, re-enters that and gives up `node`. The owner of a permit, which cannot be re-entered, is one of its own;
    /// then `acquired_by` is another one.
    pub(crate) fn enter(
        self: &Arc<Self>,
        owner: &Owner,
        acquired_by: &Owner,
        kind: Kind,
        node: Arc<HeldNode>,
    ) -> Share {
        let lost = self.hold_of(owner, kind).filter(|hold| hold.node().loss().is_some());
        let mut entries = self.entries.lock();
        let present = entries.hold_of(owner, kind);
        let is_lost = |hold: &&Arc<Hold>| lost.as_ref().is_some_and(|lost| Arc::ptr_eq(lost, hold));
        if let Some(again) = present.as_ref().filter(|hold| !is_lost(hold)).and_then(Hold::share) {
            drop(entries);
            return again;
        }
        let number = self.claims.hold(acquired_by, &self.path, kind, &node);
        let key = (owner.clone(), kind);
        let share = Hold::begin(self.clone(), key.clone(), acquired_by.clone(), number, node);
        entries.holds.insert(key, Arc::downgrade(&share.hold));
        let waiting = entries.waiting.get(owner).map(|(_, holds)| holds.clone());
        drop(entries);
        if let Some(waiting) = waiting {
            waiting.notify_waiters();
        }
        share
    }

    /// Removes a hold from the owner map.
    pub(super) fn unregister(&self, hold: &Hold) {
        self.claims.end_hold(&hold.acquired_by, &self.path, hold.number);
        if let Entry::Occupied(entry) = self.entries.lock().holds.entry(hold.key.clone()) {
            // A later hold of the same owner stays registered.
            if std::ptr::eq(entry.get().as_ptr(), hold) {
                entry.remove();
            }
        }
    }

    /// Registers a waiting owner, which is notified when it acquires the lock.
    pub(crate) fn wait_as(self: &Arc<Self>, owner: &Owner) -> Waiting {
        let mut entries = self.entries.lock();
        let (places, holds) = entries.waiting.entry(owner.clone()).or_default();
        *places += 1;
        let holds = holds.clone();
        drop(entries);
        Waiting { owners: self.clone(), owner: owner.clone(), holds }
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        self.shared.iter().for_each(|(registry, _)| registry.forget(&self.path));
    }
}

impl Entries {
    fn hold_of(&self, owner: &Owner, kind: Kind) -> Option<Arc<Hold>> {
        self.holds.get(&(owner.clone(), kind)).and_then(Weak::upgrade)
    }
}

impl Waiting {
    /// Waits until the owner's place has something to report, or until `enter` says that the owner holds through
    /// another place.
    ///
    /// # Errors
    /// Those of `place` and `enter`.
    ///
    /// # Cancel safety
    /// As cancel safe as `place`.
    pub(crate) async fn until<T, F: Future<Output = Result<Option<T>>>>(
        &self,
        mut place: Pin<&mut impl Future<Output = Result<()>>>,
        enter: impl Fn() -> F,
    ) -> Result<Option<T>> {
        loop {
            // Registered before the check, so that no notification is missed.
            let holds = self.holds.notified();
            // Boxed, so that waiters do not carry its size.
            let entered = Box::pin(enter()).await?;
            if entered.is_some() {
                return Ok(entered);
            }
            tokio::select! {
                biased;
                outcome = &mut place => return outcome.map(|()| None),
                () = holds => {}
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut entries = self.owners.entries.lock();
        if let Entry::Occupied(mut entry) = entries.waiting.entry(self.owner.clone()) {
            entry.get_mut().0 -= 1;
            if entry.get().0 == 0 {
                entry.remove();
            }
        }
    }
}
