//! What each recipe promises, played and judged.

mod barriers;
mod caches;
mod discovery;
mod jobs;
mod leaders;
mod locks;
mod nodes;
mod numbers;
mod peers;
mod quorum;

use std::fmt::Display;

use self::prelude::*;
use crate::world::Scenario;

/// What most recipes are played and judged with.
mod prelude {
    pub(super) use std::cell::{Cell, RefCell};
    pub(super) use std::collections::{BTreeMap, BTreeSet};
    pub(super) use std::rc::Rc;
    pub(super) use std::sync::Arc;
    pub(super) use std::time::Duration;

    pub(super) use futures_util::FutureExt;
    pub(super) use futures_util::future::join_all;
    pub(super) use tokio::task::JoinHandle;
    pub(super) use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
    pub(super) use zk_recipes::testing::{MemoryEnsemble, NodeInfo, Observed, ObservedKind};
    pub(super) use zk_recipes::zookeeper_client as zk;
    pub(super) use zk_recipes::*;

    pub(super) use super::{
        Recipe, all_done, expect_nothing, failed, first_come_first_served, is_there, of_old_session,
    };
    pub(super) use crate::log::{count, note, violation};
    pub(super) use crate::machine::Machine;
    pub(super) use crate::plan::{Fault, Plan};
    pub(super) use crate::world::World;
    pub(super) use crate::{chance, judge};
}

/// A recipe that can be played.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    pub name: &'static str,
    pub scenario: Scenario,
    /// Where operators delete nodes.
    pub paths: &'static [&'static str],
    /// What is counted as one operation.
    pub operations: &'static str,
    /// How many independent ensembles there are.
    pub ensembles: usize,
    /// Whether ZooKeeper 3.5 does not have what it needs.
    pub needs_3_6: bool,
}

/// All recipes. Not a constant, for which each program would compile them once more.
pub static ALL: [Recipe; 9] = [
    locks::RECIPE,
    leaders::RECIPE,
    jobs::RECIPE,
    quorum::RECIPE,
    numbers::RECIPE,
    barriers::RECIPE,
    nodes::RECIPE,
    caches::RECIPE,
    discovery::RECIPE,
];

impl Recipe {
    const fn new(
        name: &'static str,
        scenario: Scenario,
        paths: &'static [&'static str],
        operations: &'static str,
    ) -> Self {
        Self { name, scenario, paths, operations, ensembles: 1, needs_3_6: false }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        ALL.into_iter().find(|recipe| recipe.name == name)
    }
}

/// Waits for the tasks of a process. Returns what was done by those that no crash has ended.
async fn all_done<T>(tasks: impl IntoIterator<Item = JoinHandle<Option<T>>>) -> Vec<T> {
    let mut all = Vec::new();
    for task in join_all(tasks).await {
        match task {
            Ok(done) => all.extend(done),
            Err(_) => violation("a task has panicked"),
        }
    }
    all
}

/// Notes that a call has failed, which some errors excuse.
fn failed(who: impl Display, error: &Error, is_expected: bool) {
    count("errors", 1);
    note(|| format!("{who}: {error}"));
    if !is_expected {
        violation(format!("{who}: {error:?}"));
    }
}

/// There is nothing below a path, as far as it counts.
fn expect_nothing(world: &World, path: &str, counts: impl Fn(&str) -> bool) {
    let mut left = world.servers().children(path).unwrap_or_default();
    left.retain(|name| counts(name));
    if !left.is_empty() {
        violation(format!("left at {path}: {left:?}"));
    }
}

/// No one is served by a node who has another one before it that excludes it, but for nodes of the same client.
fn first_come_first_served(servers: &MemoryEnsemble, who: &str, node: &str, excludes: impl Fn(&str) -> bool) {
    let Some((folder, name)) = node.rsplit_once('/') else { return };
    let owner = |path: &str| servers.node(path).map(|node| node.ephemeral_owner);
    for other in servers.children(folder).unwrap_or_default() {
        let is_before = number(&other) < number(name) && excludes(&other);
        if is_before && owner(&format!("{folder}/{other}")) != owner(node) {
            violation(format!("{who} is served by {node} although {other} is before it"));
        }
    }
}

/// Whether the servers have this very node.
fn is_there(servers: &MemoryEnsemble, path: &str, czxid: i64) -> bool {
    servers.node(path).is_some_and(|node| node.czxid == czxid)
}

/// Whether a node is of a session that its client has taken for over before the servers did.
fn of_old_session(client: &Client, node: &NodeInfo) -> bool {
    let zookeeper = client.zookeeper().now_or_never().and_then(Result::ok);
    let session = zookeeper.map(|zookeeper| zookeeper.session_id().0);
    node.ephemeral_owner != 0 && session != Some(node.ephemeral_owner)
}

/// Returns the number at the end of the name of a sequential node.
fn number(name: &str) -> Option<u64> {
    name.get(name.len().checked_sub(10)?..)?.parse().ok()
}
