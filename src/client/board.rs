//! The latest value of something, for watchers who may keep it borrowed.

use std::mem;
use std::sync::Arc;

use tokio::sync::watch;

use super::handle::Client;
use super::latest::Latest;

/// Shows the latest value to watchers. Neither reads nor the writer wait for a borrow of a watcher.
#[derive(Clone, Debug)]
pub(crate) struct Board<T> {
    /// For background work.
    client: Client,
    latest: Arc<Latest<T>>,
    shown: Arc<watch::Sender<T>>,
}

impl<T: Clone + PartialEq + Send + Sync + 'static> Board<T> {
    pub(crate) fn new(client: &Client, value: T) -> Self {
        let latest = Arc::new(Latest::new(value.clone()));
        Self { client: client.detached(), latest, shown: Arc::new(watch::Sender::new(value)) }
    }

    pub(crate) fn show(&self, value: T) {
        if let Some(show) = self.replace(value) {
            self.client.home().tell(show);
        }
    }

    /// Does the same on another thread, for a caller on a thread of the user, who may hold a borrow.
    pub(crate) fn show_from_afar(&self, value: T) {
        if let Some(show) = self.replace(value) {
            self.client.home().tell_from_afar(show);
        }
    }

    /// Returns what has to be done to show the value; `None` if that is on its way already.
    fn replace(&self, value: T) -> Option<impl FnOnce() + Send + use<T>> {
        let (_, is_to_be_shown) = self.latest.replace(value);
        let (latest, shown) = (self.latest.clone(), self.shown.clone());
        is_to_be_shown.then_some(move || {
            // Dropped after the lock is released.
            let mut _before = None;
            shown.send_if_modified(|shown| {
                let value = latest.take(Clone::clone);
                let is_new = value != *shown;
                _before = Some(mem::replace(shown, value));
                is_new
            });
        })
    }

    pub(crate) fn get(&self) -> T {
        self.latest.with(|value| value.clone())
    }

    /// Returns a receiver whose first [`changed`](watch::Receiver::changed) yields the present value.
    pub(crate) fn watch(&self) -> watch::Receiver<T> {
        let mut receiver = self.shown.subscribe();
        receiver.mark_changed();
        receiver
    }

    /// Waits until no one watches any more.
    pub(crate) async fn unwatched(&self) {
        self.shown.closed().await;
    }
}
