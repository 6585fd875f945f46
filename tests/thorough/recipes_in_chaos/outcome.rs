//! What there is when all have ended, compared with what they did.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zk_recipes::nodes::Members;
use zookeeper_client as zk;

use crate::kept::{Node, Nodes, group_path, nodes_path};
use crate::numbers::Draws;
use crate::scene::{Scene, Show};
use crate::support::{ephemerals_below, eventually};
use crate::{barriers_verdict, caches, kept_verdict, numbers_verdict, texts_verdict};

/// After this time, it is taken for what it will be.
const SETTLING: Duration = Duration::from_secs(60);

/// Peers get less time, since no more is expected of them.
const PEERS_SETTLING: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) faults: Vec<String>,
    pub(crate) of_peers: Vec<String>,
    /// How many nodes there are.
    pub(crate) nodes: usize,
    /// How many of those are kept by us, and by peers.
    pub(crate) kept: (usize, usize),
}

/// Judges what there is as soon as all of it is right, or at last.
pub(crate) async fn settled(scene: &Scene, show: &Show) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.faults.extend(numbers(&scene.bystander, show).await);
    outcome.faults.extend(texts(&scene.bystander, show).await);
    outcome.faults.extend(barriers_verdict::judge(&show.rounds.0.lock().unwrap()));
    let start = Instant::now();
    loop {
        let (mut faults, mut of_peers) = (Vec::new(), Vec::new());
        nodes(scene, show, &mut faults, &mut of_peers).await;
        match caches::tree(&scene.bystander, &show.root).await {
            Some(tree) => {
                outcome.nodes = tree.len();
                for cache in &show.caches {
                    faults.extend(
                        cache.faults(&tree).into_iter().map(|fault| format!("{}: {fault}", cache.name)),
                    );
                }
            }
            None => faults.push("it still changes".into()),
        }
        let waited = start.elapsed();
        let is_right = faults.is_empty() && (of_peers.is_empty() || waited >= PEERS_SETTLING);
        if is_right || waited >= SETTLING {
            outcome.faults.extend(faults);
            outcome.of_peers = of_peers;
            outcome.kept =
                (show.living.ours().map_or(0, |ours| ours.len()), show.living.theirs().await.len());
            return outcome;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn numbers(bystander: &zk::Client, show: &Show) -> Vec<String> {
    let mut faults = Vec::new();
    for draws in &show.numbers {
        faults.extend(number(bystander, draws, &show.root).await);
    }
    faults
}

pub(crate) async fn number(bystander: &zk::Client, draws: &Draws, root: &str) -> Vec<String> {
    let last = last(bystander, draws, root).await;
    numbers_verdict::judge(draws.kind, &draws.draws.lock().unwrap(), last)
}

/// The number that a node has.
async fn last(bystander: &zk::Client, draws: &Draws, root: &str) -> i64 {
    let (data, _) = bystander.get_data(&draws.kind.path(root)).await.unwrap();
    match <[u8; 4]>::try_from(&*data) {
        Ok(count) => i32::from_be_bytes(count).into(),
        Err(_) => i64::from_be_bytes(data.try_into().unwrap()),
    }
}

pub(crate) async fn texts(bystander: &zk::Client, show: &Show) -> Vec<String> {
    let mut texts = Vec::new();
    for text in 0..show.texts.count() {
        // The last one may not have begun.
        let data = bystander.get_data(&show.texts.path(text)).await.map(|(data, _)| data);
        texts.push(String::from_utf8(data.unwrap_or_default()).unwrap());
    }
    texts_verdict::judge(&show.texts.appends.lock().unwrap(), &texts)
}

/// Judges what is kept, and what those see of it who watch the group.
pub(crate) async fn nodes(scene: &Scene, show: &Show, faults: &mut Vec<String>, of_peers: &mut Vec<String>) {
    let (Some(ours), theirs) = (show.living.ours(), show.living.theirs().await) else {
        faults.push("one of ours is not there, as it knows itself".into());
        return;
    };
    let group = group_path(&show.root);
    let (Some(mut there), Some(members)) =
        (nodes_in(&scene.bystander, &nodes_path(&show.root)).await, nodes_in(&scene.bystander, &group).await)
    else {
        faults.push("what is kept still changes".into());
        return;
    };
    for ((participant, _), seen) in scene.ours.iter().zip(&show.groups) {
        let seen = seen.borrow();
        if !seen.is_current() || shown(&group, &seen) != members {
            faults.push(format!(
                "{} sees the members {:?}, and there are {members:?}",
                participant.name, *seen
            ));
        }
    }
    there.extend(members);
    let verdict = kept_verdict::judge(&ours, &theirs, &there);
    faults.extend(verdict.faults);
    of_peers.extend(verdict.of_peers);
    let barriers = format!("{}/barriers", show.root);
    let waiting = ephemerals_below(&scene.bystander, &barriers).await;
    faults.extend(waiting.iter().map(|(node, _)| format!("{node} is left behind")));
}

fn shown(group: &str, members: &Members) -> Nodes {
    let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
    let shown = |(id, member): (&str, &zk_recipes::nodes::Member)| {
        let data = member.payload().map(text).unwrap_or_default();
        (format!("{group}/{id}"), Node { data, created: Some(member.czxid()) })
    };
    members.iter().map(shown).collect()
}

/// `None` if it changes meanwhile.
async fn nodes_in(bystander: &zk::Client, folder: &str) -> Option<Nodes> {
    let names = match bystander.list_children(folder).await {
        Err(zk::Error::NoNode) => Vec::new(),
        names => names.ok()?,
    };
    let mut nodes = Nodes::new();
    for name in names {
        let path = format!("{folder}/{name}");
        let (data, stat) = bystander.get_data(&path).await.ok()?;
        nodes.insert(path, Node { data: String::from_utf8(data).unwrap(), created: Some(stat.czxid) });
    }
    Some(nodes)
}

/// When all of ours have ended.
pub(crate) async fn nothing_is_kept(scene: &Scene, root: &str) {
    for folder in [group_path(root), nodes_path(root)] {
        eventually("nothing of ours is kept", async || {
            let there = nodes_in(&scene.bystander, &folder).await?;
            there.keys().all(|path| !path.contains("rust-")).then_some(())
        })
        .await;
    }
}
