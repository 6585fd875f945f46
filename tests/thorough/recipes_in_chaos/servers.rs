//! What befalls the server, and single requests; and strangers who write to what others keep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::RwLock;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use zk_recipes::testing::{Fate, Request};
use zookeeper_client as zk;

use crate::kept::{group_path, nodes_path};
use crate::stage::Participant;
use crate::support::{Server, try_nodes_below};
use crate::trouble::{Aim, pause};

/// After which of its requests a connection is mostly lost.
const REQUESTS: [Request; 7] = [
    Request::SetData,
    Request::SetData,
    Request::Create,
    Request::Multi,
    Request::Delete,
    Request::GetData,
    Request::GetChildren,
];

/// How many requests are waited for at a time.
const LOSERS: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) pauses: AtomicUsize,
    pub(crate) restarts: AtomicUsize,
    pub(crate) lost: AtomicUsize,
    pub(crate) deleted: AtomicUsize,
    pub(crate) overwritten: AtomicUsize,
}

/// Kills sessions that keep something.
pub(crate) struct Ephemerals {
    pub(crate) server: Arc<RwLock<Server>>,
    pub(crate) bystander: zk::Client,
    pub(crate) root: String,
}

impl Aim for Ephemerals {
    async fn lure(&self, _victim: &Participant) {}

    async fn kill_a_session(&self) -> bool {
        let Ok(nodes) = try_nodes_below(&self.bystander, &self.root).await else { return false };
        let sessions = nodes.iter().map(|(_, stat)| stat.ephemeral_owner).filter(|session| *session > 0);
        let Some(session) = fastrand::choice(sessions.collect::<Vec<_>>()) else { return false };
        self.server.read().await.kill_session(session).await.is_ok()
    }
}

pub(crate) struct Trouble {
    pub(crate) server: Arc<RwLock<Server>>,
    pub(crate) bystander: zk::Client,
    pub(crate) root: String,
    pub(crate) participants: Vec<Arc<Participant>>,
    pub(crate) figures: Figures,
}

impl Trouble {
    /// Makes trouble until it is told to end. Then the server serves.
    pub(crate) async fn make(&self, end: &CancellationToken) {
        tokio::join!(
            async {
                while end.run_until_cancelled(pause(2000..5000)).await.is_some() {
                    self.pause().await;
                }
            },
            async {
                while end.run_until_cancelled(pause(4000..12_000)).await.is_some() {
                    self.restart().await;
                }
            },
            join_all((0..LOSERS).map(|_| async {
                while end.run_until_cancelled(pause(10..200)).await.is_some() {
                    self.lose().await;
                }
            })),
            async {
                while end.run_until_cancelled(pause(50..500)).await.is_some() {
                    self.meddle().await;
                }
            },
        );
    }

    async fn pause(&self) {
        let server = self.server.write().await;
        server.pause().unwrap();
        sleep(Duration::from_millis(fastrand::u64(100..2500))).await;
        server.resume().unwrap();
        self.figures.pauses.fetch_add(1, SeqCst);
    }

    async fn restart(&self) {
        let mut server = self.server.write().await;
        server.kill().await.unwrap();
        sleep(Duration::from_millis(fastrand::u64(..1000))).await;
        server.restart().await.unwrap();
        self.figures.restarts.fetch_add(1, SeqCst);
    }

    /// Loses a request or a reply.
    async fn lose(&self) {
        let proxy = &self.participants[fastrand::usize(..self.participants.len())].proxy;
        let request = REQUESTS[fastrand::usize(..REQUESTS.len())];
        let fate = if fastrand::u8(..4) == 0 { Fate::LoseRequest } else { Fate::LoseReply };
        let lost = proxy.intercept(request, fate);
        let is_lost = timeout(Duration::from_millis(500), lost.happened()).await.is_ok();
        self.figures.lost.fetch_add(is_lost.into(), SeqCst);
    }

    /// Deletes what somebody keeps, or overwrites what one of ours keeps: Curator would leave that as it is.
    async fn meddle(&self) {
        let folder = if fastrand::bool() { group_path(&self.root) } else { nodes_path(&self.root) };
        let Ok(names) = self.bystander.list_children(&folder).await else { return };
        let Some(name) = fastrand::choice(&names) else { return };
        let path = format!("{folder}/{name}");
        if fastrand::bool() {
            let is_done = self.bystander.delete(&path, None).await.is_ok();
            self.figures.deleted.fetch_add(is_done.into(), SeqCst);
        } else if name.contains("rust-") {
            let is_done = self.bystander.set_data(&path, b"strange", None).await.is_ok();
            self.figures.overwritten.fetch_add(is_done.into(), SeqCst);
        }
    }
}
