//! One instance of a service.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::time::millis;
use super::uri_spec::UriSpec;

/// One instance of a service: where it is reached, and what else clients are told about it.
///
/// `T` is the payload, any type that serde writes and reads; `()` if there is none.
///
/// ```
/// use zk_recipes::discovery::ServiceInstance;
///
/// let instance = ServiceInstance::<()>::new("orders").address("10.0.0.7").port(8080);
/// assert_eq!((instance.name.as_str(), instance.port), ("orders", Some(8080)));
/// ```
#[non_exhaustive]
#[derive(Clone, PartialEq)]
pub struct ServiceInstance<T = ()> {
    /// The name of the service.
    pub name: String,
    /// The id of the instance, which no other instance of the service has.
    pub id: String,
    /// The address or the host name.
    pub address: Option<String>,
    /// The port. What is out of the range of ports, such as -1, is read as `None`.
    pub port: Option<u16>,
    /// The port for TLS.
    pub ssl_port: Option<u16>,
    /// What the service tells its clients besides.
    pub payload: Option<T>,
    /// When the instance was described, by the clock of its process, in milliseconds.
    pub registration_time: SystemTime,
    /// What becomes of its registration when its process ends.
    pub service_type: ServiceType,
    /// How its URIs are built.
    pub uri_spec: Option<UriSpec>,
    /// Whether a [`ServiceProvider`](super::ServiceProvider) picks it.
    pub enabled: bool,
}

debug_by!(<T: std::fmt::Debug> ServiceInstance<T>, |it|
    name: it.name, id: it.id, address: it.address, port: it.port, ssl_port: it.ssl_port, enabled: it.enabled,
    payload: it.payload
);

/// What tells one registration of an instance from the next: one that is registered anew may be another process. The id
/// alone does not tell: Curator's instances of type `DYNAMIC_SEQUENTIAL` may share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    id: String,
    registration_time: SystemTime,
    address: Option<String>,
    port: Option<u16>,
    ssl_port: Option<u16>,
}

/// What becomes of a registration when the process of the instance ends without unregistering it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ServiceType {
    /// It is gone when the session has expired.
    #[default]
    Dynamic,
    /// It stays until somebody deletes it.
    ///
    /// A node that belongs to no session does not tell whose it is, so the description tells. One that is there already is
    /// taken over, as it is, if it describes the same, no matter when it was
    /// [described](ServiceInstance::registration_time): an earlier run of the process may have left it behind. With any
    /// other one, [`register`](super::ServiceDiscovery::register) waits until it is gone. So delete the node before you
    /// register an instance that a process has left behind, but that is described in another way now.
    ///
    /// If somebody writes another description into the node, that stays, also when the instance is unregistered. It is
    /// registered again when the node is deleted.
    Static,
    /// The same as [`Static`](Self::Static), under another name.
    Permanent,
    /// The same as [`Dynamic`](Self::Dynamic), in a node whose name ends with a number. Read, but not registered, by
    /// this crate.
    DynamicSequential,
}

impl<T> ServiceInstance<T> {
    /// Describes an instance of the service `name`, with a random id.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            id: Uuid::new_v4().to_string(),
            address: None,
            port: None,
            ssl_port: None,
            payload: None,
            registration_time: SystemTime::now(),
            service_type: ServiceType::default(),
            uri_spec: None,
            enabled: true,
        }
    }

    /// Sets the id. No other instance of the service may have it.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the address or the host name.
    #[must_use]
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Sets the port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets the port for TLS.
    #[must_use]
    pub fn ssl_port(mut self, port: u16) -> Self {
        self.ssl_port = Some(port);
        self
    }

    /// Sets the payload.
    #[must_use]
    pub fn payload(mut self, payload: T) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Sets what becomes of the registration when the process ends. The default is [`ServiceType::Dynamic`].
    #[must_use]
    pub fn service_type(mut self, service_type: ServiceType) -> Self {
        self.service_type = service_type;
        self
    }

    /// Sets how URIs are built.
    #[must_use]
    pub fn uri_spec(mut self, uri_spec: UriSpec) -> Self {
        self.uri_spec = Some(uri_spec);
        self
    }

    /// Sets whether providers pick the instance. The default is true. Instances of Curator before 5.0 take it for true.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Returns the URI of the instance by its [`uri_spec`](Self::uri_spec); `None` if it has none, or if the URI is
    /// longer than 65,536 bytes: a client that may register an instance can repeat its longest value in a template.
    pub fn uri(&self) -> Option<String> {
        self.uri_spec.as_ref()?.build(|variable| self.variable(variable))
    }

    /// Returns the value of a variable of a [`UriSpec`].
    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "scheme" => Some(if self.ssl_port.is_some() { "https" } else { "http" }.to_owned()),
            "name" => Some(self.name.clone()),
            "id" => Some(self.id.clone()),
            "address" => self.address.clone(),
            "port" => self.port.map(|port| port.to_string()),
            "ssl-port" => self.ssl_port.map(|port| port.to_string()),
            "registration-time-utc" => Some(millis(self.registration_time).to_string()),
            "service-type" => Some(self.service_type.name().to_lowercase()),
            "[" => Some("{".to_owned()),
            "]" => Some("}".to_owned()),
            _ => None,
        }
    }
}

impl Identity {
    pub(super) fn of<T>(instance: &ServiceInstance<T>) -> Self {
        let ServiceInstance { id, registration_time, address, port, ssl_port, .. } = instance;
        Self {
            id: id.clone(),
            registration_time: *registration_time,
            address: address.clone(),
            port: *port,
            ssl_port: *ssl_port,
        }
    }
}

impl ServiceType {
    /// Returns its name in Curator.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Dynamic => "DYNAMIC",
            Self::Static => "STATIC",
            Self::Permanent => "PERMANENT",
            Self::DynamicSequential => "DYNAMIC_SEQUENTIAL",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn its_uri_has_what_is_known_of_it() {
        let uri = |instance: &ServiceInstance, spec: &str| {
            instance.clone().uri_spec(UriSpec::new(spec)).uri().unwrap()
        };
        let instance = ServiceInstance::<()>::new("orders").id("7").ssl_port(443);
        let all = "{scheme} {name} {id} [{address}] [{port}] {ssl-port} {service-type} [{other}]";
        assert_eq!(uri(&instance, all), "https orders 7 [] [] 443 dynamic []");
        assert_eq!(uri(&instance, "/{[}id{]}/{id}"), "/{id}/7");
        let other = ServiceInstance { registration_time: UNIX_EPOCH, ..instance };
        let other = other.service_type(ServiceType::DynamicSequential);
        assert_eq!(uri(&other, "{registration-time-utc} {service-type}"), "0 dynamic_sequential");
    }
}
