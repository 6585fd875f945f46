//! How the URIs of an instance are built.

use serde::{Deserialize, Serialize};

use super::instance::ServiceInstance;
use super::wire::millis;

/// A template for the URIs of an instance, such as `{scheme}://{address}:{port}/orders`.
///
/// The variables are `scheme` (`https` if there is a port for TLS, else `http`), `name`, `id`, `address`, `port`,
/// `ssl-port`, `registration-time-utc` (in ms) and `service-type`. A variable without a value is left out, and so is one
/// that is not known.
///
/// ```
/// use zk_recipes::discovery::{ServiceInstance, UriSpec};
///
/// let spec = UriSpec::new("{scheme}://{address}:{port}/orders");
/// let instance = ServiceInstance::<()>::new("orders").address("10.0.0.7").port(8080).uri_spec(spec);
/// assert_eq!(instance.uri().as_deref(), Some("http://10.0.0.7:8080/orders"));
/// ```
///
/// Source: Curator's `UriSpec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UriSpec {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Part {
    value: String,
    /// Whether the value is the name of a variable.
    #[serde(default)]
    variable: bool,
}

impl UriSpec {
    /// Reads a template. A name in braces is a variable; a brace without its counterpart stands for itself.
    pub fn new(template: &str) -> Self {
        let mut spec = Self::default();
        let mut rest = template;
        while let Some((before, (name, after))) =
            rest.split_once('{').and_then(|(before, after)| Some((before, after.split_once('}')?)))
        {
            spec.push(before, false);
            spec.push(name.trim(), true);
            rest = after;
        }
        spec.push(rest, false);
        spec
    }

    fn push(&mut self, value: &str, variable: bool) {
        if !value.is_empty() {
            self.parts.push(Part { value: value.to_owned(), variable });
        }
    }

    /// Returns the URI of this instance.
    pub fn build<T>(&self, instance: &ServiceInstance<T>) -> String {
        let value = |part: &Part| match part.variable {
            true => variable(&part.value, instance),
            false => Some(part.value.clone()),
        };
        self.parts.iter().filter_map(value).collect()
    }
}

fn variable<T>(name: &str, instance: &ServiceInstance<T>) -> Option<String> {
    match name {
        "scheme" => Some(if instance.ssl_port.is_some() { "https" } else { "http" }.to_owned()),
        "name" => Some(instance.name.clone()),
        "id" => Some(instance.id.clone()),
        "address" => instance.address.clone(),
        "port" => instance.port.map(|port| port.to_string()),
        "ssl-port" => instance.ssl_port.map(|port| port.to_string()),
        "registration-time-utc" => Some(millis(instance.registration_time).to_string()),
        "service-type" => Some(instance.service_type.name().to_lowercase()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::discovery::ServiceType;

    #[test]
    fn templates_are_split_into_parts() {
        let spec = UriSpec::new("{scheme}://{ address }:{port}/a{");
        let json = serde_json::to_value(&spec).unwrap();
        let part = |value: &str, variable: bool| serde_json::json!({"value": value, "variable": variable});
        let expected = [
            part("scheme", true),
            part("://", false),
            part("address", true),
            part(":", false),
            part("port", true),
            part("/a{", false),
        ];
        assert_eq!(json["parts"].as_array().unwrap(), &expected);
        assert_eq!(serde_json::from_value::<UriSpec>(json).unwrap(), spec);
        assert_eq!(UriSpec::new(""), UriSpec::default());
    }

    #[test]
    fn variables_are_replaced_by_what_is_known() {
        let instance = ServiceInstance::<()>::new("orders").id("7").ssl_port(443);
        let all = "{scheme} {name} {id} [{address}] [{port}] {ssl-port} {service-type} [{other}]";
        assert_eq!(UriSpec::new(all).build(&instance), "https orders 7 [] [] 443 dynamic []");
        let other = ServiceInstance { registration_time: UNIX_EPOCH, ..instance };
        let other = other.service_type(ServiceType::DynamicSequential);
        let spec = UriSpec::new("{registration-time-utc} {service-type}");
        assert_eq!(spec.build(&other), "0 dynamic_sequential");
    }
}
