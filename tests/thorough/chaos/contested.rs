//! What all want: two locks, and a leadership that kazoo has no recipe for.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contested {
    Mutex,
    ReadWrite,
    Leadership,
}

impl Contested {
    pub(crate) const ALL: [Self; 3] = [Self::Mutex, Self::ReadWrite, Self::Leadership];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Mutex => "/chaos/mutex",
            Self::ReadWrite => "/chaos/read-write",
            Self::Leadership => "/chaos/leadership",
        }
    }
}
