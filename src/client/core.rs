//! What all handles of a client share, from its start on.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use super::config::{Config, Origin};
use super::extensions::Extensions;
use super::home::Home;
use super::janitor::Janitor;
use super::leaving::Leaving;
use super::link::Link;
use super::process::Process;
use super::supervisor::Source;
use super::watching::Watching;
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
        if let Some(watching) = self.watching.get() {
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
