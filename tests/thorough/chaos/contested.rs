//! The locks that all want.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contested {
    Mutex,
    ReadWrite,
}

impl Contested {
    pub(crate) const ALL: [Self; 2] = [Self::Mutex, Self::ReadWrite];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Mutex => "/chaos/mutex",
            Self::ReadWrite => "/chaos/read-write",
        }
    }
}
