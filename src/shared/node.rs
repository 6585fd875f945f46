//! A persistent node with a value, and the requests on it.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::join;
use zookeeper_client::{self as zk, CreateMode, MultiWriteResult};

use super::settle::{Settled, settle};
use super::version::{Version, Versioned};
use crate::client::{Client, Failures, Session, Watcher, Write, of_write};
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::meters::ValueMeters;

/// The servers take this number for "any version".
const ANY: i32 = -1;

/// A node at a path. Its data is that of the node, as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct ValueNode {
    client: Client,
    /// The full path.
    path: Arc<str>,
    meters: ValueMeters,
}

/// The outcome of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Written(Version),
    /// Nothing was written: the condition did not hold.
    Conflict,
}

/// The outcome of one try.
enum Tried {
    Written(Version),
    Conflict,
    Failed {
        source: zk::Error,
        may_be_done: bool,
    },
    /// There is nothing to write any more.
    Nothing,
}

impl ValueNode {
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn new(client: &Client, path: &str) -> Result<Self> {
        let path = client.full_path(path)?;
        Ok(Self { client: client.clone(), meters: client.labels().value_meters(&path), path })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Returns a handle for background work, which does not keep the client open.
    pub(crate) fn detached(&self) -> Self {
        Self { client: self.client.detached(), ..self.clone() }
    }

    pub(crate) fn error(&self, operation: &'static str, source: zk::Error) -> Error {
        Error::ZooKeeper { operation, path: self.path.to_string(), source }
    }

    /// # Errors
    /// [`Error::InvalidArgument`] if the servers would reject this data, or readers would not decompress it.
    pub(crate) fn ensure_fits(&self, argument: &'static str, data: &[u8]) -> Result<()> {
        self.client.ensure_readable(argument, data)?;
        let (data, acl) = (self.client.node_data(data), self.client.acl_of(&self.path));
        let create = Write::Create { path: &self.path, data: &data, mode: CreateMode::Persistent, acl: &acl };
        self.client.ensure_fits(argument, [of_write(&create)])
    }

    /// Reads the node, as it was after everything that was done before the call. `None` if it does not exist.
    pub(crate) async fn get(&self, operation: &'static str) -> Result<Option<Versioned<Vec<u8>>>> {
        self.client
            .request(operation, &self.path, |session| async move {
                // Sent together: a server answers the requests of a session in order.
                let (synced, seen) = join(session.sync(&self.path), self.look(&session)).await;
                synced.and(seen)
            })
            .await
    }

    /// Reads the node, as it was after everything that this session has seen.
    pub(crate) async fn look(&self, session: &Session) -> Result<Option<Versioned<Vec<u8>>>, zk::Error> {
        match session.data(&self.path).await {
            Ok((data, stat)) => Ok(Some(Versioned::new(data, Version::of(&stat)))),
            Err(zk::Error::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the node, and watches it for each change, its creation and its deletion.
    pub(crate) async fn watch(
        &self,
        session: &Session,
    ) -> Result<(Option<Versioned<Vec<u8>>>, Watcher), zk::Error> {
        loop {
            match session.watch_data(&self.path).await {
                Ok((data, stat, watcher)) => {
                    return Ok((Some(Versioned::new(data, Version::of(&stat))), watcher));
                }
                Err(zk::Error::NoNode) => {}
                Err(error) => return Err(error),
            }
            let (exists, watcher) = session.watch_existence(&self.path).await?;
            if !exists {
                return Ok((None, watcher));
            }
        }
    }

    /// Creates the node, and its parents, if it does not exist.
    pub(crate) async fn make(&self, session: &Session, data: &[u8]) -> Result<(), zk::Error> {
        match self.create(session, &self.client.node_data(data)).await? {
            Ok(_) | Err(zk::Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Creates the node, and its parents. Returns what became of the node.
    ///
    /// # Errors
    /// That of a parent. The node was not created.
    async fn create(&self, session: &Session, data: &[u8]) -> Result<Result<zk::Stat, zk::Error>, zk::Error> {
        let acl = self.client.acl_of(&self.path);
        loop {
            match session.create_persistent(&self.path, data, &acl).await {
                Err(zk::Error::NoNode) => {
                    let (parent, _) = self.path.rsplit_once('/').unwrap_or_default();
                    if parent.is_empty() {
                        // The chroot of the client is missing.
                        return Ok(Err(zk::Error::NoNode));
                    }
                    self.client.make_parents(session, parent).await.map_err(|(_, source)| source)?;
                }
                created => return Ok(created),
            }
        }
    }

    /// Writes whatever the node holds, and creates it if it does not exist. Repeated if the reply is lost.
    pub(crate) async fn overwrite(&self, operation: &'static str, data: &[u8]) -> Result<Version> {
        let data = &*self.client.node_data(data);
        let written = self.client.request(operation, &self.path, |session| async move {
            loop {
                match session.set_data(&self.path, data, None).await {
                    Err(zk::Error::NoNode) => {}
                    written => return written,
                }
                match self.create(&session, data).await? {
                    Err(zk::Error::NodeExists) => {}
                    created => return created,
                }
            }
        });
        let written = written.await?;
        self.meters.written();
        Ok(Version::of(&written))
    }

    /// Writes if the node still has this version, or creates the node if that is `None`: once, or not at all.
    ///
    /// # Errors
    /// - [`Error::WriteOutcomeUnknown`]: it may have been done.
    /// - [`Error::NodeReplaced`].
    /// - Those of the request: it was not done.
    pub(crate) async fn write(
        &self,
        operation: &'static str,
        expected: Option<Version>,
        data: &[u8],
    ) -> Result<Outcome> {
        let data = self.client.node_data(data);
        let written = self.write_latest(operation, expected, || Some(Cow::Borrowed(&*data))).await?;
        // There is always something to write.
        Ok(written.unwrap_or(Outcome::Conflict))
    }

    /// Returns data in the form in which the node holds it.
    pub(crate) fn stored(&self, data: &[u8]) -> Vec<u8> {
        self.client.node_data(data).into_owned()
    }

    /// Same as [`write`](Self::write), but asks for the data, as the node holds it, in the moment of sending it. It asks
    /// again if nothing could be sent. `None` if there was nothing to write; then nothing was written.
    ///
    /// # Errors
    /// Same as [`write`](Self::write).
    pub(crate) async fn write_latest<'d>(
        &self,
        operation: &'static str,
        expected: Option<Version>,
        mut latest: impl FnMut() -> Option<Cow<'d, [u8]>>,
    ) -> Result<Option<Outcome>> {
        let path = || self.path.to_string();
        let mut sent = None;
        let mut failures = Failures::default();
        // Why an earlier try may have been done.
        let mut doubt: Option<zk::Error> = None;
        loop {
            let error = match self.client.session().await {
                Ok(session) => match self
                    .try_to_write(&session, expected, &mut sent, doubt.is_some(), &mut latest)
                    .await
                {
                    Tried::Written(now) if expected.is_some_and(|before| !now.is_of_node_of(&before)) => {
                        return Err(Error::NodeReplaced { operation, path: path() });
                    }
                    Tried::Written(now) => {
                        self.meters.written();
                        return Ok(Some(Outcome::Written(now)));
                    }
                    Tried::Conflict => {
                        self.meters.conflict();
                        return Ok(Some(Outcome::Conflict));
                    }
                    Tried::Nothing => return Ok(None),
                    Tried::Failed { source, may_be_done } => {
                        if may_be_done && doubt.is_none() {
                            if expected.is_none() {
                                // Whatever is there later: somebody else may have deleted what this has created.
                                return Err(Error::WriteOutcomeUnknown { operation, path: path(), source });
                            }
                            doubt = Some(source.clone());
                        }
                        self.error(operation, source)
                    }
                },
                Err(error) => error,
            };
            // Another session may be able to tell.
            if error.ends_session() {
                continue;
            }
            if let Err(error) = failures.pause_after(error, self.client.retry_policy()).await {
                return Err(match doubt {
                    Some(source) => Error::WriteOutcomeUnknown { operation, path: path(), source },
                    None => error,
                });
            }
        }
    }

    /// Tries once. If an earlier try may have been done, the same is `sent` again, and a conflict is settled by reading.
    async fn try_to_write<'d>(
        &self,
        session: &Session,
        expected: Option<Version>,
        sent: &mut Option<Cow<'d, [u8]>>,
        is_in_doubt: bool,
        latest: &mut impl FnMut() -> Option<Cow<'d, [u8]>>,
    ) -> Tried {
        let attempted = self.client.attempt(session, async {
            if !is_in_doubt {
                *sent = latest();
            }
            let Some(data) = sent.as_deref() else { return Tried::Nothing };
            let doubted = expected.filter(|_| is_in_doubt);
            // That may be long ago: by now, another node may have that number.
            if let Some(expected) = doubted
                && let Some(tried) = self.settled(session, expected, data).await
            {
                return tried;
            }
            let before = session.before_sending();
            let written = match self.send(session, expected, data).await {
                Ok(written) => written,
                Err(source) => return Tried::Failed { source, may_be_done: false },
            };
            let is_conflict = match expected {
                Some(_) => matches!(written, Err(zk::Error::NoNode | zk::Error::BadVersion)),
                None => matches!(written, Err(zk::Error::NodeExists)),
            };
            if let Some(expected) = doubted.filter(|_| is_conflict) {
                let settled = self.settled(session, expected, data).await;
                // As if the connection were lost once more.
                let again = Tried::Failed { source: zk::Error::ConnectionLoss, may_be_done: true };
                return settled.unwrap_or(again);
            }
            match written {
                Ok(stat) => Tried::Written(Version::of(&stat)),
                Err(_) if is_conflict => Tried::Conflict,
                Err(source) => {
                    let is_unanswered =
                        matches!(Failure::of(&source), Failure::Unknown | Failure::SessionOver);
                    Tried::Failed { source, may_be_done: is_unanswered && session.may_have_sent(before) }
                }
            }
        });
        attempted.await.unwrap_or(Tried::Failed { source: zk::Error::ConnectionLoss, may_be_done: true })
    }

    /// Returns what the node shows about a write in doubt; `None` if that can be sent again.
    async fn settled(&self, session: &Session, expected: Version, data: &[u8]) -> Option<Tried> {
        match self.look(session).await.map(|now| settle(expected, data, now.as_ref())) {
            Ok(Settled::NotYet) => None,
            Ok(Settled::NotDone) => Some(Tried::Conflict),
            // Not retried.
            Ok(Settled::Undecidable) => {
                Some(Tried::Failed { source: zk::Error::BadVersion, may_be_done: true })
            }
            Err(source) => Some(Tried::Failed { source, may_be_done: true }),
        }
    }

    /// Sends a write, and returns what became of it.
    ///
    /// # Errors
    /// That of a parent that is missing. Nothing was written.
    async fn send(
        &self,
        session: &Session,
        expected: Option<Version>,
        data: &[u8],
    ) -> Result<Result<zk::Stat, zk::Error>, zk::Error> {
        Ok(match expected.map(|version| version.number()) {
            None => return self.create(session, data).await,
            Some(ANY) => {
                // The number of this version cannot be asked for. But it is the one that is zero after a write.
                let path = &*self.path;
                let writes =
                    [Write::SetData { path, data, version: None }, Write::Check { path, version: Some(0) }];
                let results = session.commit(&writes).await.map_err(zk::Error::from);
                results.and_then(|results| match results.into_iter().next() {
                    Some(MultiWriteResult::SetData { stat }) => Ok(stat),
                    _ => Err(zk::Error::RuntimeInconsistent),
                })
            }
            number => session.set_data(&self.path, data, number).await,
        })
    }
}
