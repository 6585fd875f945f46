//! The settings of a client, as the builder leaves them.

use std::sync::Arc;
use std::time::Duration;

use super::acl::AclProvider;
use super::hosts::Hosts;
use super::retry::RetryPolicy;
use super::validity::Terms;

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

    pub(super) fn chroot(&self) -> &str {
        match self {
            Self::Own { hosts, .. } => &hosts.chroot,
            Self::Adopted { chroot } => chroot,
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
