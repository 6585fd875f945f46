//! One queue: what is at its path, and in which order. With `place.rs`, Curator's `LockInternals`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{join, join_all};
use zookeeper_client as zk;

use super::contender::Contender;
use super::name::Names;
use super::order::{Contenders, in_order_of_creation};
use super::rule::Verdict;
use crate::client::{Client, Failures, Session};
use crate::error::{Error, Result};

/// One queue: the contenders under one path, and the rule by which they get their turn.
#[derive(Debug)]
pub(crate) struct LockInternals {
    client: Client,
    /// The full path.
    path: Arc<str>,
    names: &'static Names,
    rule: fn(usize) -> Verdict,
    stranger_seen: AtomicBool,
}

impl LockInternals {
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn new(
        client: &Client,
        path: &str,
        names: &'static Names,
        rule: fn(usize) -> Verdict,
    ) -> Result<Self> {
        let path = client.full_path(path)?;
        Ok(Self { client: client.clone(), path, names, rule, stranger_seen: AtomicBool::new(false) })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The full path.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Whether the contender at this position of the queue holds.
    pub(crate) fn is_holder(&self, position: usize) -> bool {
        (self.rule)(position) == Verdict::Granted
    }

    /// The marker in the names of our nodes.
    pub(crate) fn marker(&self) -> &'static str {
        self.names.marker()
    }

    /// A contender for this queue, outside of it so far.
    pub(crate) fn contender(&self) -> Contender {
        Contender::new(self.names, self.rule)
    }

    pub(crate) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// The names of the contenders, in order, with all that was done before this call: the server asked may
    /// lag behind the others.
    pub(crate) async fn contenders(&self) -> Result<Vec<String>> {
        self.read("list the children of", |session| async move {
            let (synced, children) = join(session.sync(&self.path), self.list(&session)).await;
            let children = synced.and(children)?;
            self.in_order(&session, children).await
        })
        .await
    }

    /// Does a read on whatever session there is, again under the retry policy if it fails to get through.
    pub(crate) async fn read<T, F>(
        &self,
        operation: &'static str,
        attempt: impl Fn(Arc<Session>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, zk::Error>>,
    {
        let mut failures = Failures::default();
        loop {
            let outcome = match self.client.session().await {
                Ok(session) => attempt(session).await.map_err(|source| self.error(operation, source)),
                Err(error) => Err(error),
            };
            match outcome {
                Ok(value) => return Ok(value),
                Err(error) if error.ends_session() => {}
                Err(error) => failures.pause_after(error, self.client.retry_policy()).await?,
            }
        }
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
    ) -> Result<Vec<String>, zk::Error> {
        match Contenders::among(children, self.names, |name| self.on_stranger(name)).in_order() {
            Ok(queue) => Ok(queue),
            Err(names) => Ok(in_order_of_creation(self.dates(session, names).await?)),
        }
    }

    /// When each of these contenders was created; without those that are gone.
    pub(crate) async fn dates(
        &self,
        session: &Session,
        names: Vec<String>,
    ) -> Result<Vec<(String, i64)>, zk::Error> {
        let dates = join_all(names.iter().map(|name| {
            let path = self.child(name);
            async move { session.stat(&path).await }
        }))
        .await;
        let mut created = Vec::with_capacity(names.len());
        for (name, date) in names.into_iter().zip(dates) {
            created.extend(date?.map(|stat| (name, stat.czxid)));
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
