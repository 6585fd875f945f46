//! Registers the instances of services and finds them, in the format of Curator. See [the
//! guide](crate::guide::discovery).
//!
//! | you need | take |
//! |---|---|
//! | to register an instance | [`ServiceDiscovery::register`] |
//! | to look once | [`ServiceDiscovery::instances`] |
//! | to follow the instances of a service | [`ServiceCache`] |
//! | an instance for each call | [`ServiceProvider`] |

mod down;
mod instance;
mod instances;
mod payload;
mod pick;
mod plain;
mod registration;
mod service_cache;
mod service_discovery;
mod service_provider;
mod time;
mod uri_spec;
mod wire;

pub use self::down::DownInstancePolicy;
pub use self::instance::{ServiceInstance, ServiceType};
pub use self::instances::Instances;
pub use self::pick::ProviderStrategy;
pub use self::registration::Registration;
pub use self::service_cache::ServiceCache;
pub use self::service_discovery::ServiceDiscovery;
pub use self::service_provider::ServiceProvider;
pub use self::uri_spec::UriSpec;
