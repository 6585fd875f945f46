//! The steps by which a member leaves a double barrier.

use futures_util::future::join;
use zookeeper_client::{self as zk, EventType};

use super::decision::next_to_leave;
use super::double_barrier::DoubleBarrier;
use crate::client::{EphemeralNode, Failures, Session, Watcher};
use crate::error::Result;

/// A member on its way out. Dropping it deletes its node in the background.
pub(super) struct Leaving {
    barrier: DoubleBarrier,
    node: Option<EphemeralNode>,
    /// The czxid of the node that has let the members in, which identifies the round.
    round: Option<i64>,
}

impl Leaving {
    pub(super) fn new(barrier: &DoubleBarrier, node: EphemeralNode) -> Self {
        Self { barrier: barrier.detached(), node: Some(node), round: None }
    }

    /// Deletes the node of this member. Returns false if it was gone.
    pub(super) async fn leave(&mut self) -> Result<bool> {
        let Some(node) = self.node.take() else { return Ok(false) };
        let session = node.session().clone();
        // Looked at before the delete, while this member is part of the round.
        let (round, left) = join(session.stat(&self.barrier.ready), node.remove(())).await;
        self.round = round.ok().flatten().map(|stat| stat.czxid);
        left
    }

    /// Waits until no member is left.
    pub(super) async fn others_have_left(&self) -> Result<()> {
        let client = &self.barrier.client;
        let mut failures = Failures::default();
        loop {
            let session = client.session_under_policy().await?;
            match client.attempt_one(&session, self.watch_next(&session)).await {
                Ok(None) => return Ok(()),
                Ok(Some(mut next)) => {
                    failures.reset();
                    tokio::select! {
                        _ = next.changed() => {}
                        // The watch would report it only at the end of the session.
                        () = client.disconnected() => {}
                    }
                }
                Err(source) => self.pause_after(source, &mut failures).await?,
            }
        }
    }

    /// Lists the members, and watches one that has not left. Returns `None` if all have left.
    async fn watch_next(&self, session: &Session) -> Result<Option<Watcher>, zk::Error> {
        loop {
            let children = match session.list(&self.barrier.path).await {
                Err(zk::Error::NoNode) => return Ok(None),
                children => children?,
            };
            let Some(next) = next_to_leave(&children) else { return Ok(None) };
            let next = format!("{}/{next}", self.barrier.path);
            match session.watch_data(&next).await {
                Ok((_, _, watcher)) => return Ok(Some(watcher)),
                Err(zk::Error::NoNode) => {}
                // The end of a node that may not be read is only seen in the list.
                Err(zk::Error::NoAuth) => {
                    let (children, mut watcher) = session.watch_list(&self.barrier.path).await?;
                    if next_to_leave(&children).is_some() && watcher.seen() != Some(EventType::Session) {
                        return Ok(Some(watcher));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Deletes the node that has let the members in, if it is still that of this round.
    pub(super) async fn remove_ready(&self) -> Result<()> {
        let Some(round) = self.round else { return Ok(()) };
        let ready = &self.barrier.ready;
        let removing = self.barrier.client.request("delete", ready, |session| async move {
            match session.stat(ready).await? {
                Some(stat) if stat.czxid == round => {
                    match session.delete_version(ready, stat.version).await {
                        Err(zk::Error::NoNode | zk::Error::BadVersion) => Ok(()),
                        removed => removed,
                    }
                }
                Some(_) | None => Ok(()),
            }
        });
        removing.await
    }

    /// Leaves without waiting for others. Whoever is the last removes what has let the members in.
    pub(super) async fn leave_for_good(&mut self) {
        let Ok(true) = self.leave().await else { return };
        let Ok(session) = self.barrier.client.session().await else { return };
        if let Ok(children) = session.list(&self.barrier.path).await
            && next_to_leave(&children).is_none()
        {
            // The others do it as well.
            let _ = self.remove_ready().await;
        }
    }

    async fn pause_after(&self, source: zk::Error, failures: &mut Failures) -> Result<()> {
        let error = self.barrier.error("leave the barrier", source);
        if error.ends_session() {
            return Ok(());
        }
        failures.pause_after(error, self.barrier.client.retry_policy()).await
    }
}
