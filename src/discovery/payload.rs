//! The payload of an instance as Java's libraries write it: with its class.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The key under which Java's libraries keep the class of an object.
const CLASS: &str = "@class";

/// The class that Java's libraries write for a list.
const LIST: &str = "java.util.ArrayList";

/// Adds the class by which Java's libraries read an object, or a list.
pub(super) fn write(payload: Value, class: Option<&str>) -> Value {
    match (payload, class) {
        (Value::Object(fields), Some(class)) if !fields.contains_key(CLASS) => {
            let class = (CLASS.to_owned(), class.into());
            Value::Object([class].into_iter().chain(fields).collect::<Map<_, _>>())
        }
        (Value::Array(items), _) => json!([LIST, items]),
        (payload, _) => payload,
    }
}

/// Reads a payload with or without a class. Java writes the class of an object among its fields, none for text, booleans,
/// `int` and `double`, and all else as a list of the class and the value: `["java.lang.Long",5]`.
///
/// A type that needs the class, as an enum that serde tags by it, gets it.
pub(super) fn read<T: DeserializeOwned>(payload: Value) -> Result<Option<T>, serde_json::Error> {
    let without_class = payload.as_object().filter(|fields| fields.contains_key(CLASS)).map(|fields| {
        let fields = fields.iter().filter(|(key, _)| *key != CLASS);
        Value::Object(fields.map(|(key, value)| (key.clone(), value.clone())).collect())
    });
    let (first, second) = match (&payload, &without_class) {
        (Value::Null, _) => return Ok(None),
        (_, Some(without_class)) => (without_class, Some(&payload)),
        (Value::Array(items), None) => match &items[..] {
            [Value::String(class), value] if is_qualified(class) => (value, Some(&payload)),
            // The class may be in no package; or it is a list of two, which Java has not written.
            [Value::String(_), value] => (&payload, Some(value)),
            _ => (&payload, None),
        },
        _ => (&payload, None),
    };
    let read = T::deserialize(first).or_else(|error| {
        let second = second.and_then(|second| T::deserialize(second).ok());
        second.ok_or(error)
    });
    read.map(Some)
}

/// Whether it is a class in a package, or that of an array, such as `[I`.
fn is_qualified(class: &str) -> bool {
    class.contains('.') || class.starts_with('[')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads<T: DeserializeOwned>(payload: Value) -> Option<T> {
        read(payload).unwrap()
    }

    #[test]
    fn what_java_writes_is_read() {
        // Written by the `JsonInstanceSerializer` of Curator 5.4.
        assert_eq!(reads(json!(["java.lang.Long", 5])), Some(5_i64));
        assert_eq!(reads(json!(["com.acme.Color", "RED"])), Some("RED".to_owned()));
        assert_eq!(reads(json!(["[I", [1, 2]])), Some(vec![1, 2]));
        assert_eq!(reads(json!(["java.util.ArrayList", ["a"]])), Some(vec!["a".to_owned()]));
        assert_eq!(reads(json!({"@class": "com.acme.Weight", "weight": 3})), Some(json!({"weight": 3})));
        assert_eq!(reads(json!(5)), Some(5));
        assert_eq!(reads::<Value>(Value::Null), None);
    }

    #[test]
    fn a_class_in_no_package_is_read() {
        assert_eq!(reads(json!(["Color", "RED"])), Some("RED".to_owned()));
    }

    #[test]
    fn a_type_that_needs_the_class_gets_it() {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(tag = "@class")]
        enum Details {
            #[serde(rename = "com.acme.Http")]
            Http { path: String },
        }
        let payload = json!({"@class": "com.acme.Http", "path": "/"});
        assert_eq!(reads(payload.clone()), Some(Details::Http { path: "/".to_owned() }));
        assert_eq!(write(payload.clone(), Some("com.acme.Other")), payload);
        assert!(read::<Details>(json!({"@class": "com.acme.Grpc"})).is_err());
    }

    #[test]
    fn a_list_without_a_class_is_read() {
        assert_eq!(reads(json!(["10.0.0.7", "b"])), Some(vec!["10.0.0.7".to_owned(), "b".to_owned()]));
        assert_eq!(reads(json!(["a", "b"])), Some(json!(["a", "b"])));
        assert_eq!(reads(json!([1, 2])), Some([1, 2]));
        assert!(read::<u8>(json!(["java.lang.Long", "x"])).is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        let list = json!(["a.b", ["c"]]);
        let class = Some("com.acme.Weight");
        assert_eq!(write(list.clone(), class), json!([LIST, ["a.b", ["c"]]]));
        for payload in [list, json!("text"), json!({"weight": 3})] {
            assert_eq!(reads(write(payload.clone(), class)), Some(payload));
        }
    }
}
