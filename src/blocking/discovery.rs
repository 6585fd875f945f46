//! Service discovery, for threads. See [`discovery`](crate::discovery).
//!
//! A [`ServiceProvider`](crate::discovery::ServiceProvider) does not block, so it has no twin: make it of a
//! [`ServiceCache`] by `into`.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::client::Client;
use super::wait::{wait, wait_within};
use crate::cache::CacheState;
use crate::discovery::{Instances, ServiceInstance};
use crate::error::Result;
use crate::nodes::NodeState;
use crate::watch::Watch;

/// The services below one path. The blocking twin of [`ServiceDiscovery`](crate::discovery::ServiceDiscovery).
///
/// ```no_run
/// # fn example(client: zk_recipes::blocking::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::blocking::discovery::ServiceDiscovery;
/// use zk_recipes::discovery::{ServiceInstance, ServiceProvider};
///
/// let services = ServiceDiscovery::<()>::new(&client, "/services")?;
/// let instance = ServiceInstance::new("orders").address("10.0.0.7").port(8080);
/// let registration = services.register(instance)?;
///
/// let payments = services.cache("payments")?;
/// payments.wait_loaded()?;
/// let payments = ServiceProvider::new(payments.into());
/// println!("{:?}", payments.pick());
/// registration.unregister()
/// # }
/// ```
pub struct ServiceDiscovery<T = ()> {
    inner: crate::discovery::ServiceDiscovery<T>,
}

debug_as_inner!(<T> ServiceDiscovery<T>);

/// An instance that this process has registered. The blocking twin of [`Registration`](crate::discovery::Registration).
#[must_use = "if unused, the instance is unregistered at once"]
pub struct Registration<T = ()> {
    inner: crate::discovery::Registration<T>,
}

debug_as_inner!(<T> Registration<T>);

/// The instances of one service, kept up to date in memory. The blocking twin of
/// [`ServiceCache`](crate::discovery::ServiceCache).
pub struct ServiceCache<T = ()> {
    inner: crate::discovery::ServiceCache<T>,
}

debug_as_inner!(<T> ServiceCache<T>);

impl<T> ServiceDiscovery<T> {
    /// Creates a handle on the services below `base`. Does not block. See
    /// [`ServiceDiscovery::new`](crate::discovery::ServiceDiscovery::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, base: &str) -> Result<Self> {
        crate::discovery::ServiceDiscovery::new(&client.inner, base).map(|inner| Self { inner })
    }

    /// Sets the Java class of the payload. See
    /// [`ServiceDiscovery::payload_class`](crate::discovery::ServiceDiscovery::payload_class).
    #[must_use]
    pub fn payload_class(self, class: &str) -> Self {
        Self { inner: self.inner.payload_class(class) }
    }

    /// Blocks the thread to list the services. The blocking version of
    /// [`ServiceDiscovery::names`](crate::discovery::ServiceDiscovery::names).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn names(&self) -> Result<Vec<String>> {
        wait(self.inner.names())
    }
}

impl<T: Serialize + DeserializeOwned> ServiceDiscovery<T> {
    /// Registers an instance, blocking the thread until that is done. The blocking version of
    /// [`ServiceDiscovery::register`](crate::discovery::ServiceDiscovery::register).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn register(&self, instance: ServiceInstance<T>) -> Result<Registration<T>> {
        wait(self.inner.register(instance)).map(|inner| Registration { inner })
    }

    /// Registers an instance, blocking the thread for at most `within`. Returns `None` if it is not registered by then,
    /// for example because another session has registered its id.
    ///
    /// # Errors
    /// Same as [`register`](Self::register).
    pub fn register_within(
        &self,
        instance: ServiceInstance<T>,
        within: Duration,
    ) -> Result<Option<Registration<T>>> {
        let registered = wait_within(within, self.inner.register(instance))?;
        Ok(registered.map(|inner| Registration { inner }))
    }

    /// Starts to keep the instances of a service in memory. Does not block. See
    /// [`ServiceDiscovery::cache`](crate::discovery::ServiceDiscovery::cache).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn cache(&self, service: &str) -> Result<ServiceCache<T>> {
        self.inner.cache(service).map(|inner| ServiceCache { inner })
    }

    /// Blocks the thread to read the instances of a service. The blocking version of
    /// [`ServiceDiscovery::instances`](crate::discovery::ServiceDiscovery::instances).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn instances(&self, service: &str) -> Result<Instances<T>> {
        wait(self.inner.instances(service))
    }

    /// Blocks the thread to read one instance. The blocking version of
    /// [`ServiceDiscovery::instance`](crate::discovery::ServiceDiscovery::instance).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn instance(&self, service: &str, id: &str) -> Result<Option<ServiceInstance<T>>> {
        wait(self.inner.instance(service, id))
    }
}

