//! What a scenario plays on: a server of one generation, and all kinds of clients of it.

use crate::interop::prelude::*;
use crate::support;
use crate::support::server::ServerBuilder;

/// A session that is not meant to end: long enough for a busy machine.
const LASTING: Duration = secs(30);
const REAPING: Duration = ms(20);
/// A session that is, without being asked to: the time that its death takes.
const MORTAL: Duration = secs(4);

pub(crate) struct Stage {
    peers: Peers,
    pub(crate) server: Server,
    /// A bystander, to look at the nodes.
    pub(crate) zookeeper: zk::Client,
}

impl Stage {
    pub(crate) async fn set(generation: Generation) -> Self {
        Self::set_on(generation, Server::builder()).await
    }

    /// With a server that removes empty containers at once.
    pub(crate) async fn set_reaping(generation: Generation) -> Self {
        Self::set_on(generation, Server::builder().container_check_interval(REAPING)).await
    }

    /// With a server that has nodes with a time to live, and removes them soon after it.
    pub(crate) async fn set_with_ttl_nodes(generation: Generation) -> Self {
        Self::set_on(generation, Server::builder().ttl_nodes().container_check_interval(REAPING)).await
    }

    async fn set_on(generation: Generation, server: ServerBuilder) -> Self {
        let peers = Peers::of(generation);
        let server = server.class_path(&peers.class_path).start().await.unwrap();
        let zookeeper = bystander_of(&server.connect_string()).await;
        Self { peers, server, zookeeper }
    }

    pub(crate) async fn curator(&self, data: &str) -> Peer {
        Peer::curator(&self.peers, &self.server.connect_string(), LASTING, data).await
    }

    /// With compressed node data.
    pub(crate) async fn compressing_curator(&self, data: &str) -> Peer {
        Peer::compressing_curator(&self.peers, &self.server.connect_string(), LASTING, data).await
    }

    pub(crate) async fn kazoo(&self, data: &str) -> Peer {
        Peer::kazoo(&self.peers, &self.server.connect_string(), LASTING, data).await
    }

    /// A client of ours.
    pub(crate) async fn client(&self, identity: &str) -> Client {
        builder(LASTING, identity).connect(&self.server.connect_string()).await.unwrap()
    }

    /// A client of ours with compressed node data.
    pub(crate) async fn compressing_client(&self, identity: &str) -> Client {
        let builder = builder(LASTING, identity).enable_compression();
        builder.connect(&self.server.connect_string()).await.unwrap()
    }

    pub(crate) async fn mortal_curator(&self, data: &str) -> Peer {
        Peer::curator(&self.peers, &self.server.connect_string(), MORTAL, data).await
    }

    pub(crate) async fn mortal_kazoo(&self, data: &str) -> Peer {
        Peer::kazoo(&self.peers, &self.server.connect_string(), MORTAL, data).await
    }

    /// A client of ours that dies when the wire is cut.
    pub(crate) async fn mortal_client(&self, identity: &str) -> (Client, FaultProxy) {
        let wire = FaultProxy::start(self.server.connect_string()).await.unwrap();
        (builder(MORTAL, identity).connect(&wire.connect_string()).await.unwrap(), wire)
    }
}

fn builder(session: Duration, identity: &str) -> ClientBuilder {
    support::builder().session_timeout(session).identity(identity)
}

/// The node data of participants, as the peers tell them.
pub(crate) fn data_of(participants: &[Participant]) -> String {
    let data = participants.iter().map(|participant| participant.identity().unwrap());
    data.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
}
