//! Several nodes that are deleted in one transaction.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt;
use zookeeper_client as zk;

use super::super::delete_together::{DeleteTogether, DeletedTogether};
use super::super::session::Session;
use super::super::size;
use super::super::write::Write;
use super::EphemeralNode;
use crate::failure::Failure;

/// Transactions that have been sent, one for each session.
#[derive(Debug, Default)]
pub(crate) struct Deletes(Vec<Sent>);

#[derive(Debug)]
struct Sent {
    session: Arc<Session>,
    paths: HashSet<String>,
    transaction: DeleteTogether,
}

impl Deletes {
    /// Deletes in one transaction the nodes that are of one session, if there are several of them. The transactions have
    /// been sent when this returns, or are as soon as there is a connection.
    pub(crate) fn send<'a>(nodes: impl IntoIterator<Item = &'a EphemeralNode>) -> Self {
        let mut of_sessions: Vec<Vec<&EphemeralNode>> = Vec::new();
        for node in nodes.into_iter().filter(|node| node.name().is_some() && !node.session().is_over()) {
            match of_sessions.iter_mut().find(|of_one| Arc::ptr_eq(of_one[0].session(), node.session())) {
                Some(of_one) => of_one.push(node),
                None => of_sessions.push(vec![node]),
            }
        }
        Self(of_sessions.into_iter().filter_map(|nodes| send(&nodes)).collect())
    }

    /// Returns the transaction that deletes this node, if it is one of the nodes.
    pub(crate) fn of(&self, node: &EphemeralNode) -> Option<DeleteTogether> {
        let sent = self.0.iter().find(|sent| Arc::ptr_eq(&sent.session, node.session()))?;
        sent.paths.contains(&node.path()).then(|| sent.transaction.clone())
    }
}

fn send(nodes: &[&EphemeralNode]) -> Option<Sent> {
    let (client, session) = match nodes {
        [first, _, ..] => (first.client(), first.session()),
        _ => return None,
    };
    let paths: Vec<String> = nodes.iter().map(|node| node.path()).collect();
    let sizes = paths.iter().map(|path| size::of_write(&Write::Delete { path, version: None }));
    if !client.fits(sizes) {
        return None;
    }
    let in_transaction = paths.iter().cloned().collect();
    let before = session.before_sending();
    let deleted = session.send_deletes(paths).map(|reply| match reply {
        Ok(()) => DeletedTogether::All,
        Err(zk::MultiWriteError::OperationFailed { .. }) => DeletedTogether::None,
        // Servers that do not accept transactions may accept single deletes.
        Err(error) => match zk::Error::from(error) {
            error if Failure::of(&error) == Failure::Refused => DeletedTogether::None,
            error => DeletedTogether::Failed(error),
        },
    });
    let transaction = DeleteTogether { outcome: deleted.boxed().shared(), before };
    Some(Sent { session: session.clone(), paths: in_transaction, transaction })
}