impl<T> Clone for ServiceDiscovery<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T: Serialize> Registration<T> {
    /// Describes the instance anew, blocking the thread until that is registered. The blocking version of
    /// [`Registration::update`](crate::discovery::Registration::update).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks. What is
    ///   registered stays.
    pub fn update(&mut self, instance: ServiceInstance<T>) -> Result<()> {
        wait(self.inner.update(instance))
    }

    /// Unregisters the instance, blocking the thread until that is done. The blocking version of
    /// [`Registration::unregister`](crate::discovery::Registration::unregister).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks. The
    ///   instance is unregistered in the background.
    pub fn unregister(self) -> Result<()> {
        wait(self.inner.unregister())
    }
}

impl<T> Registration<T> {
    /// Returns the instance as it was described last. Does not block.
    pub fn instance(&self) -> &ServiceInstance<T> {
        self.inner.instance()
    }

    /// Follows the state of the node. See
    /// [`Registration::watch_state`](crate::discovery::Registration::watch_state).
    pub fn watch_state(&self) -> Watch<NodeState> {
        self.inner.watch_state()
    }
}

impl<T: DeserializeOwned> ServiceCache<T> {
    /// Returns the instances. Does not block. See [`ServiceCache::instances`](crate::discovery::ServiceCache::instances).
    pub fn instances(&self) -> Arc<Instances<T>> {
        self.inner.instances()
    }

    /// Blocks the thread until the instances have been read. The blocking version of
    /// [`ServiceCache::wait_loaded`](crate::discovery::ServiceCache::wait_loaded).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn wait_loaded(&self) -> Result<Arc<Instances<T>>> {
        wait(self.inner.wait_loaded())
    }

    /// Blocks the thread until the instances are others than `seen`. The blocking version of
    /// [`ServiceCache::wait_changed`](crate::discovery::ServiceCache::wait_changed).
    ///
    /// # Errors
    /// Same as [`wait_loaded`](Self::wait_loaded).
    pub fn wait_changed(&self, seen: &Arc<Instances<T>>) -> Result<Arc<Instances<T>>> {
        wait(self.inner.wait_changed(seen))
    }

    /// Blocks the thread until `is_met` returns true for the instances. The blocking version of
    /// [`ServiceCache::wait_until`](crate::discovery::ServiceCache::wait_until).
    ///
    /// # Errors
    /// Same as [`wait_loaded`](Self::wait_loaded).
    pub fn wait_until(&self, is_met: impl FnMut(&Arc<Instances<T>>) -> bool) -> Result<Arc<Instances<T>>> {
        wait(self.inner.wait_until(is_met))
    }
}

impl<T> ServiceCache<T> {
    /// Follows how up to date the instances are. See
    /// [`ServiceCache::watch_state`](crate::discovery::ServiceCache::watch_state).
    pub fn watch_state(&self) -> Watch<CacheState> {
        self.inner.watch_state()
    }
}

impl<T> From<ServiceCache<T>> for crate::discovery::ServiceCache<T> {
    fn from(twin: ServiceCache<T>) -> Self {
        twin.inner
    }
}
