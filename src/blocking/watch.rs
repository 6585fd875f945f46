//! What can be watched.

use std::time::Duration;

use tokio::sync::watch;

use super::wait::{wait, wait_within};
use crate::error::Result;

/// Follows something that changes: always the latest, never a queue of old ones.
///
/// ```no_run
/// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
/// let mut states = client.connection_state();
/// while let Some(state) = states.next()? {
///     println!("{state:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Watch<T> {
    receiver: watch::Receiver<T>,
}

impl<T: Clone> Watch<T> {
    /// What is there now. It does not block.
    pub fn get(&self) -> T {
        self.receiver.borrow().clone()
    }

    /// Waits for the next change, and returns what is there then. The first call returns at once. `None` when nothing
    /// will change any more.
    ///
    /// # Errors
    /// [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    #[expect(clippy::should_implement_trait, reason = "an iterator could not fail")]
    pub fn next(&mut self) -> Result<Option<T>> {
        wait(async {
            let changed = self.receiver.changed().await;
            Ok(changed.is_ok().then(|| self.receiver.borrow_and_update().clone()))
        })
    }

    /// The same for a bounded time; `None` also if nothing has changed in that.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_within(&mut self, within: Duration) -> Result<Option<T>> {
        let changed = wait_within(within, async { Ok(self.receiver.changed().await.is_ok()) })?;
        Ok((changed == Some(true)).then(|| self.receiver.borrow_and_update().clone()))
    }

    /// Whether nothing will change any more.
    pub fn has_ended(&self) -> bool {
        self.receiver.has_changed().is_err()
    }
}

impl<T> From<watch::Receiver<T>> for Watch<T> {
    fn from(receiver: watch::Receiver<T>) -> Self {
        Self { receiver }
    }
}

impl<T> From<Watch<T>> for watch::Receiver<T> {
    fn from(watch: Watch<T>) -> Self {
        watch.receiver
    }
}
