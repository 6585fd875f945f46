//! An ephemeral node before its create, and after it.

use std::borrow::Cow;

use zookeeper_client::{Acl, CreateMode};

use super::super::write::Write;

/// An ephemeral node to be created.
#[derive(Debug)]
pub(crate) struct NewNode<'a> {
    pub(crate) path: String,
    /// Whether the server appends the next number to the path.
    pub(crate) numbered: bool,
    pub(crate) data: Cow<'a, [u8]>,
    pub(crate) acl: Cow<'a, [Acl]>,
}

/// The result of a successful create.
#[derive(Debug)]
pub(crate) struct Created {
    /// The path, including what the server has appended.
    pub(crate) path: String,
    /// The transaction that created the node. Old servers do not report it for creates within a transaction.
    pub(crate) czxid: Option<i64>,
}

impl NewNode<'_> {
    pub(super) fn to_owned(&self) -> NewNode<'static> {
        let Self { path, numbered, data, acl } = self;
        let (data, acl) = (Cow::Owned(data.to_vec()), Cow::Owned(acl.to_vec()));
        NewNode { path: path.clone(), numbered: *numbered, data, acl }
    }

    /// Returns the operation that creates the node in a transaction.
    pub(crate) fn to_write(&self) -> Write<'_> {
        Write::Create { path: &self.path, data: &self.data, mode: self.mode(), acl: &self.acl }
    }

    pub(super) fn mode(&self) -> CreateMode {
        if self.numbered { CreateMode::EphemeralSequential } else { CreateMode::Ephemeral }
    }
}
