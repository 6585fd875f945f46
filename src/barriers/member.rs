//! The node of a member, which the client remembers until it is known to be gone.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::sleep;
use zookeeper_client as zk;

use crate::client::{
    Client, CreateOutcome, EphemeralNode, Failures, LONGEST_PAUSE, NodeForm, Session, Sharing, parent,
};
use crate::error::Result;
use crate::failure::if_exists;

/// What the names of members say; Curator takes any name.
const MARKER: &str = "member-";

/// Whether a member with this name writes `ready` when it joins. One of Curator's is in when `ready` is there.
pub(super) fn writes_ready(name: &str) -> bool {
    name.contains(MARKER)
}

/// The node of a member. Dropping it deletes the node in the background. Until then, this client [knows](remains) that the
/// node may exist, so that none of its later members is let in by that one.
#[derive(Debug)]
pub(super) struct Member {
    // Dropped first: its delete is sent ahead of all others.
    pub(super) node: EphemeralNode,
    trace: Trace,
}

impl Member {
    /// Prepares a member. Nothing is sent.
    pub(super) fn new(client: &Client, session: &Arc<Session>, barrier: &Arc<str>) -> Self {
        // The whole name is known before the create is sent, so that one request deletes the node whatever has become of
        // the create.
        let form = NodeForm { marker: Cow::Borrowed(MARKER), number: Some(0), data: None };
        let node = EphemeralNode::new(client, session.clone(), barrier, form);
        let client = client.detached();
        let trace = Trace { path: node.path_to_create(), client, is_gone: true };
        Self { node, trace }
    }

    /// Creates the node. See [`EphemeralNode::create`].
    pub(super) async fn create(&mut self) -> Result<CreateOutcome, zk::Error> {
        self.trace.remember(self.node.session());
        let outcome = self.node.create(Sharing::None).await;
        if !matches!(outcome, Ok(CreateOutcome::Created | CreateOutcome::Unknown(_))) {
            self.trace.is_gone = true;
        }
        outcome
    }

    /// Gives up the node, which is known to be gone.
    pub(super) fn forget(mut self) {
        self.trace.is_gone = true;
        self.node.forget();
    }

    /// Deletes the node. See [`EphemeralNode::remove_with`].
    pub(super) async fn remove(mut self, failures: Failures) -> Result<bool> {
        let session = self.node.session().clone();
        let removed = self.node.remove_with(None, (), failures).await;
        // A session that is over for this client may still be alive at the servers.
        self.trace.is_gone = removed.is_ok() && !session.is_over();
        removed
    }
}

/// Returns the paths of earlier members of this client that may still exist: they were given up, or belong to a session that
/// was.
pub(super) fn remains(client: &Client, barrier: &str) -> Vec<String> {
    let roll = client.extension::<Roll>();
    let members = roll.0.lock();
    let below = format!("{barrier}/");
    let here = members.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below));
    // Another barrier may be below this one.
    let here = here.filter(|(path, _)| parent(path) == Some(barrier));
    let gone = here.filter(|(_, session)| session.as_ref().is_none_or(|session| session.is_over()));
    gone.map(|(path, _)| path.clone()).collect()
}

/// The nodes of members that may exist, by path, with the sessions of those that are not given up.
#[derive(Debug, Default)]
struct Roll(Mutex<BTreeMap<String, Option<Arc<Session>>>>);

/// What is remembered of a node.
#[derive(Debug)]
struct Trace {
    client: Client,
    path: String,
    is_gone: bool,
}

impl Trace {
    fn remember(&mut self, session: &Arc<Session>) {
        self.is_gone = false;
        let roll = self.client.extension::<Roll>();
        roll.0.lock().insert(self.path.clone(), Some(session.clone()));
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let roll = self.client.extension::<Roll>();
        if self.is_gone {
            roll.0.lock().remove(&self.path);
            return;
        }
        if let Some(session) = roll.0.lock().get_mut(&self.path) {
            *session = None;
        }
        let (client, path) = (self.client.clone(), std::mem::take(&mut self.path));
        self.client.spawn(async move {
            // The client has ended if this fails, and its memory with it.
            let _ = client.unless_closed(delete_for_good(&client, &path)).await;
            roll.0.lock().remove(&path);
        });
    }
}

/// Deletes a node on the current session, or a later one, however long it takes.
async fn delete_for_good(client: &Client, path: &str) -> Result<()> {
    loop {
        let deleting = client.request("delete", path, |session| async move {
            if_exists(session.delete(path).await).map(drop)
        });
        match deleting.await {
            Err(error) if error.is_retryable() => sleep(LONGEST_PAUSE).await,
            deleted => return deleted,
        }
    }
}
