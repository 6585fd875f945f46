//! Nodes that bar the way, since nobody knows of them any more.
//!
//! Curator and kazoo may leave one behind when the reply to a create or a delete is lost. It is there until the session
//! ends; so its session is killed, or the others would wait for ever. Of ours there must be none.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::SESSION_TIMEOUT;
use crate::aim::{first_in, kill_session};
use crate::contested::Contested;
use crate::history::History;
use crate::stage::Stage;
use crate::support::children;

/// No outage keeps the node of a live holder longer: it ends with the session, or the holder connects again, for which
/// Curator takes a second.
const PEERS_PATIENCE: Duration = SESSION_TIMEOUT.saturating_mul(3);
/// On a busy machine, too.
const OUR_PATIENCE: Duration = SESSION_TIMEOUT.saturating_mul(15);

/// Looks after the queues without end; counts the nodes that peers have left behind.
pub(crate) async fn look_after(stage: &Stage, history: &History, left_behind: &mut usize) -> Infallible {
    let mut fronts = Contested::ALL.map(|contested| (contested.path(), String::new(), Instant::now()));
    loop {
        sleep(Duration::from_millis(100)).await;
        for (path, node, since) in &mut fronts {
            let Some(first) = first_in(&stage.bystander, path).await else { continue };
            if first.node != *node {
                (*node, *since) = (first.node, Instant::now());
                continue;
            }
            let is_ours = stage.ours.iter().any(|(participant, _)| participant.name == first.owner);
            assert!(!is_ours || since.elapsed() < OUR_PATIENCE, "{node} of {} bars the way", first.owner);
            if !is_ours && since.elapsed() >= PEERS_PATIENCE {
                let kill = kill_session(&stage.server, history, first.owner, first.session);
                *left_behind += usize::from(kill.await);
            }
        }
    }
}

/// The nodes of our clients.
pub(crate) async fn our_nodes(stage: &Stage) -> Vec<String> {
    let mut ours = Vec::new();
    for path in Contested::ALL.map(Contested::path) {
        for name in children(&stage.bystander, path).await {
            let node = format!("{path}/{name}");
            let Ok((data, _)) = stage.bystander.get_data(&node).await else { continue };
            if stage.ours.iter().any(|(participant, _)| participant.name.as_bytes() == data) {
                ours.push(node);
            }
        }
    }
    ours
}
