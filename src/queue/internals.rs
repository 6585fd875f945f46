//! One queue: the children of its path, and their order. Together with `place`, it is Curator's `LockInternals`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use parking_lot::Mutex;
use zookeeper_client::{self as zk, Acls, Permission};

use super::admission::Admission;
use super::new_paths::{Forecast, NewPaths};
use super::pure::contender::Contender;
use super::pure::name::{Kind, LEASES, LEASES_CHILD, Names, may_be_semaphore};
use super::pure::order::{Contenders, Queued, in_order_of_creation};
use super::pure::rule::position_of;
use super::shared_local_queue::SharedLocalQueue;
use crate::client::{ByPath, Client, NodeForm, Session, opened};
use crate::error::{Error, Result};

/// One queue: the contenders under one path.
#[derive(Debug)]
pub(crate) struct LockInternals {
    client: Client,
    /// The full path.
    path: Arc<str>,
    names: &'static Names,
    unrecognized_seen: AtomicBool,
    foreign_seen: AtomicBool,
    /// Whether a contender of this client has been in this queue, without meeting another recipe.
    is_used: AtomicBool,
    /// The local queue of the latest session with a contender.
    local: Mutex<Option<Arc<SharedLocalQueue>>>,
    admission: Arc<Admission>,
    new_paths: Arc<NewPaths>,
    registry: Arc<Queues>,
}

/// The queues that a client uses. All lock objects of one path and recipe share one queue.
type Queues = ByPath<&'static Names, LockInternals>;

impl LockInternals {
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn of(client: &Client, path: &str, names: &'static Names) -> Result<Arc<Self>> {
        let path = client.full_path(path)?;
        let registry: Arc<Queues> = client.extension();
        Ok(registry.share(&path, names, || Self {
            // Detached: background work may keep this handle.
            client: client.detached(),
            path: path.clone(),
            names,
            unrecognized_seen: AtomicBool::new(false),
            foreign_seen: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
            local: Mutex::default(),
            admission: Arc::default(),
            new_paths: client.extension(),
            registry: registry.clone(),
        }))
    }

    /// Checks the recipe before a contender enters.
    ///
    /// # Errors
    /// [`Error::KindConflict`] if living lock objects of this client have used the path for another recipe.
    pub(crate) fn ensure_recipe(&self) -> Result<()> {
        if self.is_used() {
            return Ok(());
        }
        let others = self.meeting_here();
        let Some(found) = others.iter().find(|other| other.is_used.load(Ordering::Relaxed)) else {
            return Ok(());
        };
        // For a semaphore and another recipe, the shorter one is the path of both.
        let path = if found.path.len() < self.path.len() { &found.path } else { &self.path };
        let (expected, found) = (self.names.recipe(), found.names.recipe());
        Err(Error::KindConflict { path: path.to_string(), node: None, expected, found })
    }

    /// Checks the recipe by the children of the path, for a recipe that only counts them.
    ///
    /// # Errors
    /// [`Error::KindConflict`] if the first contender belongs to another recipe.
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

    /// Checks that no semaphore is in use at the path, whose children were listed for another reason. Makes a request only if
    /// these look like the queues of a semaphore.
    ///
    /// # Errors
    /// [`Error::KindConflict`] if someone has a permit.
    pub(crate) async fn ensure_no_semaphore(&self, session: &Session, children: &[String]) -> Result<()> {
        if !may_be_semaphore(children) {
            return Ok(());
        }
        let leases = self.child(LEASES_CHILD);
        // If it cannot be known, as without the right to list it, it is not known.
        let listed = session.list(&leases).await.unwrap_or_default();
        let Some(lease) = listed.iter().find(|name| LEASES.read(name).is_some()) else { return Ok(()) };
        Err(self.kind_conflict(&format!("{LEASES_CHILD}/{lease}"), LEASES.recipe()))
    }

    /// Whether the path was used for this recipe since this queue lives.
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Records that the path is used for this recipe, as long as this queue lives.
    pub(crate) fn is_used_now(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Returns this client's queues of other recipes on the same path. The leases of a semaphore meet at the path
    /// of the semaphore, which is their parent.
    fn meeting_here(&self) -> Vec<Arc<Self>> {
        let at = |path: &str| self.registry.at(path).into_iter();
        let leases = format!("{}/{LEASES_CHILD}", self.path);
        let parent = self.path.strip_suffix(LEASES_CHILD).and_then(|path| path.strip_suffix('/'));
        let semaphores = at(&leases).filter(|queue| queue.names == &LEASES);
        let others = at(parent.filter(|_| self.names == &LEASES).unwrap_or_default());
        let here = at(&self.path).filter(|queue| queue.names != self.names);
        here.chain(semaphores).chain(others).collect()
    }

    /// Returns the name of the recipe, as in messages.
    pub(crate) fn recipe(&self) -> &'static str {
        self.names.recipe()
    }

    /// Returns the error for a child that belongs to another recipe.
    pub(crate) fn kind_conflict(&self, child: &str, found: &'static str) -> Error {
        let (path, node) = (self.path.to_string(), Some(self.child(child)));
        Error::KindConflict { path, node, expected: self.names.recipe(), found }
    }

    /// Returns whether the path is likely to exist.
    pub(super) fn forecast(&self) -> Forecast {
        let local = self.local.lock().clone();
        if local.is_some_and(|local| local.members() > 0) {
            return Forecast::Used;
        }
        self.new_paths.forecast(&self.path)
    }

    /// Records whether the path did exist.
    pub(super) fn learn(&self, forecast: Forecast, was_new: bool) {
        self.new_paths.learn(&self.path, forecast, was_new);
        if !was_new && forecast != Forecast::Used {
            self.look_who_may_delete();
        }
    }

