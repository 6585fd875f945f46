//! The parents of queues and of other nodes: containers, which the server removes after they have been empty for a while.

use futures_util::future::join_all;
use zookeeper_client as zk;

use super::handle::Client;
use super::path;
use super::session::Session;
use crate::error::Error;

impl Client {
    /// Creates `path` and all its ancestors in one round trip, each with its own ACL and without data.
    ///
    /// # Errors
    /// The highest ancestor that is missing and could not be created, and why.
    pub(crate) async fn make_parents(
        &self,
        session: &Session,
        path: &str,
    ) -> Result<(), (String, zk::Error)> {
        let ancestors = down_to(path);
        loop {
            let outcomes = create_all(self, session, &ancestors).await;
            // Permissions may be missing on ancestors that exist, so only the last outcome counts. If that one failed
            // because its own parent is missing, the reason is what kept the parent from being created.
            let mut outcomes = ancestors.iter().zip(outcomes).rev();
            match outcomes.find(|(_, outcome)| *outcome != Err(zk::Error::NoNode)) {
                Some((made, Ok(()))) if *made == path => return Ok(()),
                // The server removed an empty ancestor before its child was created.
                Some((_, Ok(()))) => {}
                Some((failed, Err(source))) => return Err(((*failed).to_owned(), source)),
                None => return Err((ancestors[0].to_owned(), zk::Error::NoNode)),
            }
        }
    }

    /// Makes one attempt at that, in the sense of the retry policy.
    ///
    /// # Errors
    /// [`Error::ZooKeeper`].
    pub(crate) async fn attempt_to_make_parents(&self, session: &Session, path: &str) -> Result<(), Error> {
        let made = self.attempt(session, self.make_parents(session, path)).await;
        made.unwrap_or_else(|| Err((path.to_owned(), zk::Error::ConnectionLoss)))
            .map_err(|(path, source)| Error::ZooKeeper { operation: "create", path, source })
    }

    /// Creates a persistent node, and its parents, if it does not exist.
    pub(crate) async fn make_node(
        &self,
        session: &Session,
        path: &str,
        data: &[u8],
    ) -> Result<(), zk::Error> {
        match self.create_node(session, path, &self.node_data(data)).await? {
            Ok(_) | Err(zk::Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Creates a persistent node with this data, as it is stored, and its parents. Returns what became of the node.
    ///
    /// # Errors
    /// That of a parent. The node was not created.
    pub(crate) async fn create_node(
        &self,
        session: &Session,
        path: &str,
        data: &[u8],
    ) -> Result<Result<zk::Stat, zk::Error>, zk::Error> {
        let acl = self.acl_of(path);
        loop {
            match (session.create_persistent(path, data, &acl).await, path::parent(path)) {
                (Err(zk::Error::NoNode), Some(parent)) => {
                    self.make_parents(session, parent).await.map_err(|(_, source)| source)?;
                }
                // If that is missing to a child of the root, it is the chroot of the client.
                (created, _) => return Ok(created),
            }
        }
    }
}

/// Sends the creates of all ancestors of `path` at the first poll. Those that exist, or may not be created, do not matter:
/// whatever is sent behind them shows whether the parent of `path` is there.
pub(crate) async fn send_ancestors(client: &Client, session: &Session, path: &str) {
    if let Some(parent) = path::parent(path) {
        create_all(client, session, &down_to(parent)).await;
    }
}

/// Returns the ancestors of `path`, the highest first, and `path` itself.
fn down_to(path: &str) -> Vec<&str> {
    let mut ancestors: Vec<&str> = std::iter::successors(Some(path), |path| path::parent(path)).collect();
    ancestors.reverse();
    ancestors
}

async fn create_all(client: &Client, session: &Session, paths: &[&str]) -> Vec<Result<(), zk::Error>> {
    // The requests are sent in this order, so each finds its parent created.
    join_all(paths.iter().map(|path| {
        let acl = client.acl_of(path);
        async move { session.create_container(path, &acl).await }
    }))
    .await
}
