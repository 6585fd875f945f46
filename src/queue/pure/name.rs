//! The names of the nodes in a queue: those that we write, and those of other libraries that we recognise.

use std::hash::{Hash, Hasher};

/// What a contender excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// All other contenders.
    Exclusive,
    /// Exclusive contenders only.
    Shared,
    /// A contender of another recipe, with which this one must not share a path.
    Foreign(&'static str),
}

/// The node names of one recipe.
///
/// A name ends in a marker and the ten-character sequence number that the server appends. The first marker of each
/// kind is ours; the others are those of other libraries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// The name of the recipe in messages.
    recipe: &'static str,
    markers: &'static [(Kind, &'static str)],
}

/// The model hashes many contenders.
impl Hash for Names {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.recipe.hash(state);
    }
}

/// The recipes that can meet on one path. Contenders that one recipe recognises may share its path.
const RECIPES: [&Names; 4] = [&MUTEX, &READ_WRITE, &LATCH, &LEASES];

/// The child of a semaphore's path that has one node for each permit in use.
pub(crate) const LEASES_CHILD: &str = "leases";

/// The child of a semaphore's path that is the queue of those who want permits.
pub(crate) const GATE_CHILD: &str = "locks";

/// Whether the children of a path include those of a semaphore. It need not be in use, and other locks may have paths
/// of these names.
pub(crate) fn may_be_semaphore(children: &[String]) -> bool {
    [GATE_CHILD, LEASES_CHILD].iter().all(|own| children.iter().any(|child| child == own))
}

/// `InterProcessMutex`: `_c_<uuid>-lock-<sequence>` of Curator and go-zookeeper (whose uuid has no dashes),
/// and kazoo's `<uuid>__lock__<sequence>`.
pub(crate) const MUTEX: Names =
    Names { recipe: "mutex", markers: &[(Kind::Exclusive, "lock-"), (Kind::Exclusive, "__lock__")] };

/// `LeaderLatch`: `_c_<uuid>-latch-<sequence>` of Curator and `zookeeper-client`. A `LeaderSelector` is a [`MUTEX`].
pub(crate) const LATCH: Names = Names { recipe: "leader latch", markers: &[(Kind::Exclusive, "latch-")] };

/// `InterProcessReadWriteLock`: Curator's `__WRIT__` and `__READ__`, kazoo's `__lock__` and `__rlock__`.
pub(crate) const READ_WRITE: Names = Names {
    recipe: "read/write lock",
    markers: &[
        (Kind::Exclusive, "__WRIT__"),
        (Kind::Exclusive, "__lock__"),
        (Kind::Shared, "__READ__"),
        (Kind::Shared, "__rlock__"),
    ],
};

/// The leases of `InterProcessSemaphoreV2`. The client that owns a lease holds a permit.
pub(crate) const LEASES: Names = Names { recipe: "semaphore", markers: &[(Kind::Shared, "lease-")] };

/// Every contender that can be at the path of a lock or an election, for callers that do not know the recipe.
pub(crate) const ANY_LOCK: Names = Names {
    recipe: "lock or election",
    markers: &[
        (Kind::Exclusive, "lock-"),
        (Kind::Exclusive, "latch-"),
        (Kind::Exclusive, "__WRIT__"),
        (Kind::Exclusive, "__lock__"),
        (Kind::Shared, "__READ__"),
        (Kind::Shared, "__rlock__"),
    ],
};

impl Names {
    /// Returns the name of the recipe in messages.
    pub(crate) fn recipe(&self) -> &'static str {
        self.recipe
    }

    /// Whether the recipe has shared contenders besides exclusive ones.
    pub(crate) fn have_shared(&self) -> bool {
        self.markers.iter().any(|(kind, _)| *kind == Kind::Shared)
    }

    /// Returns the marker in the names of our nodes.
    pub(crate) fn marker(&self, kind: Kind) -> &'static str {
        let own = self.markers.iter().find(|(marked, _)| *marked == kind);
        own.map(|(_, marker)| *marker).expect("a recipe is asked for kinds that it has")
    }

    /// Returns the kind and the sequence number of a contender of this recipe; `None` for any other child.
    pub(crate) fn read(&self, name: &str) -> Option<(Kind, i32)> {
        self.markers.iter().find_map(|(kind, marker)| {
            let (prefix, sequence) = name.rsplit_once(marker)?;
            // `clock-0000000001` is not `lock-0000000001`.
            let whole = prefix.is_empty() || prefix.ends_with('-') || marker.starts_with('_');
            Some((*kind, parse_sequence(sequence).filter(|_| whole)?))
        })
    }

    /// Returns the kind and the sequence number of a contender of any recipe. One of another recipe is
    /// [`Kind::Foreign`].
    pub(crate) fn read_any(&self, name: &str) -> Option<(Kind, i32)> {
        let foreign =
            |names: &Names| names.read(name).map(|(_, sequence)| (Kind::Foreign(names.recipe), sequence));
        self.read(name).or_else(|| RECIPES.into_iter().find_map(foreign))
    }
}

