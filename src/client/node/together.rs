//! Nodes of one session that are created, deleted and given up together.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::{OptionFuture, join, join_all};
use zookeeper_client::{self as zk, CreateMode};

use super::super::handle::Client;
use super::super::session::{Session, Sharing};
use super::super::sweeper::{Lost, id_of};
use super::super::write::Write;
use super::super::{parents, size};
use super::deletes::Deletes;
use super::{CreateOutcome, EphemeralNode, State};

/// What nodes that are created together depend on.
#[derive(Debug)]
pub(crate) enum Guard {
    /// A node of this path exists.
    Exists(String),
    /// The last of them gets this number.
    LastHas(i32),
    /// Their parent does not exist. It is created with them, as a container; its ancestors ahead of that, if they are to be.
    NewParent { ancestors: bool },
}

impl EphemeralNode {
    /// Creates nodes of one session in one transaction: all or none, and none if what the guard says is not so. The
    /// request is sent at the first poll.
    ///
    /// # Errors
    /// The reason why the nodes do not exist.
    ///
    /// # Cancel safety
    /// The client completes the create in the background, and removes the nodes in this order.
    pub(crate) async fn create_together(
        client: &Client,
        mut nodes: Vec<Self>,
        session: &Arc<Session>,
        guard: Option<Guard>,
    ) -> (Vec<Self>, Result<CreateOutcome, zk::Error>) {
        let session = session.clone();
        let creating = async move {
            let outcome = Self::try_create_together(&mut nodes, &session, guard).await;
            (nodes, outcome)
        };
        client.see_through(creating).await
    }

    /// The same for at least one node that someone else [sees to](Client::see_through).
    ///
    /// # Cancel safety
    /// The nodes may exist; dropping them removes them.
    pub(crate) async fn try_create_together(
        nodes: &mut [Self],
        session: &Session,
        guard: Option<Guard>,
    ) -> Result<CreateOutcome, zk::Error> {
        for node in &mut *nodes {
            node.state = State::Unknown;
        }
        let (client, parent) = (&nodes[0].client, &nodes[0].parent);
        let to_create: Vec<_> = nodes.iter().map(Self::to_create).collect();
        let last = &to_create[to_create.len() - 1].path;
        let acl = client.acl_of(parent);
        // The node that tells when they were created, where transactions do not.
        let dates = match &guard {
            Some(Guard::LastHas(number)) => Some(format!("{last}{number:010}")),
            Some(Guard::NewParent { .. }) => Some(format!("{last}{:010}", 0)),
            Some(Guard::Exists(_)) | None => None,
        };
        // A check comes right behind the create of the node that it looks for.
        let guarding = match (&guard, &dates) {
            (Some(Guard::LastHas(_)), Some(path)) => {
                Some((to_create.len(), Write::Check { path, version: None }))
            }
            (Some(Guard::Exists(path)), _) => Some((0, Write::Check { path, version: None })),
            (Some(Guard::NewParent { .. }), _) => {
                Some((0, Write::Create { path: parent, data: &[], mode: CreateMode::Container, acl: &acl }))
            }
            _ => None,
        };
        let sizes = guarding.iter().map(|(_, write)| size::of_write(write));
        if !client.fits(sizes.chain(to_create.iter().map(|node| size::of_write(&node.to_write())))) {
            nodes.iter_mut().for_each(|node| node.state = State::Gone);
            return Ok(CreateOutcome::TooLarge);
        }
        let makes_ancestors = matches!(guard, Some(Guard::NewParent { ancestors: true }));
        let sent_ahead = makes_ancestors.then(|| parents::send_ancestors(client, session, parent));
        // `join` polls in this order, and the first poll sends.
        let creating = session.create_together(guarding, dates.as_deref(), &to_create);
        let (_, created) = join(OptionFuture::from(sent_ahead), creating).await;
        let error = match created {
            Ok(Some(created)) => {
                for (node, created) in nodes.iter_mut().zip(created) {
                    node.exists(&created.path, created.czxid);
                }
                return Ok(CreateOutcome::Created);
            }
            Ok(None) => {
                nodes.iter_mut().for_each(|node| node.state = State::Gone);
                return Ok(CreateOutcome::GuardMissing);
            }
            Err(error) => error,
        };
        let mut outcome = Err(error.clone());
        for node in nodes {
            outcome = node.not_created(error.clone());
        }
        outcome
    }

