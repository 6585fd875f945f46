//! One queue: what is at its path, and in which order. With `place.rs`, Curator's `LockInternals`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{join, join_all};
use zookeeper_client as zk;

use super::contender::Contender;
use super::name::{Kind, Names};
use super::order::{Contenders, Queued, in_order_of_creation};
use crate::client::{Client, NodeForm, Session};
use crate::error::{Error, Result};

/// One queue: the contenders under one path.
#[derive(Debug)]
pub(crate) struct LockInternals {
    client: Client,
    /// The full path.
    path: Arc<str>,
    names: &'static Names,
    stranger_seen: AtomicBool,
}

impl LockInternals {
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn new(client: &Client, path: &str, names: &'static Names) -> Result<Self> {
        let path = client.full_path(path)?;
        Ok(Self { client: client.clone(), path, names, stranger_seen: AtomicBool::new(false) })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The full path.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// What our nodes look like.
    pub(crate) fn form(&self, kind: Kind, data: Option<Arc<[u8]>>) -> NodeForm {
        NodeForm { marker: self.names.marker(kind), number: None, data }
    }

    /// The number in the name of a contender.
    pub(crate) fn sequence_of(&self, name: &str) -> Option<i32> {
        self.names.read(name).map(|(_, sequence)| sequence)
    }

    /// A contender for this queue, outside of it so far.
    pub(crate) fn contender(&self) -> Contender {
        Contender::new(self.names)
    }

    pub(crate) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// The contenders, in order, with all that was done before this call: the server asked may
    /// lag behind the others.
    pub(crate) async fn contenders(&self) -> Result<Vec<Queued>> {
        self.request("list the children of", |session| async move {
            let (synced, children) = join(session.sync(&self.path), self.list(&session)).await;
            let children = synced.and(children)?;
            self.in_order(&session, children).await
        })
        .await
    }

    /// Does a request on whatever session there is. See [`Client::request`].
    pub(crate) async fn request<T, F>(
        &self,
        operation: &'static str,
        attempt: impl Fn(Arc<Session>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, zk::Error>>,
    {
        self.client.request(operation, &self.path, attempt).await
    }

    pub(crate) async fn list(&self, session: &Session) -> Result<Vec<String>, zk::Error> {
        match session.list(&self.path).await {
            // A queue that does not exist is empty.
            Err(zk::Error::NoNode) => Ok(Vec::new()),
            listed => listed,
        }
    }

    pub(crate) async fn in_order(
        &self,
        session: &Session,
        children: Vec<String>,
    ) -> Result<Vec<Queued>, zk::Error> {
        match self.among(children).in_order() {
            Ok(queue) => Ok(queue),
            Err(undated) => Ok(in_order_of_creation(self.dates(session, undated).await?)),
        }
    }

    /// The contenders among the children of the path.
    pub(crate) fn among(&self, children: Vec<String>) -> Contenders {
        Contenders::among(children, self.names, |name| self.on_stranger(name))
    }

    /// When each of these contenders was created; without those that are gone.
    pub(crate) async fn dates(
        &self,
        session: &Session,
        undated: Vec<Queued>,
    ) -> Result<Vec<(Queued, i64)>, zk::Error> {
        let dates = join_all(undated.iter().map(|queued| {
            let path = self.child(&queued.name);
            async move { session.stat(&path).await }
        }))
        .await;
        let mut created = Vec::with_capacity(undated.len());
        for (queued, date) in undated.into_iter().zip(dates) {
            created.extend(date?.map(|stat| (queued, stat.czxid)));
        }
        Ok(created)
    }

    pub(crate) fn error(&self, operation: &'static str, source: zk::Error) -> Error {
        Error::ZooKeeper { operation, path: self.path.to_string(), source }
    }

    pub(crate) fn on_stranger(&self, name: &str) {
        if !self.stranger_seen.swap(true, Ordering::Relaxed) {
            tracing::warn!(path = %self.path, child = name, "ignoring children that are no contenders");
        }
    }
}
