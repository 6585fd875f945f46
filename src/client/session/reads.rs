//! The reads of a session, and its watches.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::future::{OptionFuture, join, join_all, try_join_all};
use tokio::sync::SemaphorePermit;
use tokio::time::sleep;
use zookeeper_client as zk;

use super::super::connection::Connection;
use super::super::retry::PAUSE;
use super::watches::{Kind, Place};
use super::{Session, TreeWatch, Watcher, lost};
use crate::failure::{Failure, if_exists};
use crate::meters::Request;

/// One of the reads of [`Session::read_many`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Read<'a> {
    Data(&'a str),
    Children(&'a str),
}

impl Session {
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<String>, zk::Error> {
        self.connected_for(Request::List)?.zookeeper.list_children(path).await.map_err(lost)
    }

    /// Returns the paths of the ephemeral nodes of this session in `parent` for which `is_wanted` returns true.
    /// Sees everything that was done before the call. Another user with the permission to create nodes there can
    /// use any name, so only the session shows whose a node is.
    pub(crate) async fn own_nodes(
        &self,
        parent: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, zk::Error> {
        let seen_on = self.connection();
        let Some(mut own) = self.own_paths(parent).await? else {
            return self.own_children(parent, is_wanted).await;
        };
        own.retain(|path| path.rsplit_once('/').is_some_and(|(above, _)| above == parent) && is_wanted(path));
        // All of them: of a session that was replaced, each is deleted.
        let recognised = join_all(own.iter().map(|path| self.recognise(path, seen_on))).await;
        recognised.into_iter().collect::<Result<(), _>>()?;
        Ok(own)
    }

    /// Notes a node that the server has listed among those of the session, on this [connection](Self::connection).
    ///
    /// # Errors
    /// As every request, and [`SessionExpired`](zk::Error::SessionExpired) if an adopted session was replaced, by which the
    /// node is deleted.
    pub(crate) async fn recognise(&self, path: &str, seen_on: u64) -> Result<(), zk::Error> {
        if !self.is_adopted() {
            return Ok(());
        }
        let zookeeper = self.zookeeper()?;
        match self.stat(path).await {
            Ok(Some(stat)) => self.own(&zookeeper, path, &stat, seen_on),
            // It does not say whose it is.
            Err(zk::Error::NoAuth) => self.note(path, seen_on),
            other => other.map(drop),
        }
    }

    /// Returns the paths that begin with `prefix` of all ephemeral nodes of this session. Sees everything that was
    /// done before the call. `None` from servers before 3.6, which do not tell: the first call costs its connection.
    pub(crate) async fn own_paths(&self, prefix: &str) -> Result<Option<Vec<String>>, zk::Error> {
        let connection = self.connected()?;
        let zookeeper = &connection.zookeeper;
        // After a reconnect, the current server may lag behind the one that handled a create, or follow a leader
        // that has been replaced. `join` polls in this order, and the first poll sends; without the async block,
        // the call itself would send.
        let listing = async {
            self.requests.count(Request::List);
            zookeeper.list_ephemerals(prefix).await
        };
        let listing = OptionFuture::from((!self.lists_no_nodes.load(Relaxed)).then_some(listing));
        let (confirmed, own) = join(self.confirm_on(zookeeper), listing).await;
        let own = own.transpose();
        if matches!(own, Err(zk::Error::Unimplemented)) {
            // It may overtake the reply before it, which does not come then.
            self.lists_no_nodes.store(true, Relaxed);
        }
        confirmed?;
        match own {
            Err(zk::Error::Unimplemented) => Ok(None),
            own => own.map_err(lost),
        }
    }

    /// Does the same as [`own_nodes`](Self::own_nodes) by asking for each node whose it is.
    async fn own_children(
        &self,
        parent: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, zk::Error> {
        /// How many nodes are asked about in one round trip.
        const AT_ONCE: usize = 100;
        let id = self.id;
        let names = if_exists(self.list(parent).await)?.unwrap_or_default();
        let mut paths: Vec<_> = names.iter().map(|name| format!("{parent}/{name}")).collect();
        paths.retain(|path| is_wanted(path));
        let mut own = Vec::new();
        for paths in paths.chunks(AT_ONCE) {
            let stats = try_join_all(paths.iter().map(|path| self.stat(path))).await?;
            let owned = paths
                .iter()
                .zip(stats)
                .filter(|(_, stat)| stat.as_ref().is_some_and(|stat| stat.ephemeral_owner == id));
            own.extend(owned.map(|(path, _)| path.clone()));
        }
        Ok(own)
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<Option<zk::Stat>, zk::Error> {
        self.stat_on(&*self.connected()?, path).await
    }

    pub(super) async fn stat_on(
        &self,
        connection: &Connection,
        path: &str,
    ) -> Result<Option<zk::Stat>, zk::Error> {
        self.requests.count(Request::Exists);
        connection.zookeeper.check_stat(path).await.map_err(lost)
    }

    pub(crate) async fn acl(&self, path: &str) -> Result<Vec<zk::Acl>, zk::Error> {
        let (acl, _) = self.connected_for(Request::Exists)?.zookeeper.get_acl(path).await.map_err(lost)?;
        Ok(acl)
    }

    pub(crate) async fn data(&self, path: &str) -> Result<(Vec<u8>, zk::Stat), zk::Error> {
        self.connected_for(Request::GetData)?.zookeeper.get_data(path).await.map_err(lost)
    }

    /// Reads the data of a node, and watches the node for its deletion or a change of its data.
    pub(crate) async fn watch_data(&self, path: &str) -> Result<(Vec<u8>, zk::Stat, Watcher), zk::Error> {
        self.watching(Request::GetData, path, Kind::Node, |connection, place| async move {
            let watching = connection.zookeeper.get_and_watch_data(place.path());
            let (data, stat, watcher) = watching.await.map_err(lost)?;
            Ok((data, stat, Watcher::new(watcher, &connection, place)))
        })
        .await
    }

    /// Reads and watches as [`watch_data`](Self::watch_data) does, again and again while there is no connection. Takes
    /// turns with others, since a client that is connected again watches all its locks again.
    ///
    /// # Errors
    /// The server refuses, or the session is over.
    pub(crate) async fn watch_data_patiently(
        &self,
        path: &str,
    ) -> Result<(Vec<u8>, zk::Stat, Watcher), zk::Error> {
        loop {
            self.ready().await;
            let turn = self.turns.acquire().await;
            let watched = self.watch_data(path).await;
            drop(turn);
            match watched {
                Ok(watched) => return Ok(watched),
                Err(error) if Failure::of(&error).is_passing() => sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns when to look again at what is watched, even without an event: the servers drop a watch without a word if there
    /// is a change while the client may not read the node. At random, so that watches are not all looked after at once.
    pub(crate) fn watch_holds_for(&self) -> Duration {
        self.timeout().mul_f64(1.0 + fastrand::f64())
    }

    /// Watches a node for its creation, its deletion or a change of its data. Returns whether it exists.
    pub(crate) async fn watch_existence(&self, path: &str) -> Result<(bool, Watcher), zk::Error> {
        let (stat, watcher) = self.watch_stat(path).await?;
        Ok((stat.is_some(), watcher))
    }

    /// Watches a node as [`watch_existence`](Self::watch_existence) does, and returns its `Stat` if it exists. Some
    /// servers need no permission for that, but do not report the event without it; others (3.9.5) answer `NoAuth`.
    pub(crate) async fn watch_stat(&self, path: &str) -> Result<(Option<zk::Stat>, Watcher), zk::Error> {
        self.watching(Request::Exists, path, Kind::Node, |connection, place| async move {
            let watching = connection.zookeeper.check_and_watch_stat(place.path());
            let (stat, watcher) = watching.await.map_err(lost)?;
            Ok((stat, Watcher::new(watcher, &connection, place)))
        })
        .await
    }

    /// Lists the children, and watches for changes among them.
    pub(crate) async fn watch_list(&self, path: &str) -> Result<(Vec<String>, Watcher), zk::Error> {
        self.watching(Request::List, path, Kind::Children, |connection, place| async move {
            let watching = connection.zookeeper.list_and_watch_children(place.path());
            let (children, watcher) = watching.await.map_err(lost)?;
            Ok((children, Watcher::new(watcher, &connection, place)))
        })
        .await
    }

    /// Lists the children as [`watch_list`](Self::watch_list) does. Lists none, and watches for the creation, of a node that
    /// does not exist.
    pub(crate) async fn watch_list_or_creation(
        &self,
        path: &str,
    ) -> Result<(Vec<String>, Watcher), zk::Error> {
        loop {
            if let Some(listed) = if_exists(self.watch_list(path).await)? {
                return Ok(listed);
            }
            let (exists, watcher) = self.watch_existence(path).await?;
            if !exists {
                return Ok((Vec::new(), watcher));
            }
        }
    }

    async fn watching<T, F>(
        &self,
        request: Request,
        path: &str,
        kind: Kind,
        ask: impl FnOnce(Arc<Connection>, Place) -> F,
    ) -> Result<T, zk::Error>
    where
        T: Send,
        F: Future<Output = Result<T, zk::Error>> + Send + 'static,
    {
        let connection = self.connected_for(request)?;
        self.watches.set(path, kind, connection, ask).await
    }

    /// Sets a [`TreeWatch`]. The node need not exist.
    ///
    /// # Errors
    /// [`Unimplemented`](zk::Error::Unimplemented) from servers before 3.6, and as every request.
    ///
    /// # Cancel safety
    /// Run it to its end, in a task on the runtime of the session. Given up half-way, it leaks its request, and no watch
    /// of the session is removed any more.
    pub(crate) async fn watch_tree(&self, path: &str) -> Result<TreeWatch, zk::Error> {
        let being_set = self.tree_watches.none_is_removed().await;
        let connection = self.connected_for(Request::Watch)?;
        TreeWatch::set(&self.tree_watches, being_set, connection, path).await.map_err(lost)
    }

    /// Reads several nodes in one request. Each has an outcome of its own.
    ///
    /// # Errors
    /// Nothing is read. [`Unimplemented`](zk::Error::Unimplemented) from servers before 3.6, and as every request.
    pub(crate) async fn read_many(&self, reads: &[Read<'_>]) -> Result<Vec<zk::MultiReadResult>, zk::Error> {
        let connection = self.connected_for(Request::MultiRead)?;
        let mut reader = connection.zookeeper.new_multi_reader();
        for read in reads {
            match read {
                Read::Data(path) => reader.add_get_data(path)?,
                Read::Children(path) => reader.add_get_children(path)?,
            }
        }
        reader.commit().await.map_err(lost)
    }

    /// Waits until few enough requests of those that may be very many are under way.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.turns.acquire().await.ok()
    }
}
