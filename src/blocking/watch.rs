//! Watching a value that changes.

use std::time::Duration;

use tokio::sync::watch;

use super::wait::{wait, wait_within};
use crate::error::Result;

/// Follows a value that changes. Always shows the latest value, and does not queue earlier ones.
///
/// ```no_run
/// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
/// let mut states = client.watch_connection();
/// while let Some(state) = states.next()? {
///     println!("{state:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Watch<T> {
    receiver: watch::Receiver<T>,
}

debug_by!(<T: std::fmt::Debug> Watch<T>, |it| value: *it.receiver.borrow());

impl<T: Clone> Watch<T> {
    /// Returns the current value. Does not block.
    pub fn get(&self) -> T {
        self.receiver.borrow().clone()
    }

    /// Blocks the thread until the next change, and returns the value. The first call returns immediately. Returns
    /// `None` when the value can no longer change.
    ///
    /// # Errors
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not fail")]
    pub fn next(&mut self) -> Result<Option<T>> {
        wait(async {
            let changed = self.receiver.changed().await;
            Ok(changed.is_ok().then(|| self.receiver.borrow_and_update().clone()))
        })
    }

    /// Like [`next`](Self::next), for at most `within`. Returns `None` also if the value has not changed within
    /// that time.
    ///
    /// # Errors
    /// Same as [`next`](Self::next).
    pub fn next_within(&mut self, within: Duration) -> Result<Option<T>> {
        let changed = wait_within(within, async { Ok(self.receiver.changed().await.is_ok()) })?;
        Ok((changed == Some(true)).then(|| self.receiver.borrow_and_update().clone()))
    }

    /// Returns whether the value can no longer change.
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
