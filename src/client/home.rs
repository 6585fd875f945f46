//! Where a client lives: the runtime of its session, and of all that it does in the background.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use tokio::runtime::{Builder, Handle};
use tokio::time::Instant;
use tokio_util::context::TokioContext;

use crate::error::{Error, Result};

/// A runtime.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    runtime: Handle,
    /// Of the thread that is our own.
    thread: Option<ThreadId>,
}

impl Home {
    /// A thread that is shared by all clients of the process. It is there from the first one on, and costs nothing while
    /// there is none.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`]: the system lets us start no thread.
    pub(crate) fn shared() -> Result<Self> {
        static SHARED: Mutex<Option<Home>> = Mutex::new(None);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
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
        Ok(Self { runtime: handle, thread: Some(thread.thread().id()) })
    }

    /// A runtime of the user's.
    pub(crate) fn of(runtime: Handle) -> Self {
        Self { runtime, thread: None }
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Whether it is a thread of our own, which lives as long as the process.
    pub(super) fn is_ours(&self) -> bool {
        self.thread.is_some()
    }

    /// Shows something to those who watch, who may have borrowed what they see: then it waits, on our own thread in the
    /// background. A user who keeps what was borrowed must not cost others their sessions. What is shown is to be looked up when
    /// this is done: an earlier one may be overtaken.
    pub(crate) fn tell(&self, show: impl FnOnce() + Send + 'static) {
        if self.thread == Some(thread::current().id()) {
            self.runtime.spawn_blocking(show);
        } else {
            show();
        }
    }

    /// The same, and waits until it is shown.
    pub(crate) async fn told(&self, show: impl FnOnce() + Send + 'static) {
        if self.thread == Some(thread::current().id()) {
            // It does not end by itself, nor panic.
            let _ = self.runtime.spawn_blocking(show).await;
        } else {
            show();
        }
    }

    /// Whether what is done there may stand still while this thread is blocked.
    pub(super) fn is_here(&self) -> bool {
        match self.thread {
            Some(thread) => thread == thread::current().id(),
            None => Handle::try_current().is_ok_and(|current| current.id() == self.runtime.id()),
        }
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
