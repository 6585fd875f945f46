//! An instance that this process has registered.

use std::mem;
use std::sync::Arc;

use serde::Serialize;

use super::instance::{ServiceInstance, ServiceType};
use super::plain::LONGEST;
use super::wire;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::nodes::{NodeState, OnStranger, PersistentNode, PersistentNodeOptions};
use crate::watch::Watch;

/// An instance that this process has registered, for as long as this value lives. From
/// [`ServiceDiscovery::register`](super::ServiceDiscovery::register).
///
/// When the connection or the session is lost, or someone deletes the node, the instance is registered again. A
/// reconnect within the session does not change the node, so that clients notice nothing. What others write into the node
/// is replaced, unless the instance is [static](ServiceType::Static).
#[must_use = "if unused, the instance is unregistered at once"]
pub struct Registration<T = ()> {
    node: PersistentNode,
    instance: ServiceInstance<T>,
    class: Option<Arc<str>>,
}

debug_by!(<T> Registration<T>, |it| path: it.node.path(), state: it.node.state());

impl<T: Serialize> Registration<T> {
    pub(super) async fn start(
        client: &Client,
        path: &str,
        instance: ServiceInstance<T>,
        class: Option<Arc<str>>,
    ) -> Result<Self> {
        let data = write(&instance, class.as_deref())?;
        let options = PersistentNodeOptions::new().on_stranger(OnStranger::Wait);
        let node = match instance.service_type {
            ServiceType::Dynamic => PersistentNode::start(client, path, data, options)?,
            // No session owns it, by which to tell ours from that of another process.
            ServiceType::Static | ServiceType::Permanent => {
                PersistentNode::start_unless_taken(client, path, data, options, wire::is_same)?
            }
            ServiceType::DynamicSequential => {
                let reason =
                    "the node of such an instance cannot be found by its id; use `Dynamic`".to_owned();
                return Err(Error::InvalidArgument { argument: "service type", reason });
            }
        };
        node.wait_present().await?;
        Ok(Self { node, instance, class })
    }

    /// Describes the instance anew, and waits until that is registered. Two round trips.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the name, the id or the type is another one, the payload cannot be written as JSON,
    ///   or the instance has more than 64 KiB. What is registered stays.
    /// - [`Error::ZooKeeper`]: the servers refuse. It is written when they accept it.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// While the node of a [static](ServiceType::Static) instance has the description of someone else, this waits.
    ///
    /// # Cancel safety
    /// From the first poll on, the new description is the one that is registered, even if this is dropped.
    pub async fn update(&mut self, instance: ServiceInstance<T>) -> Result<()> {
        let data = write(&instance, self.class.as_deref())?;
        let is_same = self.instance.name == instance.name
            && self.instance.id == instance.id
            && self.instance.service_type == instance.service_type;
        if !is_same {
            let reason = "its name, id and type must be those that are registered; register another one";
            return Err(Error::InvalidArgument { argument: "instance", reason: reason.to_owned() });
        }
        let before = mem::replace(&mut self.instance, instance);
        let updated = self.node.set_data(data).await;
        if matches!(updated, Err(Error::InvalidArgument { .. })) {
            self.instance = before;
        }
        updated
    }

    /// Unregisters the instance, and waits until that is done, as [`PersistentNode::close`](crate::nodes::PersistentNode::close)
    /// does. Dropping the value does the same in the background. Two round trips.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the servers refuse. Unless it is static, the instance is gone when the session ends.
    /// - [`Error::Closed`]: the client was closed, by which the instance was unregistered.
    ///
    /// # Cancel safety
    /// It goes on in the background.
    pub async fn unregister(self) -> Result<()> {
        self.node.close().await
    }
}

impl<T> Registration<T> {
    /// Returns the instance as it was described last.
    pub fn instance(&self) -> &ServiceInstance<T> {
        &self.instance
    }

    /// Follows the state of the node, by which a process can tell whether it is registered at the moment.
    /// See [`PersistentNode::watch_state`].
    pub fn watch_state(&self) -> Watch<NodeState> {
        self.node.watch_state()
    }
}

fn write<T: Serialize>(instance: &ServiceInstance<T>, class: Option<&str>) -> Result<Vec<u8>> {
    let data = wire::write(instance, class).map_err(|error| {
        let reason = format!("it cannot be written as JSON: {error}");
        Error::InvalidArgument { argument: "payload", reason }
    })?;
    if data.len() > LONGEST {
        let reason = format!("it has {} bytes, and readers take at most {LONGEST}; give less", data.len());
        return Err(Error::InvalidArgument { argument: "instance", reason });
    }
    Ok(data)
}
