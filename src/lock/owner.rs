//! Who holds: the identity by which a lock knows its owner again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;

use super::guard::Hold;

/// The owner of a lock: who may enter it again while holding it.
///
/// Where Curator knows threads, this knows tokio tasks, and threads outside of a task. An explicit owner
/// stands for neither: it can be handed from task to task, along with a unit of work.
///
/// ```
/// use zk_recipes::Owner;
///
/// assert_eq!(Owner::current(), Owner::current());
/// assert_ne!(Owner::new(), Owner::new());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner(Identity);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    Task(tokio::task::Id),
    Thread(ThreadId),
    Explicit(u64),
}

impl Owner {
    /// An owner that is nobody else.
    #[expect(clippy::new_without_default, reason = "a default owner would suggest a common one")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(Identity::Explicit(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The running tokio task; outside of a task (as in `block_on`), the thread.
    pub fn current() -> Self {
        Self(match tokio::task::try_id() {
            Some(task) => Identity::Task(task),
            None => Identity::Thread(std::thread::current().id()),
        })
    }
}

/// The holds of one lock object by owner. Curator's `threadData`.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<HashMap<Owner, Weak<Hold>>>);

impl Holds {
    pub(crate) fn of(&self, owner: &Owner) -> Option<Arc<Hold>> {
        self.lock().get(owner).and_then(Weak::upgrade)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().values().all(|hold| hold.strong_count() == 0)
    }

    pub(crate) fn insert(&self, owner: Owner, hold: &Arc<Hold>) {
        self.lock().insert(owner, Arc::downgrade(hold));
    }

    /// Forgets a hold that has ended. A later hold of the same owner stays.
    pub(crate) fn forget(&self, owner: Owner) {
        if let Entry::Occupied(entry) = self.lock().entry(owner) {
            if entry.get().strong_count() == 0 {
                entry.remove();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Owner, Weak<Hold>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The nodes by which the owners of one client hold, whatever the lock object.
#[derive(Debug, Default)]
pub(crate) struct HeldNodes(Mutex<HashMap<String, Owner>>);

impl HeldNodes {
    pub(crate) fn insert(&self, node_path: String, owner: Owner) {
        self.lock().insert(node_path, owner);
    }

    pub(crate) fn remove(&self, node_path: &str) {
        self.lock().remove(node_path);
    }

    pub(crate) fn is_held_by(&self, node_path: &str, owner: &Owner) -> bool {
        self.lock().get(node_path) == Some(owner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Owner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_threads_and_explicit_owners_differ() {
        let here = Owner::current();
        let task = tokio::spawn(async { (Owner::current(), Owner::current()) }).await.unwrap();
        let thread = std::thread::spawn(Owner::current).join().unwrap();
        assert_eq!(task.0, task.1);
        let owners = [here, task.0, thread, Owner::new(), Owner::new()];
        for (i, owner) in owners.iter().enumerate() {
            assert_eq!(owners.iter().position(|other| other == owner), Some(i));
        }
    }
}
