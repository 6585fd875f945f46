//! Where a double barrier is, for those that enter, are in, and leave.

use std::sync::Arc;

use zookeeper_client as zk;

use super::decision::READY;
use crate::client::Client;
use crate::error::Error;

/// A double barrier, as its members know it.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) client: Client,
    /// Including the namespace.
    pub(super) path: Arc<str>,
    /// The path of the node that lets the members in.
    pub(super) ready: Arc<str>,
    /// How many members it is for.
    pub(super) members: usize,
}

impl Site {
    pub(super) fn new(client: &Client, path: Arc<str>, members: usize) -> Self {
        let ready = format!("{path}/{READY}").into();
        Self { client: client.clone(), path, ready, members }
    }

    /// Returns a handle for background work, which does not keep the client open.
    pub(super) fn detached(&self) -> Self {
        Self { client: self.client.detached(), ..self.clone() }
    }

    /// Returns the full path of a child.
    pub(super) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    pub(super) fn error(&self, operation: &'static str, source: zk::Error) -> Error {
        Error::ZooKeeper { operation, path: self.path.to_string(), source }
    }
}
