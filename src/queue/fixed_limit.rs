//! The fixed numbers of permits of one client's semaphores, by path.

use std::sync::Arc;

use crate::client::{ByPath, Client};
use crate::error::{Error, Result};

/// The number of permits of the semaphore objects of one client at one path. While one of them lives, no other can have
/// a different number.
#[derive(Debug)]
pub(crate) struct FixedLimit {
    permits: u32,
    /// The full path.
    path: Arc<str>,
    registry: Arc<Limits>,
}

type Limits = ByPath<(), FixedLimit>;

impl FixedLimit {
    /// # Errors
    /// [`Error::InvalidArgument`] if another object has a different number.
    pub(crate) fn of(client: &Client, path: &Arc<str>, permits: u32) -> Result<Arc<Self>> {
        let registry: Arc<Limits> = client.extension();
        let limit =
            registry.share(path, (), || Self { permits, path: path.clone(), registry: registry.clone() });
        if limit.permits == permits {
            return Ok(limit);
        }
        let reason = format!(
            "it is {permits} at {path}, where another semaphore object of this client has {known}; \
             use the same number everywhere, or a SharedCount",
            known = limit.permits
        );
        Err(Error::InvalidArgument { argument: "permits", reason })
    }

    pub(crate) fn permits(&self) -> u32 {
        self.permits
    }
}

impl Drop for FixedLimit {
    fn drop(&mut self) {
        self.registry.forget(&self.path);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns how many paths the client has a number for.
    pub(crate) fn known_paths(client: &Client) -> usize {
        client.extension::<Limits>().paths()
    }
}
