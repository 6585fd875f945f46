//! A barrier at which processes begin together, and end together.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join3;
use tokio::time::timeout;
use zookeeper_client::{self as zk, EventType};

use super::decision::{Admission, READY, admission};
use super::entered::Entered;
use crate::client::{Client, CreateOutcome, EphemeralNode, Failures, NodeForm, Session, Watcher};
use crate::error::{Error, Result};
use crate::failure::Failure;

/// What the names of members say; Curator takes any name.
const MARKER: &str = "member-";

/// A barrier that lets a number of processes in when all of them have come, and out when all of them want to leave. More
/// than that number may enter, also later, as long as not all have left.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::Client;
/// use zk_recipes::barriers::DoubleBarrier;
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let round = DoubleBarrier::new(&client, "/barriers/import/2026-08-01", 3)?;
/// # async fn import() {}
/// let Some(entered) = round.enter_within(Duration::from_secs(60)).await? else {
///     println!("the others have not come");
///     return Ok(());
/// };
/// import().await;
/// entered.leave().await // returns when all three have finished
/// # }
/// ```
///
/// # One path for each round
/// The members are let in by a node `ready`, which the last ones to leave delete. Whoever enters before that, for the next
/// round, belongs to the round before and is let in at once. It also stays if all members die. So give each round a path
/// of its own, such as by a date or a number.
///
/// # Cost
/// Entering takes one round trip, and one more for the member that lets the others in; the others hear of it by an event.
/// Leaving takes a round trip, and then at least another and an event.
///
/// Sources: Curator's `DistributedDoubleBarrier`, with the same nodes. There, a member that gives up stays in the count, a
/// short interruption may let a single member in, and `leave` may return before the last one has left.
#[derive(Clone, Debug)]
#[must_use = "a barrier does nothing until it is entered"]
pub struct DoubleBarrier {
    pub(super) client: Client,
    pub(super) path: Arc<str>,
    pub(super) ready: Arc<str>,
    members: usize,
}

impl DoubleBarrier {
    /// Creates a handle on the barrier at `path`, below the client's namespace, for this number of members. Makes no request.
    ///
    /// The path must not be used for anything else: every child counts as a member.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    /// - [`Error::InvalidArgument`]: `members` is zero.
    pub fn new(client: &Client, path: &str, members: usize) -> Result<Self> {
        if members == 0 {
            let reason = "the number of members must be greater than zero".into();
            return Err(Error::InvalidArgument { argument: "members", reason });
        }
        let path = client.full_path(path)?;
        let ready = format!("{path}/{READY}").into();
        Ok(Self { client: client.clone(), path, ready, members })
    }

    /// Enters the barrier, and waits until as many members as it is for have done so. The path and its parents are created
    /// as containers.
    ///
    /// The wait outlasts lost connections and ended sessions; after the end of a session, this member comes again. Each call
    /// is a member of its own.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the servers refuse.
    /// - [`Error::NotConnected`]: the servers cannot be reached under the retry policy.
    /// - [`Error::PlaceLost`]: something deletes the node of this member again and again.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// The node of this member is deleted: it does not count any more.
    pub async fn enter(&self) -> Result<Entered> {
        self.client.unless_closed(self.let_in()).await
    }

    /// Enters as [`enter`](Self::enter) does, and gives up after `within`. Returns `None` then; the node of this member is
    /// deleted, so that it does not count any more. If the last of the others comes at that very moment, it may still have
    /// been counted.
    ///
    /// # Errors
    /// Same as [`enter`](Self::enter).
    ///
    /// # Cancel safety
    /// Same as [`enter`](Self::enter).
    pub async fn enter_within(&self, within: Duration) -> Result<Option<Entered>> {
        // Boxed, and with the timers of the client: the caller may have none.
        let entering = Box::pin(async { timeout(within, self.enter()).await });
        self.client.at_home(entering).await.map_or(Ok(None), |entered| entered.map(Some))
    }

    /// Returns the number of members that it is for.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Returns the full path of the barrier, including the namespace.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns a handle for background work, which does not keep the client open.
    pub(super) fn detached(&self) -> Self {
        Self { client: self.client.detached(), ..self.clone() }
    }

    pub(super) fn error(&self, operation: &'static str, source: zk::Error) -> Error {
        Error::ZooKeeper { operation, path: self.path.to_string(), source }
    }

    async fn let_in(&self) -> Result<Entered> {
        /// How often its node may be deleted by others.
        const MOST_LOSSES: u32 = 5;
        let mut failures = Failures::default();
        let mut losses = 0;
        let mut own: Option<EphemeralNode> = None;
        loop {
            let session = self.client.session_under_policy().await?;
            // That of an ended session is gone, or will be.
            let node = match own.take().filter(|own| own.session().epoch() == session.epoch()) {
                Some(own) => own,
                None => self.new_member(&session),
            };
            let (node, progress) = self.come_and_wait(&session, node).await;
            match progress {
                Ok(Progress::In) => return Ok(Entered::new(self, node)),
                Ok(Progress::Again) => {
                    failures.reset();
                    own = Some(node);
                }
                Ok(Progress::Lost) => {
                    node.forget();
                    losses += 1;
                    if losses == MOST_LOSSES {
                        return Err(Error::PlaceLost { path: self.path.to_string() });
                    }
                }
                Err(error) if error.ends_session() => {}
                Err(error) => {
                    failures.pause_after(error, self.client.retry_policy()).await?;
                    own = Some(node);
                }
            }
        }
    }

