//! Who may do what with the nodes that a client creates.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use zookeeper_client::{Acl, Acls};

type PerPath = Arc<dyn Fn(&str) -> Option<Vec<Acl>> + Send + Sync>;

/// The ACLs of a client's nodes: per path, else a default for all.
#[derive(Clone)]
pub(crate) struct AclProvider {
    default: Vec<Acl>,
    per_path: Option<PerPath>,
}

impl AclProvider {
    pub(crate) fn set_default(&mut self, acl: Vec<Acl>) {
        self.default = acl;
    }

    pub(crate) fn set_per_path(&mut self, per_path: PerPath) {
        self.per_path = Some(per_path);
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
        Self { default: Acls::anyone_all().to_vec(), per_path: None }
    }
}

impl fmt::Debug for AclProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AclProvider")
            .field("default", &self.default)
            .field("has_per_path", &self.per_path.is_some())
            .finish()
    }
}
