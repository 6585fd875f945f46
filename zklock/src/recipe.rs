//! What the names of nodes say about the recipe that wrote them.

/// The recipes that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// Also a leader selector: its nodes are the same.
    Mutex,
    ReadWrite,
    Latch,
    Semaphore,
}

/// What a participant does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Of a mutex; by the name that kazoo gives it, also of a writer.
    Lock,
    Write,
    Read,
    Latch,
    Lease,
}

const MARKERS: [(&str, Role); 7] = [
    ("__WRIT__", Role::Write),
    ("__READ__", Role::Read),
    ("__rlock__", Role::Read),
    ("__lock__", Role::Lock),
    ("lock-", Role::Lock),
    ("latch-", Role::Latch),
    ("lease-", Role::Lease),
];

impl Recipe {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::ReadWrite => "read/write lock",
            Self::Latch => "leader latch",
            Self::Semaphore => "semaphore",
        }
    }

    /// Finds out what a path is used for by its children; `None` if nobody takes part in anything there.
    pub(crate) fn of(children: &[String]) -> Option<Self> {
        let is_semaphore = ["locks", "leases"].iter().all(|part| children.iter().any(|name| name == part));
        if is_semaphore {
            return Some(Self::Semaphore);
        }
        let roles = || children.iter().filter_map(|name| participant(name)).map(|(role, _)| role);
        if roles().any(|role| matches!(role, Role::Read | Role::Write)) {
            return Some(Self::ReadWrite);
        }
        roles().find_map(|role| match role {
            Role::Lock => Some(Self::Mutex),
            Role::Latch => Some(Self::Latch),
            _ => None,
        })
    }
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Write => "write",
            Self::Read => "read",
            Self::Latch => "candidate",
            Self::Lease => "permit",
        }
    }
}

/// Reads the name of a participant's node, or its path: its role, and the number that the server gave it. That turns negative
/// after 2^31 children, and as an unsigned number goes on.
pub(crate) fn participant(name: &str) -> Option<(Role, u32)> {
    MARKERS.iter().find_map(|(marker, role)| {
        let (prefix, number) = name.rsplit_once(marker)?;
        // `clock-0000000001` is none.
        let is_whole = prefix.is_empty() || prefix.ends_with(['-', '/']) || marker.starts_with('_');
        let is_number =
            number.len() >= 10 && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        (is_whole && is_number).then_some((*role, number.parse::<i32>().ok()?.cast_unsigned()))
    })
}

/// Whether only a program gives such a name to a participant's node, and no user to a path.
pub(crate) fn is_unmistakable(name: &str) -> bool {
    name.starts_with("_c_") || name.contains("__lock__") || name.contains("__rlock__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn participants_are_told_from_other_nodes() {
        for (name, read) in [
            ("_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-lock-0000000007", Some((Role::Lock, 7))),
            ("3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f__lock__0000000009", Some((Role::Lock, 9))),
            ("3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f__rlock__0000000001", Some((Role::Read, 1))),
            ("_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-__WRIT__0000000002", Some((Role::Write, 2))),
            ("_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-latch-0000000003", Some((Role::Latch, 3))),
            ("lease-0000000003", Some((Role::Lease, 3))),
            ("lock--2147483648", Some((Role::Lock, 1 << 31))),
            ("leases/lease-0000000003", Some((Role::Lease, 3))),
            ("clock-0000000001", None),
            ("lock-1", None),
            ("locks", None),
            ("config", None),
        ] {
            assert_eq!(participant(name), read, "{name}");
        }
    }

    #[test]
    fn recipes_are_told_apart() {
        for (children, recipe) in [
            (&["x__lock__0000000001"][..], Some(Recipe::Mutex)),
            (&["x__lock__0000000001", "x__rlock__0000000002"], Some(Recipe::ReadWrite)),
            (&["latch-0000000001"], Some(Recipe::Latch)),
            (&["leases", "locks"], Some(Recipe::Semaphore)),
            (&["locks", "orders"], None),
            // A group, a double barrier of this library and of Curator, and numbered kept nodes.
            (&["web-1", "web-2"], None),
            (&["_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-member-0000000000", "ready"], None),
            (&["3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f", "ready"], None),
            (&["_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-web-0000000003"], None),
            (&[], None),
        ] {
            let children: Vec<_> = children.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(Recipe::of(&children), recipe, "{children:?}");
        }
    }
}
