//! The name of the node for a key: encodes any text as a name that ZooKeeper accepts. [`Locks`](super::Locks)
//! documents the rules.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// A name of up to this length contains the whole key.
const WHOLE: usize = 192;

/// The length of the readable part of a longer one.
const READABLE: usize = 120;

/// Returns the name for a key. Different keys have different names.
///
/// A `%` is followed by two upper-case digits where it encodes a byte, and by a lower-case letter where a special
/// rule applies. So no encoded key equals a name that a special rule produces.
pub(super) fn node_name(key: &str) -> String {
    if key.is_empty() {
        return "%empty".into();
    }
    // ZooKeeper refuses the first two, and has the third one at its root.
    let encodes_first = matches!(key, "." | ".." | "zookeeper");
    let mut name = String::with_capacity(key.len());
    for (at, byte) in key.bytes().enumerate() {
        if stays(byte) && !(encodes_first && at == 0) {
            name.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    if name.len() > WHOLE { shortened(name, key) } else { name }
}

fn stays(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'@')
}

/// Keeps the beginning of an encoded key, and appends a hash of the key.
fn shortened(mut name: String, key: &str) -> String {
    name.truncate(READABLE);
    // An escape may have been cut off.
    if let Some(cut) = name[READABLE - 2..].find('%') {
        name.truncate(READABLE - 2 + cut);
    }
    name.push_str("%sha256:");
    for byte in Sha256::digest(key) {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::client::validate_path;

    /// Computed by the Java code in the documentation of `Locks`.
    #[test]
    fn names_are_as_documented() {
        let a = |count: usize| "a".repeat(count);
        let examples = [
            ("order-4711", "order-4711".to_owned()),
            ("eu:user_7@example.org", "eu:user_7@example.org".into()),
            ("a b+c*d~e:f@g", "a%20b%2Bc%2Ad~e:f@g".into()),
            ("a/b", "a%2Fb".into()),
            ("", "%empty".into()),
            ("%empty", "%25empty".into()),
            ("%", "%25".into()),
            ("%2E", "%252E".into()),
            (".", "%2E".into()),
            ("..", "%2E.".into()),
            ("...", "...".into()),
            ("zookeeper", "%7Aookeeper".into()),
            ("Zookeeper", "Zookeeper".into()),
            ("\0\n\u{7f}", "%00%0A%7F".into()),
            ("Grüße", "Gr%C3%BC%C3%9Fe".into()),
            ("😀", "%F0%9F%98%80".into()),
            (&a(192), a(192)),
            (&a(193), a(120) + "%sha256:33f93a9879ef18f9779150b2dbace6f8cc17b29e1af6be4e1048fc647489f1c2"),
            // The last escape of 120 bytes is cut off after its first digit.
            (
                &("x".to_owned() + &"/".repeat(64)),
                "x".to_owned()
                    + &"%2F".repeat(39)
                    + "%sha256:d277c0027ba2964e21711be88c7479afae3d99ccc7403d0a87d9e799850a0964",
            ),
            // Ends with a whole escape at 120 bytes.
            (
                &"é".repeat(40),
                "%C3%A9".repeat(20)
                    + "%sha256:84fe2e03d50dd3a18b630669d7d5e361117ac6af9cbb487c284c8e6c91a9758a",
            ),
        ];
        for (key, name) in examples {
            assert_eq!(node_name(key), name, "{key:?}");
        }
    }

    /// Texts that are likely to get the same name, if any do.
    fn key() -> impl Strategy<Value = String> {
        let pieces = prop::sample::select(vec![
            ".",
            "..",
            "/",
            "%",
            "%2E",
            "%2e",
            "%25",
            "%empty",
            "%sha256:",
            "zookeeper",
            "a",
            "z",
            "é",
            "😀",
            "\0",
            "E",
            "2",
        ]);
        let of_pieces = prop::collection::vec(pieces, 0..5).prop_map(|pieces| pieces.concat());
        let long = (any::<String>(), 100..200_usize).prop_map(|(end, count)| "a".repeat(count) + &end);
        let encoded = any::<String>().prop_map(|key| node_name(&key));
        let shortened = long.clone().prop_map(|key| node_name(&key));
        prop_oneof![any::<String>(), of_pieces, long, encoded, shortened]
    }

    /// Decodes the key from a name that contains it whole.
    fn decoded(name: &str) -> Option<String> {
        if name == "%empty" {
            return Some(String::new());
        }
        let mut bytes = Vec::new();
        let mut rest = name.as_bytes();
        while let [first, behind @ ..] = rest {
            let (byte, behind) = match (first, behind) {
                (b'%', [high, low, behind @ ..]) => {
                    let digits = [*high, *low];
                    let digits = std::str::from_utf8(&digits).ok()?;
                    (u8::from_str_radix(digits, 16).ok()?, behind)
                }
                (b'%', _) => return None,
                _ => (*first, behind),
            };
            bytes.push(byte);
            rest = behind;
        }
        String::from_utf8(bytes).ok()
    }

    proptest! {
        #[test]
        fn every_name_is_valid(key in key()) {
            let name = node_name(&key);
            prop_assert_eq!(validate_path(&format!("/{name}")), Ok(()));
            prop_assert!(name.is_ascii() && name.len() <= WHOLE && !name.contains('/') && name != "zookeeper");
        }

        #[test]
        fn a_name_leads_back_to_its_key(key in key()) {
            let name = node_name(&key);
            match name.split_once("%sha256:") {
                None => prop_assert_eq!(decoded(&name), Some(key)),
                Some((beginning, hash)) => {
                    prop_assert!(key.len() > WHOLE / 3 && hash.len() == 64 && beginning.len() >= READABLE - 2);
                    // Otherwise it would be the name of that key.
                    prop_assert_eq!(decoded(&name), None);
                }
            }
        }

        #[test]
        fn no_two_keys_have_the_same_name(keys in prop::collection::vec(key(), 2..20)) {
            let mut named: HashMap<String, &str> = HashMap::new();
            for key in &keys {
                let before = *named.entry(node_name(key)).or_insert(key);
                prop_assert_eq!(before, key);
            }
        }
    }
}
