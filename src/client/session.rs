//! One ZooKeeper session, and the requests that recipes make on it.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join, try_join_all};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use zookeeper_client::{self as zk, Acl, Acls, CreateMode, EventType};

use super::clock::Moment;
use super::connection::{Connection, Server};
use super::signs::{Probe, Sign};
use super::size;
use super::validity::{Health, Validity};
use super::write::Write;
use crate::failure::Failure;

/// The pause between attempts while there is no connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The error for a request that would make the servers close the connection.
const TOO_LARGE: zk::Error = zk::Error::BadArguments(&"the request is larger than the servers accept");

/// A session, from its establishment on. The epoch distinguishes it from earlier and later sessions of the same
/// client.
///
/// A session has one connection after another, with gaps in between. The first poll of a request sends it on the
/// current connection, or fails: requests that are polled one after another arrive in that order. A connection
/// becomes current when its server has caught up, so that reads on it show everything that the client has been told
/// before.
///
/// The [validity](Validity) is based on replies to requests that a majority of the servers has committed. The
/// leader expires sessions; but a server that the leader no longer hears still answers reads and pings, and a
/// leader that the others have replaced still answers `sync`.
#[derive(Debug)]
pub(crate) struct Session {
    epoch: u64,
    id: i64,
    validity: Arc<Validity>,
    line: watch::Sender<Line>,
}

/// The state of the connection of a session.
#[derive(Clone, Debug)]
pub(super) enum Line {
    Connected(Arc<Connection>),
    /// The connection of that number is over, and there is no other yet.
    Down(u64),
    /// An adopted session continues, but is no longer followed. Remaining requests are made without any guarantee.
    Left(Arc<Connection>),
    Over,
}

impl Line {
    /// Returns the connection to make requests on.
    ///
    /// # Errors
    /// [`ConnectionLoss`](zk::Error::ConnectionLoss) if there is none at the moment.
    /// [`SessionExpired`](zk::Error::SessionExpired) if the session is over.
    fn usable(&self) -> Result<&Arc<Connection>, zk::Error> {
        match self {
            Self::Connected(connection) if connection.is_alive() => Ok(connection),
            Self::Left(connection) => Ok(connection),
            Self::Connected(_) | Self::Down(_) => Err(zk::Error::ConnectionLoss),
            Self::Over => Err(zk::Error::SessionExpired),
        }
    }

    /// Whether a request would be sent, or fail for good.
    fn is_settled(&self) -> bool {
        !matches!(self.usable(), Err(zk::Error::ConnectionLoss))
    }
}

/// An ephemeral node to be created.
#[derive(Debug)]
pub(crate) struct NewNode<'a> {
    pub(crate) path: String,
    /// Whether the server appends the next number to the path.
    pub(crate) numbered: bool,
    pub(crate) data: Cow<'a, [u8]>,
    pub(crate) acl: Cow<'a, [Acl]>,
}

/// The result of a successful create.
#[derive(Debug)]
pub(crate) struct Created {
    /// The path, including what the server has appended.
    pub(crate) path: String,
    /// The transaction that created the node. Old servers do not report it for creates within a transaction.
    pub(crate) czxid: Option<i64>,
}

/// A watch. Reports a change, or the end of the connection, after which the watch must be set again. Dropping it
/// removes the watch.
pub(crate) struct Watcher {
    event: Pin<Box<dyn Future<Output = EventType> + Send + Sync>>,
    /// Not the connection: holding it would keep the session from ending.
    server: Server,
    seen: Option<EventType>,
}

impl Watcher {
    fn new(watcher: zk::OneshotWatcher, connection: &Connection) -> Self {
        // An adopted session may be served by another runtime than the client's.
        let event = AssertUnwindSafe(watcher.changed()).catch_unwind();
        let event = event.map(|event| event.map_or(EventType::Session, |event| event.event_type));
        Self { event: Box::pin(event), server: connection.server().clone(), seen: None }
    }

