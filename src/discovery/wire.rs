//! The format of an instance in its node, which is Curator's JSON.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::instance::{ServiceInstance, ServiceType};
use super::payload;
use super::plain::plain;
use super::time::{millis, time};
use super::uri_spec::UriSpec;
use crate::client::Room;

/// All fields may be absent, which says the same as `null`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default, deserialize_with = "text")]
    name: Option<String>,
    #[serde(default, deserialize_with = "text")]
    id: Option<String>,
    #[serde(default, deserialize_with = "text")]
    address: Option<String>,
    #[serde(default, deserialize_with = "number")]
    port: Option<i64>,
    #[serde(default, deserialize_with = "number")]
    ssl_port: Option<i64>,
    #[serde(default)]
    payload: Value,
    #[serde(default, rename = "registrationTimeUTC", deserialize_with = "number")]
    registration_time: Option<i64>,
    service_type: Option<ServiceType>,
    uri_spec: Option<UriSpec>,
    /// Before version 5, Curator does not write it and refuses to read it. So it is only written if it is false.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "truth")]
    enabled: Option<bool>,
}

/// Writes an instance. An object as payload gets the class, by which Java's libraries read it.
pub(super) fn write<T: Serialize>(
    instance: &ServiceInstance<T>,
    class: Option<&str>,
) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Wire {
        name: Some(instance.name.clone()),
        id: Some(instance.id.clone()),
        address: instance.address.clone(),
        port: instance.port.map(Into::into),
        ssl_port: instance.ssl_port.map(Into::into),
        payload: match &instance.payload {
            Some(payload) => payload::write(serde_json::to_value(payload)?, class),
            None => Value::Null,
        },
        registration_time: Some(millis(instance.registration_time)),
        service_type: Some(instance.service_type),
        uri_spec: instance.uri_spec.clone(),
        enabled: (!instance.enabled).then_some(false),
    })
}

/// Reads an instance. Without a name or an id it has those of its node.
pub(super) fn read<T: DeserializeOwned>(
    data: &[u8],
    name: &str,
    id: &str,
) -> Result<ServiceInstance<T>, serde_json::Error> {
    let wire = fields(data)?;
    Ok(ServiceInstance {
        name: wire.name.unwrap_or_else(|| name.to_owned()),
        id: wire.id.unwrap_or_else(|| id.to_owned()),
        address: wire.address,
        port: wire.port.and_then(|port| port.try_into().ok()),
        ssl_port: wire.ssl_port.and_then(|port| port.try_into().ok()),
        payload: payload::read(wire.payload)?,
        registration_time: time(wire.registration_time.unwrap_or_default()),
        service_type: wire.service_type.unwrap_or_default(),
        uri_spec: wire.uri_spec,
        enabled: wire.enabled.unwrap_or(true),
    })
}

fn fields(data: &[u8]) -> Result<Wire, serde_json::Error> {
    // Of two fields of one name, the last one counts. What is behind them does not, as in Java.
    let fields = Map::<String, Value>::deserialize(&mut serde_json::Deserializer::from_slice(data))?;
    serde_json::from_value(fields.into())
}

/// Whether both describe the same instance, no matter when it was described, and which fields are written out.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let described = |data| {
        let wire = fields(&plain(data, &mut Room::default()).ok()?).ok()?;
        Some(Wire {
            registration_time: None,
            service_type: Some(wire.service_type.unwrap_or_default()),
            enabled: Some(wire.enabled.unwrap_or(true)),
            ..wire
        })
    };
    described(one).is_some_and(|one| described(other) == Some(one))
}

/// Reads a number, which Java's libraries also take from text, and without its fraction.
fn number<'a, D: Deserializer<'a>>(field: D) -> Result<Option<i64>, D::Error> {
    match Value::deserialize(field)? {
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::String(text) => text.trim().parse().map(Some).map_err(D::Error::custom),
        Value::Number(number) if number.is_f64() => Ok(number.as_f64().map(|number| number as i64)),
        value => Option::deserialize(value).map_err(D::Error::custom),
    }
}

/// Reads text, which Java's libraries also take from numbers and truth values.
fn text<'a, D: Deserializer<'a>>(field: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(field)? {
        value @ (Value::Number(_) | Value::Bool(_)) => Ok(Some(value.to_string())),
        value => Option::deserialize(value).map_err(D::Error::custom),
    }
}

