//! The runtime of a client's session and of all its background work.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use futures_util::FutureExt;
use futures_util::future::{AbortHandle, Abortable};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::context::TokioContext;

use super::reactor::{Reactor, Task};
use crate::error::{Error, Result};

/// The runtime of a client.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    runtime: Handle,
    /// `Some` if the runtime is our own.
    own: Option<Own>,
    wrapper: Option<Wrapper>,
}

/// What the user makes of each task.
#[derive(Clone)]
pub(crate) struct Wrapper(Arc<dyn Fn(Task) -> Task + Send + Sync>);

#[derive(Clone, Debug)]
struct Own {
    /// The thread of the runtime.
    thread: ThreadId,
    reactor: Reactor,
}

/// A connection that is being served. Dropping this ends it.
#[derive(Debug)]
pub(super) struct Served(AbortHandle);

impl Home {
    /// Returns the two threads that all clients of the process share: one for their connections, one for everything
    /// else. The first client starts them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the system cannot start a thread.
    pub(crate) fn shared() -> Result<Self> {
        static SHARED: Mutex<Option<Home>> = Mutex::new(None);
        let mut shared = SHARED.lock();
        if let Some(home) = &*shared {
            return Ok(home.clone());
        }
        let home = Self::start().map_err(|error| Error::InvalidArgument {
            argument: "runtime",
            reason: format!(
                "cannot start a thread for the clients: {error}; provide a runtime with `ClientBuilder::runtime`"
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
        Ok(Self { runtime: handle, own: Some(own), wrapper: None })
    }

    /// Wraps a runtime of the user.
    pub(crate) fn of(runtime: Handle, wrapper: Option<Wrapper>) -> Self {
        Self { runtime, own: None, wrapper }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Spawns a task of the client.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        match &self.wrapper {
            Some(Wrapper(wrap)) => self.runtime.spawn(wrap(Box::pin(task))),
            None => self.runtime.spawn(task),
        }
    }

    /// Spawns a task of the user's, on a runtime of the user.
    pub(crate) fn spawn_on<T: Send + 'static>(
        &self,
        runtime: &Handle,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let Some(Wrapper(wrap)) = self.wrapper.clone() else { return runtime.spawn(task) };
        let (done, result) = oneshot::channel();
        let task = wrap(Box::pin(async move { drop(done.send(task.await)) }));
        runtime.spawn(async move {
            task.await;
            match result.await {
                Ok(result) => result,
                // It was dropped by its wrapper, and its process with it.
                Err(_) => std::future::pending().await,
            }
        })
    }

    /// Whether the runtime is our own, which lives as long as the process.
    pub(super) fn is_ours(&self) -> bool {
        self.own.is_some()
    }

    /// Serves a connection.
    pub(super) fn serve(&self, connection: impl Future<Output = ()> + Send + 'static) -> Served {
        let (handle, registration) = AbortHandle::new_pair();
        let connection = Abortable::new(connection, registration).map(drop);
        match &self.own {
            Some(own) => own.reactor.spawn(connection),
            None => drop(self.spawn(connection)),
        }
        Served(handle)
    }

    /// Runs `act`, which users may block. A blocked thread of ours would cost all clients their sessions.
    pub(crate) async fn run_blocking(&self, act: impl FnOnce() + Send + 'static) {
        if self.is_ours() {
            // It is never aborted, and does not panic.
            let _ = self.runtime.spawn_blocking(act).await;
        } else {
            act();
        }
    }

    /// Whether blocking this thread may stop the work of this runtime.
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

impl Wrapper {
    pub(super) fn new(wrap: impl Fn(Task) -> Task + Send + Sync + 'static) -> Self {
        Self(Arc::new(wrap))
    }
}

impl fmt::Debug for Wrapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wrapper").finish_non_exhaustive()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until the deadline, whatever runtime the caller is on.
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