    /// Waits for the event.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn changed(&mut self) -> EventType {
        if let Some(seen) = self.seen {
            return seen;
        }
        let Self { event, server, .. } = self;
        let event = poll_fn(|cx| match server.while_it_lasts(|| event.as_mut().poll(cx)) {
            Some(polled) => polled,
            None => Poll::Ready(EventType::Session),
        })
        .await;
        self.seen = Some(event);
        event
    }

    /// Returns the event, if it has occurred.
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
    pub(crate) fn new(epoch: u64, id: i64, validity: Validity) -> Self {
        Self { epoch, id, validity: Arc::new(validity), line: watch::Sender::new(Line::Down(0)) }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Makes requests use this connection from now on. Its number is higher than those of all earlier connections.
    pub(super) fn connect(&self, connection: Arc<Connection>) {
        self.line.send_replace(Line::Connected(connection));
    }

    /// Records that the current connection is over, and that there will be another.
    pub(super) fn disconnect(&self) {
        self.line.send_modify(|line| {
            if let Line::Connected(connection) = line {
                *line = Line::Down(connection.number());
            }
        });
    }

    /// Records that the client is closed while the session continues.
    pub(super) fn leave(&self, connection: Connection) {
        self.line.send_replace(Line::Left(Arc::new(connection)));
    }

    /// Records that the session is over or is to end at the server. It ends there when the requests in progress are
    /// answered.
    pub(super) fn end(&self) {
        // Dropped after the lock is released.
        let _last = self.line.send_replace(Line::Over);
    }

    /// Whether the session is known to be over.
    pub(crate) fn is_over(&self) -> bool {
        match &*self.line.borrow() {
            Line::Connected(connection) | Line::Left(connection) => connection.state().is_terminated(),
            Line::Down(_) => false,
            Line::Over => true,
        }
    }

    /// Returns a number that identifies the current connection among all connections of the client. A different
    /// result means that another connection, or none, was current in between. Everything received on a connection,
    /// in replies and events, was received before this reports the next one.
    pub(crate) fn connection(&self) -> u64 {
        let number = match &*self.line.borrow() {
            Line::Connected(connection) => 2 * connection.number() + u64::from(!connection.is_alive()),
            Line::Left(connection) => 2 * connection.number() + 1,
            Line::Down(number) => 2 * number + 1,
            Line::Over => u64::from(u32::MAX),
        };
        self.epoch << 32 | number
    }

    /// Whether there is a connection to make requests on.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(&*self.line.borrow(), Line::Connected(connection) if connection.is_alive())
    }

    /// Returns a receiver of the connections that come and go.
    pub(super) fn line(&self) -> watch::Receiver<Line> {
        self.line.subscribe()
    }

    /// Waits until the session is known to be over.
    pub(crate) async fn ended(&self) {
        // The sender is ours.
        let _ = self.line.subscribe().wait_for(|line| matches!(line, Line::Over)).await;
    }

    /// Waits until there has been no connection for `patience` without interruption.
    pub(crate) async fn without_connection(&self, patience: Duration) {
        let mut line = self.line.subscribe();
        let takes_requests = |line: &Line| matches!(line, Line::Connected(_) | Line::Left(_));
        // The sender is ours.
        while timeout(patience, line.wait_for(takes_requests)).await.is_ok() {
            let _ = line.wait_for(|line| !takes_requests(line)).await;
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.validity.timeout()
    }

    pub(crate) fn validity(&self) -> &Arc<Validity> {
        &self.validity
    }

    /// Returns how certain it is at this moment that the session is alive. Reads the connection only once, since
    /// holders call this all the time.
    pub(crate) fn health(&self) -> Health {
        let is_connected = match &*self.line.borrow() {
            Line::Connected(connection) => match connection.state() {
                state if state.is_terminated() => return Health::Over,
                state => connection.is_alive_in(state),
            },
            Line::Left(connection) if connection.state().is_terminated() => return Health::Over,
            Line::Left(_) | Line::Down(_) => false,
            Line::Over => return Health::Over,
        };
        self.validity.health(is_connected)
    }

    /// Returns the current connection. No request waits for one: of several requests that are sent together, a
    /// later one could then overtake an earlier one. [`ready`](Self::ready) waits.
    ///
    /// # Errors
    /// As [`Line::usable`].
    fn connected(&self) -> Result<Arc<Connection>, zk::Error> {
        self.line.borrow().usable().cloned()
    }

    /// Waits until there is a connection to make requests on, or the session is over.
    pub(crate) async fn ready(&self) {
        if !self.line.borrow().is_settled() {
            // The sender is ours.
            let _ = self.line.subscribe().wait_for(Line::is_settled).await;
        }
    }

    /// Returns the handle of the current connection.
    ///
    /// # Errors
    /// As every request.
    pub(crate) fn zookeeper(&self) -> Result<zk::Client, zk::Error> {
        Ok(self.connected()?.zookeeper().clone())
    }

    /// Creates an ephemeral node.
    pub(crate) async fn create(&self, node: &NewNode<'_>) -> Result<Created, zk::Error> {
        let connection = self.connected()?;
        let zookeeper = connection.zookeeper();
        let (path, data, acl) = (&*node.path, &*node.data, &*node.acl);
        let create = Write::Create { path, data, mode: node.mode(), acl };
        if !size::fits([size::of_write(&create)], zookeeper.path()) {
            return Err(TOO_LARGE);
        }
        let sent = Moment::now();
        let options = node.mode().with_acls(Acls::new(&node.acl));
        let (stat, sequence) =
            self.written(sent, zookeeper.create(&node.path, &node.data, &options).await)?;
        let path = if node.numbered { format!("{}{sequence}", node.path) } else { node.path.clone() };
        Ok(Created { path, czxid: Some(stat.czxid) })
    }

    /// Creates ephemeral nodes, all or none. Returns `None` if the guard, a node that must exist, does not.
    pub(crate) async fn create_together(
        &self,
        guard: Option<&str>,
        nodes: &[NewNode<'_>],
    ) -> Result<Option<Vec<Created>>, zk::Error> {
        let guards = guard.into_iter().map(|path| Write::Check { path, version: None });
        let creates = nodes.iter().map(|node| Write::Create {
            path: &node.path,
            data: &node.data,
            mode: node.mode(),
            acl: &node.acl,
        });
        let writes: Vec<Write<'_>> = guards.chain(creates).collect();
        let results = match self.commit(&writes).await {
            Err(zk::MultiWriteError::OperationFailed { index: 0, source: zk::Error::NoNode })
                if guard.is_some() =>
            {
                return Ok(None);
            }
            results => results?,
        };
        let created = results.into_iter().filter_map(|result| match result {
            zk::MultiWriteResult::Create { path, stat } => {
                Some(Created { path, czxid: (!stat.is_invalid()).then_some(stat.czxid) })
            }
            _ => None,
        });
        Ok(Some(created.collect()))
    }

    /// Carries out writes in one transaction: all or none. They are sent at the first poll.
    pub(crate) async fn commit(
        &self,
        writes: &[Write<'_>],
    ) -> Result<Vec<zk::MultiWriteResult>, zk::MultiWriteError> {
        let connection = self.connected()?;
        self.commit_on(connection.zookeeper(), writes).await
    }

    async fn commit_on(
        &self,
        zookeeper: &zk::Client,
        writes: &[Write<'_>],
    ) -> Result<Vec<zk::MultiWriteResult>, zk::MultiWriteError> {
        if !size::fits(writes.iter().map(size::of_write), zookeeper.path()) {
            return Err(zk::MultiWriteError::RequestFailed { source: TOO_LARGE });
        }
        let mut writer = zookeeper.new_multi_writer();
        for (index, write) in writes.iter().enumerate() {
            let added = write.add_to(&mut writer);
            added.map_err(|source| zk::MultiWriteError::OperationFailed { index, source })?;
        }
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
        let connection = self.connected()?;
        let sent = Moment::now();
        let options = CreateMode::Persistent.with_acls(Acls::new(acl));
        self.written(sent, connection.zookeeper().create(path, data, &options).await).map(|_| ())
    }

    /// Creates a container node without data. Succeeds if the node already exists.
    pub(crate) async fn create_container(&self, path: &str, acl: &[Acl]) -> Result<(), zk::Error> {
        let connection = self.connected()?;
        let sent = Moment::now();
        let options = CreateMode::Container.with_acls(Acls::new(acl));
        match self.written(sent, connection.zookeeper().create(path, &[], &options).await) {
            Ok(_) | Err(zk::Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Vec<String>, zk::Error> {
        self.connected()?.zookeeper().list_children(path).await.map_err(lost)
    }

    /// Brings the server of this session up to date with what the leader knows; but that leader may have been
    /// replaced. [`confirm`](Self::confirm) brings it up to date with the ensemble.
    pub(crate) async fn sync(&self, path: &str) -> Result<(), zk::Error> {
        self.sync_on(self.connected()?.zookeeper(), path).await
    }

    async fn sync_on(&self, zookeeper: &zk::Client, path: &str) -> Result<(), zk::Error> {
        let sent = Moment::now();
        zookeeper.sync(path).await.map_err(lost)?;
        self.validity.answered(Probe::Sync.sign(self.validity.keep_alive()), sent);
        Ok(())
    }

    /// Proves that the session is alive, and brings its server up to date with everything done before: the servers
    /// commit a transaction that changes nothing. Under [`KeepAlive::Leader`](super::KeepAlive::Leader) it is a
    /// `sync`, which proves less.
    ///
    /// This needs no permission: a check that is rejected, because the chroot is missing or may not be read, is
    /// committed just as well. A server without a quorum does not answer, or rejects the whole request.
    ///
    /// # Errors
    /// Nothing is proven.
    pub(crate) async fn confirm(&self) -> Result<(), zk::Error> {
        let connection = self.connected()?;
        self.confirm_on(connection.zookeeper()).await
    }

    /// [Confirms](Self::confirm) the session on a connection that may not be the current one yet.
    pub(super) async fn confirm_on(&self, zookeeper: &zk::Client) -> Result<(), zk::Error> {
        match Probe::of(self.validity.keep_alive()) {
            Probe::Read => self.hear_on(zookeeper).await,
            Probe::Sync => self.sync_on(zookeeper, "/").await,
            Probe::Check => {
                match self.commit_on(zookeeper, &[Write::Check { path: "/", version: None }]).await {
                    Ok(_) | Err(zk::MultiWriteError::OperationFailed { .. }) => Ok(()),
                    Err(zk::MultiWriteError::RequestFailed { source }) => Err(source),
                }
            }
        }
    }

    /// [Confirms](Self::confirm) the session until it is valid. After a silence of more than two thirds of its
    /// timeout, that takes a second confirmation, a quarter of the timeout later.
    ///
    /// # Errors
    /// Nothing is proven.
    pub(crate) async fn become_valid(&self) -> Result<(), zk::Error> {
        loop {
            self.confirm().await?;
            if self.validity.is_valid() {
                return Ok(());
            }
            sleep(self.validity.confirm_again_after()).await;
        }
    }

    /// Makes a read, so that a server hears from the session, and records its reply. Needs no permission, and the
    /// chroot need not exist.
    pub(crate) async fn hear(&self) -> Result<(), zk::Error> {
        self.hear_on(self.connected()?.zookeeper()).await
    }

    async fn hear_on(&self, zookeeper: &zk::Client) -> Result<(), zk::Error> {
        let sent = Moment::now();
        zookeeper.check_stat("/").await.map_err(lost)?;
        self.validity.answered(Probe::Read.sign(self.validity.keep_alive()), sent);
        Ok(())
    }

    /// Records the reply to a write as a sign of life, if it is one.
    fn written<T>(&self, sent: Moment, answer: Result<T, zk::Error>) -> Result<T, zk::Error> {
        if is_committed(&answer) {
            self.validity.answered(Sign::Confirmed, sent);
        }
        answer.map_err(lost)
    }

    /// Returns the names of the ephemeral nodes of this session in `parent` for which `is_wanted` returns true.
    /// Sees everything that was done before the call. Another user with the permission to create nodes there can
    /// use any name, so only the session shows whose a node is.
    pub(crate) async fn own_nodes(
        &self,
        parent: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, zk::Error> {
        let connection = self.connected()?;
        let zookeeper = connection.zookeeper();
        // After a reconnect, the current server may lag behind the one that handled a create, or follow a leader
        // that has been replaced. `join` polls in this order, and the first poll sends; without the async block,
        // the call itself would send.
        let listing = async { zookeeper.list_ephemerals(parent).await };
        let (confirmed, own) = join(self.confirm_on(zookeeper), listing).await;
        confirmed?;
        let own = match own {
            Err(zk::Error::Unimplemented) => return self.own_children(parent, is_wanted).await,
            own => own.map_err(lost)?,
        };
        let names = own.iter().filter_map(|path| path.strip_prefix(parent)?.strip_prefix('/'));
        Ok(names.filter(|name| !name.contains('/') && is_wanted(name)).map(str::to_owned).collect())
    }

    /// Does the same for servers before 3.6, which do not report the nodes of a session.
    async fn own_children(
        &self,
        parent: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, zk::Error> {
        /// How many nodes are asked about in one round trip.
        const AT_ONCE: usize = 100;
        let id = self.id;
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

    /// The number by which the servers know the session.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<Option<zk::Stat>, zk::Error> {
        self.connected()?.zookeeper().check_stat(path).await.map_err(lost)
    }

    pub(crate) async fn data(&self, path: &str) -> Result<(Vec<u8>, zk::Stat), zk::Error> {
        self.connected()?.zookeeper().get_data(path).await.map_err(lost)
    }

    /// Reads the data of a node, and watches the node for its deletion or a change of its data.
    pub(crate) async fn watch_data(&self, path: &str) -> Result<(Vec<u8>, zk::Stat, Watcher), zk::Error> {
        let connection = self.connected()?;
        let (data, stat, watcher) = connection.zookeeper().get_and_watch_data(path).await.map_err(lost)?;
        Ok((data, stat, Watcher::new(watcher, &connection)))
    }

    /// Reads and watches as [`watch_data`](Self::watch_data) does, again and again while there is no connection.
    ///
    /// # Errors
    /// The server refuses, or the session is over.
    pub(crate) async fn watch_data_patiently(
        &self,
        path: &str,
    ) -> Result<(Vec<u8>, zk::Stat, Watcher), zk::Error> {
        loop {
            self.ready().await;
            match self.watch_data(path).await {
                Ok(watched) => return Ok(watched),
                Err(error) if Failure::of(&error).is_passing() => sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Watches a node for its creation, its deletion or a change of its data. Returns whether it exists.
    pub(crate) async fn watch_existence(&self, path: &str) -> Result<(bool, Watcher), zk::Error> {
        let connection = self.connected()?;
        let (stat, watcher) = connection.zookeeper().check_and_watch_stat(path).await.map_err(lost)?;
        Ok((stat.is_some(), Watcher::new(watcher, &connection)))
    }

    /// Replaces the data of a node if it has that version; `None` matches every version.
    pub(crate) async fn set_data(
        &self,
        path: &str,
        data: &[u8],
        version: Option<i32>,
    ) -> Result<(), zk::Error> {
        let connection = self.connected()?;
        let sent = Moment::now();
        self.written(sent, connection.zookeeper().set_data(path, data, version).await).map(|_| ())
    }

    /// Lists the children, and watches for changes among them.
    pub(crate) async fn watch_list(&self, path: &str) -> Result<(Vec<String>, Watcher), zk::Error> {
        let connection = self.connected()?;
        let (children, watcher) = connection.zookeeper().list_and_watch_children(path).await.map_err(lost)?;
        Ok((children, Watcher::new(watcher, &connection)))
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), zk::Error> {
        let connection = self.connected()?;
        let sent = Moment::now();
        self.written(sent, connection.zookeeper().delete(path, None).await)
    }

    /// Sends a delete before it returns, or as soon as there is a connection. The future yields the reply.
    pub(crate) fn send_delete(
        self: &Arc<Self>,
        path: &str,
    ) -> Pin<Box<dyn Future<Output = Result<(), zk::Error>> + Send + Sync>> {
        let session = self.clone();
        let Ok(connection) = self.connected() else {
            let path = path.to_owned();
            return Box::pin(async move {
                session.ready().await;
                session.delete(&path).await
            });
        };
        let sent = Moment::now();
        let deleting = connection.zookeeper().delete(path, None);
        Box::pin(deleting.map(move |answer| session.written(sent, answer)))
    }
}

/// Maps the error of a request that got no reply. If the connection ends while a request is on its way to the task
/// that serves it, the request is never answered, and `zookeeper-client` reports an internal error.
fn lost(error: zk::Error) -> zk::Error {
    match error {
        zk::Error::UnexpectedError(reason) if reason.ends_with("expect response, but got none") => {
            zk::Error::ConnectionLoss
        }
        error => error,
    }
}

/// Whether the reply proves that a majority of the servers has committed the write. A write that the leader finds
/// impossible is committed, too, as a transaction that does nothing.
///
/// A missing permission proves nothing: a server may be configured to check it by itself (`enableEagerACLCheck`).
fn is_committed<T>(answer: &Result<T, zk::Error>) -> bool {
    use zk::Error::{BadVersion, NoChildrenForEphemerals, NoNode, NodeExists, NotEmpty};
    matches!(answer, Ok(_) | Err(BadVersion | NoChildrenForEphemerals | NoNode | NodeExists | NotEmpty))
}

impl NewNode<'_> {
    fn mode(&self) -> CreateMode {
        if self.numbered { CreateMode::EphemeralSequential } else { CreateMode::Ephemeral }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::validity::Terms;
    use super::*;

    /// Of requests that are polled one after another, a later one must not overtake an earlier one that waits.
    #[test]
    fn a_request_without_a_connection_fails_when_it_is_polled_first() {
        let validity = Validity::new(Duration::from_secs(10), Terms::default(), Moment::now(), true);
        let session = Session::new(1, 1, validity);
        let node =
            || NewNode { path: "/a/b".into(), numbered: true, data: b"".into(), acl: Cow::Borrowed(&[]) };
        let check = [Write::Check { path: "/", version: None }];
        let multi = |error: Option<zk::MultiWriteError>| error.map(zk::Error::from);
        let outcomes = [
            session.create(&node()).now_or_never().map(Result::err),
            session.create_together(None, &[node()]).now_or_never().map(Result::err),
            session.commit(&check).now_or_never().map(|committed| multi(committed.err())),
            session.create_persistent("/a", b"", &[]).now_or_never().map(Result::err),
            session.create_container("/a", &[]).now_or_never().map(Result::err),
            session.list("/a").now_or_never().map(Result::err),
            session.sync("/").now_or_never().map(Result::err),
            session.confirm().now_or_never().map(Result::err),
            session.hear().now_or_never().map(Result::err),
            session.own_nodes("/a", |_| true).now_or_never().map(Result::err),
            session.stat("/a").now_or_never().map(Result::err),
            session.data("/a").now_or_never().map(Result::err),
            session.watch_data("/a").now_or_never().map(Result::err),
            session.watch_existence("/a").now_or_never().map(Result::err),
            session.watch_list("/a").now_or_never().map(Result::err),
            session.set_data("/a", b"", None).now_or_never().map(Result::err),
            session.delete("/a").now_or_never().map(Result::err),
        ];
        for (nth, outcome) in outcomes.into_iter().enumerate() {
            assert_eq!(outcome, Some(Some(zk::Error::ConnectionLoss)), "request {nth}");
        }
        assert!(session.ready().now_or_never().is_none());
        session.end();
        assert_eq!(session.list("/a").now_or_never(), Some(Err(zk::Error::SessionExpired)));
        assert!(session.ready().now_or_never().is_some());
    }
}
