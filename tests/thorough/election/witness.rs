//! Which nodes there were, and when they were known to be gone: seen by somebody who does not stand.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinSet;
use zookeeper_client as zk;

use crate::clock;
use crate::history::History;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) token: i64,
    pub(crate) session: i64,
    /// When the watch told.
    pub(crate) gone_at: Option<u64>,
}

/// From when until when a node was there, by the events that the server sends in the order of its transactions. So it is also
/// known of a node that was gone before anyone could look at it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life {
    /// The transaction that created it; `None` if the server did not tell, as servers before 3.9 do not.
    pub(crate) born: Option<i64>,
    /// The same of its deletion.
    pub(crate) ended: Option<i64>,
    /// When its end was told.
    pub(crate) ended_at: Option<u64>,
}

/// All that was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) nodes: HashMap<String, Node>,
    pub(crate) lives: HashMap<String, Life>,
    /// By the node of each term, all nodes that were there after it had begun.
    pub(crate) beside: HashMap<String, HashSet<String>>,
}

/// Watches until it is dropped.
#[derive(Debug)]
pub(crate) struct Witness {
    seen: Arc<Mutex<Seen>>,
    _watching: JoinSet<()>,
}

impl Witness {
    pub(crate) fn of(client: &zk::Client, path: &str, history: &Arc<History>) -> Self {
        let seen = Arc::default();
        let mut watching = JoinSet::new();
        watching.spawn(watch(client.clone(), path.to_owned(), Arc::clone(&seen)));
        watching.spawn(follow(client.clone(), path.to_owned(), Arc::clone(&seen)));
        watching.spawn(list(client.clone(), path.to_owned(), history.clone(), Arc::clone(&seen)));
        Self { seen, _watching: watching }
    }

    pub(crate) fn node(&self, path: &str) -> Option<Node> {
        self.seen.lock().unwrap().nodes.get(path).copied()
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }
}

async fn watch(client: zk::Client, path: String, seen: Arc<Mutex<Seen>>) {
    let mut known = HashSet::new();
    let mut watched = FuturesUnordered::new();
    loop {
        let Ok((children, change)) = client.list_and_watch_children(&path).await else {
            // Not made yet, or the server is down.
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        for child in children {
            if known.insert(child.clone()) {
                watched.push(watch_node(&client, format!("{path}/{child}"), &seen));
            }
        }
        let changed = change.changed();
        tokio::pin!(changed);
        loop {
            tokio::select! {
                _ = &mut changed => break,
                Some(()) = watched.next() => {}
            }
        }
    }
}

/// Follows all nodes by one watch.
async fn follow(client: zk::Client, path: String, seen: Arc<Mutex<Seen>>) {
    let pause = || tokio::time::sleep(Duration::from_millis(5));
    loop {
        let Ok(mut watcher) = client.watch(&path, zk::AddWatchMode::PersistentRecursive).await else {
            // The server is down.
            pause().await;
            continue;
        };
        // Nothing is told of what happened without a connection.
        let children = match client.list_children(&path).await {
            Ok(children) => children,
            Err(zk::Error::NoNode) => Vec::new(),
            Err(_) => {
                pause().await;
                continue;
            }
        };
        let there: HashSet<String> = children.iter().map(|child| format!("{path}/{child}")).collect();
        for (node, life) in &mut seen.lock().unwrap().lives {
            if !there.contains(node) {
                life.ended_at.get_or_insert_with(clock::now);
            }
        }
        loop {
            let event = watcher.changed().await;
            let zxid = Some(event.zxid).filter(|zxid| *zxid > 0);
            let lives = &mut seen.lock().unwrap().lives;
            match event.event_type {
                zk::EventType::Session if event.session_state.is_terminated() => return,
                zk::EventType::Session => break,
                zk::EventType::NodeCreated => lives.entry(event.path).or_default().born = zxid,
                zk::EventType::NodeDeleted => {
                    let life = lives.entry(event.path).or_default();
                    life.ended = zxid;
                    life.ended_at.get_or_insert_with(clock::now);
                }
                _ => {}
            }
        }
    }
}

/// Lists the nodes after each term has begun.
async fn list(client: zk::Client, path: String, history: Arc<History>, seen: Arc<Mutex<Seen>>) {
    for term in 0.. {
        let node = history.wait_for(|story| story.terms.get(term).map(|term| term.node.clone())).await;
        let children = loop {
            match client.list_children(&path).await {
                Ok(children) => break children,
                Err(zk::Error::NoNode) => break Vec::new(),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let nodes = children.iter().map(|child| format!("{path}/{child}")).collect();
        seen.lock().unwrap().beside.insert(node, nodes);
    }
}

/// Until it is gone.
async fn watch_node(client: &zk::Client, path: String, seen: &Mutex<Seen>) {
    loop {
        match client.check_and_watch_stat(&path).await {
            Ok((Some(stat), change)) => {
                let node = Node { token: stat.czxid, session: stat.ephemeral_owner, gone_at: None };
                seen.lock().unwrap().nodes.insert(path.clone(), node);
                if change.changed().await.event_type != zk::EventType::NodeDeleted {
                    continue;
                }
            }
            Ok((None, _)) => {}
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
        }
        if let Some(node) = seen.lock().unwrap().nodes.get_mut(&path) {
            node.gone_at = Some(clock::now());
        }
        return;
    }
}
