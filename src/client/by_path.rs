//! What the users of one path share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Values by path and by a key of each, for as long as someone has them.
#[derive(Debug)]
pub(crate) struct ByPath<K, T>(Mutex<HashMap<Arc<str>, Values<K, T>>>);

type Values<K, T> = Vec<(K, Weak<T>)>;

impl<K: PartialEq, T> ByPath<K, T> {
    /// Returns the value that everyone shares; makes it if no one has it.
    pub(crate) fn share(&self, path: &Arc<str>, key: K, make: impl FnOnce() -> T) -> Arc<T> {
        let mut paths = self.0.lock();
        let here = paths.entry(path.clone()).or_default();
        let known = here.iter().find(|(known, _)| *known == key);
        if let Some(known) = known.and_then(|(_, value)| value.upgrade()) {
            return known;
        }
        let made = Arc::new(make());
        here.retain(|(known, _)| *known != key);
        here.push((key, Arc::downgrade(&made)));
        made
    }

    /// Returns the values at this path.
    pub(crate) fn at(&self, path: &str) -> Vec<Arc<T>> {
        // None is dropped under the lock, which its drop takes as well.
        let paths = self.0.lock();
        paths.get(path).into_iter().flatten().filter_map(|(_, value)| value.upgrade()).collect()
    }

    /// Forgets what no one has any more. To be called as such a value is dropped.
    pub(crate) fn forget(&self, path: &str) {
        let mut paths = self.0.lock();
        if let Some(here) = paths.get_mut(path) {
            here.retain(|(_, value)| value.strong_count() > 0);
            if here.is_empty() {
                paths.remove(path);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn paths(&self) -> usize {
        self.0.lock().len()
    }
}

impl<K, T> Default for ByPath<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
