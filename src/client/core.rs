//! What all handles of a client share, from its start on.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::builder::ClientBuilder;
use super::extensions::Extensions;
use super::home::Home;
use super::hosts::Hosts;
use super::janitor::Janitor;
use super::leaving::Leaving;
use super::link::Link;
use super::process::Process;
use super::supervisor::Source;
use super::{causes, supervisor};

/// What all handles of a client share.
pub(super) struct Core {
    pub(super) settings: ClientBuilder,
    pub(super) origin: Origin,
    /// Empty, or `/namespace`.
    pub(super) namespace: String,
    /// The configured identity, or the default one once the local address is known.
    pub(super) identity: Arc<OnceLock<Vec<u8>>>,
    /// The default identity without the local address.
    pub(super) identity_without_address: Vec<u8>,
    pub(super) link: Arc<Link>,
    pub(super) janitor: Janitor,
    pub(super) home: Home,
    pub(super) extensions: Extensions,
    /// The [second session](super::watching) of the client, which has its persistent watches, apart from the one-shot
    /// ones: before ZooKeeper 3.9, watches of both kinds on one path of one session may end each other (ZOOKEEPER-4466,
    /// ZOOKEEPER-4472), and no event tells of it. Made when it is first needed.
    pub(super) watching: Mutex<Option<Arc<Core>>>,
    pub(super) leaving: Arc<Leaving>,
    pub(super) closed: CancellationToken,
    /// Cancelled when the session has been let go.
    pub(super) ended: CancellationToken,
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

impl Core {
    /// Starts a client.
    pub(super) fn start(settings: ClientBuilder, origin: Origin, home: Home, source: Source) -> Arc<Self> {
        let _at_home = home.runtime().enter();
        let link = Arc::new(Link::new(home.clone(), origin.servers(), settings.is_for_watches));
        let closed = CancellationToken::new();
        let ended = CancellationToken::new();
        let identity = Arc::new(settings.identity.clone().map(OnceLock::from).unwrap_or_default());
        let supervising = supervisor::supervise(
            source,
            settings.terms,
            identity.clone(),
            link.clone(),
            closed.clone(),
            ended.clone(),
        );
        match &origin {
            Origin::Own { hosts, .. } => {
                let (hosts, patience, link) = (hosts.clone(), settings.connection_timeout, link.clone());
                home.spawn(async move {
                    tokio::select! {
                        () = supervising => {}
                        never = causes::find(&hosts, patience, &link) => match never {}
                    }
                });
            }
            Origin::Adopted { .. } => drop(home.spawn(supervising)),
        }
        let janitor = Janitor::start(&home);
        drop(_at_home);
        let namespace = match settings.namespace.as_str() {
            "" => String::new(),
            namespace => format!("/{namespace}"),
        };
        Arc::new(Self {
            settings,
            origin,
            namespace,
            identity,
            identity_without_address: Process::here(None).to_data(),
            link,
            janitor,
            home,
            extensions: Extensions::default(),
            watching: Mutex::default(),
            leaving: Arc::default(),
            closed,
            ended,
        })
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
        if self.leaving.ask() {
            self.closed.cancel();
            return;
        }
        let (leaving, closed) = (self.leaving.clone(), self.closed.clone());
        let patience = self.settings.connection_timeout;
        self.home.spawn(async move {
            leaving.wait(patience).await;
            closed.cancel();
        });
    }
}
