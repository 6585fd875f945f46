//! Several nodes that are deleted in one transaction.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use zookeeper_client as zk;

use super::super::session::{BeforeSending, Session};
use super::super::size;
use super::super::write::Write;
use super::EphemeralNode;
use crate::failure::Failure;

/// Transactions that have been sent, one for each session.
#[derive(Debug, Default)]
pub(crate) struct Deletes(Vec<DeleteTogether>);

/// A transaction that has been sent. Each of its nodes awaits it, and is deleted by itself if the outcome does not tell
/// that it is gone.
#[derive(Clone, Debug)]
pub(crate) struct DeleteTogether {
    session: Arc<Session>,
    paths: Arc<HashSet<String>>,
    /// Whether all of them are gone. If not, the transaction was refused because of one of the nodes: that one is gone,
    /// or may not be deleted. The error is as of a request that deletes only one of them.
    pub(in crate::client) outcome: Shared<BoxFuture<'static, Result<bool, zk::Error>>>,
    pub(in crate::client) before: BeforeSending,
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
        let mut sent = self.0.iter().filter(|sent| Arc::ptr_eq(&sent.session, node.session()));
        sent.find(|sent| sent.paths.contains(&node.path())).cloned()
    }
}

fn send(nodes: &[&EphemeralNode]) -> Option<DeleteTogether> {
    let (client, session) = match nodes {
        [first, _, ..] => (first.client(), first.session()),
        _ => return None,
    };
    let paths: Vec<String> = nodes.iter().map(|node| node.path()).collect();
    let sizes = paths.iter().map(|path| size::of_write(&Write::Delete { path, version: None }));
    if !client.fits(sizes) {
        return None;
    }
    let in_transaction = Arc::new(paths.iter().cloned().collect());
    let before = session.before_sending();
    let deleted = session.send_deletes(paths).map(|reply| match reply {
        Ok(()) => Ok(true),
        Err(zk::MultiWriteError::OperationFailed { .. }) => Ok(false),
        // Servers that do not accept transactions may accept single deletes.
        Err(error) => match zk::Error::from(error) {
            error if Failure::of(&error) == Failure::Refused => Ok(false),
            error => Err(error),
        },
    });
    let outcome = deleted.boxed().shared();
    Some(DeleteTogether { session: session.clone(), paths: in_transaction, outcome, before })
}
