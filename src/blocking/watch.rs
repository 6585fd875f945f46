//! Watching a value that changes, on a thread without a runtime.

use std::time::Duration;

use futures_util::FutureExt;

use super::wait::{wait, wait_within};
use crate::error::Result;
use crate::watch::Watch;

impl<T: Clone> Watch<T> {
    /// Like [`changed`](Self::changed), but blocks the thread.
    ///
    /// ```no_run
    /// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
    /// let mut states = client.watch_connection();
    /// while let Some(state) = states.blocking_changed()? {
    ///     println!("{state:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn blocking_changed(&mut self) -> Result<Option<T>> {
        wait(self.changed().map(Ok))
    }

    /// Like [`blocking_changed`](Self::blocking_changed), for at most `within`. Returns `None` also if the value has not
    /// changed within that time.
    ///
    /// # Errors
    /// Same as [`blocking_changed`](Self::blocking_changed).
    pub fn blocking_changed_within(&mut self, within: Duration) -> Result<Option<T>> {
        Ok(wait_within(within, self.changed().map(Ok))?.flatten())
    }
}
