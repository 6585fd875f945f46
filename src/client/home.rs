//! Where a client lives: the runtime of its session, and of all that it does in the background.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use tokio::runtime::{Builder, Handle};

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

    /// Whether what is done there may stand still while this thread is blocked.
    pub(super) fn is_here(&self) -> bool {
        match self.thread {
            Some(thread) => thread == thread::current().id(),
            None => Handle::try_current().is_ok_and(|current| current.id() == self.runtime.id()),
        }
    }
}