    /// Warns once if others can take what is held here, because they have created the path with an ACL that is more open
    /// than that of this client's nodes. In the background, since nothing waits for it.
    fn look_who_may_delete(&self) {
        let (client, path) = (self.client.clone(), self.path.clone());
        if opened(&Acls::anyone_all(), &client.acl_of(&path)) == Permission::NONE {
            return;
        }
        if self.new_paths.was_looked_at(&path) {
            return;
        }
        self.client.spawn(async move {
            let acl = client.request("read the ACL of", &path, |session| {
                let path = path.clone();
                async move { session.acl(&path).await }
            });
            // Who may not read it is not told.
            let Ok(acl) = client.unless_closed(acl).await else { return };
            let everyone = opened(&acl, &client.acl_of(&path));
            if everyone != Permission::NONE {
                tracing::warn!(
                    path = &*path,
                    %everyone,
                    "the path was created with an ACL by which everyone can take away what this client holds there; set that of its own nodes"
                );
            }
        });
    }

    /// Records that the path exists, because there is a node below it.
    pub(super) fn exists_now(&self) {
        self.new_paths.is_used(&self.path);
    }

    pub(super) fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Whether anyone of this client waits in the queue, or is on its way into it.
    pub(crate) fn has_callers(&self) -> bool {
        self.admission.has_callers()
    }

    /// Returns the local queue of our contenders in that session.
    pub(crate) fn local_queue(&self, session: &Arc<Session>) -> Arc<SharedLocalQueue> {
        let mut latest = self.local.lock();
        match &*latest {
            Some(local) if local.session().epoch() == session.epoch() => local.clone(),
            Some(local) if local.session().epoch() > session.epoch() => {
                Arc::new(SharedLocalQueue::new(session.clone()))
            }
            _ => latest.insert(Arc::new(SharedLocalQueue::new(session.clone()))).clone(),
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The full path.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Returns the form of our nodes.
    pub(crate) fn form(&self, kind: Kind, data: Option<Arc<[u8]>>) -> NodeForm {
        NodeForm { marker: self.names.marker(kind).into(), number: None, data }
    }

    /// Whether there may be shared contenders besides exclusive ones.
    pub(crate) fn has_shared(&self) -> bool {
        self.names.have_shared()
    }

    /// Parses the name of a contender; `None` for any other child.
    pub(crate) fn read(&self, name: &str) -> Option<Queued> {
        let (kind, sequence) = self.names.read(name)?;
        Some(Queued { name: name.to_owned(), kind, sequence })
    }

    /// Returns a contender for this queue that has not entered it.
    pub(crate) fn contender(&self) -> Contender {
        Contender::new(self.names)
    }

    pub(crate) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Lists the contenders in order. Sees everything that was done before the call, even though the server may lag
    /// behind the others.
    pub(crate) async fn contenders(&self) -> Result<Vec<Queued>> {
        self.request("list the children of", |session| async move {
            let children = session.synced(&self.path, self.list(&session)).await?;
            self.in_order(&session, children).await
        })
        .await
    }

    /// Makes a request on the current session. See [`Client::request`].
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

    /// Returns the contenders among the children of the path.
    pub(crate) fn among(&self, children: Vec<String>) -> Contenders {
        Contenders::among(children, self.names, |name| self.on_unrecognized(name))
    }

    /// Reads the queue and returns how many contenders are ahead of the node of this name. If there is no such node,
    /// that is all of them.
    pub(crate) async fn position_of(&self, node: Option<&str>) -> Result<usize> {
        let queue = self.contenders().await?;
        Ok(position_of(node.unwrap_or_default(), &queue).unwrap_or(queue.len()))
    }

    /// Whether any of the children of the path is a contender.
    pub(crate) fn has_contenders(&self, children: &[String]) -> bool {
        children.iter().any(|name| self.names.read(name).is_some())
    }

    /// Fetches the creation dates of these contenders. Leaves out those that are gone.
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

    /// Fetches the creation dates of contenders through the cache of their local queue.
    pub(crate) async fn dates_in(
        &self,
        local: &SharedLocalQueue,
        undated: Vec<Queued>,
    ) -> Result<Vec<(Queued, i64)>, zk::Error> {
        let (mut created, undated) = local.with(|local, _| local.dates().part(undated));
        let dated = self.dates(local.session(), undated).await?;
        local.with(|local, _| local.dates().learn(&dated));
        created.extend(dated);
        Ok(created)
    }

    /// Returns the error for [`CreateOutcome::TooLarge`](crate::client::CreateOutcome::TooLarge).
    pub(crate) fn too_large(&self, operation: &'static str) -> Error {
        Error::RequestTooLarge { operation, path: self.path.to_string() }
    }

    pub(crate) fn error(&self, operation: &'static str, source: zk::Error) -> Error {
        Error::ZooKeeper { operation, path: self.path.to_string(), source }
    }

    pub(crate) fn on_unrecognized(&self, name: &str) {
        match self.names.read_any(name) {
            Some((Kind::Foreign(found), _)) if !self.foreign_seen.swap(true, Ordering::Relaxed) => {
                let expected = self.names.recipe();
                tracing::warn!(path = %self.path, child = name, expected, found, "another recipe uses the path");
            }
            None if !self.unrecognized_seen.swap(true, Ordering::Relaxed) => {
                tracing::warn!(path = %self.path, child = name, "ignoring children that are no contenders");
            }
            _ => {}
        }
    }
}

impl Drop for LockInternals {
    fn drop(&mut self) {
        self.registry.forget(&self.path);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns how many paths the client has queues for.
    pub(crate) fn known_paths(client: &Client) -> usize {
        client.extension::<Queues>().paths()
    }
}
