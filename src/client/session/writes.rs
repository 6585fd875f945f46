//! The writes of a session.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture, join, ready};
use zookeeper_client::{self as zk, Acl, Acls, CreateMode};

use super::super::clock::Moment;
use super::super::connection::{Connection, Server};
use super::super::signs::Sign;
use super::super::write::Write;
use super::combined::Way;
use super::combining::{Sharing, Wish};
use super::new_node::{Created, NewNode};
use super::{Session, lost};
use crate::failure::Failure;
use crate::meters::Request;

impl Session {
    /// Creates an ephemeral node.
    pub(crate) async fn create(
        self: &Arc<Self>,
        node: &NewNode<'_>,
        sharing: Sharing,
    ) -> Result<Created, zk::Error> {
        match self.combine(sharing, true, || Wish::Create(node.to_owned()))? {
            Way::Alone(connection, _under_way) => self.create_on(&connection, node).await,
            Way::Waits(reply) => {
                reply.await.ok().and_then(Result::transpose).unwrap_or(Err(zk::Error::ConnectionLoss))
            }
        }
    }

    pub(super) async fn create_on(
        &self,
        connection: &Connection,
        node: &NewNode<'_>,
    ) -> Result<Created, zk::Error> {
        let seen_on = self.connection();
        let (stat, sequence) =
            self.create_as(connection, node.mode(), &node.path, &node.data, &node.acl).await?;
        let path = if node.numbered { format!("{}{sequence}", node.path) } else { node.path.clone() };
        self.own(&connection.zookeeper, &path, &stat, seen_on)?;
        Ok(Created { path, czxid: Some(stat.czxid) })
    }

