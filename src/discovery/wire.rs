//! The format of an instance in its node, which is Curator's JSON.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::instance::{ServiceInstance, ServiceType};
use super::uri_spec::UriSpec;

/// The key under which Java's libraries keep the class of an object.
const CLASS: &str = "@class";

/// The class that Java's libraries write for a list.
const LIST: &str = "java.util.ArrayList";

/// All fields may be absent, which says the same as `null`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    name: Option<String>,
    id: Option<String>,
    address: Option<String>,
    port: Option<u16>,
    ssl_port: Option<u16>,
    #[serde(default)]
    payload: Value,
    #[serde(rename = "registrationTimeUTC")]
    registration_time: Option<u64>,
    service_type: Option<ServiceType>,
    uri_spec: Option<UriSpec>,
    /// Before version 5, Curator does not write it and refuses to read it. So it is only written if it is false.
    #[serde(skip_serializing_if = "Option::is_none")]
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
        port: instance.port,
        ssl_port: instance.ssl_port,
        payload: match &instance.payload {
            Some(payload) => with_class(serde_json::to_value(payload)?, class),
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
    let wire: Wire = serde_json::from_slice(data)?;
    let payload = match without_class(wire.payload) {
        Value::Null => None,
        payload => Some(serde_json::from_value(payload)?),
    };
    Ok(ServiceInstance {
        name: wire.name.unwrap_or_else(|| name.to_owned()),
        id: wire.id.unwrap_or_else(|| id.to_owned()),
        address: wire.address,
        port: wire.port,
        ssl_port: wire.ssl_port,
        payload,
        registration_time: UNIX_EPOCH + Duration::from_millis(wire.registration_time.unwrap_or_default()),
        service_type: wire.service_type.unwrap_or_default(),
        uri_spec: wire.uri_spec,
        enabled: wire.enabled.unwrap_or(true),
    })
}

fn with_class(payload: Value, class: Option<&str>) -> Value {
    match (payload, class) {
        (Value::Object(fields), Some(class)) if !fields.contains_key(CLASS) => {
            let class = (CLASS.to_owned(), class.into());
            Value::Object([class].into_iter().chain(fields).collect::<Map<_, _>>())
        }
        (Value::Array(items), _) => json!([LIST, items]),
        (payload, _) => payload,
    }
}

fn without_class(payload: Value) -> Value {
    match payload {
        Value::Object(mut fields) => {
            fields.remove(CLASS);
            Value::Object(fields)
        }
        Value::Array(mut parts) => match parts.as_mut_slice() {
            [Value::String(class), items @ Value::Array(_)] if class.contains('.') => items.take(),
            _ => Value::Array(parts),
        },
        payload => payload,
    }
}

/// Milliseconds since 1970. What was before counts as 1970.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
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
    fn lists_and_plain_values_are_payloads_too() {
        let roundtrip = |payload: Value| {
            let instance = ServiceInstance::new("orders").payload(payload);
            let written = write(&instance, Some("com.acme.Weight")).unwrap();
            (
                serde_json::from_slice::<Value>(&written).unwrap()["payload"].take(),
                read(&written, "", "").unwrap().payload,
            )
        };
        let list = json!(["a.b", ["c"]]);
        assert_eq!(roundtrip(list.clone()), (json!([LIST, ["a.b", ["c"]]]), Some(list)));
        assert_eq!(roundtrip(json!("text")), (json!("text"), Some(json!("text"))));
        assert_eq!(read::<Vec<u8>>(br#"{"payload":[1,2]}"#, "", "").unwrap().payload, Some(vec![1, 2]));
    }
}
