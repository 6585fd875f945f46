//! The settings of a client, as the builder leaves them.

use std::sync::Arc;
use std::time::Duration;

use super::acl::AclProvider;
use super::hosts::Hosts;
use super::retry::RetryPolicy;
use super::validity::Terms;
use crate::meters::Labels;

/// The settings of a client.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) origin: Origin,
    /// Empty, or `/namespace`.
    pub(super) namespace: String,
    pub(super) acls: AclProvider,
    pub(super) retry: RetryPolicy,
    pub(super) connection_timeout: Duration,
    pub(super) drop_timeout: Duration,
    pub(super) terms: Terms,
    pub(super) compresses: bool,
    pub(super) labels: Labels,
    /// Whether it is the [second session](super::watching) of another client.
    pub(super) is_for_watches: bool,
}

/// Where the sessions of a client come from.
#[derive(Debug)]
pub(super) enum Origin {
    Own {
        connect_string: String,
        /// The parsed connect string.
        hosts: Arc<Hosts>,
    },
    Adopted {
        session_id: i64,
        chroot: String,
    },
}

impl Origin {
    /// Returns the servers, for messages.
    pub(super) fn servers(&self) -> String {
        match self {
            Self::Own { connect_string, .. } => connect_string.clone(),
            Self::Adopted { .. } => "the adopted session".into(),
        }
    }

    /// Whether both are seen to lead to the same servers.
    pub(super) fn has_servers_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Own { hosts, .. }, Self::Own { hosts: other, .. }) => hosts.share_a_server_with(other),
            (Self::Adopted { session_id, .. }, Self::Adopted { session_id: other, .. }) => {
                session_id == other
            }
            (Self::Own { .. }, Self::Adopted { .. }) | (Self::Adopted { .. }, Self::Own { .. }) => false,
        }
    }

    pub(super) fn chroot(&self) -> &str {
        match self {
            Self::Own { hosts, .. } => &hosts.chroot,
            Self::Adopted { chroot, .. } => chroot,
        }
    }

    /// Returns the addresses of the servers that accept unencrypted connections; `None` if the session is adopted.
    #[cfg(feature = "testing")]
    pub(super) fn plain_servers(&self) -> Option<Vec<String>> {
        match self {
            Self::Own { hosts, .. } => {
                let plain = hosts.servers.iter().filter(|server| !server.is_encrypted);
                Some(plain.map(ToString::to_string).collect())
            }
            Self::Adopted { .. } => None,
        }
    }
}
