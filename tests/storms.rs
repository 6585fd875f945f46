//! Callers that give up by the thousand: they cost the servers little, nobody else notices, those who stay are served, and
//! nothing is left.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use support::kinds::Kind;
use support::*;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zk_recipes::testing::TestingServer;
use zk_recipes::{Client, CloseMode, LeaderLatch, LeaderOptions};
use zookeeper_client as zk;

/// Creates and deletes of one client that are under way in one queue.
const UNDER_WAY: usize = 64;

/// How long each storm lasts. In all it is about ten seconds.
const STORM: Duration = Duration::from_secs(1);

/// Looks at a queue all the time.
struct Onlooker {
    is_over: Arc<AtomicBool>,
    most: tokio::task::JoinHandle<usize>,
}

impl Onlooker {
    /// Counts the nodes below a path.
    fn watch(zookeeper: &zk::Client, path: &str) -> Self {
        let (zookeeper, path) = (zookeeper.clone(), path.to_owned());
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let most = tokio::spawn(async move {
            let mut most = 0;
            while !ends.load(SeqCst) {
                most = most.max(ephemerals_below(&zookeeper, &path).await.len());
            }
            most
        });
        Self { is_over, most }
    }

    /// The most that were there at any time.
    async fn most(self) -> usize {
        self.is_over.store(true, SeqCst);
        self.most.await.unwrap()
    }
}
