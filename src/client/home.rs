//! Where a client lives: the runtime of its session, and of all that it does in the background.

use std::thread::{self, ThreadId};

use futures_util::FutureExt;
use futures_util::future::{AbortHandle, Abortable};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::context::TokioContext;

use super::reactor::Reactor;
use crate::error::{Error, Result};

/// On how many threads news is shown at a time. Each that is kept is kept by a user who keeps what was borrowed. The look-ups
/// of host names share the pool that these are from, of 512.
const MOST_THREADS: usize = 256;

/// A runtime.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    runtime: Handle,
    /// If it is our own.
    own: Option<Own>,
}

#[derive(Clone, Debug)]
struct Own {
    /// Of the runtime.
    thread: ThreadId,
    reactor: Reactor,
}

/// A connection that is served. Dropping it ends that.
#[derive(Debug)]
pub(super) struct Served(AbortHandle);

impl Home {
    /// Two threads that are shared by all clients of the process, one for their connections and one for all else. They are
    /// there from the first client on.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`]: the system lets us start no thread.
    pub(crate) fn shared() -> Result<Self> {
        static SHARED: Mutex<Option<Home>> = Mutex::new(None);
        let mut shared = SHARED.lock();
        if let Some(home) = &*shared {
            return Ok(home.clone());
        }
        let home = Self::start().map_err(|error| Error::InvalidArgument {
            argument: "runtime",
            reason: format!(
                "no thread can be started for the clients: {error}; give one by `ClientBuilder::runtime`"
            ),
        })?;
        Ok(shared.insert(home).clone())
    }

    fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name("zk-recipes".into());
        let thread = thread.spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        let own = Own { thread: thread.thread().id(), reactor: Reactor::start()? };
        Ok(Self { runtime: handle, own: Some(own) })
    }

    /// A runtime of the user's.
    pub(crate) fn of(runtime: Handle) -> Self {
        Self { runtime, own: None }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Whether it is our own, which lives as long as the process.
    pub(super) fn is_ours(&self) -> bool {
        self.own.is_some()
    }

    /// Serves a connection.
    pub(super) fn serve(&self, connection: impl Future<Output = ()> + Send + 'static) -> Served {
        let (handle, registration) = AbortHandle::new_pair();
        let connection = Abortable::new(connection, registration).map(drop);
        match &self.own {
            Some(own) => own.reactor.spawn(connection),
            None => drop(self.runtime.spawn(connection)),
        }
        Served(handle)
    }

    /// Runs `show`, which updates a `watch` that users may have borrowed and so may block. On a shared thread it runs in
    /// the background, because a user who keeps a borrow must not cost other clients their sessions. Calls may overtake each
    /// other: `show` must look up the latest value itself.
    pub(crate) fn tell(&self, show: impl FnOnce() + Send + 'static) {
        drop(self.show(show));
    }

    /// The same, and waits until `show` has run.
    pub(crate) async fn told(&self, show: impl FnOnce() + Send + 'static) {
        if let Some(showing) = self.show(show) {
            // It is not aborted, and does not panic.
            let _ = showing.await;
        }
    }

    /// Runs it, or returns the task that does.
    fn show(&self, show: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
        static THREADS: Semaphore = Semaphore::const_new(MOST_THREADS);
        if !self.own.as_ref().is_some_and(Own::is_here) {
            show();
            return None;
        }
        let shown_by = |thread: SemaphorePermit<'static>| {
            move || {
                show();
                drop(thread);
            }
        };
        Some(match THREADS.try_acquire() {
            Ok(thread) => self.runtime.spawn_blocking(shown_by(thread)),
            Err(_) => self.runtime.spawn(async move {
                // It is never closed.
                let Ok(thread) = THREADS.acquire().await else { return };
                let _ = tokio::task::spawn_blocking(shown_by(thread)).await;
            }),
        })
    }

    /// Whether what is done there may stand still while this thread is blocked.
    pub(crate) fn is_here(&self) -> bool {
        match &self.own {
            Some(own) => own.is_here(),
            None => Handle::try_current().is_ok_and(|current| current.id() == self.runtime.id()),
        }
    }
}

impl Own {
    fn is_here(&self) -> bool {
        [self.thread, self.reactor.thread()].contains(&thread::current().id())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits, on whatever runtime there is.
pub(crate) async fn sleep_until(deadline: Instant) {
    let sleeping = async { tokio::time::sleep_until(deadline).await };
    if Handle::try_current().is_ok() {
        return sleeping.await;
    }
    match Home::shared() {
        Ok(home) => TokioContext::new(sleeping, home.runtime).await,
        Err(_) => std::future::pending().await,
    }
}
