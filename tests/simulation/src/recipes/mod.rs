//! What each recipe promises, played and judged.

mod barriers;
mod caches;
mod discovery;
mod jobs;
mod leaders;
mod locks;
mod nodes;
mod numbers;
mod quorum;

use futures_util::FutureExt;
use zk_recipes::Client;
use zk_recipes::testing::NodeInfo;

use crate::world::Scenario;

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
}

/// All recipes.
pub const ALL: [Recipe; 9] = [
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
    pub fn of_name(name: &str) -> Option<Self> {
        ALL.into_iter().find(|recipe| recipe.name == name)
    }
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
