//! Which versions of ZooKeeper to run.

use std::fmt;

use super::finding::Finding;

/// The first that has container nodes.
const OLDEST: Version = Version(3, 5, 3);
/// The first that this library is tested with.
const TESTED: Version = Version(3, 8, 0);

/// A release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u32, u32, u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Version {
    /// Reads `3.9.2-e454e8c7283100c7caec6dcae2bc82aaecb63023, built on ...`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let number = text.split(['-', ',', ' ']).next()?;
        let mut parts = number.split('.').map(str::parse);
        let mut next = || parts.next()?.ok();
        Some(Self(next()?, next()?, next()?))
    }

    /// Whether servers of this version can lose writes that they have confirmed, if they crash soon after a change of
    /// their leader: ZOOKEEPER-4785 and ZOOKEEPER-4925.
    fn loses_writes(self) -> bool {
        self < Self(3, 8, 4) || (self >= Self(3, 9, 0) && self < Self(3, 9, 2)) || self == Self(3, 9, 3)
    }

    /// Judges it, for one server of an ensemble or for a single one.
    pub(super) fn judge(self, is_in_ensemble: bool) -> Finding {
        const CHECK: &str = "version";
        if self < OLDEST {
            return Finding::problem(
                CHECK,
                format!("{self} has no container nodes, which locks need: run {OLDEST} or later"),
            );
        }
        if is_in_ensemble && self.loses_writes() {
            return Finding::warning(
                CHECK,
                format!(
                    "{self} can lose confirmed writes, and locks with them, after a change of leader: run 3.8.4, 3.9.2 or later, but not 3.9.3"
                ),
            );
        }
        if self < TESTED {
            return Finding::warning(CHECK, format!("{self} is older than all that locks are tested with"));
        }
        Finding::ok(CHECK, self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn versions_are_judged() {
        for (text, in_ensemble, alone) in [
            ("3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf, built on", Level::Problem, Level::Problem),
            ("3.5.3-beta--1, built on", Level::Warning, Level::Warning),
            ("3.7.2-x", Level::Warning, Level::Warning),
            ("3.8.3-x", Level::Warning, Level::Ok),
            ("3.8.4-x", Level::Ok, Level::Ok),
            ("3.9.1-x", Level::Warning, Level::Ok),
            ("3.9.2-x", Level::Ok, Level::Ok),
            ("3.9.3-x", Level::Warning, Level::Ok),
            ("3.9.4-x", Level::Ok, Level::Ok),
            ("4.0.0", Level::Ok, Level::Ok),
        ] {
            let version = Version::read(text).unwrap();
            assert_eq!(
                (version.judge(true).level, version.judge(false).level),
                (in_ensemble, alone),
                "{text}"
            );
        }
        assert_eq!(Version::read("unknown"), None);
    }
}
