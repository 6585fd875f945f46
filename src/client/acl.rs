//! The ACLs of the nodes that a client creates.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use zookeeper_client::{Acl, Acls, AuthId};

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
    use zookeeper_client::Permission;

    use super::*;

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
