//! Whether an adopted session is still the one that was adopted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use futures_util::FutureExt;
use futures_util::future::{join, join3};
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use zookeeper_client::{self as zk, Acls, CreateMode};

use super::super::retry::PAUSE;
use super::super::serving::Serving;
use super::super::write::Write;
use super::{Adoption, Session, lost};
use crate::failure::Failure;

/// What a node of a session says about the session of a connection, if anything: whether the server lists it among those
/// of the connection's session, and whether it is there.
fn is_continued(is_listed: bool, is_there: bool) -> Option<bool> {
    // A node that is gone may have been deleted.
    (is_listed || is_there).then_some(is_listed)
}

impl Session {
    /// Makes it an adopted session.
    pub(in crate::client) fn adopted(mut self, serving: &Arc<Serving>) -> Self {
        self.adoption = Some(Adoption {
            serving: serving.clone(),
            verified: AtomicU64::new(0),
            nodes: Mutex::default(),
            replaced: CancellationToken::new(),
        });
        self
    }

    /// Finds out whether an adopted session is that of the current connection, which must not have been used before.
    /// Without a node that could show it, nothing is held, and the next create shows it.
    ///
    /// # Errors
    /// Nothing is known.
    pub(in crate::client) async fn is_continued_on(&self, zookeeper: &zk::Client) -> Result<bool, zk::Error> {
        let Some(adoption) = &self.adoption else { return Ok(true) };
        if self.lists_no_nodes.load(Relaxed) {
            return Ok(true);
        }
        let nodes = adoption.nodes.lock().clone();
        for path in &nodes {
            // Sent together: a server answers in order. The node was there before, and its server may lag behind.
            let (synced, listed, stat) = join3(
                async { zookeeper.sync(path).await },
                async { zookeeper.list_ephemerals(path).await },
                async { zookeeper.check_stat(path).await },
            )
            .await;
            let is_listed = match listed {
                // The refusal may overtake the reply before it, which does not come then.
                Err(zk::Error::Unimplemented) => {
                    self.lists_no_nodes.store(true, Relaxed);
                    return Ok(true);
                }
                listed => listed.map_err(lost)?.contains(path),
            };
            synced.map_err(lost)?;
            let is_there = match stat {
                Ok(stat) => stat.is_some_and(|stat| stat.ephemeral_owner == self.id),
                // Only a node that is there has permissions.
                Err(zk::Error::NoAuth) => true,
                Err(error) => return Err(lost(error)),
            };
            if let Some(is_continued) = is_continued(is_listed, is_there) {
                return Ok(is_continued);
            }
            // It went with the session, or was deleted.
            if let Some(is_continued) = self.creates_on(zookeeper, path).await? {
                self.disown(path);
                return Ok(is_continued);
            }
        }
        Ok(nodes.is_empty() || self.creates_visibly_on(zookeeper).await?)
    }

    /// Whether an ephemeral node that is created on a connection belongs to the session. It is deleted in the same
    /// transaction. `None` if the server refuses.
    async fn creates_on(&self, zookeeper: &zk::Client, path: &str) -> Result<Option<bool>, zk::Error> {
        let acl = Acls::anyone_all();
        let create = Write::Create { path, data: &[], mode: CreateMode::Ephemeral, acl: &acl };
        match self.commit_on(zookeeper, &[create, Write::Delete { path, version: None }]).await {
            Ok(results) => Ok(match results.first() {
                // Old servers do not tell.
                Some(zk::MultiWriteResult::Create { stat, .. }) if stat.is_invalid() => None,
                _ => Some(true),
            }),
            Err(zk::MultiWriteError::OperationFailed { .. }) => Ok(None),
            Err(zk::MultiWriteError::RequestFailed { source: zk::Error::SessionExpired }) => Ok(Some(false)),
            Err(zk::MultiWriteError::RequestFailed { source }) => Err(source),
        }
    }

