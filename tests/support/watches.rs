//! What contenders watch, told from what they and their lock objects watch besides.

use std::collections::{HashMap, HashSet};

use super::{Server, eventually};

/// Waits until that many contenders wait with a watch.
///
/// Who waits for a node of another session may watch its own as well: that counts once. Who waits for one of its own
/// session watches its own only. What does not count is the watch of a holder on its own node, and that of a
/// lock object on its path.
pub async fn watches_of(server: &Server, count: u64) {
    eventually(&format!("{count} wait"), || async { (watches(server).await == count).then_some(()) }).await;
}

/// Waits until somebody watches that node.
pub async fn watches_on(server: &Server, node: &str) {
    eventually("it is watched", async || {
        server.four_letter_word("wchp").await.unwrap().contains(node).then_some(())
    })
    .await;
}

/// Waits until there are so many watches at all, whatever they are on: those of one session on one node count once.
pub async fn all_watches(server: &Server, count: u64) {
    eventually(&format!("{count} watches in all"), || async {
        (server.watch_count().await.unwrap() == count).then_some(())
    })
    .await;
}

/// Waits until there are so many watches of contenders, and of holders on their own nodes.
pub async fn watches_with_holders(server: &Server, count: u64) {
    eventually(&format!("{count} watches"), || async {
        (count_watches(server, true).await == count).then_some(())
    })
    .await;
}

pub async fn watches(server: &Server) -> u64 {
    count_watches(server, false).await
}

/// How many watches there are on the children of nodes.
pub async fn watches_on_children(server: &Server) -> u64 {
    loop {
        let on_nodes = watches_on_nodes(server).await;
        let all = server.watch_count().await.unwrap();
        // Of a watch on a node that is set in between only one count tells.
        if watches_on_nodes(server).await == on_nodes {
            return all.saturating_sub(on_nodes);
        }
    }
}

async fn watches_on_nodes(server: &Server) -> u64 {
    // Which has those of nodes only.
    let on_nodes = server.four_letter_word("wchs").await.unwrap();
    on_nodes.trim().rsplit(':').next().unwrap().parse().unwrap()
}

async fn count_watches(server: &Server, with_holders: bool) -> u64 {
    let Look { owned, watched, on_children } = Look::at(server).await;
    let nodes = Look::nodes(&owned);
    let by_session = watched.iter().map(|(session, paths)| {
        let (own, others): (Vec<Node<'_>>, Vec<Node<'_>>) = paths
            .iter()
            .filter_map(|path| Node::at(path))
            .partition(|node| owned.get(session).is_some_and(|owned| owned.contains(node.path)));
        // Past the last number, it does not show who holds; but who waits watches another one there. And whoever is first at
        // a gate waits for leases, and watches those.
        let holds = |node: &&Node<'_>| with_holders && !(node.is_at_gate() && node.holds(&nodes));
        let own = own.iter().filter(|node| node.waits(&nodes) || holds(node)).count();
        let counters = paths.iter().filter(|path| path.starts_with("/count")).count();
        (own.max(others.len()) + counters) as u64
    });
    by_session.sum::<u64>() + on_children
}

/// What sessions own and watch.
#[derive(Default)]
struct Look {
    owned: HashMap<String, HashSet<String>>,
    watched: HashMap<String, HashSet<String>>,
    on_children: u64,
}

impl Look {
    async fn at(server: &Server) -> Self {
        loop {
            let all = server.watch_count().await.unwrap();
            if all == 0 {
                return Self::default();
            }
            let owned = paths_by_session(&server.four_letter_word("dump").await.unwrap());
            let watched = paths_by_session(&server.four_letter_word("wchc").await.unwrap());
            // Nothing has changed in between, as far as can be seen.
            if server.watch_count().await.unwrap() != all {
                continue;
            }
            let on_nodes: u64 = watched.values().map(|paths| paths.len() as u64).sum();
            let on_children = all.saturating_sub(on_nodes);
            // Or a watch was removed and set again in between.
            if on_children > 0 && watches_on_children(server).await != on_children {
                continue;
            }
            return Self { owned, watched, on_children };
        }
    }

    fn nodes(owned: &HashMap<String, HashSet<String>>) -> Vec<Node<'_>> {
        owned.values().flatten().filter_map(|path| Node::at(path)).collect()
    }
}

/// The node of a contender.
struct Node<'a> {
    path: &'a str,
    queue: &'a str,
    number: Option<u32>,
    is_shared: bool,
}

impl<'a> Node<'a> {
    fn at(path: &'a str) -> Option<Self> {
        let (queue, name) = path.rsplit_once('/')?;
        let number = name.get(name.len().checked_sub(10)?..)?;
        if !number.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let is_shared = ["__READ__", "__rlock__", "lease-"].iter().any(|marker| name.contains(marker));
        // Of the last number there may be several, in an order that it does not tell.
        let number = number.parse().ok().filter(|number| *number < i32::MAX as u32 && !name.contains("--"));
        Some(Self { path, queue, number, is_shared })
    }

    fn is_at_gate(&self) -> bool {
        self.queue.ends_with("/locks")
    }

    fn waits(&self, nodes: &[Self]) -> bool {
        self.number.is_some() && !self.holds(nodes)
    }

    fn holds(&self, nodes: &[Self]) -> bool {
        let excludes = |before: &Self| {
            let is_before = before.number.zip(self.number).is_some_and(|(before, own)| before < own);
            is_before && before.queue == self.queue && !(before.is_shared && self.is_shared)
        };
        self.number.is_some() && !nodes.iter().any(excludes)
    }
}

/// Reads what `dump` and `wchc` print: a session in a line, and the paths indented below it.
fn paths_by_session(printed: &str) -> HashMap<String, HashSet<String>> {
    let mut paths: HashMap<String, HashSet<String>> = HashMap::new();
    let mut session = None;
    for line in printed.lines() {
        match line.strip_prefix('\t') {
            Some(path) if path.starts_with('/') => {
                if let Some(session) = &session {
                    paths.entry(String::clone(session)).or_default().insert(path.to_owned());
                }
            }
            _ => session = line.trim_end_matches(':').strip_prefix("0x").map(str::to_owned),
        }
    }
    paths
}