    /// Makes one attempt to delete nodes of one session that may exist: one search for all whose create has an unknown
    /// outcome, and one transaction. Where that is refused, the deletes are sent in this order.
    ///
    /// # Errors
    /// Nodes may still exist. Another attempt takes up where this has ended.
    ///
    /// # Cancel safety
    /// Same as with an error.
    pub(crate) async fn delete_together(nodes: &mut [Self]) -> Result<(), zk::Error> {
        Self::settle_together(nodes).await?;
        let deletes = Deletes::send(&*nodes);
        if let Some(transaction) = nodes.iter().find_map(|node| deletes.of(node))
            && transaction.outcome.await?
        {
            nodes.iter_mut().for_each(|node| node.state = State::Gone);
            return Ok(());
        }
        let existing = nodes.iter_mut().filter(|node| node.name().is_some());
        let deleting = existing.map(|node| {
            let sent = node.session.send_delete(&node.path(), Sharing::None);
            async move {
                match sent.await {
                    Ok(()) | Err(zk::Error::NoNode) => node.state = State::Gone,
                    Err(error) => return Err(error),
                }
                Ok(())
            }
        });
        // Collected first: all are sent, in this order.
        let deleting: Vec<_> = deleting.collect();
        join_all(deleting).await.into_iter().collect()
    }

    /// Finds out which of the nodes exist whose create has an unknown outcome: one search for each parent.
    pub(super) async fn settle_together(nodes: &mut [Self]) -> Result<(), zk::Error> {
        let lost = || nodes.iter().filter(|node| matches!(node.state, State::Unknown));
        let Some(session) = lost().next().map(|node| node.session.clone()) else { return Ok(()) };
        let ids: HashSet<_> = lost().map(|node| &*node.id).collect();
        let parents: HashSet<_> = lost().map(|node| &*node.parent).collect();
        let is_wanted =
            |path: &str| path.rsplit('/').next().and_then(id_of).is_some_and(|id| ids.contains(id));
        let found = join_all(parents.into_iter().map(|parent| session.own_nodes(parent, is_wanted))).await;
        let found = found.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
        let found: HashMap<_, _> =
            found.iter().filter_map(|path| Some((id_of(path.rsplit('/').next()?)?, &**path))).collect();
        for node in nodes.iter_mut().filter(|node| matches!(node.state, State::Unknown)) {
            if let Some(path) = found.get(&*node.id) {
                node.exists(path, None);
            } else {
                node.state = State::Gone;
                let lost = Lost::new(node.parent.clone(), &node.id).not_found(&node.session);
                node.client.janitor().sweep(node.session.clone(), lost);
            }
        }
        Ok(())
    }

    /// Gives up nodes, which are then removed in the background: those of one session in one transaction, which has been
    /// sent when this returns. The values that come with the nodes are dropped after that.
    pub(crate) fn abandon_together<T>(nodes: Vec<(Self, T)>) {
        let deletes = Deletes::send(nodes.iter().map(|(node, _)| node));
        for (mut node, until_sent) in nodes {
            if let Some(transaction) = deletes.of(&node) {
                let until_gone = (node.watch.take(), node.kept.take());
                let (session, path) = (node.session.clone(), node.path());
                let deleting = async move {
                    match transaction.outcome.await {
                        Ok(false) => session.delete(&path).await,
                        deleted => deleted.map(drop),
                    }
                };
                node.client.janitor().delete(node.session.clone(), node.path(), deleting, until_gone);
                node.state = State::Gone;
            }
            drop(node);
            drop(until_sent);
        }
    }
}