    /// Same as [`creates_on`](Self::creates_on) in the root. Old servers tell as well, but the node is there for a moment.
    async fn creates_visibly_on(&self, zookeeper: &zk::Client) -> Result<bool, zk::Error> {
        let path = format!("/_c_{}-", Uuid::new_v4());
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        let creating = async { zookeeper.create(&path, &[], &options).await };
        // Sent together, since the connection may end before a reply.
        match join(creating, async { zookeeper.delete(&path, None).await }).await.0 {
            Ok((stat, _)) => Ok(stat.ephemeral_owner == self.id),
            Err(error) if Failure::of(&error) == Failure::Refused => Ok(false),
            Err(error) => Err(lost(error)),
        }
    }

    /// Records that the connection after this many changes is of the session.
    pub(in crate::client) fn verified(&self, changes: u64) {
        if let Some(adoption) = &self.adoption {
            adoption.verified.store(changes, SeqCst);
        }
    }

    /// Whether the last reply is known to be one to this session.
    pub(super) fn is_verified(&self) -> bool {
        let is_of = |adoption: &Adoption| adoption.serving.changes() == adoption.verified.load(SeqCst);
        self.adoption.as_ref().is_none_or(is_of)
    }

    pub(crate) fn is_adopted(&self) -> bool {
        self.adoption.is_some()
    }

    /// Waits until an adopted session turns out to have been replaced.
    pub(in crate::client) async fn replaced(&self) {
        match &self.adoption {
            Some(adoption) => adoption.replaced.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Notes an ephemeral node that was created, on the [connection](Self::connection) `seen_on`.
    ///
    /// # Errors
    /// - [`SessionExpired`](zk::Error::SessionExpired) if it belongs to another session, by which it is deleted.
    /// - Same as [`note`](Self::note).
    pub(super) fn own(
        &self,
        zookeeper: &zk::Client,
        path: &str,
        stat: &zk::Stat,
        seen_on: u64,
    ) -> Result<(), zk::Error> {
        let Some(adoption) = &self.adoption else { return Ok(()) };
        // Old servers do not tell in a transaction.
        if stat.is_invalid() || stat.ephemeral_owner == self.id {
            return self.note(path, seen_on);
        }
        adoption.replaced.cancel();
        self.end();
        let (zookeeper, path) = (zookeeper.clone(), path.to_owned());
        // The call sends it.
        let mut deleting = zookeeper.delete(&path, None).boxed();
        adoption.serving.spawn(async move {
            let retried = async {
                while deleting.await.is_err_and(|error| Failure::of(&lost(error)).is_passing()) {
                    sleep(PAUSE).await;
                    deleting = zookeeper.delete(&path, None).boxed();
                }
            };
            // By then the other session has ended as well.
            let _ = timeout(zookeeper.session_timeout(), retried).await;
        });
        Err(zk::Error::SessionExpired)
    }

    /// Notes an ephemeral node of the session that was seen on this [connection](Self::connection).
    ///
    /// # Errors
    /// [`ConnectionLoss`](zk::Error::ConnectionLoss) if that has ended: the next one was, perhaps, found to be of the session
    /// without this node.
    pub(crate) fn note(&self, path: &str, seen_on: u64) -> Result<(), zk::Error> {
        let Some(adoption) = &self.adoption else { return Ok(()) };
        // Before the look at the connection: the one that examines the next one sees it, or the look shows that one.
        adoption.nodes.lock().insert(path.to_owned());
        if self.connection() == seen_on { Ok(()) } else { Err(zk::Error::ConnectionLoss) }
    }

    /// Notes that a node is gone, or is to be deleted.
    pub(crate) fn disown(&self, path: &str) {
        if let Some(adoption) = &self.adoption {
            adoption.nodes.lock().remove(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_continued;

    #[test]
    fn a_node_that_is_there_and_not_listed_belongs_to_another_session() {
        assert_eq!(is_continued(true, true), Some(true));
        assert_eq!(is_continued(false, true), Some(false));
        assert_eq!(is_continued(false, false), None);
        assert_eq!(is_continued(true, false), Some(true), "it was deleted in between");
    }
}
