//! One queue: what is at its path, and in which order. With `place.rs`, Curator's `LockInternals`.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::{join, join_all};
use parking_lot::Mutex;
use zookeeper_client as zk;

use super::admission::Admission;
use super::contender::Contender;
use super::membership::SharedLine;
use super::name::{Kind, LEASES, LEASES_CHILD, Names};
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
    foreign_seen: AtomicBool,
    /// Whether somebody contended here, and met no other recipe.
    is_used: AtomicBool,
    /// Of the latest session that somebody contended in.
    line: Mutex<Option<Arc<SharedLine>>>,
    admission: Arc<Admission>,
    companion: Mutex<Weak<dyn Any + Send + Sync>>,
    registry: Arc<Registry>,
}

/// The queues that a client has a use for, by their paths. All lock objects of one path share one.
#[derive(Debug, Default)]
struct Registry(Mutex<HashMap<Arc<str>, Vec<Entry>>>);

type Entry = (&'static Names, Weak<LockInternals>);

impl LockInternals {
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn of(client: &Client, path: &str, names: &'static Names) -> Result<Arc<Self>> {
        let path = client.full_path(path)?;
        let registry: Arc<Registry> = client.extension();
        let mut queues = registry.0.lock();
        let here = queues.entry(path.clone()).or_default();
        let known = here.iter().find(|(known, _)| *known == names);
        if let Some(known) = known.and_then(|(_, queue)| queue.upgrade()) {
            return Ok(known);
        }
        let internals = Arc::new(Self {
            // It may be kept by what works in the background.
            client: client.detached(),
            path,
            names,
            stranger_seen: AtomicBool::new(false),
            foreign_seen: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
            line: Mutex::default(),
            admission: Arc::default(),
            companion: Mutex::new(Weak::<()>::new()),
            registry: registry.clone(),
        });
        here.retain(|(known, _)| *known != names);
        here.push((names, Arc::downgrade(&internals)));
        Ok(internals)
    }

    /// Before somebody contends here.
    ///
    /// # Errors
    /// [`Error::KindConflict`] if lock objects of this client have used the path for another recipe, and still live.
    pub(crate) fn ensure_recipe(&self) -> Result<()> {
        if self.is_used.load(Ordering::Relaxed) {
            return Ok(());
        }
        let others = self.meeting_here();
        let Some(found) = others.iter().find(|other| other.is_used.load(Ordering::Relaxed)) else {
            return Ok(());
        };
        // Of a semaphore and another recipe, that is the path of both.
        let path = if found.path.len() < self.path.len() { &found.path } else { &self.path };
        let (expected, found) = (self.names.recipe(), found.names.recipe());
        Err(Error::KindConflict { path: path.to_string(), node: None, expected, found })
    }

    /// The same by the children of the path, for a recipe that goes by their number.
    ///
    /// # Errors
    /// [`Error::KindConflict`] if the first contender is of another recipe.
    pub(crate) fn ensure_own_is_first(&self, children: &[String]) -> Result<()> {
        let contenders = children.iter().filter_map(|name| {
            let (kind, sequence) = self.names.read_any(name)?;
            Some((sequence, kind, name))
        });
        match contenders.min() {
            Some((_, Kind::Foreign(found), name)) => Err(self.kind_conflict(name, found)),
            _ => Ok(()),
        }
    }

    /// Notes that the path is used for this recipe, as long as this queue lives.
    pub(crate) fn is_used_now(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// The queues of other recipes that this client has on the same path. That of a semaphore is the parent of its
    /// leases.
    fn meeting_here(&self) -> Vec<Arc<Self>> {
        let queues = self.registry.0.lock();
        let at = |path: &str| queues.get(path).into_iter().flatten();
        let leases = format!("{}/{LEASES_CHILD}", self.path);
        let parent = self.path.strip_suffix(LEASES_CHILD).and_then(|path| path.strip_suffix('/'));
        let semaphores = at(&leases).filter(|(names, _)| *names == &LEASES);
        let others = at(parent.filter(|_| self.names == &LEASES).unwrap_or_default());
        let here = at(&self.path).filter(|(names, _)| *names != self.names);
        // They are not dropped here, under the lock that their drop takes.
        here.chain(semaphores).chain(others).filter_map(|(_, queue)| queue.upgrade()).collect()
    }

    /// This child of the path is of another recipe.
    pub(crate) fn kind_conflict(&self, child: &str, found: &'static str) -> Error {
        let (path, node) = (self.path.to_string(), Some(self.child(child)));
        Error::KindConflict { path, node, expected: self.names.recipe(), found }
    }

    /// What the layer above shares among lock objects of this queue, without the queue knowing it: made anew if nobody has
    /// it any more. There is one type of it.
    pub(crate) fn companion<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut companion = self.companion.lock();
        if let Some(known) = companion.upgrade().and_then(|known| known.downcast().ok()) {
            return known;
        }
        let made = Arc::new(make());
        *companion = Arc::downgrade(&made) as Weak<dyn Any + Send + Sync>;
        made
    }

    pub(super) fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// The line of our contenders in that session.
    pub(crate) fn line(&self, session: &Arc<Session>) -> Arc<SharedLine> {
        let mut latest = self.line.lock();
        match &*latest {
            Some(line) if line.session().epoch() == session.epoch() => line.clone(),
            Some(line) if line.session().epoch() > session.epoch() => {
                Arc::new(SharedLine::new(session.clone()))
            }
            _ => latest.insert(Arc::new(SharedLine::new(session.clone()))).clone(),
        }
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

    /// The contender of that name, if it is one.
    pub(crate) fn read(&self, name: &str) -> Option<Queued> {
        let (kind, sequence) = self.names.read(name)?;
        Some(Queued { name: name.to_owned(), kind, sequence })
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

    /// Whether somebody is in the queue, by the children of the path.
    pub(crate) fn has_contenders(&self, children: &[String]) -> bool {
        children.iter().any(|name| self.names.read(name).is_some())
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

    /// The same for contenders in the queue of that line, which remembers them.
    pub(crate) async fn dates_in(
        &self,
        line: &SharedLine,
        undated: Vec<Queued>,
    ) -> Result<Vec<(Queued, i64)>, zk::Error> {
        let (mut created, undated) = line.with(|line, _| line.dates().part(undated));
        let dated = self.dates(line.session(), undated).await?;
        line.with(|line, _| line.dates().learn(&dated));
        created.extend(dated);
        Ok(created)
    }

    pub(crate) fn error(&self, operation: &'static str, source: zk::Error) -> Error {
        Error::ZooKeeper { operation, path: self.path.to_string(), source }
    }

    pub(crate) fn on_stranger(&self, name: &str) {
        match self.names.read_any(name) {
            Some((Kind::Foreign(found), _)) if !self.foreign_seen.swap(true, Ordering::Relaxed) => {
                let expected = self.names.recipe();
                tracing::warn!(path = %self.path, child = name, expected, found, "another recipe uses the path");
            }
            None if !self.stranger_seen.swap(true, Ordering::Relaxed) => {
                tracing::warn!(path = %self.path, child = name, "ignoring children that are no contenders");
            }
            _ => {}
        }
    }
}

impl Drop for LockInternals {
    fn drop(&mut self) {
        let mut queues = self.registry.0.lock();
        if let Some(here) = queues.get_mut(&self.path) {
            here.retain(|(_, queue)| queue.strong_count() > 0);
            if here.is_empty() {
                queues.remove(&self.path);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// How many paths the client has queues at.
    pub(crate) fn known_paths(client: &Client) -> usize {
        lock(&client.extension::<Registry>().0).len()
    }
}
