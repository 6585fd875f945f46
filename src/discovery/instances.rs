//! The instances of one service.

use std::ops::Deref;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::instance::ServiceInstance;
use super::wire;
use crate::error::{Error, Result};

/// The instances of one service, sorted by their ids. Dereferences to a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Instances<T = ()> {
    instances: Vec<Arc<ServiceInstance<T>>>,
    unreadable: Vec<Error>,
}

impl<T> Instances<T> {
    /// Returns an error for each node that is no instance, or one with another payload. Such nodes are left out of the
    /// slice. Each is an [`Error::NotAnInstance`], with the path of the node.
    pub fn unreadable(&self) -> &[Error] {
        &self.unreadable
    }
}

impl<T> FromIterator<Result<Arc<ServiceInstance<T>>>> for Instances<T> {
    fn from_iter<I: IntoIterator<Item = Result<Arc<ServiceInstance<T>>>>>(read: I) -> Self {
        let mut instances = Self::default();
        for read in read {
            match read {
                Ok(instance) => instances.instances.push(instance),
                Err(error) => instances.unreadable.push(error),
            }
        }
        instances
    }
}

impl<T> Default for Instances<T> {
    fn default() -> Self {
        Self { instances: Vec::new(), unreadable: Vec::new() }
    }
}

impl<T> Deref for Instances<T> {
    type Target = [Arc<ServiceInstance<T>>];

    fn deref(&self) -> &Self::Target {
        &self.instances
    }
}

/// Reads an instance of the service at `path`.
///
/// # Errors
/// [`Error::NotAnInstance`].
pub(super) fn instance<T: DeserializeOwned>(path: &str, id: &str, data: &[u8]) -> Result<ServiceInstance<T>> {
    let service = path.rsplit('/').next().unwrap_or_default();
    wire::read(data, service, id)
        .map_err(|error| Error::NotAnInstance { path: format!("{path}/{id}"), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_instance_is_told_and_left_out() {
        let nodes: [(&str, &[u8]); 3] = [("a", br#"{"port":1}"#), ("b", b"10.0.0.7"), ("c", b"{}")];
        let read = nodes.map(|(id, data)| instance("/services/orders", id, data).map(Arc::new));
        let instances: Instances = read.into_iter().collect();
        let ids: Vec<_> = instances.iter().map(|instance| instance.id.as_str()).collect();
        assert_eq!(ids, ["a", "c"]);
        assert_eq!(instances[0].name, "orders");
        assert!(matches!(
            instances.unreadable(),
            [Error::NotAnInstance { path, .. }] if path == "/services/orders/b"
        ));
    }
}
