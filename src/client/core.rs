//! What all handles of a client share, from its start on.

use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::builder::ClientBuilder;
use super::config::{Config, Origin};
use super::extensions::Extensions;
use super::home::Home;
use super::janitor::Janitor;
use super::leaving::Leaving;
use super::link::Link;
use super::process::Process;
use super::supervisor::Source;
use super::{causes, supervisor};

/// What all handles of a client share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: Config,
    /// The configured identity, or the default one once the local address is known.
    pub(super) identity: Arc<OnceLock<Vec<u8>>>,
    /// The default identity without the local address.
    pub(super) identity_without_address: Vec<u8>,
    pub(super) link: Arc<Link>,
    pub(super) janitor: Janitor,
    pub(super) home: Home,
    pub(super) extensions: Extensions,
    pub(super) watching: Watching,
    pub(super) leaving: Arc<Leaving>,
    pub(super) closed: CancellationToken,
    /// Cancelled when the session has been let go.
    pub(super) ended: CancellationToken,
}

/// The [second session](super::watching) of a client, which has its persistent watches, apart from the one-shot ones:
/// before ZooKeeper 3.9, watches of both kinds on one path of one session may end each other (ZOOKEEPER-4466,
/// ZOOKEEPER-4472), and no event tells of it. Made when it is first needed.
pub(super) struct Watching {
    /// The settings of the client; `None` if its session is adopted.
    pub(super) settings: Option<ClientBuilder>,
    pub(super) core: Mutex<Option<Arc<Core>>>,
}

impl Watching {
    pub(super) fn new(settings: Option<ClientBuilder>) -> Self {
        Self { settings, core: Mutex::default() }
    }
}

impl Core {
    /// Starts a client.
    pub(super) fn start(
        config: Config,
        home: Home,
        identity: Option<Vec<u8>>,
        source: Source,
        watching: Watching,
    ) -> Arc<Self> {
        let _at_home = home.runtime().enter();
        let link = Arc::new(Link::new(home.clone(), config.origin.servers(), config.is_for_watches));
        let closed = CancellationToken::new();
        let ended = CancellationToken::new();
        let identity = Arc::new(identity.map(OnceLock::from).unwrap_or_default());
        let supervising = supervisor::supervise(
            source,
            config.terms,
            identity.clone(),
            link.clone(),
            closed.clone(),
            ended.clone(),
        );
        match &config.origin {
            Origin::Own { hosts, .. } => {
                let (hosts, patience, link) = (hosts.clone(), config.connection_timeout, link.clone());
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
        Arc::new(Self {
            config,
            identity,
            identity_without_address: Process::here(None).to_data(),
            link,
            janitor,
            home,
            extensions: Extensions::default(),
            watching,
            leaving: Arc::default(),
            closed,
            ended,
        })
    }

    /// Waits until all sessions have been let go.
    pub(super) async fn let_go(&self) {
        self.ended.cancelled().await;
        let watching = self.watching.core.lock().clone();
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
        let patience = self.config.connection_timeout;
        self.home.spawn(async move {
            leaving.wait(patience).await;
            closed.cancel();
        });
    }
}

/// Without the settings, which have credentials.
impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watching")
    }
}
