//! One ZooKeeper session, and the requests that recipes make on it.

use std::borrow::Cow;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use tokio::time::{Instant, sleep};
use zookeeper_client::{self as zk, Acl, Acls, CreateMode, EventType, SessionState};

use super::validity::{Health, Validity};
use super::write::Write;
use crate::failure::Failure;

/// Between attempts to watch, while there is no connection.
const PAUSE: Duration = Duration::from_millis(100);

/// A session, from its establishment on. Its epoch tells it from earlier and later ones of the same client.
///
/// What its [validity](Validity) goes by are the answers to writes and to `sync`: the servers' leader has a part in
/// them, and it is the leader that lets sessions expire. Reads and pings are also answered by a server that
/// the leader hears no longer.
#[derive(Debug)]
pub(crate) struct Session {
    epoch: u64,
    validity: Arc<Validity>,
    state: zk::StateWatcher,
    /// Counts the changes of the state.
    changes: Mutex<(zk::StateWatcher, u64)>,
    /// Taken when the session is ended: the session lives as long as anybody has this handle.
    zookeeper: RwLock<Option<Arc<zk::Client>>>,
}

/// An ephemeral node to be created.
#[derive(Debug)]
pub(crate) struct NewNode<'a> {
    pub(crate) path: String,
    /// Whether the server appends the next number to the path.
    pub(crate) numbered: bool,
    pub(crate) data: &'a [u8],
    pub(crate) acl: Cow<'a, [Acl]>,
}

/// What a successful create of a node tells.
#[derive(Debug)]
pub(crate) struct Created {
    /// The path, with what the server has appended.
    pub(crate) path: String,
    /// The transaction that created it. Old servers do not tell it of creates within a transaction.
    pub(crate) czxid: Option<i64>,
}

/// Tells of a change, or of the end of the session. Dropping it takes the watch back.
pub(crate) struct Watcher {
    event: Pin<Box<dyn Future<Output = EventType> + Send + Sync>>,
    seen: Option<EventType>,
}

impl Watcher {
    fn new(watcher: zk::OneshotWatcher) -> Self {
        // It panics when the runtime of the client is shut down, while its caller is on another one.
        let event = AssertUnwindSafe(watcher.changed()).catch_unwind();
        let event = event.map(|event| event.map_or(EventType::Session, |event| event.event_type));
        Self { event: Box::pin(event), seen: None }
    }

