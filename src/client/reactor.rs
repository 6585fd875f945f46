//! The thread that waits for sockets.
//!
//! `zookeeper-client` waits for its sockets through `async-io`, on any runtime. By default a thread of that crate
//! does the waiting and wakes the thread that serves the connection. If a thread waits in `async_io::block_on`, as
//! this one does, that thread does the waiting itself; so each reply wakes one thread less.

use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::thread::{self, ThreadId};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;

pub(super) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks on a thread of its own, for the life of the process.
#[derive(Clone, Debug)]
pub(super) struct Reactor {
    tasks: mpsc::UnboundedSender<Task>,
    thread: ThreadId,
}

impl Reactor {
    pub(super) fn start() -> io::Result<Self> {
        let (tasks, given) = mpsc::unbounded_channel();
        let thread = thread::Builder::new().name("zk-recipes-io".into());
        let thread = thread.spawn(|| async_io::block_on(run(given)))?;
        Ok(Self { tasks, thread: thread.thread().id() })
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // A task that panics ends alone, and the thread continues.
        let _ = self.tasks.send(Box::pin(AssertUnwindSafe(task).catch_unwind().map(drop)));
    }

    pub(super) fn thread(&self) -> ThreadId {
        self.thread
    }
}

async fn run(mut given: mpsc::UnboundedReceiver<Task>) {
    let mut tasks = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(task) = given.recv() => tasks.push(task),
            Some(()) = tasks.next() => {}
            else => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_task_that_panics_ends_alone() {
        let reactor = Reactor::start().unwrap();
        reactor.spawn(async { panic!("as it is meant to") });
        let (done, is_done) = mpsc::channel();
        reactor.spawn(async move { done.send(thread::current().id()).unwrap() });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(30)), Ok(reactor.thread()));
    }
}
