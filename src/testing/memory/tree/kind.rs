//! The kinds of nodes.

/// The longest time to live, in milliseconds: 40 bits.
const LONGEST_TTL: i64 = (1 << 40) - 1;

/// How long a node lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    Persistent,
    /// As long as the session that creates it.
    Ephemeral,
    /// Until it has had children, and has none.
    Container,
    /// Until it has no children, and was not changed for this many milliseconds.
    Ttl(i64),
}

impl Kind {
    /// Whether all versions of ZooKeeper have it.
    pub(in super::super) fn is_plain(self) -> bool {
        matches!(self, Self::Persistent | Self::Ephemeral)
    }

    pub(super) fn is_valid(self) -> bool {
        match self {
            Self::Persistent | Self::Ephemeral | Self::Container => true,
            Self::Ttl(ttl) => (1..=LONGEST_TTL).contains(&ttl),
        }
    }
}
