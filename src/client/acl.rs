//! The ACLs of the nodes that a client creates.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use zookeeper_client::{Acl, Acls, AuthId, Permission};

type PerPath = Arc<dyn Fn(&str) -> Option<Vec<Acl>> + Send + Sync>;

/// The ACLs of a client's nodes: per path, with a default.
#[derive(Clone)]
pub(crate) struct AclProvider {
    default: Vec<Acl>,
    /// Whether the default was set, rather than left open to everyone.
    is_default_set: bool,
    per_path: Option<PerPath>,
}

impl AclProvider {
    pub(crate) fn set_default(&mut self, acl: Vec<Acl>) {
        self.default = acl;
        self.is_default_set = true;
    }

    pub(crate) fn set_per_path(&mut self, per_path: PerPath) {
        self.per_path = Some(per_path);
    }

    /// Whether no ACL was configured, so that everyone has all permissions.
    pub(crate) fn is_open_by_default(&self) -> bool {
        !self.is_default_set && self.per_path.is_none()
    }

    /// Whether the default ACL refers to the identities that the session is authenticated with.
    pub(crate) fn default_names_creator(&self) -> bool {
        self.default.iter().any(|acl| acl.auth_id() == &AuthId::authed())
    }

    pub(crate) fn default_is_empty(&self) -> bool {
        self.default.is_empty()
    }

    pub(crate) fn of(&self, path: &str) -> Cow<'_, [Acl]> {
        match self.per_path.as_ref().and_then(|per_path| per_path(path)) {
            Some(acl) => Cow::Owned(acl),
            None => Cow::Borrowed(&self.default),
        }
    }
}

impl Default for AclProvider {
    fn default() -> Self {
        Self { default: Acls::anyone_all().to_vec(), is_default_set: false, per_path: None }
    }
}

impl fmt::Debug for AclProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default: Vec<String> = self.default.iter().map(without_hash).collect();
        f.debug_struct("AclProvider")
            .field("default", &default)
            .field("has_per_path", &self.per_path.is_some())
            .finish()
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

/// Formats an ACL. Identities of the scheme "digest" end in an unsalted password hash, which is left out.
fn without_hash(acl: &Acl) -> String {
    let id = match acl.scheme() {
        "digest" => acl.id().split(':').next().unwrap_or_default(),
        _ => acl.id(),
    };
    format!("{}:{id} {:?}", acl.scheme(), acl.permission())
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

    #[test]
    fn debug_prints_no_hash_of_a_password() {
        let mut acls = AclProvider::default();
        acls.set_default(vec![
            Acl::new(Permission::READ, AuthId::new("digest", "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E=")),
            Acl::new(Permission::ALL, AuthId::new("ip", "10.0.0.1")),
        ]);
        let text = format!("{acls:?}");
        assert!(text.contains("digest:alice ") && text.contains("ip:10.0.0.1 "), "{text}");
        assert!(!text.contains("aYXlLOp"), "{text}");
    }
}
