//! The services below one path.

use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zookeeper_client as zk;

use super::instance::ServiceInstance;
use super::instances::{self, Instances};
use super::plain::LONGEST;
use super::registration::Registration;
use super::service_cache::ServiceCache;
use crate::client::{Client, Room, Session};
use crate::cut::cut;
use crate::error::{Error, Result};
use crate::failure::if_exists;

/// How many instances are read at once.
const AT_ONCE: usize = 100;

/// The services below one path: registers instances, and finds those of others.
///
/// `T` is the payload of the instances, any type that serde writes and reads; `()` if there is none. All handles for the
/// same path should have the same payload. Cheap to clone.
///
/// ```no_run
/// use zk_recipes::Client;
/// use zk_recipes::discovery::{ServiceDiscovery, ServiceInstance};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let services = ServiceDiscovery::<()>::new(&client, "/services")?;
/// let instance = ServiceInstance::new("orders").address("10.0.0.7").port(8080);
/// let registration = services.register(instance).await?;
/// # async fn serve() {}
/// serve().await;
/// registration.unregister().await
/// # }
/// ```
///
/// Source: Curator's `ServiceDiscovery`.
pub struct ServiceDiscovery<T = ()> {
    pub(super) client: Client,
    /// Below the namespace of the client; empty for its root.
    base: Arc<str>,
    class: Option<Arc<str>>,
    payload: PhantomData<fn() -> T>,
}

debug_by!(<T> ServiceDiscovery<T>, |it| base: it.base);

impl<T> ServiceDiscovery<T> {
    /// Creates a handle on the services below `base`, below the client's namespace. Sends nothing.
    ///
    /// With the base `/`, every node in the namespace is a service; without a namespace, also `zookeeper`.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `base` is not a valid path.
    pub fn new(client: &Client, base: &str) -> Result<Self> {
        client.full_path_or_root(base)?;
        let base = if base == "/" { "" } else { base };
        Ok(Self { client: client.clone(), base: base.into(), class: None, payload: PhantomData })
    }

    /// Sets the Java class of the payload, such as `com.acme.Payload`. It is written into payloads that are objects,
    /// because Java services need it to read them. It is not needed to read those of Java services: the class is left out
    /// there, also that of a payload that is no object, as in `["java.lang.Long",5]`.
    #[must_use]
    pub fn payload_class(mut self, class: &str) -> Self {
        self.class = Some(class.into());
        self
    }

    /// Returns the path of a service, below the client's namespace.
    ///
    /// # Errors
    /// The name cannot be that of a node.
    pub(super) fn path_of(&self, service: &str) -> Result<String> {
        self.child(&self.base, "service name", service)
    }

