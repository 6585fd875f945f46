//! Since when nodes exist, asked once of each.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use zk_recipes::Client;

use crate::exit::Failure;
use crate::tree::AT_ONCE;

/// The dates of the nodes that were there at the last look.
#[derive(Debug, Default)]
pub(super) struct Ages {
    created: HashMap<String, SystemTime>,
}

impl Ages {
    /// Asks for the dates of those that are new, and forgets the others. The name of a node never comes again.
    pub(super) async fn update(&mut self, client: &Client, nodes: &[&String]) -> Result<(), Failure> {
        let mut known: HashMap<_, _> = std::mem::take(&mut self.created);
        let mut new = Vec::new();
        for node in nodes {
            match known.remove_entry(*node) {
                Some((node, since)) => _ = self.created.insert(node, since),
                None => new.push(*node),
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let zookeeper = client.zookeeper().await?;
        for nodes in new.chunks(AT_ONCE) {
            let stats = join_all(nodes.iter().map(|node| zookeeper.check_stat(node))).await;
            for (node, stat) in nodes.iter().zip(stats) {
                // Without an answer it is asked for again.
                if let Ok(Some(stat)) = stat {
                    let since = UNIX_EPOCH + Duration::from_millis(stat.ctime.unsigned_abs());
                    self.created.insert((*node).clone(), since);
                }
            }
        }
        Ok(())
    }

    /// Since when a node exists, if that is known.
    pub(super) fn since(&self, node: Option<&String>) -> Option<SystemTime> {
        self.created.get(node?).copied()
    }

    /// How old a node is, if that is known.
    pub(super) fn of(&self, node: Option<&String>) -> Option<Duration> {
        Some(self.since(node)?.elapsed().unwrap_or_default())
    }
}
