//! Values that users watch.

use std::mem;

use tokio::sync::watch;

use crate::waker::guarded;

/// Follows a value that changes. Always has the latest value, and does not queue earlier ones.
///
/// Values are copies, so a slow reader keeps no one waiting. Each clone follows the value by itself.
///
/// ```no_run
/// # async fn example(client: zk_recipes::Client) {
/// let mut states = client.watch_connection();
/// while let Some(state) = states.changed().await {
///     println!("{state:?}");
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct Watch<T>(watch::Receiver<T>);

debug_by!(<T: std::fmt::Debug> Watch<T>, |it| value: *it.0.borrow());

impl<T: Clone> Watch<T> {
    /// The first [`changed`](Self::changed) returns the present value.
    fn of(mut receiver: watch::Receiver<T>) -> Self {
        receiver.mark_changed();
        Self(receiver)
    }

    /// Follows the same value, from its present one on.
    pub(crate) fn anew(&self) -> Self {
        Self::of(self.0.clone())
    }

    /// Returns the current value.
    pub fn get(&self) -> T {
        self.0.borrow().clone()
    }

    /// Waits until the value has changed since the last call, and returns it. The first call returns immediately. Returns
    /// `None` when the value can no longer change; a handle of what it follows, such as a client, may keep it open.
    ///
    /// # Cancel safety
    /// Cancel safe: no change is missed.
    pub async fn changed(&mut self) -> Option<T> {
        guarded(self.0.changed()).await.ok()?;
        Some(self.0.borrow_and_update().clone())
    }

    /// Waits until the value is as wanted, and returns it; immediately if it is. Returns `None` when the value can no
    /// longer change.
    ///
    /// # Cancel safety
    /// Cancel safe. Values that were seen do not count as changes afterwards.
    pub async fn wait_for(&mut self, mut is_wanted: impl FnMut(&T) -> bool) -> Option<T> {
        loop {
            let value = self.0.borrow_and_update().clone();
            if is_wanted(&value) {
                return Some(value);
            }
            guarded(self.0.changed()).await.ok()?;
        }
    }

    /// Returns whether the value can no longer change.
    pub fn has_ended(&self) -> bool {
        self.0.has_changed().is_err()
    }
}

/// The value of a [`Watch`], and of all its clones. When the last clone of this is dropped, it can no longer change.
#[derive(Clone, Debug)]
pub(crate) struct Watched<T>(watch::Sender<T>);

impl<T: Clone> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(watch::Sender::new(value))
    }

    pub(crate) fn get(&self) -> T {
        self.0.borrow().clone()
    }

    /// Shows a value. It is a change unless it equals the one before.
    pub(crate) fn show(&self, value: T)
    where
        T: PartialEq,
    {
        self.show_if(|before| Some((value != *before, value)));
    }

    /// Shows the value that `next` makes of the one before, if any, as a change if `next` says so.
    pub(crate) fn show_if(&self, next: impl FnOnce(&T) -> Option<(bool, T)>) {
        // Dropped after the lock is released.
        let mut _before = None;
        self.0.send_if_modified(|shown| {
            let Some((is_change, value)) = next(shown) else { return false };
            _before = Some(mem::replace(shown, value));
            is_change
        });
    }

    pub(crate) fn watch(&self) -> Watch<T> {
        Watch::of(self.receiver())
    }

    /// For the library itself, which keeps no value borrowed.
    pub(crate) fn receiver(&self) -> watch::Receiver<T> {
        self.0.subscribe()
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Waits until no one watches.
    pub(crate) async fn unwatched(&self) {
        self.0.closed().await;
    }
}
