//! What identifies one state of a node.

use zookeeper_client as zk;

/// Identifies one write to one node. Two versions are equal only if nothing was written in between, not even to another
/// node at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// The transaction that created the node.
    created: i64,
    /// The transaction that wrote to it last.
    written: i64,
    /// The number that the servers compare.
    number: i32,
}

/// A value, with the version that it had when it was read or written.
#[derive(Clone, PartialEq, Eq)]
pub struct Versioned<T> {
    value: T,
    version: Version,
}

debug_by!(<T: std::fmt::Debug> Versioned<T>, |it| version: it.version, value: it.value);

/// The outcome of a compare-and-set: the new value with its version, or the current one if nothing was written.
pub type CompareAndSet<T> = Result<Versioned<T>, Versioned<T>>;

impl Version {
    pub(crate) fn of(stat: &zk::Stat) -> Self {
        Self { created: stat.czxid, written: stat.mzxid, number: stat.version }
    }

    /// The number that the servers compare. It does not identify a version: see [the module](crate::shared).
    pub(super) fn number(&self) -> i32 {
        self.number
    }

    /// Whether both are versions of one node, which was not deleted in between.
    pub(crate) fn is_of_node_of(&self, other: &Self) -> bool {
        self.created == other.created
    }

    /// Whether there was exactly one write after `before`, on the same node. Servers that leave -1 out get from -2 to 0
    /// in one write, and others in two; so that counts as more than one.
    pub(super) fn follows(&self, before: &Self) -> bool {
        self.number == before.number.wrapping_add(1)
    }

    #[cfg(test)]
    pub(crate) fn new(created: i64, written: i64, number: i32) -> Self {
        Self { created, written, number }
    }
}

impl<T> Versioned<T> {
    pub(crate) fn new(value: T, version: Version) -> Self {
        Self { value, version }
    }

    /// Returns the value.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Returns the value, and drops its version.
    pub fn into_value(self) -> T {
        self.value
    }

    /// Returns the version, which tells whether the value was written in between, even if it is equal.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Converts the value.
    pub(crate) fn try_map<U, E>(self, convert: impl FnOnce(T) -> Result<U, E>) -> Result<Versioned<U>, E> {
        Ok(Versioned { value: convert(self.value)?, version: self.version })
    }

    pub(crate) fn map<U>(self, convert: impl FnOnce(T) -> U) -> Versioned<U> {
        Versioned { value: convert(self.value), version: self.version }
    }
}