/// Reads a truth value, which Java's libraries also take from text.
fn truth<'a, D: Deserializer<'a>>(field: D) -> Result<Option<bool>, D::Error> {
    match Value::deserialize(field)? {
        Value::String(text) => text.trim().parse().map(Some).map_err(D::Error::custom),
        value => Option::deserialize(value).map_err(D::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Weight {
        weight: u32,
    }

    #[test]
    fn what_is_written_is_read() {
        let instance = ServiceInstance::new("orders")
            .id("a")
            .address("10.0.0.7")
            .port(8080)
            .payload(Weight { weight: 3 })
            .service_type(ServiceType::Permanent)
            .uri_spec(UriSpec::new("{scheme}://{address}"))
            .enabled(false);
        let registration_time = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let instance = ServiceInstance { registration_time, ..instance };
        for class in [None, Some("com.acme.Weight")] {
            let json: Value = serde_json::from_slice(&write(&instance, class).unwrap()).unwrap();
            assert_eq!(json["payload"].get("@class").and_then(Value::as_str), class);
            assert_eq!(json["registrationTimeUTC"], 1_700_000_000_123_u64);
            assert_eq!(json["serviceType"], "PERMANENT");
            assert_eq!(json["sslPort"], Value::Null);
            assert_eq!(json["enabled"], false);
            assert_eq!(read(json.to_string().as_bytes(), "", "").unwrap(), instance);
        }
    }

    #[test]
    fn an_instance_of_java_is_read() {
        let json = br#"{"name":"orders","id":"a","address":"10.0.0.7","port":8080,"sslPort":null,
            "payload":{"@class":"com.acme.Weight","weight":3},"registrationTimeUTC":5,"serviceType":"DYNAMIC",
            "uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false}]},"more":1}"#;
        let instance: ServiceInstance<Weight> = read(json, "", "").unwrap();
        assert_eq!(instance.payload, Some(Weight { weight: 3 }));
        assert_eq!(instance.uri().as_deref(), Some("http://"));
        assert!(instance.enabled, "absent is true");
    }

    #[test]
    fn what_is_absent_is_taken_from_the_node() {
        let instance: ServiceInstance = read(b"{}", "orders", "a").unwrap();
        assert_eq!((instance.name.as_str(), instance.id.as_str()), ("orders", "a"));
        assert_eq!(instance.service_type, ServiceType::Dynamic);
        assert!(read::<()>(b"", "orders", "a").is_err());
        assert!(read::<()>(br#"{"port":"x"}"#, "orders", "a").is_err());
    }

    #[test]
    fn what_java_takes_for_a_number_is_read() {
        let read = |json: &str| read::<()>(json.as_bytes(), "orders", "a").unwrap();
        assert_eq!(read(r#"{"port":"8080","sslPort":" 8443 "}"#).ssl_port, Some(8443));
        assert_eq!(read(r#"{"port":"8080"}"#).port, Some(8080));
        assert_eq!(read(r#"{"port":8080.9}"#).port, Some(8080));
        for no_port in ["-1", "65536", "null", "\"\"", "\" \"", "1e300"] {
            assert_eq!(read(&format!(r#"{{"port":{no_port}}}"#)).port, None);
        }
        let time = read(r#"{"registrationTimeUTC":-5}"#).registration_time;
        assert_eq!(millis(time), -5);
        for extreme in [i64::MIN, i64::MAX] {
            read(&format!(r#"{{"registrationTimeUTC":{extreme}}}"#));
        }
    }

    #[test]
    fn what_java_takes_for_something_else_is_read() {
        let read = |json: &str| read::<()>(json.as_bytes(), "orders", "a").unwrap();
        let instance = read(r#"{"name":true,"id":7,"address":5,"enabled":"false"} more"#);
        assert_eq!((instance.name.as_str(), instance.id.as_str()), ("true", "7"));
        assert_eq!((instance.address.as_deref(), instance.enabled), (Some("5"), false));
        assert!(read(r#"{"address":null,"enabled":null}"#).enabled);
        for none in [r#"{"id":[]}"#, r#"{"enabled":"x"}"#, r#"{"enabled":{}}"#, r#"more {}"#] {
            assert!(super::read::<()>(none.as_bytes(), "orders", "a").is_err(), "{none}");
        }
    }

    #[test]
    fn of_two_fields_of_one_name_the_last_one_counts() {
        assert_eq!(read::<()>(br#"{"name":"o","name":"orders"}"#, "", "").unwrap().name, "orders");
        assert!(read::<()>(br#"["orders"]"#, "", "").is_err(), "fields have names");
    }

    #[test]
    fn the_same_description_is_known_again() {
        let one = br#"{"id":"a","port":1,"registrationTimeUTC":1}"#;
        let other = br#"{"registrationTimeUTC":2,"port":1,"id":"a"}"#;
        assert!(is_same(one, other) && is_same(&crate::client::compressed(one), other));
        assert!(!is_same(one, br#"{"id":"a","port":2,"registrationTimeUTC":1}"#));
        assert!(!is_same(b"a", b"a") && !is_same(b"", one));
        // What Curator writes by default, and without: its `JsonInstanceSerializer` can write `enabled`.
        let all =
            br#"{"id":"a","port":1,"sslPort":null,"payload":null,"serviceType":"DYNAMIC","enabled":true}"#;
        assert!(is_same(one, all) && is_same(all, one));
        assert!(is_same(one, br#"{"id":"a","port":1,"more":1}"#));
        for other in [r#""enabled":false"#, r#""serviceType":"STATIC""#, r#""payload":{}"#, r#""name":"a""#] {
            assert!(!is_same(one, format!(r#"{{"id":"a","port":1,{other}}}"#).as_bytes()), "{other}");
        }
    }
}
