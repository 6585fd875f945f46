//! The work of a selector on threads of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::leadership::Leadership;
use super::options::LeaderOptions;
use super::selector::{LeaderSelector, outcome_of};
use crate::client::Client;
use crate::error::{Result, WorkError};

impl LeaderSelector {
    /// Starts a candidate whose work blocks, on one thread per term. A candidate that stands again does so when
    /// the work has returned.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath): `path` is not a valid path.
    pub(crate) fn start_on_threads<W>(
        client: &Client,
        path: &str,
        options: &LeaderOptions,
        is_automatic: bool,
        work: W,
    ) -> Result<Self>
    where
        W: FnMut(Leadership) -> Result<(), WorkError> + Send + 'static,
    {
        let work = Arc::new(Mutex::new(work));
        let weak = Arc::downgrade(&work);
        let begin = move |leadership: &Leadership| {
            let (ended, end) = oneshot::channel();
            let (weak, leadership) = (weak.clone(), leadership.clone());
            let thread = thread::Builder::new().name("zk-recipes-leader".into());
            let term = leadership.clone();
            let started = thread.spawn(move || drop(ended.send(lead(leadership, &weak))));
            // Runs in the candidate's own task, and so on the client's runtime.
            tokio::spawn(async move {
                let lost = match started {
                    Ok(_) => match end.await {
                        Ok(ended) => return ended,
                        // The thread always sends, unless dropping the work panics.
                        Err(_) => WorkError::new("its thread has ended"),
                    },
                    Err(error) => WorkError::new(error),
                };
                outcome_of(&term, Ok(Err(lost)))
            })
        };
        Self::start_queueing(client, path, options, is_automatic, begin, work)
    }
}

fn lead<W>(leadership: Leadership, work: &Weak<Mutex<W>>) -> Result<()>
where
    W: FnMut(Leadership) -> Result<(), WorkError>,
{
    // The selector was dropped.
    let Some(work) = work.upgrade() else { return Ok(()) };
    let run = || {
        // Never contended: there is one term at a time.
        let mut work = work.lock();
        leadership.run_blocking(|| work(leadership.clone()))
    };
    let run = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Ok(Err(WorkError::of_panic(panic))));
    outcome_of(&leadership, run)
}
