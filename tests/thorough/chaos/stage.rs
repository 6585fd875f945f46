//! The server and all who take part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use futures_util::future::join_all;
use zk_recipes::testing::FaultProxy;
use zk_recipes::{Client, RetryPolicy};
use zookeeper_client as zk;

use crate::contested::Contested;
use crate::installed::{Generation, Peers};
use crate::peer::Peer;
use crate::support::{Server, builder, bystander};
use crate::{SESSION_TIMEOUT, clock};

const OUR_CLIENTS: usize = 4;
const KAZOO_CLIENTS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Ours,
    Curator,
    Kazoo,
}

impl Library {
    pub(crate) fn has(self, contested: Contested) -> bool {
        self != Self::Kazoo || contested != Contested::Leadership
    }
}

/// A client, behind a proxy of its own.
pub(crate) struct Participant {
    /// Also the data of its nodes.
    pub(crate) name: String,
    pub(crate) library: Library,
    pub(crate) proxy: FaultProxy,
    /// Whether those of its workers who are inside stay there, for as long as they may.
    stays: AtomicBool,
    /// Of a peer, its process.
    pub(crate) peer: Option<Peer>,
}

impl Participant {
    fn new(name: String, library: Library, proxy: FaultProxy, peer: Option<Peer>) -> Arc<Self> {
        Arc::new(Self { name, library, proxy, stays: AtomicBool::new(false), peer })
    }

    pub(crate) fn stays(&self) -> bool {
        self.stays.load(SeqCst)
    }

    pub(crate) fn set_stays(&self, stays: bool) {
        self.stays.store(stays, SeqCst);
        if let Some(peer) = &self.peer {
            peer.tell_all(if stays { "stay" } else { "go" });
        }
    }
}

impl std::fmt::Debug for Participant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

pub(crate) struct Stage {
    pub(crate) server: Server,
    /// Looks at the nodes, and is not disturbed.
    pub(crate) bystander: zk::Client,
    pub(crate) ours: Vec<(Arc<Participant>, Client)>,
    pub(crate) peers: Vec<Arc<Participant>>,
}

impl Stage {
    /// Peers are on it if they are installed, and then the server is that of the current ones.
    pub(crate) async fn set() -> Self {
        let generations = [Generation::Debian, Generation::Current].map(Peers::if_installed);
        let builder = Server::builder();
        let builder = match &generations {
            [Some(_), Some(current)] => builder.class_path(&current.class_path),
            _ => builder,
        };
        let server = builder.start().await.unwrap();
        let bystander = bystander(&server).await;
        let ours = join_all((0..OUR_CLIENTS).map(|number| our_client(&server, number))).await;
        let mut peers = Vec::new();
        if let [Some(debian), Some(current)] = &generations {
            for (name, generation) in [("curator-5.4", debian), ("curator-5.9", current)] {
                peers.push(peer(&server, name.to_owned(), Library::Curator, generation).await);
            }
            for number in 0..KAZOO_CLIENTS {
                peers.push(peer(&server, format!("kazoo-{number}"), Library::Kazoo, current).await);
            }
        }
        Self { server, bystander, ours, peers }
    }

    pub(crate) fn participants(&self) -> Vec<Arc<Participant>> {
        self.ours.iter().map(|(participant, _)| participant).chain(&self.peers).cloned().collect()
    }
}

async fn our_client(server: &Server, number: usize) -> (Arc<Participant>, Client) {
    let name = format!("rust-{number}");
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = builder()
        .session_timeout(SESSION_TIMEOUT)
        .identity(&*name)
        .retry_policy(RetryPolicy::forever(Duration::from_millis(20)))
        .connect(&proxy.connect_string())
        .await
        .unwrap();
    (Participant::new(name, Library::Ours, proxy, None), client)
}

async fn peer(server: &Server, name: String, library: Library, installed: &Peers) -> Arc<Participant> {
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let connect_string = proxy.connect_string();
    let peer = match library {
        Library::Kazoo => Peer::kazoo(installed, &connect_string, SESSION_TIMEOUT, &name).await,
        _ => Peer::curator(installed, &connect_string, SESSION_TIMEOUT, &name).await,
    };
    let mut actor = peer.open("clock", "mutex /chaos/clock").await;
    let before = clock::now();
    let clock: u64 = actor.call("clock").await.parse().unwrap();
    let range = before..=clock::now();
    assert!(range.contains(&clock), "{name} has another clock: {clock} is not in {range:?}");
    Participant::new(name, library, proxy, Some(peer))
}
