//! Picks an instance of a service.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::down::{DownInstancePolicy, Errors};
use super::instance::ServiceInstance;
use super::pick::{Picker, ProviderStrategy};
use super::service_cache::ServiceCache;

type Filter<T> = Box<dyn Fn(&ServiceInstance<T>) -> bool + Send + Sync>;

/// Picks an instance of a service for each call to it.
///
/// Instances that are [disabled](ServiceInstance::enabled), or for which errors were
/// [reported](Self::note_error), are left out.
///
/// ```no_run
/// use zk_recipes::discovery::{ProviderStrategy, ServiceDiscovery, ServiceProvider};
///
/// # async fn example(services: ServiceDiscovery) -> zk_recipes::Result<()> {
/// let orders = services.cache("orders")?;
/// orders.wait_loaded().await?;
/// let orders = ServiceProvider::new(orders).strategy(ProviderStrategy::Random);
/// # async fn call(_: &str) -> std::io::Result<()> { Ok(()) }
/// if let Some(instance) = orders.pick() {
///     let address = instance.address.as_deref().unwrap_or("localhost");
///     if call(address).await.is_err() {
///         orders.note_error(&instance);
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// Source: Curator's `ServiceProvider`.
#[must_use = "a provider does nothing until it is asked"]
pub struct ServiceProvider<T = ()> {
    cache: ServiceCache<T>,
    picker: Picker,
    policy: DownInstancePolicy,
    filter: Option<Filter<T>>,
    errors: Mutex<Errors>,
}

debug_by!(<T> ServiceProvider<T>, |it| cache: it.cache);

impl<T: DeserializeOwned> ServiceProvider<T> {
    /// Creates a provider of the instances in `cache`, which picks one after the other.
    pub fn new(cache: ServiceCache<T>) -> Self {
        Self {
            cache,
            picker: Picker::new(ProviderStrategy::default()),
            policy: DownInstancePolicy::default(),
            filter: None,
            errors: Mutex::default(),
        }
    }

    /// Sets which instance is picked. The default is [`ProviderStrategy::RoundRobin`].
    pub fn strategy(self, strategy: ProviderStrategy) -> Self {
        Self { picker: Picker::new(strategy), ..self }
    }

    /// Sets when an instance for which errors were reported is left out.
    pub fn down_instances(self, policy: DownInstancePolicy) -> Self {
        Self { policy, ..self }
    }

    /// Leaves out the instances for which `filter` returns false.
    pub fn filter(self, filter: impl Fn(&ServiceInstance<T>) -> bool + Send + Sync + 'static) -> Self {
        Self { filter: Some(Box::new(filter)), ..self }
    }

    /// Returns the instance for the next call; `None` if there is none. Makes no request.
    pub fn pick(&self) -> Option<Arc<ServiceInstance<T>>> {
        let mut candidates = self.candidates();
        let picked = self.picker.pick(&candidates)?;
        Some(candidates.swap_remove(picked))
    }

    /// Returns all instances among which this picks. Makes no request.
    pub fn candidates(&self) -> Vec<Arc<ServiceInstance<T>>> {
        let instances = self.cache.instances();
        let (errors, now) = (self.errors.lock(), Instant::now());
        let is_up = |instance: &&Arc<ServiceInstance<T>>| {
            instance.enabled && !errors.is_down(instance, self.policy, now)
        };
        let up: Vec<_> = instances.iter().filter(is_up).cloned().collect();
        // The filter is the user's, who may report an error in it.
        drop(errors);
        match &self.filter {
            Some(filter) => up.into_iter().filter(|instance| filter(instance)).collect(),
            None => up,
        }
    }

    /// Reports an error of an instance, such as a refused connection. It is left out for a time after
    /// [several](DownInstancePolicy) of them. An instance that is registered anew, with another registration time, address
    /// or port, is not left out for the errors of the one before.
    pub fn note_error(&self, instance: &ServiceInstance<T>) {
        self.errors.lock().note(instance, self.policy, Instant::now());
    }

    /// Returns the instances among which this chooses, with those that are left out.
    pub fn cache(&self) -> &ServiceCache<T> {
        &self.cache
    }
}
