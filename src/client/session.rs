//! One ZooKeeper session, and the requests that recipes make on it.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join, try_join_all};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use zookeeper_client::{self as zk, Acl, Acls, CreateMode, EventType, SessionState};

use super::clock::Moment;
use super::serving::Serving;
use super::signs::{Probe, Sign};
use super::size;
use super::validity::{Health, Validity};
use super::write::Write;
use crate::failure::Failure;

/// Between attempts, while there is no connection.
const PAUSE: Duration = Duration::from_millis(100);

/// For a request on which the servers would hang up.
const TOO_LARGE: zk::Error = zk::Error::BadArguments(&"it is larger than the servers take");

/// A session, from its establishment on. Its epoch tells it from earlier and later ones of the same client.
///
/// What its [validity](Validity) goes by are the answers to requests that a majority of the servers has committed. It
/// is the leader that lets sessions expire; but reads and pings are also answered by a server that the leader hears
/// no longer, and `sync` by a leader that the others have replaced.
#[derive(Debug)]
pub(crate) struct Session {
    epoch: u64,
    validity: Arc<Validity>,
    state: zk::StateWatcher,
    states: watch::Receiver<SessionState>,
    serving: Arc<Serving>,
    /// The last connection whose server is known to have caught up.
    caught_up: AtomicU64,
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
    serving: Arc<Serving>,
    seen: Option<EventType>,
}

impl Watcher {
    fn new(watcher: zk::OneshotWatcher, serving: &Arc<Serving>) -> Self {
        // For an adopted session that is served by another runtime than the client's.
        let event = AssertUnwindSafe(watcher.changed()).catch_unwind();
        let event = event.map(|event| event.map_or(EventType::Session, |event| event.event_type));
        Self { event: Box::pin(event), serving: serving.clone(), seen: None }
    }

    /// Waits for what it tells.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn changed(&mut self) -> EventType {
        if let Some(seen) = self.seen {
            return seen;
        }
        let Self { event, serving, .. } = self;
        let event = poll_fn(|cx| match serving.while_it_lasts(|| event.as_mut().poll(cx)) {
            Some(polled) => polled,
            None => Poll::Ready(EventType::Session),
        })
        .await;
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
    /// On the runtime that the session is served on.
    pub(crate) fn new(epoch: u64, zookeeper: zk::Client, validity: Validity) -> Self {
        let state = zookeeper.state_watcher();
        let states = tell_states(state.clone());
        let zookeeper = RwLock::new(Some(Arc::new(zookeeper)));
        let serving = Arc::new(Serving::new(state.clone()));
        // Of the first connection, since nobody holds by this session yet.
        let caught_up = AtomicU64::new(epoch << 32);
        Self { epoch, validity: Arc::new(validity), state, states, serving, caught_up, zookeeper }
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
        self.epoch << 32 | self.serving.changes()
    }

