//! The downgrade of a writer to a reader.

use std::sync::Arc;

use zookeeper_client as zk;

use super::internals::LockInternals;
use super::pure::order::is_past_the_last_number;
use super::shared_local_queue::LocalSlot;
use crate::client::{CreateOutcome, EphemeralNode, Failures, Guard, NodeForm, Session};
use crate::error::Result;

/// The outcome of a downgrade.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is made")]
pub(crate) enum Downgrade {
    /// The reader's node, and its place in the local queue.
    Reads(EphemeralNode, LocalSlot),
    /// Sequence numbers repeat here, so the writer's number is not its own.
    NoPlace,
    /// The writer's node is gone or is being removed: the next writer may have the lock.
    WriterGone,
}

/// Creates a reader's node with the number of the writer's node, so that queued writers stay behind it. The node is
/// created only if the writer's node exists. It is removed again if the writer was lost or released before the
/// reply: then the local waiters behind the writer have been let in.
///
/// This is the node layout of Curator's `InterProcessReadWriteLock`.
///
/// # Cancel safety
/// No node stays.
pub(crate) async fn downgrade(
    internals: &LockInternals,
    session: &Arc<Session>,
    writer: &str,
    form: NodeForm,
) -> Result<Downgrade> {
    let name = writer.rsplit('/').next().unwrap_or(writer);
    let writing = internals.read(name).filter(|writer| !is_past_the_last_number(writer.sequence));
    let Some(writing) = writing else { return Ok(Downgrade::NoPlace) };
    let form = NodeForm { number: Some(writing.sequence), ..form };
    let retry = internals.client().retry_policy();
    let mut failures = Failures::default();
    loop {
        let node = EphemeralNode::new(internals.client(), session.clone(), internals.path(), form.clone());
        let guard = Some(Guard::Exists(writer.to_owned()));
        let creating = EphemeralNode::create_together(internals.client(), vec![node], session, guard);
        let attempted = internals.client().attempt(session, creating).await;
        let (nodes, created) = attempted.unwrap_or((Vec::new(), Err(zk::Error::ConnectionLoss)));
        let source = match created {
            Ok(CreateOutcome::Created) => {
                // The node that was passed in.
                let Some(node) = nodes.into_iter().next() else { return Ok(Downgrade::NoPlace) };
                let reading = node.name().and_then(|name| internals.read(name));
                let slot =
                    reading.and_then(|reading| internals.local_queue(session).follow(&reading, &writing));
                return Ok(slot.map_or(Downgrade::WriterGone, |place| Downgrade::Reads(node, place)));
            }
            Ok(CreateOutcome::ParentMissing | CreateOutcome::GuardMissing) => {
                return Ok(Downgrade::WriterGone);
            }
            Ok(CreateOutcome::TooLarge) => return Err(internals.too_large("create a node in")),
            // Whether it was created or not, it is undone.
            Ok(CreateOutcome::Unknown(source)) | Err(source) => source,
        };
        let error = internals.error("create a node in", source);
        if error.ends_session() {
            return Ok(Downgrade::WriterGone);
        }
        failures.pause_after(error, retry).await?;
    }
}
