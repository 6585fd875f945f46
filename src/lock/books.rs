//! The books of who holds, by which an owner is known again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::owner::Owner;
use crate::client::Client;
use crate::queue::Kind;

/// Who holds through one lock object. Curator's `threadData`.
#[derive(Debug)]
pub(crate) struct Books<H> {
    /// The full path of the lock.
    path: Arc<str>,
    holds: Mutex<HashMap<(Owner, Kind), Weak<H>>>,
    held: Arc<Held>,
}

/// The tokens by which each owner holds at each path, through whatever lock object of one client.
#[derive(Debug, Default)]
struct Held(Mutex<HashMap<Key, Vec<i64>>>);

/// An owner, and the full path of a lock.
type Key = (Owner, Arc<str>);

/// The entries of one hold. They go when it is dropped.
#[derive(Debug)]
pub(crate) struct Registration<H> {
    books: Arc<Books<H>>,
    owner: Owner,
    kind: Kind,
    token: i64,
}

impl<H> Books<H> {
    pub(crate) fn new(client: &Client, path: &Arc<str>) -> Self {
        Self { path: path.clone(), holds: Mutex::default(), held: client.extension() }
    }

    pub(crate) fn hold_of(&self, owner: &Owner, kind: Kind) -> Option<Arc<H>> {
        lock(&self.holds).get(&(owner.clone(), kind)).and_then(Weak::upgrade)
    }

    pub(crate) fn is_empty(&self, kind: Kind) -> bool {
        lock(&self.holds).iter().all(|((_, held), hold)| *held != kind || hold.strong_count() == 0)
    }

    /// Whether this owner holds at this path since before that transaction, but not through this lock object.
    pub(crate) fn holds_elsewhere(&self, owner: &Owner, before: i64) -> bool {
        let key = (owner.clone(), self.path.clone());
        let holds =
            lock(&self.held.0).get(&key).is_some_and(|tokens| tokens.iter().any(|token| *token < before));
        let here = |kind| self.hold_of(owner, kind).is_some();
        holds && !here(Kind::Exclusive) && !here(Kind::Shared)
    }

    /// Enters the hold that is made of the registration.
    pub(crate) fn enter(
        self: &Arc<Self>,
        owner: &Owner,
        kind: Kind,
        token: i64,
        hold: impl FnOnce(Registration<H>) -> H,
    ) -> Arc<H> {
        lock(&self.held.0).entry((owner.clone(), self.path.clone())).or_default().push(token);
        let hold = Arc::new(hold(Registration { books: self.clone(), owner: owner.clone(), kind, token }));
        lock(&self.holds).insert((owner.clone(), kind), Arc::downgrade(&hold));
        hold
    }
}

impl<H> Registration<H> {
    pub(crate) fn token(&self) -> i64 {
        self.token
    }
}

impl<H> Drop for Registration<H> {
    fn drop(&mut self) {
        let Self { books, owner, kind, token } = self;
        if let Entry::Occupied(mut entry) = lock(&books.held.0).entry((owner.clone(), books.path.clone())) {
            let tokens = entry.get_mut();
            tokens.iter().position(|held| held == token).map(|held| tokens.swap_remove(held));
            if tokens.is_empty() {
                entry.remove();
            }
        }
        if let Entry::Occupied(entry) = lock(&books.holds).entry((owner.clone(), *kind)) {
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