    /// Whether the server of the present connection shows all that the client has heard of on earlier ones.
    ///
    /// A session may be taken by a server that lags behind the one before. It refuses clients that have seen a later
    /// transaction in an answer; but what was told by an event does not count for that. So a holder that was granted by
    /// an event might read what was written before the lock was released to it.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.caught_up.load(Ordering::SeqCst) == self.connection()
    }

    /// Has the server of the present connection catch up, again and again until it has.
    pub(crate) async fn catch_up(&self) {
        while !self.is_caught_up() && self.confirm().await.is_err() {
            sleep(PAUSE).await;
        }
    }

    /// Waits until the session is known to be over.
    pub(crate) async fn ended(&self) {
        let mut states = self.states();
        // Without a task that tells them, the runtime is shut down.
        while !self.is_over() && states.changed().await.is_ok() {}
    }

    /// Waits until there has been no connection for this long, at a stretch.
    pub(crate) async fn without_connection(&self, patience: Duration) {
        let mut states = self.states();
        let is_connected = |state: &SessionState| *state == SessionState::SyncConnected;
        loop {
            let reconnected = async {
                if states.wait_for(is_connected).await.is_err() {
                    // The session is over.
                    std::future::pending::<()>().await;
                }
            };
            if timeout(patience, reconnected).await.is_err() {
                return;
            }
            // If it is over, that is seen above.
            let _ = states.wait_for(|state| !is_connected(state)).await;
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
        let is_connected = self.state.peek_state() == SessionState::SyncConnected;
        self.validity.health(is_connected && self.is_caught_up())
    }

    /// Its states, told until it is over.
    pub(crate) fn states(&self) -> watch::Receiver<SessionState> {
        self.states.clone()
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
        let (path, data, acl) = (&*node.path, node.data, &*node.acl);
        let create = Write::Create { path, data, mode: node.mode(), acl };
        if !size::fits([size::of_write(&create)], zookeeper.path()) {
            return Err(TOO_LARGE);
        }
        let sent = Moment::now();
        let options = node.mode().with_acls(Acls::new(&node.acl));
        let (stat, sequence) = self.written(sent, zookeeper.create(&node.path, node.data, &options).await)?;
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
        if !size::fits(writes.iter().map(size::of_write), zookeeper.path()) {
            return Err(zk::MultiWriteError::RequestFailed { source: TOO_LARGE });
        }
        let mut writer = zookeeper.new_multi_writer();
        for (index, write) in writes.iter().enumerate() {
            let added = write.add_to(&mut writer);
            added.map_err(|source| zk::MultiWriteError::OperationFailed { index, source })?;
        }
        let sent = Moment::now();
        let results = writer.commit().await;
        // Also one that is refused is committed, as a transaction that does nothing: by the leader, since what the
        // operations find depends on those before.
        if matches!(results, Ok(_) | Err(zk::MultiWriteError::OperationFailed { .. })) {
            self.validity.answered(Sign::Confirmed, sent);
        }
        results
    }

    /// Creates a persistent node.
    pub(crate) async fn create_persistent(
        &self,
        path: &str,
        data: &[u8],
        acl: &[Acl],
    ) -> Result<(), zk::Error> {
        let zookeeper = self.zookeeper()?;
        let sent = Moment::now();
        let options = CreateMode::Persistent.with_acls(Acls::new(acl));
        self.written(sent, zookeeper.create(path, data, &options).await).map(|_| ())
    }

    /// Creates a container node without data. That it exists already is no failure.
    pub(crate) async fn create_container(&self, path: &str, acl: &[Acl]) -> Result<(), zk::Error> {
        let zookeeper = self.zookeeper()?;
        let sent = Moment::now();
        let options = CreateMode::Container.with_acls(Acls::new(acl));
        match self.written(sent, zookeeper.create(path, &[], &options).await) {
            Ok(_) | Err(zk::Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Vec<String>, zk::Error> {
        self.zookeeper()?.list_children(path).await
    }

    /// Brings the server of this session up to date with the leader: as the leader knows it, which may have been
    /// replaced. [`confirm`](Self::confirm) brings it up to date with the ensemble.
    pub(crate) async fn sync(&self, path: &str) -> Result<(), zk::Error> {
        let sent = Moment::now();
        self.zookeeper()?.sync(path).await?;
        self.validity.answered(Probe::Sync.sign(self.validity.keep_alive()), sent);
        Ok(())
    }

    /// Proves that the session is alive, and brings its server up to date with all that was done before: has the servers
    /// commit a transaction that changes nothing. Under [`KeepAlive::Leader`](super::KeepAlive::Leader) it is a `sync`, which proves less.
    ///
    /// It needs no right: that the check is refused, because the chroot is missing or may not be read, is committed just
    /// as well. A server that has no quorum does not answer it, or refuses the whole request.
    ///
    /// # Errors
    /// That nothing is proven.
    pub(crate) async fn confirm(&self) -> Result<(), zk::Error> {
        let on = self.connection();
        match Probe::of(self.validity.keep_alive()) {
            Probe::Read => self.hear().await?,
            Probe::Sync => self.sync("/").await?,
            Probe::Check => match self.commit(&[Write::Check { path: "/", version: None }]).await {
                Ok(_) | Err(zk::MultiWriteError::OperationFailed { .. }) => {}
                Err(zk::MultiWriteError::RequestFailed { source }) => return Err(source),
            },
        }
        self.caught_up.fetch_max(on, Ordering::SeqCst);
        Ok(())
    }

    /// [Confirms](Self::confirm) the session until it is valid. After a silence of more than two thirds of its timeout that
    /// takes a second time, a quarter of the timeout later.
    ///
    /// # Errors
    /// That nothing is proven.
    pub(crate) async fn become_valid(&self) -> Result<(), zk::Error> {
        loop {
            self.confirm().await?;
            if self.validity.is_valid() {
                return Ok(());
            }
            sleep(self.validity.confirm_again_after()).await;
        }
    }

    /// Lets a server hear from the session, and notes that it has. It takes no right, and the chroot need not exist.
    pub(crate) async fn hear(&self) -> Result<(), zk::Error> {
        let sent = Moment::now();
        self.stat("/").await?;
        self.validity.answered(Probe::Read.sign(self.validity.keep_alive()), sent);
        Ok(())
    }

    /// Takes the answer to a write for a sign of life if it is one.
    fn written<T>(&self, sent: Moment, answer: Result<T, zk::Error>) -> Result<T, zk::Error> {
        if is_committed(&answer) {
            self.validity.answered(Sign::Confirmed, sent);
        }
        answer
    }

    /// The names of those ephemeral nodes of this session in `parent` that are wanted, with all that was done before this
    /// call. A user who may create there can give a node any name, so only its session tells whose it is.
    pub(crate) async fn own_nodes(
        &self,
        parent: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, zk::Error> {
        let zookeeper = self.zookeeper()?;
        // After a reconnect the present server may lag behind the one that took a create, or follow a leader that the others
        // have replaced. `join` polls in this order, and the first poll sends; outside of the block the call would.
        let listing = async { zookeeper.list_ephemerals(parent).await };
        let (confirmed, own) = join(self.confirm(), listing).await;
        confirmed?;
        let own = match own {
            Err(zk::Error::Unimplemented) => return self.own_children(parent, is_wanted).await,
            own => own?,
        };
        let names = own.iter().filter_map(|path| path.strip_prefix(parent)?.strip_prefix('/'));
        Ok(names.filter(|name| !name.contains('/') && is_wanted(name)).map(str::to_owned).collect())
    }

    /// The same with servers before 3.6, which do not tell the nodes of a session.
    async fn own_children(
        &self,
        parent: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, zk::Error> {
        /// How many are asked about in one round trip.
        const AT_ONCE: usize = 100;
        let id = self.id()?;
        let mut names = match self.list(parent).await {
            Err(zk::Error::NoNode) => Vec::new(),
            listed => listed?,
        };
        names.retain(|name| is_wanted(name));
        let mut own = Vec::new();
        for names in names.chunks(AT_ONCE) {
            let paths: Vec<String> = names.iter().map(|name| format!("{parent}/{name}")).collect();
            let stats = try_join_all(paths.iter().map(|path| self.stat(path))).await?;
            let owned = names
                .iter()
                .zip(stats)
                .filter(|(_, stat)| stat.as_ref().is_some_and(|stat| stat.ephemeral_owner == id));
            own.extend(owned.map(|(name, _)| name.clone()));
        }
        Ok(own)
    }

    /// The number that the servers know the session by.
    pub(crate) fn id(&self) -> Result<i64, zk::Error> {
        Ok(self.zookeeper()?.session_id().0)
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
        Ok((data, stat, Watcher::new(watcher, &self.serving)))
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

    /// Watches a node for its creation, its deletion or a change of the data. Returns whether it exists.
    pub(crate) async fn watch_existence(&self, path: &str) -> Result<(bool, Watcher), zk::Error> {
        let (stat, watcher) = self.zookeeper()?.check_and_watch_stat(path).await?;
        Ok((stat.is_some(), Watcher::new(watcher, &self.serving)))
    }

    pub(crate) async fn set_data(&self, path: &str, data: &[u8]) -> Result<(), zk::Error> {
        let zookeeper = self.zookeeper()?;
        let sent = Moment::now();
        self.written(sent, zookeeper.set_data(path, data, None).await).map(|_| ())
    }

    /// Lists children and watches for changes among them.
    pub(crate) async fn watch_list(&self, path: &str) -> Result<(Vec<String>, Watcher), zk::Error> {
        let (children, watcher) = self.zookeeper()?.list_and_watch_children(path).await?;
        Ok((children, Watcher::new(watcher, &self.serving)))
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), zk::Error> {
        self.send_delete(path).await
    }

    /// Sends a delete before it returns; the future is for the reply.
    pub(crate) fn send_delete(
        &self,
        path: &str,
    ) -> Pin<Box<dyn Future<Output = Result<(), zk::Error>> + Send + Sync>> {
        let validity = self.validity.clone();
        let sent = Moment::now();
        match self.zookeeper() {
            Ok(zookeeper) => {
                let deleting = zookeeper.delete(path, None);
                let noting = deleting.inspect(move |answer| {
                    if is_committed(answer) {
                        validity.answered(Sign::Confirmed, sent);
                    }
                });
                Box::pin(noting)
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// Tells the states of a session, from a task of its own.
///
/// In `asyncs-sync` 0.4, by which `zookeeper-client` tells them, a waiter that is dropped while another thread changes the
/// state writes into that thread's stack. So nobody else waits there, and this one waits to the end.
fn tell_states(mut watcher: zk::StateWatcher) -> watch::Receiver<SessionState> {
    let (states, receiver) = watch::channel(watcher.state());
    tokio::spawn(async move {
        while !states.borrow().is_terminated() {
            let state = watcher.changed().await;
            states.send_replace(state);
        }
    });
    receiver
}

/// Whether a majority of the servers has committed the write that was answered so. What the leader finds to be
/// impossible is committed, too, as a transaction that does nothing.
///
/// Not for want of a right: a server may be set up to refuse that by itself (`enableEagerACLCheck`).
fn is_committed<T>(answer: &Result<T, zk::Error>) -> bool {
    use zk::Error::{BadVersion, NoChildrenForEphemerals, NoNode, NodeExists, NotEmpty};
    matches!(answer, Ok(_) | Err(BadVersion | NoChildrenForEphemerals | NoNode | NodeExists | NotEmpty))
}

impl NewNode<'_> {
    fn mode(&self) -> CreateMode {
        if self.numbered { CreateMode::EphemeralSequential } else { CreateMode::Ephemeral }
    }
}
