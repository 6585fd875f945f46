//! The servers that histories are played on: one, or the follower of an ensemble.

use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use zk_recipes::testing::{MemoryEnsemble, MemoryServer, MemoryVersion, TestingCluster, TestingServer};

const NEVER: Duration = Duration::from_secs(86_400);

/// In memory.
pub(crate) enum Memory {
    One(MemoryServer),
    Ensemble { ensemble: MemoryEnsemble, address: String },
}

pub(crate) enum Real {
    One(TestingServer),
    Cluster { cluster: TestingCluster, follower: usize },
}

impl Memory {
    pub(crate) fn one() -> Self {
        let builder = MemoryServer::builder().ttl_nodes(true).container_check_interval(NEVER);
        Self::One(builder.start().unwrap())
    }

    /// Three servers, of which a follower has a port.
    pub(crate) async fn three(version: MemoryVersion) -> Self {
        // With the usual limit, they lose each other on a busy machine.
        let builder = MemoryEnsemble::builder().wall_clock(SystemTime::now()).sync_limit(600);
        let builder = builder.ttl_nodes(true).container_check_interval(NEVER);
        let ensemble = builder.version(version).start().unwrap();
        let follower = (ensemble.leader().unwrap() + 1) % 3;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let there = ensemble.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                tokio::spawn(there.serve(follower, stream));
            }
        });
        Self::Ensemble { ensemble, address }
    }

    pub(crate) fn address(&self) -> String {
        match self {
            Self::One(server) => server.connect_string(),
            Self::Ensemble { address, .. } => address.clone(),
        }
    }

    pub(crate) fn kill_session(&self, runtime: &Runtime, session: i64) {
        match self {
            Self::One(server) => runtime.block_on(server.kill_session(session)).unwrap(),
            Self::Ensemble { ensemble, .. } => {
                assert!(ensemble.end_session(session));
                // Until all servers have done it.
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

impl Real {
    /// Returns the server that clients connect to.
    pub(crate) fn server(&self) -> &TestingServer {
        match self {
            Self::One(server) => server,
            Self::Cluster { cluster, follower } => &cluster.servers()[*follower],
        }
    }
}
