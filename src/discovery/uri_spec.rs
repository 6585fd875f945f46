//! How the URIs of an instance are built.

use serde::{Deserialize, Deserializer, Serialize};

/// The longest URI that is built. Browsers and servers take less.
const LONGEST: usize = 65_536;

/// A template for the URIs of an instance, such as `{scheme}://{address}:{port}/orders`.
///
/// The variables are `scheme` (`https` if there is a port for TLS, else `http`), `name`, `id`, `address`, `port`,
/// `ssl-port`, `registration-time-utc` (in ms) and `service-type`; `[` and `]` are braces, so that `{[}id{]}` becomes
/// `{id}`. A variable without a value is left out, and so is one that is not known.
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
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UriSpec {
    #[serde(default, deserialize_with = "or_default")]
    parts: Vec<Part>,
}

debug_by!(UriSpec, |it| template: it.parts.iter().map(Part::written).collect::<String>());

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Part {
    value: String,
    /// Whether the value is the name of a variable.
    #[serde(default, deserialize_with = "or_default")]
    variable: bool,
}

impl Part {
    fn written(&self) -> String {
        if self.variable { format!("{{{}}}", self.value) } else { self.value.clone() }
    }
}

/// Reads a field that may be null.
fn or_default<'a, D: Deserializer<'a>, T: Default + Deserialize<'a>>(field: D) -> Result<T, D::Error> {
    Option::deserialize(field).map(Option::unwrap_or_default)
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

    /// Returns the URI, by the values of the variables. `None` if it is too long.
    pub(super) fn build(&self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        let value =
            |part: &Part| if part.variable { variable(&part.value) } else { Some(part.value.clone()) };
        self.parts
            .iter()
            .filter_map(value)
            .try_fold(String::new(), |uri, value| (uri.len() + value.len() <= LONGEST).then(|| uri + &value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_absent_is_empty_or_no_variable() {
        let read = |json| serde_json::from_str::<UriSpec>(json).unwrap();
        for none in ["{}", r#"{"parts":null}"#, r#"{"parts":[]}"#] {
            assert_eq!(read(none), UriSpec::default());
        }
        for text in [r#"{"parts":[{"value":"a"}]}"#, r#"{"parts":[{"value":"a","variable":null}]}"#] {
            assert_eq!(read(text), UriSpec::new("a"));
        }
    }

    #[test]
    fn variables_are_replaced_by_what_is_known() {
        let known = |name: &str| (name == "id").then(|| "7".to_owned());
        assert_eq!(UriSpec::new("/{id} [{other}]").build(known).as_deref(), Some("/7 []"));
    }

    #[test]
    fn a_long_value_is_not_repeated_without_end() {
        let id = "7".repeat(LONGEST / 4);
        let build = |times| UriSpec::new(&"{id}".repeat(times)).build(|_| Some(id.clone()));
        assert_eq!(build(4).map(|uri| uri.len()), Some(LONGEST));
        assert_eq!(build(5), None);
        assert_eq!(UriSpec::new(&"a".repeat(LONGEST + 1)).build(|_| None), None);
    }
}