    fn new_member(&self, session: &Arc<Session>) -> EphemeralNode {
        let form = NodeForm { marker: Cow::Borrowed(MARKER), number: None, data: None };
        EphemeralNode::new(&self.client, session.clone(), &self.path, form)
    }

    /// Sees to the node of this member, and waits on this connection.
    async fn come_and_wait(
        &self,
        session: &Arc<Session>,
        mut node: EphemeralNode,
    ) -> (EphemeralNode, Result<Progress>) {
        let progress = self.try_to_come_and_wait(session, &mut node).await;
        (node, progress)
    }

    async fn try_to_come_and_wait(
        &self,
        session: &Arc<Session>,
        node: &mut EphemeralNode,
    ) -> Result<Progress> {
        let error = |source| self.error("enter the barrier", source);
        let Some((is_ready, mut ready, children)) = self.come(session, node).await? else {
            return Ok(Progress::Again);
        };
        let own = node.name().unwrap_or_default();
        match admission(is_ready, &children, own, self.members) {
            Admission::Ready => return Ok(Progress::In),
            Admission::Lost => return Ok(Progress::Lost),
            Admission::Enough => {
                let acl = self.client.acl_of(&self.ready);
                let data = self.client.node_data(self.client.identity());
                let letting_in = session.create_persistent(&self.ready, &data, &acl);
                return match self.client.attempt_one(session, letting_in).await {
                    Ok(_) | Err(zk::Error::NodeExists) => Ok(Progress::In),
                    Err(source) => Err(error(source)),
                };
            }
            Admission::Wait => {}
        }
        if !node.is_watched() {
            match self.client.attempt_one(session, node.watch()).await {
                Err(zk::Error::NoNode) => return Ok(Progress::Lost),
                watched => watched.map_err(error)?,
            }
        }
        let own_event = async {
            match node.watcher() {
                Some(own) => own.changed().await,
                None => std::future::pending().await,
            }
        };
        let (event, is_own) = tokio::select! {
            biased;
            event = ready.changed() => (event, false),
            event = own_event => (event, true),
            // The watches would report it only at the end of the session.
            () = self.client.disconnected() => (EventType::Session, false),
            () = session.ended() => (EventType::Session, false),
        };
        match event {
            EventType::NodeCreated if !is_own => return Ok(Progress::In),
            EventType::NodeDeleted if is_own => return Ok(Progress::Lost),
            _ => {}
        }
        // It is set again on the next connection, or after a write by someone else.
        drop(node.take_watch());
        Ok(Progress::Again)
    }

    /// Creates the node of this member unless it is there, looks whether the members are let in, and lists them, all in one
    /// round trip. Returns `None` if that has to be tried again.
    async fn come(
        &self,
        session: &Arc<Session>,
        node: &mut EphemeralNode,
    ) -> Result<Option<(bool, Watcher, Vec<String>)>> {
        let error = |source| self.error("enter the barrier", source);
        if !node.is_unsent() && node.name().is_none() {
            self.client.attempt_one(session, node.settle()).await.map_err(error)?;
        }
        let is_there = node.name().is_some();
        if !is_there && !node.is_unsent() {
            *node = self.new_member(session);
        }
        let coming = async {
            match is_there {
                true => Ok(CreateOutcome::Created),
                false => node.create().await,
            }
        };
        let all = join3(coming, session.watch_stat(&self.ready), session.list(&self.path));
        let Some((come, ready, children)) = self.client.attempt(session, all).await else {
            return Err(error(zk::Error::ConnectionLoss));
        };
        match come.map_err(error)? {
            CreateOutcome::Created => {}
            CreateOutcome::ParentMissing => {
                let making =
                    self.client.attempt(session, self.client.make_parents(session, &self.path)).await;
                making
                    .unwrap_or_else(|| Err((self.path.to_string(), zk::Error::ConnectionLoss)))
                    .map_err(|(path, source)| Error::ZooKeeper { operation: "create", path, source })?;
                *node = self.new_member(session);
                return Ok(None);
            }
            CreateOutcome::TooLarge => {
                let path = self.path.to_string();
                return Err(Error::RequestTooLarge { operation: "create a node in", path });
            }
            CreateOutcome::GuardMissing => return Ok(None),
            CreateOutcome::Unknown(source) => return Err(error(source)),
        }
        let (stat, watcher) = ready.map_err(error)?;
        match children {
            Ok(children) => Ok(Some((stat.is_some(), watcher, children))),
            // It was removed with everything in it.
            Err(zk::Error::NoNode) => Ok(Some((stat.is_some(), watcher, Vec::new()))),
            Err(source) if Failure::of(&source).is_passing() => Err(error(source)),
            Err(source) => Err(self.error("list the members of the barrier", source)),
        }
    }
}

/// What has come of an attempt to enter.
enum Progress {
    /// It is let in.
    In,
    /// It is to look again.
    Again,
    /// Its node is gone.
    Lost,
}
