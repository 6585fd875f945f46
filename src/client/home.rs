//! The runtime of a client's session and of all its background work.

use std::io;
use std::panic::catch_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use async_io::Timer;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::context::TokioContext;

use crate::error::{Error, Result};
use crate::waker::{alone, guarded};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The runtime of a client.
#[derive(Clone)]
pub(crate) struct Home {
    runtime: Handle,
    /// `Some` if the runtime is our own.
    own: Option<Own>,
    wrapper: Option<Wrapper>,
}

/// The one that clients share.
static SHARED: Mutex<Option<Home>> = Mutex::new(None);

/// What the user makes of each task.
#[derive(Clone)]
pub(crate) struct Wrapper(Arc<dyn Fn(Task) -> Task + Send + Sync>);

/// Two threads of our own, for the life of the process: the one of the runtime, and one that serves the connections.
///
/// `zookeeper-client` waits for its sockets through `async-io`, on any runtime. By default a thread of that crate
/// does the waiting and wakes the thread that serves the connection. If a thread waits in `async_io::block_on`, as
/// the second one does, that thread does the waiting itself; so each reply wakes one thread less.
#[derive(Clone)]
struct Own {
    threads: [ThreadId; 2],
    connections: mpsc::UnboundedSender<Task>,
}

/// A connection that is being served. Dropping this ends it.
pub(super) struct Served(AbortHandle);

impl Home {
    /// Returns the two threads that all clients of the process share: one for their connections, one for everything
    /// else. The first client starts them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the system cannot start a thread, or has no files left.
    pub(crate) fn shared() -> Result<Self> {
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

    fn start() -> io::Result<Self> {
        // The reactor of `async-io` is made by the first who needs it. If no files are left, that panics, and the thread of that
        // crate ends for good. So a runtime is made before, which needs no fewer files, and fails with an error.
        Builder::new_current_thread().enable_all().build()?.shutdown_background();
        catch_unwind(|| async_io::block_on(Timer::after(Duration::from_millis(1))))
            .map_err(|_| io::Error::other("no file is left to wait for sockets"))?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name("zk-recipes".into());
        let thread = thread.spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        let (connections, given) = mpsc::unbounded_channel();
        let io_thread = thread::Builder::new().name("zk-recipes-io".into());
        let io_thread = io_thread.spawn(|| async_io::block_on(serve_all(given)))?;
        let own = Own { threads: [thread.thread().id(), io_thread.thread().id()], connections };
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
            // A task that panics ends alone, and the thread continues.
            Some(own) => {
                let _ = own.connections.send(Box::pin(alone(connection)));
            }
            None => drop(self.spawn(connection)),
        }
        Served(handle)
    }

    /// Runs `act`, which users may block. A blocked thread of ours would cost all clients their sessions.
    pub(crate) async fn run_blocking(&self, act: impl FnOnce() + Send + 'static) {
        /// Of the 512 of the runtime, which look up host names as well.
        const MOST_THREADS: usize = 256;
        static THREADS: Semaphore = Semaphore::const_new(MOST_THREADS);

        if self.is_ours() {
            let _thread = THREADS.acquire().await;
            // It is never aborted, and does not panic.
            let _ = self.runtime.spawn_blocking(act).await;
        } else {
            act();
        }
    }

    /// Whether blocking this thread may stop the work of this runtime, or of the clients that share our threads: a waker
    /// of one client may drop another one.
    pub(crate) fn is_here(&self) -> bool {
        let is_ours = SHARED.lock().as_ref().and_then(|home| home.own.as_ref()).is_some_and(Own::is_here);
        is_ours || Handle::try_current().is_ok_and(|current| current.id() == self.runtime.id())
    }
}

impl Own {
    fn is_here(&self) -> bool {
        self.threads.contains(&thread::current().id())
    }
}

impl Wrapper {
    pub(super) fn new(wrap: impl Fn(Task) -> Task + Send + Sync + 'static) -> Self {
        Self(Arc::new(wrap))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve_all(mut given: mpsc::UnboundedReceiver<Task>) {
    let mut tasks = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(task) = given.recv() => tasks.push(task),
            Some(()) = tasks.next() => {}
            else => return,
        }
    }
}

/// Waits until the deadline, whatever runtime the caller is on.
pub(crate) async fn sleep_until(deadline: Instant) {
    let sleeping = async { tokio::time::sleep_until(deadline).await };
    if Handle::try_current().is_ok() {
        return sleeping.await;
    }
    match Home::shared() {
        Ok(home) => guarded(TokioContext::new(sleeping, home.runtime)).await,
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_connection_that_panics_ends_alone() {
        let home = Home::start().unwrap();
        let _panics = home.serve(async { panic!("as it is meant to") });
        let (done, is_done) = mpsc::channel();
        let _served = home.serve(async move { done.send(thread::current().id()).unwrap() });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(30)), Ok(home.own.unwrap().threads[1]));
    }
}
