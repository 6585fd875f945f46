//! One ZooKeeper session, and the requests that recipes make on it.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::BoxFuture;
use zookeeper_client::{self as zk, Acl, Acls, CreateMode};

/// A session, from its establishment on. Its epoch tells it from earlier and later ones of the same client.
#[derive(Debug)]
pub(crate) struct Session {
    epoch: u64,
    state: zk::StateWatcher,
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

impl Session {
    pub(crate) fn new(epoch: u64, zookeeper: zk::Client) -> Self {
        let state = zookeeper.state_watcher();
        Self { epoch, state, zookeeper: RwLock::new(Some(Arc::new(zookeeper))) }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the session is known to be over.
    pub(crate) fn is_over(&self) -> bool {
        self.state.peek_state().is_terminated() || self.zookeeper().is_err()
    }

    pub(crate) fn state_watcher(&self) -> zk::StateWatcher {
        self.state.clone()
    }

    /// The handle that all requests go through.
    pub(crate) fn zookeeper(&self) -> Result<Arc<zk::Client>, zk::Error> {
        let zookeeper = self.zookeeper.read().unwrap_or_else(PoisonError::into_inner);
        zookeeper.clone().ok_or(zk::Error::ClientClosed)
    }

    /// Lets go of the session: it ends at the server when the requests under way are answered.
    pub(crate) fn end(&self) {
        let zookeeper = self.zookeeper.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(zookeeper);
    }

    /// Creates an ephemeral node.
    pub(crate) async fn create(&self, node: &NewNode<'_>) -> Result<Created, zk::Error> {
        let zookeeper = self.zookeeper()?;
        let (stat, sequence) = zookeeper.create(&node.path, node.data, &node.options()).await?;
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
        let zookeeper = self.zookeeper()?;
        let mut writer = zookeeper.new_multi_writer();
        if let Some(guard) = guard {
            writer.add_check_version(guard, -1)?;
        }
        for node in nodes {
            writer.add_create(&node.path, node.data, &node.options())?;
        }
        let results = writer.commit().await.map_err(|error| match error {
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
        self.zookeeper()?.sync(path).await
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<Option<zk::Stat>, zk::Error> {
        self.zookeeper()?.check_stat(path).await
    }

    pub(crate) async fn data(&self, path: &str) -> Result<(Vec<u8>, zk::Stat), zk::Error> {
        self.zookeeper()?.get_data(path).await
    }

    /// Reads the data of a node, and watches it for its deletion or a change of the data.
    pub(crate) async fn watch_data(&self, path: &str) -> Result<(Vec<u8>, zk::OneshotWatcher), zk::Error> {
        let (data, _, watcher) = self.zookeeper()?.get_and_watch_data(path).await?;
        Ok((data, watcher))
    }

    pub(crate) async fn set_data(&self, path: &str, data: &[u8]) -> Result<(), zk::Error> {
        self.zookeeper()?.set_data(path, data, None).await.map(|_| ())
    }

    /// Lists children and watches for changes among them.
    pub(crate) async fn watch_list(
        &self,
        path: &str,
    ) -> Result<(Vec<String>, zk::OneshotWatcher), zk::Error> {
        self.zookeeper()?.list_and_watch_children(path).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), zk::Error> {
        self.send_delete(path).await
    }

    /// Sends a delete before it returns; the future is for the reply.
    pub(crate) fn send_delete(&self, path: &str) -> BoxFuture<'static, Result<(), zk::Error>> {
        match self.zookeeper() {
            Ok(zookeeper) => Box::pin(zookeeper.delete(path, None)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl NewNode<'_> {
    fn options(&self) -> zk::CreateOptions<'_> {
        let mode = if self.numbered { CreateMode::EphemeralSequential } else { CreateMode::Ephemeral };
        mode.with_acls(Acls::new(&self.acl))
    }
}
