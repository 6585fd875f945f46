//! What all handles of a client share, from its start on.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::builder::ClientBuilder;
use super::home::Home;
use super::hosts::Hosts;
use super::janitor::Janitor;
use super::link::Link;
use super::process::Process;
use super::supervisor::{self, Source};

/// What all handles of a client share.
pub(super) struct Core {
    pub(super) settings: ClientBuilder,
    pub(super) origin: Origin,
    /// Empty, or `/namespace`.
    pub(super) namespace: String,
    /// The configured identity, or the default one once the local address is known.
    pub(super) identity: OnceLock<Vec<u8>>,
    /// The default identity without the local address.
    pub(super) identity_without_address: Vec<u8>,
    pub(super) link: Arc<Link>,
    pub(super) janitor: Janitor,
    pub(super) home: Home,
    /// What the layers above keep for the client: at most one value of each type.
    pub(super) extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// The [second session](super::watching) of the client, which has its persistent watches, apart from the one-shot
    /// ones: before ZooKeeper 3.9, watches of both kinds on one path of one session may end each other (ZOOKEEPER-4466,
    /// ZOOKEEPER-4472), and no event tells of it. Made when it is first needed.
    pub(super) watching: Mutex<Option<Arc<Core>>>,
    /// Cancelled when the client begins to close: leaders must end their work.
    pub(super) leaving: CancellationToken,
    /// The work that must end before the session does.
    pub(super) stays: TaskTracker,
    /// The longest grace period that was requested for such work.
    pub(super) grace: Mutex<Duration>,
    pub(super) closed: CancellationToken,
    /// Cancelled when the session has been let go.
    pub(super) ended: CancellationToken,
}

/// Where the sessions of a client come from.
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

impl Core {
    /// Starts a client.
    pub(super) fn start(settings: ClientBuilder, origin: Origin, home: Home, source: Source) -> Arc<Self> {
        let _at_home = home.runtime().enter();
        let process = Process::here(settings.program.as_deref());
        let namespace = match settings.namespace.as_str() {
            "" => String::new(),
            namespace => format!("/{namespace}"),
        };
        let core = Arc::new(Self {
            link: Arc::new(Link::new(origin.servers(), settings.is_for_watches)),
            identity: settings.identity.clone().map(OnceLock::from).unwrap_or_default(),
            identity_without_address: process.to_data(),
            janitor: Janitor::start(&home),
            settings,
            origin,
            namespace,
            home,
            extensions: Mutex::default(),
            watching: Mutex::default(),
            leaving: CancellationToken::new(),
            stays: TaskTracker::new(),
            grace: Mutex::default(),
            closed: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        core.home.spawn(supervisor::supervise(core.clone(), source, process));
        core
    }

    /// Waits until all sessions have been let go.
    pub(super) async fn let_go(&self) {
        self.ended.cancelled().await;
        let watching = self.watching.lock().clone();
        if let Some(watching) = watching {
            watching.ended.cancelled().await;
        }
    }

    /// Closes the client when the work of its leaders has ended.
    pub(super) fn begin_to_close(&self) {
        self.leaving.cancel();
        self.stays.close();
        if self.stays.is_empty() {
            self.closed.cancel();
            return;
        }
        let (stays, closed, grace) = (self.stays.clone(), self.closed.clone(), *self.grace.lock());
        let patience = grace.saturating_add(self.settings.connection_timeout);
        self.home.spawn(async move {
            if timeout(patience, stays.wait()).await.is_err() {
                tracing::warn!(?grace, "closing the client while the work of a leader goes on");
            }
            closed.cancel();
        });
    }
}
