//! The instances of one service.

use std::ops::Deref;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::instance::ServiceInstance;
use super::plain::plain;
use super::wire;
use crate::client::Room;
use crate::error::{Error, Result};

/// In characters.
const LONGEST_REASON: usize = 200;

/// The instances of one service, sorted by their ids. Dereferences to a slice.
///
/// An instance may have 64 KiB, and all those that are compressed, as by clients that
/// [compress](crate::ClientBuilder::enable_compression), 64 MiB together before compression. What is larger is
/// [left out](Self::unreadable).
#[derive(Clone, PartialEq)]
pub struct Instances<T = ()> {
    instances: Vec<Arc<ServiceInstance<T>>>,
    unreadable: Vec<Error>,
}

debug_by!(<T: std::fmt::Debug> Instances<T>, |it| instances: it.instances, unreadable: it.unreadable);

impl<T> Instances<T> {
    /// Returns an error for each node that is no instance, or one with another payload, is too large, or may not be read.
    /// Such nodes are left out of the slice. Each is an [`Error::NotAnInstance`], with the path of the node.
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
        // They come by the names of their nodes, which others may have given other names than the id.
        instances.instances.sort_by(|one, other| one.id.cmp(&other.id));
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

/// Reads an instance of the service at `path`. `data` is `None` for a node that may not be read.
///
/// # Errors
/// [`Error::NotAnInstance`].
pub(super) fn instance<T: DeserializeOwned>(
    path: &str,
    id: &str,
    data: Option<&[u8]>,
    room: &mut Room,
) -> Result<ServiceInstance<T>> {
    let service = path.rsplit('/').next().unwrap_or_default();
    let read = |data| {
        let data = plain(data, room)?;
        // The error may quote the data.
        wire::read(&data, service, id)
            .map_err(|error| error.to_string().chars().take(LONGEST_REASON).collect())
    };
    let missing = || Err("the permission to read it is missing".to_owned());
    data.map_or_else(missing, read)
        .map_err(|reason| Error::NotAnInstance { path: format!("{path}/{id}"), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_instance_is_told_and_left_out() {
        let long = format!(r#"{{"port":"{}"}}"#, "x".repeat(1000));
        let type_of_other = format!(r#"{{"serviceType":"{}"}}"#, "x".repeat(1000));
        let nodes = [
            ("a", Some(r#"{"port":1}"#)),
            ("b", Some("10.0.0.7")),
            ("c", Some("{}")),
            ("d", None),
            ("e", Some(&*long)),
            ("f", Some(&*type_of_other)),
        ];
        let mut room = Room::default();
        let read = nodes.map(|(id, data)| {
            instance("/services/orders", id, data.map(str::as_bytes), &mut room).map(Arc::new)
        });
        let instances: Instances = read.into_iter().collect();
        let ids: Vec<_> = instances.iter().map(|instance| instance.id.as_str()).collect();
        assert_eq!(ids, ["a", "c"]);
        assert_eq!(instances[0].name, "orders");
        let paths = instances.unreadable().iter().map(|error| match error {
            Error::NotAnInstance { path, reason } if reason.len() <= LONGEST_REASON => path.as_str(),
            other => panic!("{other:?}"),
        });
        let expected = ["b", "d", "e", "f"].map(|id| format!("/services/orders/{id}"));
        assert_eq!(paths.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn they_are_sorted_by_their_ids() {
        let read = [("x", "b"), ("y", "a")].map(|(node, id)| {
            let data = format!(r#"{{"id":"{id}"}}"#);
            instance("/services/orders", node, Some(data.as_bytes()), &mut Room::default()).map(Arc::new)
        });
        let instances: Instances = read.into_iter().collect();
        assert_eq!(instances.iter().map(|instance| instance.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
