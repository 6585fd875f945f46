//! The names of the nodes in a queue: what we write, and what of others we recognise.

/// How the contenders of one recipe are named.
///
/// A name ends in a marker and the ten-character sequence number that the server appends.
#[derive(Debug)]
pub(crate) struct Names {
    /// The marker of the nodes we create.
    own: &'static str,
    /// Markers of other libraries that stand for the same recipe.
    foreign: &'static [&'static str],
}

/// `InterProcessMutex`: `_c_<uuid>-lock-<sequence>` of Curator and go-zookeeper (whose uuid has no dashes),
/// and kazoo's `<uuid>__lock__<sequence>`.
pub(crate) const MUTEX: Names = Names { own: "lock-", foreign: &["__lock__"] };

impl Names {
    pub(crate) fn marker(&self) -> &'static str {
        self.own
    }

    /// The sequence number of a contender of this recipe; `None` for a child that is none.
    pub(crate) fn sequence_of(&self, name: &str) -> Option<i32> {
        let own = || {
            let (prefix, sequence) = name.rsplit_once(self.own)?;
            // `clock-0000000001` is not `lock-0000000001`.
            (prefix.is_empty() || prefix.ends_with('-')).then_some(sequence)
        };
        let foreign =
            || self.foreign.iter().find_map(|marker| name.rsplit_once(marker).map(|(_, rest)| rest));
        own().and_then(parse_sequence).or_else(|| foreign().and_then(parse_sequence))
    }
}

/// Reads what the server's `%010d` wrote, and nothing else. Past 2^31 it is negative: `-2147483648`.
fn parse_sequence(text: &str) -> Option<i32> {
    let sequence: i32 = text.parse().ok()?;
    (text == format!("{sequence:010}")).then_some(sequence)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn recognises_every_writer_of_the_recipe() {
        for (name, sequence) in [
            ("_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-lock-0000000007", 7),
            ("_c_3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f-lock-0000000008", 8),
            ("3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f__lock__0000000009", 9),
            ("3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f-lock-0000000010", 10),
            ("lock-0000000011", 11),
            ("_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-lock-2147483647", i32::MAX),
            ("_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-lock--2147483648", i32::MIN),
            ("3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f__lock__-2147483647", i32::MIN + 1),
            ("_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-lock--000000005", -5),
        ] {
            assert_eq!(MUTEX.sequence_of(name), Some(sequence), "{name}");
        }
    }

    #[test]
    fn leaves_other_children_alone() {
        for name in [
            "",
            "lock-",
            "config",
            "0-foreign",
            "clock-0000000001",
            "lock-1",
            "lock-00000000001",
            "lock-+000000001",
            "lock-9999999999",
            "lock-0000000001x",
            "lock--0000000001",
            "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-latch-0000000001",
            "3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f__rlock__0000000001",
            "ключ-lock-000000000١",
        ] {
            assert_eq!(MUTEX.sequence_of(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn reads_back_every_sequence(sequence in any::<i32>(), prefix in "[a-z0-9_-]{0,12}") {
            prop_assert_eq!(MUTEX.sequence_of(&format!("{prefix}-lock-{sequence:010}")), Some(sequence));
            prop_assert_eq!(MUTEX.sequence_of(&format!("{prefix}__lock__{sequence:010}")), Some(sequence));
        }

        #[test]
        fn takes_any_text_without_panic(name in "\\PC*") {
            let _ = MUTEX.sequence_of(&name);
        }
    }
}
