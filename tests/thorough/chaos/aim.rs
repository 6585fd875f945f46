//! Trouble for those who hold a lock, or wait for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use zookeeper_client as zk;

use crate::clock;
use crate::contested::Contested;
use crate::history::{History, Kill};
use crate::run::Run;
use crate::stage::{Participant, Stage};
use crate::support::{Server, children, sequence};

pub(crate) struct Locks<'a> {
    server: &'a Server,
    bystander: &'a zk::Client,
    run: Arc<Run>,
}

impl<'a> Locks<'a> {
    pub(crate) fn new(stage: &'a Stage, run: Arc<Run>) -> Self {
        Self { server: &stage.server, bystander: &stage.bystander, run }
    }

    /// Returns when it is worth to cut off this one, which mostly holds then.
    pub(crate) async fn lure(&self, victim: &Participant) {
        let path = any_path();
        while first_in(self.bystander, path).await.is_none_or(|first| first.owner != victim.name) {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Of one who holds or waits. Answers whether there was one.
    pub(crate) async fn kill_a_session(&self) -> bool {
        let path = any_path();
        let nodes = children(self.bystander, path).await;
        let Some(node) = fastrand::choice(&nodes) else { return false };
        let Ok((data, stat)) = self.bystander.get_data(&format!("{path}/{node}")).await else {
            return false;
        };
        let victim = String::from_utf8(data).unwrap();
        kill_session(self.server, &self.run.history, victim, stat.ephemeral_owner).await
    }
}

fn any_path() -> &'static str {
    fastrand::choice(Contested::ALL).expect("there are some").path()
}

/// Answers whether it was there to be killed.
pub(crate) async fn kill_session(server: &Server, history: &History, victim: String, session: i64) -> bool {
    let from = clock::now();
    let is_killed = server.kill_session(session).await.is_ok();
    history.record_kill(Kill { victim, session, from, until: clock::now() });
    is_killed
}

/// The first one in a queue.
pub(crate) struct First {
    pub(crate) node: String,
    /// The name of the participant.
    pub(crate) owner: String,
    pub(crate) session: i64,
}

pub(crate) async fn first_in(bystander: &zk::Client, path: &str) -> Option<First> {
    let first = children(bystander, path).await.into_iter().min_by_key(|node| sequence(node))?;
    let node = format!("{path}/{first}");
    let (data, stat) = bystander.get_data(&node).await.ok()?;
    Some(First { node, owner: String::from_utf8(data).unwrap(), session: stat.ephemeral_owner })
}
