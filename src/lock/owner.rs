//! The identity by which a re-entrant lock recognizes its owner.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

/// The owner of a lock, which can re-enter the lock while holding it.
///
/// Where Curator's owners are threads, the owners here are tokio tasks, or threads outside of a task. An explicit
/// owner is neither: you can pass it from task to task, along with a unit of work.
///
/// A task is one owner. If a task runs several futures concurrently, with `join!`, `select!` or a stream of
/// futures, a lock held by one of them can be re-entered by the others. Give each future an `Owner` or a task of
/// its own.
///
/// What an owner holds counts as its own until it is released, wherever its guard is. With
/// [`detect_deadlocks`](crate::LockOptions::detect_deadlocks), acquire with an `Owner` of its own what another task is to
/// release: otherwise, the acquire of an owner that waits meanwhile may fail with
/// [`WouldDeadlock`](crate::Error::WouldDeadlock).
///
/// Outside of tokio tasks, the owner is the thread. This includes the future passed to `block_on`, and all futures
/// that another executor runs on the same thread: there, a lock that one of them holds is open to all of them, and
/// a future's owner changes with the thread that happens to run it. With another executor, use explicit owners.
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
    /// Creates an owner that differs from every other owner.
    #[expect(clippy::new_without_default, reason = "a default owner would suggest a common one")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(Identity::Explicit(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Returns the running tokio task as an owner; outside of a task (as in `block_on`, or under another
    /// executor), the current thread.
    pub fn current() -> Self {
        Self(match tokio::task::try_id() {
            Some(task) => Identity::Task(task),
            None => Identity::Thread(std::thread::current().id()),
        })
    }

    /// Returns the owner that a lock object was given or else the current one.
    pub(crate) fn or_current(given: &Option<Self>) -> Self {
        given.clone().unwrap_or_else(Self::current)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Identity::Task(task) => write!(f, "task {task}"),
            Identity::Thread(thread) => write!(f, "{thread:?}"),
            Identity::Explicit(number) => write!(f, "owner {number}"),
        }
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
