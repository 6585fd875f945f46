//! A persistent node with a value, and the requests on it.

use std::borrow::Cow;
use std::sync::Arc;

use zookeeper_client::{self as zk, CreateMode, MultiWriteResult};

use super::settle::{Settled, settle};
use super::version::{Version, Versioned};
use crate::client::{Client, Failures, Session, Watcher, Write, of_write};
use crate::error::{Error, Result};
use crate::failure::{Failure, if_exists};
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
    /// There was nothing to write any more.
    Nothing,
}

/// Why a try has failed.
struct Failed {
    source: zk::Error,
    may_be_done: bool,
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
        let read =
            |session: Arc<Session>| async move { session.synced(&self.path, self.look(&session)).await };
        self.client.request(operation, &self.path, read).await
    }

    /// Reads the node, as it was after everything that this session has seen.
    pub(crate) async fn look(&self, session: &Session) -> Result<Option<Versioned<Vec<u8>>>, zk::Error> {
        let seen = if_exists(session.data(&self.path).await)?;
        Ok(seen.map(|(data, stat)| Versioned::new(data, Version::of(&stat))))
    }

    /// Reads the node, and watches it for each change, its creation and its deletion.
    pub(crate) async fn watch(
        &self,
        session: &Session,
    ) -> Result<(Option<Versioned<Vec<u8>>>, Watcher), zk::Error> {
        loop {
            if let Some((data, stat, watcher)) = if_exists(session.watch_data(&self.path).await)? {
                return Ok((Some(Versioned::new(data, Version::of(&stat))), watcher));
            }
            let (exists, watcher) = session.watch_existence(&self.path).await?;
            if !exists {
                return Ok((None, watcher));
            }
        }
    }

    /// Creates the node, and its parents, if it does not exist.
    pub(crate) async fn make(&self, session: &Session, data: &[u8]) -> Result<(), zk::Error> {
        self.client.make_node(session, &self.path, data).await
    }

    /// Writes whatever the node holds, and creates it if it does not exist. Repeated if the reply is lost.
    pub(crate) async fn overwrite(&self, operation: &'static str, data: &[u8]) -> Result<Version> {
        let data = &*self.client.node_data(data);
        let written = self.client.request(operation, &self.path, |session| async move {
            loop {
                if let Some(written) = if_exists(session.set_data(&self.path, data, None).await)? {
                    return Ok(written);
                }
                match self.client.create_node(&session, &self.path, data).await? {
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
        self.write_latest(operation, expected, || Some(Cow::Borrowed(&*data))).await
    }

    /// Returns data in the form in which the node holds it.
    pub(crate) fn stored(&self, data: &[u8]) -> Vec<u8> {
        self.client.node_data(data).into_owned()
    }

    /// Same as [`write`](Self::write), but asks for the data, as the node holds it, in the moment of sending it. It asks
    /// again if nothing could be sent.
    ///
    /// # Errors
    /// Same as [`write`](Self::write).
    pub(crate) async fn write_latest<'d>(
        &self,
        operation: &'static str,
        expected: Option<Version>,
        mut latest: impl FnMut() -> Option<Cow<'d, [u8]>>,
    ) -> Result<Outcome> {
        let path = || self.path.to_string();
        let mut sent = None;
        let mut failures = Failures::default();
        // Why an earlier try may have been done.
        let mut doubt: Option<zk::Error> = None;
        loop {
            let error = match self.client.session().await {
                Ok(session) => {
                    let is_in_doubt = doubt.is_some();
                    let Failed { source, may_be_done } = match self
                        .try_to_write(&session, expected, &mut sent, is_in_doubt, &mut latest)
                        .await
                    {
                        Ok(outcome) => return self.done(operation, expected, outcome),
                        Err(failed) => failed,
                    };
                    if may_be_done && !is_in_doubt {
                        if expected.is_none() {
                            // Whatever is there later: somebody else may have deleted what this has created.
                            return Err(Error::WriteOutcomeUnknown { operation, path: path(), source });
                        }
                        doubt = Some(source.clone());
                    }
                    self.error(operation, source)
                }
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

    /// Counts a write whose outcome is known.
    ///
    /// # Errors
    /// [`Error::NodeReplaced`].
    fn done(&self, operation: &'static str, expected: Option<Version>, outcome: Outcome) -> Result<Outcome> {
        match outcome {
            Outcome::Written(now) if expected.is_some_and(|before| !now.is_of_node_of(&before)) => {
                return Err(Error::NodeReplaced { operation, path: self.path.to_string() });
            }
            Outcome::Written(_) => self.meters.written(),
            Outcome::Conflict => self.meters.conflict(),
            Outcome::Nothing => {}
        }
        Ok(outcome)
    }

    /// Tries once. If an earlier try may have been done, the same is `sent` again, and a conflict is settled by reading.
    async fn try_to_write<'d>(
        &self,
        session: &Session,
        expected: Option<Version>,
        sent: &mut Option<Cow<'d, [u8]>>,
        is_in_doubt: bool,
        latest: &mut impl FnMut() -> Option<Cow<'d, [u8]>>,
    ) -> Result<Outcome, Failed> {
        let in_doubt = |source| Failed { source, may_be_done: true };
        let attempted = self.client.attempt(session, async {
            if !is_in_doubt {
                *sent = latest();
            }
            let Some(data) = sent.as_deref() else { return Ok(Outcome::Nothing) };
            let doubted = expected.filter(|_| is_in_doubt);
            // That may be long ago: by now, another node may have that number.
            if let Some(expected) = doubted
                && let Some(outcome) = self.settled(session, expected, data).await.map_err(in_doubt)?
            {
                return Ok(outcome);
            }
            let before = session.before_sending();
            let not_done = |source| Failed { source, may_be_done: false };
            let written = self.send(session, expected, data).await.map_err(not_done)?;
            let is_conflict = match expected {
                Some(_) => matches!(written, Err(zk::Error::NoNode | zk::Error::BadVersion)),
                None => matches!(written, Err(zk::Error::NodeExists)),
            };
            if let Some(expected) = doubted.filter(|_| is_conflict) {
                let settled = self.settled(session, expected, data).await.map_err(in_doubt)?;
                // As if the connection were lost once more.
                return settled.ok_or(in_doubt(zk::Error::ConnectionLoss));
            }
            match written {
                Ok(stat) => Ok(Outcome::Written(Version::of(&stat))),
                Err(_) if is_conflict => Ok(Outcome::Conflict),
                Err(source) => {
                    let is_unanswered =
                        matches!(Failure::of(&source), Failure::Unknown | Failure::SessionOver);
                    Err(Failed { source, may_be_done: is_unanswered && session.may_have_sent(before) })
                }
            }
        });
        attempted.await.unwrap_or_else(|| Err(in_doubt(zk::Error::ConnectionLoss)))
    }

    /// Returns what the node shows about a write in doubt; `None` if that can be sent again.
    ///
    /// # Errors
    /// [`zk::Error::BadVersion`], which is not retried, if it shows nothing. Those of the request.
    async fn settled(
        &self,
        session: &Session,
        expected: Version,
        data: &[u8],
    ) -> Result<Option<Outcome>, zk::Error> {
        match settle(expected, data, self.look(session).await?.as_ref()) {
            Settled::NotYet => Ok(None),
            Settled::NotDone => Ok(Some(Outcome::Conflict)),
            Settled::Undecidable => Err(zk::Error::BadVersion),
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
            None => return self.client.create_node(session, &self.path, data).await,
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