/// Parses what the server's `%010d` wrote, and nothing else. Past 2^31 it is negative: `-2147483648`.
fn parse_sequence(text: &str) -> Option<i32> {
    let digits = text.strip_prefix('-');
    let (digits, width) = digits.map_or((text, 10), |digits| (digits, 9));
    let is_padded = digits.len() == width || width == 9 && digits.len() == 10 && !digits.starts_with('0');
    let sequence: i32 = text.parse().ok()?;
    (is_padded && digits.as_bytes()[0] != b'+' && (sequence < 0) == (width == 9)).then_some(sequence)
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
            assert_eq!(MUTEX.read(name), Some((Kind::Exclusive, sequence)), "{name}");
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
            assert_eq!(MUTEX.read(name), None, "{name}");
        }
    }

    #[test]
    fn recipes_do_not_take_the_nodes_of_one_another() {
        let lock = "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-lock-0000000001";
        let read = "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-__READ__0000000001";
        let lease = "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-lease-0000000001";
        let latch = "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-latch-0000000001";
        for (names, others) in [
            (&MUTEX, [read, lease, latch]),
            (&READ_WRITE, [lock, lease, latch]),
            (&LEASES, [lock, read, latch]),
            (&LATCH, [lock, read, lease]),
        ] {
            for name in others {
                assert_eq!(names.read(name), None, "{name}");
            }
        }
        for (names, name, recipe) in [
            (&MUTEX, read, "read/write lock"),
            (&MUTEX, latch, "leader latch"),
            (&MUTEX, lease, "semaphore"),
            (&READ_WRITE, lock, "mutex"),
            (&READ_WRITE, latch, "leader latch"),
            (&LATCH, lock, "mutex"),
            (&LATCH, read, "read/write lock"),
            (&LEASES, lock, "mutex"),
        ] {
            assert_eq!(names.read_any(name), Some((Kind::Foreign(recipe), 1)), "{name}");
        }
        assert_eq!(ANY_LOCK.read(lock), Some((Kind::Exclusive, 1)));
        assert_eq!(ANY_LOCK.read(read), Some((Kind::Shared, 1)));
        assert_eq!(ANY_LOCK.read(latch), Some((Kind::Exclusive, 1)));
        assert_eq!(ANY_LOCK.read(lease), None);
    }

    #[test]
    fn what_kazoo_writes_for_two_recipes_is_welcome_in_both() {
        let kazoo = "3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f__lock__0000000009";
        let reader = "3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f__rlock__0000000009";
        for names in [&MUTEX, &READ_WRITE] {
            assert_eq!(names.read_any(kazoo), Some((Kind::Exclusive, 9)));
        }
        assert_eq!(READ_WRITE.read_any(reader), Some((Kind::Shared, 9)));
        assert_eq!(MUTEX.read_any(reader), Some((Kind::Foreign("read/write lock"), 9)));
        assert_eq!(LATCH.read_any(kazoo), Some((Kind::Foreign("mutex"), 9)));
        assert_eq!(MUTEX.read_any("config"), None);
    }

    proptest! {
        #[test]
        fn reads_back_every_sequence(sequence in any::<i32>(), prefix in "[a-z0-9_-]{0,12}") {
            for (names, marker, kind) in [
                (&MUTEX, "-lock-", Kind::Exclusive),
                (&MUTEX, "__lock__", Kind::Exclusive),
                (&READ_WRITE, "-__WRIT__", Kind::Exclusive),
                (&READ_WRITE, "-__READ__", Kind::Shared),
                (&READ_WRITE, "__READ__", Kind::Shared),
                (&READ_WRITE, "__rlock__", Kind::Shared),
                (&LEASES, "-lease-", Kind::Shared),
                (&LATCH, "-latch-", Kind::Exclusive),
            ] {
                let name = format!("{prefix}{marker}{sequence:010}");
                prop_assert_eq!(names.read(&name), Some((kind, sequence)), "{}", name);
            }
        }

        #[test]
        fn takes_any_text_without_panic(name in "\\PC*") {
            let _ = (MUTEX.read(&name), READ_WRITE.read(&name), LEASES.read(&name), LATCH.read(&name));
        }
    }
}
