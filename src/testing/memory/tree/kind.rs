//! The kinds of nodes.

use super::super::code::Code;

/// The owner by which a container is known.
const CONTAINER: i64 = i64::MIN;
/// What owners of nodes with a time to live begin with; the rest is that time.
const TTL: i64 = -1 << 56;
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

/// What an owner, as it is part of a node's `Stat`, stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    None,
    Session(i64),
    Container,
    Ttl(i64),
}

impl Kind {
    pub(super) fn owner(self, session: i64) -> Result<i64, Code> {
        match self {
            Self::Persistent => Ok(0),
            Self::Ephemeral => Ok(session),
            Self::Container => Ok(CONTAINER),
            Self::Ttl(ttl @ 1..=LONGEST_TTL) => Ok(TTL | ttl),
            Self::Ttl(_) => Err(Code::BadArguments),
        }
    }
}

impl Owner {
    pub(super) fn of(owner: i64) -> Self {
        match owner {
            0 => Self::None,
            CONTAINER => Self::Container,
            owner if owner & TTL == TTL => Self::Ttl(owner & LONGEST_TTL),
            owner => Self::Session(owner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_tell_the_kind() {
        assert_eq!(Owner::of(Kind::Persistent.owner(7).unwrap()), Owner::None);
        assert_eq!(Owner::of(Kind::Ephemeral.owner(7).unwrap()), Owner::Session(7));
        assert_eq!(Owner::of(Kind::Container.owner(7).unwrap()), Owner::Container);
        assert_eq!(Owner::of(Kind::Ttl(LONGEST_TTL).owner(7).unwrap()), Owner::Ttl(LONGEST_TTL));
        for ttl in [0, -1, LONGEST_TTL + 1] {
            assert_eq!(Kind::Ttl(ttl).owner(7), Err(Code::BadArguments));
        }
    }
}
