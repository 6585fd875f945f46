//! The fixed numbers of permits of one client's semaphores, by path.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::client::Client;
use crate::error::{Error, Result};

/// The number of permits of one semaphore object. While it lives, no other object of the client can have a
/// different number at the same path.
#[derive(Debug)]
pub(crate) struct FixedLimit {
    permits: u32,
    /// The full path.
    path: Arc<str>,
    registry: Arc<Registry>,
}

/// For each path, the number of permits and the number of objects.
#[derive(Debug, Default)]
struct Registry(Mutex<HashMap<Arc<str>, (u32, usize)>>);

impl FixedLimit {
    /// # Errors
    /// [`Error::InvalidArgument`] if another object has a different number.
    pub(crate) fn of(client: &Client, path: &Arc<str>, permits: u32) -> Result<Self> {
        let registry: Arc<Registry> = client.extension();
        registry.with(|limits| {
            let (known, objects) = limits.entry(path.clone()).or_insert((permits, 0));
            if *known != permits {
                let reason = format!(
                    "it is {permits} at {path}, where another semaphore object of this client has {known}; \
                     use the same number everywhere, or a SharedCount"
                );
                return Err(Error::InvalidArgument { argument: "permits", reason });
            }
            *objects += 1;
            Ok(())
        })?;
        Ok(Self { permits, path: path.clone(), registry })
    }

    pub(crate) fn permits(&self) -> u32 {
        self.permits
    }
}

impl Registry {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<Arc<str>, (u32, usize)>) -> T) -> T {
        act(&mut self.0.lock())
    }
}

impl Drop for FixedLimit {
    fn drop(&mut self) {
        self.registry.with(|limits| {
            let Some((_, objects)) = limits.get_mut(&self.path) else { return };
            *objects -= 1;
            if *objects == 0 {
                limits.remove(&self.path);
            }
        });
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns how many paths the client has a number for.
    pub(crate) fn known_paths(client: &Client) -> usize {
        client.extension::<Registry>().with(|limits| limits.len())
    }
}
