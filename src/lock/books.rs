//! The books of who holds, by which an owner is known again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::owner::Owner;
use crate::client::Client;

/// Who holds through one lock object. Curator's `threadData`.
#[derive(Debug)]
pub(crate) struct Books<H> {
    holds: Mutex<HashMap<Owner, Weak<H>>>,
    held_nodes: Arc<HeldNodes>,
}

/// By which node each owner holds, through whatever lock object of one client.
#[derive(Debug, Default)]
struct HeldNodes(Mutex<HashMap<Arc<str>, Owner>>);

/// The entries of one hold. They go when it is dropped.
#[derive(Debug)]
pub(crate) struct Registration<H> {
    books: Arc<Books<H>>,
    owner: Owner,
    node_path: Arc<str>,
}

impl<H> Books<H> {
    pub(crate) fn new(client: &Client) -> Self {
        Self { holds: Mutex::default(), held_nodes: client.extension() }
    }

    pub(crate) fn hold_of(&self, owner: &Owner) -> Option<Arc<H>> {
        lock(&self.holds).get(owner).and_then(Weak::upgrade)
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.holds).values().all(|hold| hold.strong_count() == 0)
    }

    /// Whether this owner holds by that node, but not through this lock object.
    pub(crate) fn holds_elsewhere(&self, owner: &Owner, node_path: &str) -> bool {
        lock(&self.held_nodes.0).get(node_path) == Some(owner) && self.hold_of(owner).is_none()
    }

    /// Enters the hold that is made of the registration.
    pub(crate) fn enter(
        self: &Arc<Self>,
        owner: &Owner,
        node_path: Arc<str>,
        hold: impl FnOnce(Registration<H>) -> H,
    ) -> Arc<H> {
        lock(&self.held_nodes.0).insert(node_path.clone(), owner.clone());
        let registration = Registration { books: self.clone(), owner: owner.clone(), node_path };
        let hold = Arc::new(hold(registration));
        lock(&self.holds).insert(owner.clone(), Arc::downgrade(&hold));
        hold
    }
}

impl<H> Drop for Registration<H> {
    fn drop(&mut self) {
        lock(&self.books.held_nodes.0).remove(&self.node_path);
        if let Entry::Occupied(entry) = lock(&self.books.holds).entry(self.owner.clone()) {
            // A later hold of the same owner stays.
            if entry.get().strong_count() == 0 {
                entry.remove();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
