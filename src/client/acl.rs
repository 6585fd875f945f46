//! The ACLs of the nodes that a client creates.

use std::borrow::Cow;
use std::sync::Arc;

use zookeeper_client::{Acl, Acls, AuthId, Permission};

type PerPath = Arc<dyn Fn(&str) -> Option<Vec<Acl>> + Send + Sync>;

/// What applies if no default was set.
static OPEN: Acls<'static> = Acls::anyone_all();

/// The ACLs of a client's nodes: per path, with a default.
#[derive(Clone, Default)]
pub(super) struct AclProvider {
    /// `None` leaves the nodes open to everyone.
    pub(super) default: Option<Vec<Acl>>,
    pub(super) per_path: Option<PerPath>,
}

impl AclProvider {
    /// Whether no ACL was configured, so that everyone has all permissions.
    pub(super) fn is_open_by_default(&self) -> bool {
        self.default.is_none() && self.per_path.is_none()
    }

    /// Whether the default ACL refers to the identities that the session is authenticated with.
    pub(super) fn default_names_creator(&self) -> bool {
        self.default.iter().flatten().any(|acl| acl.auth_id() == &AuthId::authed())
    }

    pub(super) fn of(&self, path: &str) -> Cow<'_, [Acl]> {
        match self.per_path.as_ref().and_then(|per_path| per_path(path)) {
            Some(acl) => Cow::Owned(acl),
            None => Cow::Borrowed(self.default.as_deref().unwrap_or(&OPEN)),
        }
    }
}

/// What everyone may do at a path with the ACL `found`, but not by our own ACL, and by which they can take locks there.
pub(crate) fn opened(found: &[Acl], own: &[Acl]) -> Permission {
    let of_all = |acls: &[Acl]| {
        let anyone = acls.iter().filter(|acl| acl.auth_id() == &AuthId::anyone());
        anyone.fold(Permission::NONE, |all, acl| all | acl.permission())
    };
    let (found, own) = (of_all(found), of_all(own));
    [Permission::CREATE, Permission::DELETE, Permission::ADMIN]
        .into_iter()
        .filter(|permission| found.has(*permission) && !own.has(*permission))
        .fold(Permission::NONE, |opened, permission| opened | permission)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_open_than_our_own_nodes_is_seen() {
        let [all, read, own] =
            [Acls::anyone_all(), Acls::anyone_read(), Acls::creator_all()].map(|acls| acls.to_vec());
        assert_eq!(opened(&all, &own), Permission::CREATE | Permission::DELETE | Permission::ADMIN);
        assert_eq!(opened(&all, &all), Permission::NONE);
        assert_eq!(opened(&read, &own), Permission::NONE);
        assert_eq!(opened(&own, &own), Permission::NONE);
        let mixed = [&read[..], &[Acl::new(Permission::DELETE, AuthId::anyone())]].concat();
        assert_eq!(opened(&mixed, &read), Permission::DELETE);
    }
}