    /// Waits for what it tells.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn changed(&mut self) -> EventType {
        if let Some(seen) = self.seen {
            return seen;
        }
        let event = (&mut self.event).await;
        self.seen = Some(event);
        event
    }

    /// What it has told so far.
    pub(crate) fn seen(&mut self) -> Option<EventType> {
        self.changed().now_or_never()
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(epoch: u64, zookeeper: zk::Client, validity: Validity) -> Self {
        let state = zookeeper.state_watcher();
        let zookeeper = RwLock::new(Some(Arc::new(zookeeper)));
        let changes = Mutex::new((state.clone(), 0));
        Self { epoch, validity: Arc::new(validity), state, changes, zookeeper }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the session is known to be over.
    pub(crate) fn is_over(&self) -> bool {
        self.state.peek_state().is_terminated() || self.handle().is_none()
    }

    /// Tells the present connection from all others of the client: another answer means that there was another one in
    /// between, or none. What was heard on the way, in answers and events, was heard before this tells of the next.
    pub(crate) fn connection(&self) -> u64 {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, count) = &mut *changes;
        while state.changed().now_or_never().is_some() {
            *count += 1;
        }
        self.epoch << 32 | *count
    }

    /// Waits until the session is known to be over.
    pub(crate) async fn ended(&self) {
        let mut state = self.state_watcher();
        while !self.is_over() {
            state.changed().await;
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.validity.timeout()
    }

    pub(crate) fn validity(&self) -> &Arc<Validity> {
        &self.validity
    }

    /// How sure it is at this moment that the session lives.
    pub(crate) fn health(&self) -> Health {
        self.validity.health(self.state.peek_state() == SessionState::SyncConnected)
    }

    pub(crate) fn state_watcher(&self) -> zk::StateWatcher {
        self.state.clone()
    }

    /// The handle that all requests go through.
    pub(crate) fn zookeeper(&self) -> Result<Arc<zk::Client>, zk::Error> {
        self.handle().clone().ok_or(zk::Error::ClientClosed)
    }

    fn handle(&self) -> RwLockReadGuard<'_, Option<Arc<zk::Client>>> {
        self.zookeeper.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the session: it ends at the server when the requests under way are answered.
    pub(crate) fn end(&self) {
        let zookeeper = self.zookeeper.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(zookeeper);
    }

    /// Creates an ephemeral node.
    pub(crate) async fn create(&self, node: &NewNode<'_>) -> Result<Created, zk::Error> {
        let zookeeper = self.zookeeper()?;
        let sent = Instant::now();
        let options = node.mode().with_acls(Acls::new(&node.acl));
        let (stat, sequence) = zookeeper.create(&node.path, node.data, &options).await?;
        self.validity.confirm(sent);
        let path = if node.numbered { format!("{}{sequence}", node.path) } else { node.path.clone() };
        Ok(Created { path, czxid: Some(stat.czxid) })
    }

    /// Creates ephemeral nodes, all of them or none.
    ///
    /// # Errors
    /// [`RuntimeInconsistent`](zk::Error::RuntimeInconsistent): the guard, a node that must exist, does not.
    pub(crate) async fn create_together(
        &self,
        guard: Option<&str>,
        nodes: &[NewNode<'_>],
    ) -> Result<Vec<Created>, zk::Error> {
        let guards = guard.into_iter().map(|path| Write::Check { path, version: None });
        let creates = nodes.iter().map(|node| Write::Create {
            path: &node.path,
            data: node.data,
            mode: node.mode(),
            acl: &node.acl,
        });
        let writes: Vec<Write<'_>> = guards.chain(creates).collect();
        let results = self.commit(&writes).await.map_err(|error| match error {
            zk::MultiWriteError::OperationFailed { index: 0, source: zk::Error::NoNode }
                if guard.is_some() =>
            {
                zk::Error::RuntimeInconsistent
            }
            error => error.into(),
        })?;
        let created = results.into_iter().filter_map(|result| match result {
            zk::MultiWriteResult::Create { path, stat } => {
                Some(Created { path, czxid: (!stat.is_invalid()).then_some(stat.czxid) })
            }
            _ => None,
        });
        Ok(created.collect())
    }

    /// Does writes together: all of them, or none. They are sent at the first poll.
    pub(crate) async fn commit(
        &self,
        writes: &[Write<'_>],
    ) -> Result<Vec<zk::MultiWriteResult>, zk::MultiWriteError> {
        let zookeeper = self.zookeeper()?;
        let mut writer = zookeeper.new_multi_writer();
        for (index, write) in writes.iter().enumerate() {
            let added = write.add_to(&mut writer);
            added.map_err(|source| zk::MultiWriteError::OperationFailed { index, source })?;
        }
        let sent = Instant::now();
        let results = writer.commit().await?;
        self.validity.confirm(sent);
        Ok(results)
    }

    /// Creates a persistent node.
    pub(crate) async fn create_persistent(
        &self,
        path: &str,
        data: &[u8],
        acl: &[Acl],
    ) -> Result<(), zk::Error> {
        let zookeeper = self.zookeeper()?;
        zookeeper.create(path, data, &CreateMode::Persistent.with_acls(Acls::new(acl))).await.map(|_| ())
    }

    /// Creates a container node without data. That it exists already is no failure.
    pub(crate) async fn create_container(&self, path: &str, acl: &[Acl]) -> Result<(), zk::Error> {
        let zookeeper = self.zookeeper()?;
        match zookeeper.create(path, &[], &CreateMode::Container.with_acls(Acls::new(acl))).await {
            Ok(_) | Err(zk::Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Vec<String>, zk::Error> {
        self.zookeeper()?.list_children(path).await
    }

    /// Brings the server of this session up to date with the leader.
    pub(crate) async fn sync(&self, path: &str) -> Result<(), zk::Error> {
        let sent = Instant::now();
        self.zookeeper()?.sync(path).await?;
        self.validity.confirm(sent);
        Ok(())
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<Option<zk::Stat>, zk::Error> {
        self.zookeeper()?.check_stat(path).await
    }

    pub(crate) async fn data(&self, path: &str) -> Result<(Vec<u8>, zk::Stat), zk::Error> {
        self.zookeeper()?.get_data(path).await
    }

    /// Reads the data of a node, and watches it for its deletion or a change of the data.
    pub(crate) async fn watch_data(&self, path: &str) -> Result<(Vec<u8>, zk::Stat, Watcher), zk::Error> {
        let (data, stat, watcher) = self.zookeeper()?.get_and_watch_data(path).await?;
        Ok((data, stat, Watcher::new(watcher)))
    }

    /// The same without the `Stat`, again and again while there is no connection.
    ///
    /// # Errors
    /// That the server refuses, or that the session is over.
    pub(crate) async fn watch_data_patiently(&self, path: &str) -> Result<(Vec<u8>, Watcher), zk::Error> {
        loop {
            match self.watch_data(path).await {
                Ok((data, _, watcher)) => return Ok((data, watcher)),
                Err(error) if Failure::of(&error).is_passing() => sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Watches a node for its creation, its deletion or a change of the data. Answers whether it exists.
    pub(crate) async fn watch_existence(&self, path: &str) -> Result<(bool, Watcher), zk::Error> {
        let (stat, watcher) = self.zookeeper()?.check_and_watch_stat(path).await?;
        Ok((stat.is_some(), Watcher::new(watcher)))
    }

    pub(crate) async fn set_data(&self, path: &str, data: &[u8]) -> Result<(), zk::Error> {
        self.zookeeper()?.set_data(path, data, None).await.map(|_| ())
    }

    /// Lists children and watches for changes among them.
    pub(crate) async fn watch_list(&self, path: &str) -> Result<(Vec<String>, Watcher), zk::Error> {
        let (children, watcher) = self.zookeeper()?.list_and_watch_children(path).await?;
        Ok((children, Watcher::new(watcher)))
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), zk::Error> {
        self.send_delete(path).await
    }

    /// Sends a delete before it returns; the future is for the reply.
    pub(crate) fn send_delete(&self, path: &str) -> BoxFuture<'static, Result<(), zk::Error>> {
        let validity = self.validity.clone();
        let sent = Instant::now();
        match self.zookeeper() {
            Ok(zookeeper) => {
                zookeeper.delete(path, None).inspect_ok(move |()| validity.confirm(sent)).boxed()
            }
            Err(error) => std::future::ready(Err(error)).boxed(),
        }
    }
}

impl NewNode<'_> {
    fn mode(&self) -> CreateMode {
        if self.numbered { CreateMode::EphemeralSequential } else { CreateMode::Ephemeral }
    }
}