    fn child(&self, parent: &str, what: &'static str, name: &str) -> Result<String> {
        if name.is_empty() || name.contains('/') {
            let reason =
                format!("{:?} is not the name of a node; it must not be empty or contain '/'", cut(name));
            return Err(Error::InvalidArgument { argument: what, reason });
        }
        let path = format!("{parent}/{name}");
        match self.client.full_path(&path) {
            Ok(_) => Ok(path),
            Err(Error::InvalidPath { reason, .. }) => {
                let reason = format!("{:?} is not the name of a node: {reason}", cut(name));
                Err(Error::InvalidArgument { argument: what, reason })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the names of all services, sorted, also of those without instances. One round trip.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the services cannot be listed.
    /// - [`Error::NotConnected`]: the servers cannot be reached.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn names(&self) -> Result<Vec<String>> {
        let base = if self.base.is_empty() { "/" } else { &self.base };
        let path = &self.client.full_path_or_root(base)?;
        let names = self.client.request("list the services at", path, |session| async move {
            if_exists(session.synced(path, session.list(path)).await)
        });
        let mut names = self.client.unless_closed(names).await?.unwrap_or_default();
        names.sort_unstable();
        Ok(names)
    }
}

impl<T: Serialize + DeserializeOwned> ServiceDiscovery<T> {
    /// Registers an instance, and waits until that is done. It stays registered as long as the returned value lives, over
    /// lost connections and ended sessions.
    ///
    /// If another session has registered an instance with this id, this waits until that is gone. It may be that of an
    /// earlier run of this process, whose session ends soon. Use `tokio::time::timeout` to limit that. An instance that
    /// belongs to no session is waited for if it is [described in another way](super::ServiceType::Static). Costs one
    /// round trip.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the name or the id cannot be that of a node, the payload cannot be written as JSON,
    ///   the instance has more than 64 KiB, its type is
    ///   [`DynamicSequential`](super::ServiceType::DynamicSequential), or this client has registered the id already.
    /// - [`Error::ZooKeeper`]: the servers refuse, for example because permission is missing.
    /// - [`Error::Closed`], [`Error::AuthFailed`], [`Error::SessionOver`]: there will be no session.
    ///
    /// # Cancel safety
    /// The instance is unregistered in the background.
    pub async fn register(&self, instance: ServiceInstance<T>) -> Result<Registration<T>> {
        let path = self.child(&self.path_of(&instance.name)?, "instance id", &instance.id)?;
        Registration::start(&self.client, &path, instance, self.class.clone()).await
    }

    /// Starts to keep the instances of a service in memory. Returns immediately; see
    /// [`ServiceCache::wait_loaded`](super::ServiceCache::wait_loaded).
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the name cannot be that of a node.
    /// - [`Error::Closed`]: the client is closed.
    pub fn cache(&self, service: &str) -> Result<ServiceCache<T>> {
        ServiceCache::new(&self.client, &self.path_of(service)?)
    }

    /// Returns the instances of a service; none if nothing is registered under that name. Two round trips, and one more
    /// for each hundred instances.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the name cannot be that of a node.
    /// - Those of [`names`](Self::names).
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn instances(&self, service: &str) -> Result<Instances<T>> {
        let path = &self.client.full_path(&self.path_of(service)?)?;
        let read = self
            .client
            .request("read the instances at", path, |session| async move { read_all(&session, path).await });
        let nodes = self.client.unless_closed(read).await?;
        let mut room = Room::default();
        let instance = |(id, data): &(String, NodeData)| {
            instances::instance(path, id, data.as_deref(), &mut room).map(Arc::new)
        };
        Ok(nodes.iter().map(instance).collect())
    }

    /// Returns one instance; `None` if it is not registered. One round trip.
    ///
    /// # Errors
    /// - [`Error::NotAnInstance`]: the node holds something else, or may not be read.
    /// - [`Error::InvalidArgument`]: the name or the id cannot be that of a node.
    /// - Those of [`names`](Self::names).
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn instance(&self, service: &str, id: &str) -> Result<Option<ServiceInstance<T>>> {
        let service = self.path_of(service)?;
        let path = &self.client.full_path(&self.child(&service, "instance id", id)?)?;
        let read = self.client.request("read the instance at", path, |session| async move {
            session.synced(path, data(&session, path)).await
        });
        let Some(data) = self.client.unless_closed(read).await? else { return Ok(None) };
        let service = self.client.full_path(&service)?;
        instances::instance(&service, id, data.as_deref(), &mut Room::default()).map(Some)
    }
}

impl<T> Clone for ServiceDiscovery<T> {
    fn clone(&self) -> Self {
        let Self { client, base, class, payload } = self;
        Self { client: client.clone(), base: base.clone(), class: class.clone(), payload: *payload }
    }
}

/// The data of a node; `None` if it may not be read.
type NodeData = Option<Vec<u8>>;

/// Reads a node that may not exist.
async fn data(session: &Session, path: &str) -> Result<Option<NodeData>, zk::Error> {
    match session.data(path).await {
        Ok((mut data, _)) => {
            // What is longer is no instance, and is not to take memory until that is noticed.
            data.truncate(LONGEST + 1);
            data.shrink_to_fit();
            Ok(Some(Some(data)))
        }
        Err(zk::Error::NoAuth) => Ok(Some(None)),
        Err(zk::Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the children of a node that may not exist, with their names.
async fn read_all(session: &Session, path: &str) -> Result<Vec<(String, NodeData)>, zk::Error> {
    let mut ids = if_exists(session.synced(path, session.list(path)).await)?.unwrap_or_default();
    ids.sort_unstable();
    let mut nodes = Vec::with_capacity(ids.len());
    for ids in ids.chunks(AT_ONCE) {
        let reads = ids.iter().map(|id| async move { data(session, &format!("{path}/{id}")).await });
        for (id, data) in ids.iter().zip(join_all(reads).await) {
            // One that is gone since is left out.
            nodes.extend(data?.map(|data| (id.clone(), data)));
        }
    }
    Ok(nodes)
}
