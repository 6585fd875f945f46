//! One of the writes in a transaction.

use std::time::Duration;

use zookeeper_client::{self as zk, Acl, Acls, CreateMode};

/// An operation of a transaction. Paths are full.
#[derive(Debug)]
pub(crate) enum Write<'a> {
    Check {
        path: &'a str,
        version: Option<i32>,
    },
    Create {
        path: &'a str,
        data: &'a [u8],
        mode: CreateMode,
        acl: &'a [Acl],
    },
    /// Creates a persistent node with a time to live.
    CreateTtl {
        path: &'a str,
        data: &'a [u8],
        ttl: Duration,
        acl: &'a [Acl],
    },
    SetData {
        path: &'a str,
        data: &'a [u8],
        version: Option<i32>,
    },
    Delete {
        path: &'a str,
        version: Option<i32>,
    },
}

impl Write<'_> {
    pub(super) fn add_to(&self, writer: &mut zk::MultiWriter<'_>) -> Result<(), zk::Error> {
        match *self {
            Self::Check { path, version } => writer.add_check_version(path, version.unwrap_or(-1)),
            Self::Create { path, data, mode, acl } => {
                writer.add_create(path, data, &mode.with_acls(Acls::new(acl)))
            }
            Self::CreateTtl { path, data, ttl, acl } => {
                let options = CreateMode::Persistent.with_acls(Acls::new(acl)).with_ttl(ttl);
                writer.add_create(path, data, &options)
            }
            Self::SetData { path, data, version } => writer.add_set_data(path, data, version),
            Self::Delete { path, version } => writer.add_delete(path, version),
        }
    }
}
