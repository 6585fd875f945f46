//! The identity by which a lock knows its owner again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

/// The owner of a lock: who may enter it again while holding it.
///
/// Where Curator knows threads, this knows tokio tasks, and threads outside of a task. An explicit owner
/// stands for neither: it can be handed from task to task, along with a unit of work.
///
/// All that one task does is done by one owner. If a task works on several things at once, by `join!`,
/// `select!` or a stream of futures, then a lock that one of them holds is open to the others. Give each an
/// owner of its own, or a task.
///
/// Outside of tokio tasks the owner is the thread. That includes the future of `block_on`, and all futures that another
/// executor runs on the same thread: there, a lock that one of them holds is open to all of them, and an owner changes
/// with the thread that happens to run it. Use explicit owners with another executor.
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

    /// The running tokio task; outside of a task (as in `block_on`, or under another executor), the thread.
    pub fn current() -> Self {
        Self(match tokio::task::try_id() {
            Some(task) => Identity::Task(task),
            None => Identity::Thread(std::thread::current().id()),
        })
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