    /// Creates ephemeral nodes, all or none. Returns `None` if what guards them is not so: a check of a node that is not
    /// there, or the create of one that is; it comes once as many of the others are created. Servers that do not tell when
    /// nodes were created are asked for the date of one.
    pub(crate) async fn create_together(
        &self,
        guard: Option<(usize, Write<'_>)>,
        dates: Option<&str>,
        nodes: &[NewNode<'_>],
    ) -> Result<Option<Vec<Created>>, zk::Error> {
        let mut writes: Vec<Write<'_>> = nodes.iter().map(NewNode::to_write).collect();
        let guard = guard.map(|(index, write)| {
            let is_check = matches!(write, Write::Check { .. });
            writes.insert(index, write);
            (index, if is_check { zk::Error::NoNode } else { zk::Error::NodeExists })
        });
        // All have the same date; and a read behind a write costs no time.
        let dating =
            dates.filter(|_| self.tells_no_dates.load(Ordering::Relaxed)).map(|path| self.stat(path));
        let (results, dated) = join(self.commit(&writes), OptionFuture::from(dating)).await;
        let dated = dated.and_then(Result::ok).flatten().filter(|stat| stat.ephemeral_owner == self.id);
        let mut results = match results {
            Err(zk::MultiWriteError::OperationFailed { index, source })
                if guard.as_ref() == Some(&(index, source.clone())) =>
            {
                return Ok(None);
            }
            results => results?,
        };
        guard.into_iter().for_each(|(index, _)| drop(results.remove(index)));
        let created = results.into_iter().filter_map(|result| match result {
            zk::MultiWriteResult::Create { path, stat } => Some(self.created(path, &stat, dated.as_ref())),
            _ => None,
        });
        Ok(Some(created.collect()))
    }

    /// Returns what a transaction has created, by its result and by what was read behind it.
    pub(super) fn created(&self, path: String, told: &zk::Stat, read: Option<&zk::Stat>) -> Created {
        let is_told = !told.is_invalid();
        self.tells_no_dates.store(!is_told, Ordering::Relaxed);
        Created { path, czxid: if is_told { Some(told) } else { read }.map(|stat| stat.czxid) }
    }

    /// Carries out writes in one transaction: all or none. They are sent at the first poll.
    pub(crate) async fn commit(
        &self,
        writes: &[Write<'_>],
    ) -> Result<Vec<zk::MultiWriteResult>, zk::MultiWriteError> {
        let connection = self.connected()?;
        self.in_order(&connection.server, self.commit_on(&connection.zookeeper, writes)).await
    }

    pub(super) async fn commit_on(
        &self,
        zookeeper: &zk::Client,
        writes: &[Write<'_>],
    ) -> Result<Vec<zk::MultiWriteResult>, zk::MultiWriteError> {
        let seen_on = self.connection();
        let mut writer = zookeeper.new_multi_writer();
        for (index, write) in writes.iter().enumerate() {
            let added = write.add_to(&mut writer);
            added.map_err(|source| zk::MultiWriteError::OperationFailed { index, source })?;
        }
        self.requests.count(Request::Multi);
        let sent = Moment::now();
        let results = writer.commit().await.map_err(|error| match error {
            zk::MultiWriteError::RequestFailed { source } => {
                zk::MultiWriteError::RequestFailed { source: lost(source) }
            }
            // If the session ends or has moved meanwhile, nothing was done and nothing decided.
            zk::MultiWriteError::OperationFailed { source, .. }
                if Failure::of(&source) != Failure::Refused =>
            {
                zk::MultiWriteError::RequestFailed { source }
            }
            error => error,
        });
        // A rejected transaction is committed as well, as one that does nothing. The leader decides that, since the
        // result of each operation depends on those before.
        if matches!(results, Ok(_) | Err(zk::MultiWriteError::OperationFailed { .. })) {
            self.answered(Sign::Confirmed, sent);
        }
        let results = results?;
        let mut owned = Ok(());
        for (write, result) in writes.iter().zip(&results) {
            match (write, result) {
                (
                    Write::Create { mode: CreateMode::Ephemeral | CreateMode::EphemeralSequential, .. },
                    zk::MultiWriteResult::Create { path, stat },
                ) => owned = owned.and(self.own(zookeeper, path, stat, seen_on)),
                // Also of what it has created itself.
                (Write::Delete { path, .. }, _) => self.disown(path),
                _ => {}
            }
        }
        // After each of them: of a session that was replaced, all are deleted.
        owned.map(|()| results).map_err(|source| zk::MultiWriteError::RequestFailed { source })
    }

    /// Creates a persistent node.
    pub(crate) async fn create_persistent(
        &self,
        path: &str,
        data: &[u8],
        acl: &[Acl],
    ) -> Result<zk::Stat, zk::Error> {
        let connection = self.connected()?;
        self.create_as(&connection, CreateMode::Persistent, path, data, acl).await.map(|(stat, _)| stat)
    }

    /// Creates a container node without data. Succeeds if the node already exists.
    pub(crate) async fn create_container(&self, path: &str, acl: &[Acl]) -> Result<(), zk::Error> {
        let connection = self.connected()?;
        match self.create_as(&connection, CreateMode::Container, path, &[], acl).await {
            Ok(_) | Err(zk::Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn create_as(
        &self,
        connection: &Connection,
        mode: CreateMode,
        path: &str,
        data: &[u8],
        acl: &[Acl],
    ) -> Result<(zk::Stat, zk::CreateSequence), zk::Error> {
        self.requests.count(Request::Create);
        let sent = Moment::now();
        let creating = connection.zookeeper.create(path, data, &mode.with_acls(Acls::new(acl)));
        self.written(&connection.server, sent, creating).await
    }

    /// Replaces the data of a node if it has that version; `None` matches every version.
    pub(crate) async fn set_data(
        &self,
        path: &str,
        data: &[u8],
        version: Option<i32>,
    ) -> Result<zk::Stat, zk::Error> {
        let connection = self.connected_for(Request::SetData)?;
        let sent = Moment::now();
        self.written(&connection.server, sent, connection.zookeeper.set_data(path, data, version)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), zk::Error> {
        self.delete_on(&*self.connected()?, path, None).await
    }

    pub(super) async fn delete_on(
        &self,
        connection: &Connection,
        path: &str,
        version: Option<i32>,
    ) -> Result<(), zk::Error> {
        self.disown(path);
        self.requests.count(Request::Delete);
        let sent = Moment::now();
        self.written(&connection.server, sent, connection.zookeeper.delete(path, version)).await
    }

    /// Deletes a node if it has that version.
    pub(crate) async fn delete_version(&self, path: &str, version: i32) -> Result<(), zk::Error> {
        self.delete_on(&*self.connected()?, path, Some(version)).await
    }

    /// Sends a delete before it returns, or as soon as there is a connection; or has it wait for others. The future yields
    /// the reply.
    pub(crate) fn send_delete(
        self: &Arc<Self>,
        path: &str,
        sharing: Sharing,
    ) -> Pin<Box<dyn Future<Output = Result<(), zk::Error>> + Send + Sync>> {
        let session = self.clone();
        match self.combine(sharing, false, || Wish::Delete(path.to_owned())) {
            Ok(Way::Alone(connection, under_way)) => {
                let deleting = self.send_delete_on(&connection, path);
                Box::pin(async move {
                    let _under_way = under_way;
                    deleting.await
                })
            }
            Ok(Way::Waits(reply)) => {
                Box::pin(async move { reply.await.unwrap_or(Err(zk::Error::ConnectionLoss)).map(drop) })
            }
            Err(_) => {
                let path = path.to_owned();
                Box::pin(async move {
                    session.ready().await;
                    session.delete(&path).await
                })
            }
        }
    }

    /// Sends a delete before it returns. The future, which yields the reply, does not keep the connection.
    pub(super) fn send_delete_on(
        self: &Arc<Self>,
        connection: &Connection,
        path: &str,
    ) -> impl Future<Output = Result<(), zk::Error>> + Send + Sync + use<> {
        self.disown(path);
        self.requests.count(Request::Delete);
        let sent = Moment::now();
        let deleting = connection.zookeeper.delete(path, None);
        let (session, server) = (self.clone(), connection.server.clone());
        async move { session.written(&server, sent, deleting).await }
    }

    /// Sends a transaction that deletes nodes before it returns, or as soon as there is a connection. The future yields
    /// the reply.
    pub(crate) fn send_deletes(
        self: &Arc<Self>,
        paths: Vec<String>,
    ) -> BoxFuture<'static, Result<(), zk::MultiWriteError>> {
        let session = self.clone();
        let mut deleting = async move {
            session.ready().await;
            // Given up, whether the reply comes or not.
            paths.iter().for_each(|path| session.disown(path));
            let deletes: Vec<_> = paths.iter().map(|path| Write::Delete { path, version: None }).collect();
            session.commit(&deletes).await.map(drop)
        }
        .boxed();
        // The first poll sends. The caller that awaits the future polls it again.
        match deleting.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => ready(reply).boxed(),
            Poll::Pending => deleting,
        }
    }

    /// Waits for the reply to a write. Records it as a sign of life, if it proves that a majority of the servers has
    /// committed the write. A write that the leader finds impossible is committed, too, as a transaction that does nothing.
    ///
    /// A missing permission proves nothing: a server may be configured to check it by itself (`enableEagerACLCheck`).
    async fn written<T>(
        &self,
        server: &Server,
        sent: Moment,
        answer: impl Future<Output = Result<T, zk::Error>> + Send + Sync,
    ) -> Result<T, zk::Error> {
        use zk::Error::{BadVersion, NoChildrenForEphemerals, NoNode, NodeExists, NotEmpty};
        let answer = self.in_order(server, answer).await;
        if matches!(
            answer,
            Ok(_) | Err(BadVersion | NoChildrenForEphemerals | NoNode | NodeExists | NotEmpty)
        ) {
            self.answered(Sign::Confirmed, sent);
        }
        answer.map_err(lost)
    }
}
