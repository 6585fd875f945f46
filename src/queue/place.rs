//! A place in a queue: drives a contender over a session.

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::future::join;
use tokio::sync::watch;
use zookeeper_client::{self as zk, EventType};

use super::contender::{Action, Contender, Event, Standing};
use super::internals::LockInternals;
use super::order::Queued;
use super::rule::position_of;
use crate::client::{CreateOutcome, EphemeralNode, Failures, NodeForm, Session, Watcher};
use crate::error::{Error, Result};

/// What the granted place in a queue leaves in the hands of the holder.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) node: EphemeralNode,
    /// The transaction that created the node.
    pub(crate) czxid: i64,
}

/// A contender in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Place {
    internals: Arc<LockInternals>,
    form: NodeForm,
    /// Whether it goes back to the end of the queue by itself when it has lost its place.
    returns: bool,
    /// How often it has asked the server for something.
    asked: usize,
    contender: Contender,
    node: Option<EphemeralNode>,
    /// Failures in a row to reach the servers.
    failures: Failures,
    /// Losses in a row of our node.
    losses: Failures,
    /// Whether it has waited in its queue.
    has_waited: bool,
    /// Who wants to hear how many contenders are before us.
    positions: Option<watch::Sender<usize>>,
}

impl Place {
    /// Enters a queue. The place has been told where it stands when this returns. The requests are sent at
    /// the first poll, on the session given.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub(crate) async fn enter(
        internals: &Arc<LockInternals>,
        session: Arc<Session>,
        form: NodeForm,
    ) -> Result<Self> {
        let node = EphemeralNode::new(internals.client(), session, internals.path(), form.clone());
        let mut place = Self::new(internals, form, true, node);
        place.drive(Action::Create).await?;
        Ok(place)
    }

    /// The place of a node that exists, with the children listed behind its create if that list came. It does
    /// not enter the queue again by itself when the node is lost.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub(crate) async fn of(
        internals: &Arc<LockInternals>,
        node: EphemeralNode,
        form: NodeForm,
        children: Option<Vec<String>>,
    ) -> Result<Self> {
        let name = node.name().unwrap_or_default().to_owned();
        let mut place = Self::new(internals, form, false, node);
        let action = place.on(Event::Created { name, children });
        place.drive(action).await?;
        Ok(place)
    }

    fn new(internals: &Arc<LockInternals>, form: NodeForm, returns: bool, node: EphemeralNode) -> Self {
        Self {
            internals: internals.clone(),
            form,
            returns,
            asked: 0,
            contender: internals.contender(),
            node: Some(node),
            failures: Failures::default(),
            losses: Failures::default(),
            has_waited: false,
            positions: None,
        }
    }

    /// How many contenders were before it at its last look at the queue.
    pub(crate) fn position(&self) -> usize {
        match self.contender.standing() {
            Standing::Waiting { position, .. } => *position,
            Standing::Granted | Standing::Outside => 0,
        }
    }

    /// The transaction that created the node that stands in the queue.
    pub(crate) fn czxid(&self) -> Option<i64> {
        self.node.as_ref().and_then(EphemeralNode::czxid)
    }

    /// The full path of the node that stands in the queue.
    pub(crate) fn node_path(&self) -> Option<String> {
        self.node.as_ref().filter(|node| node.name().is_some()).map(EphemeralNode::path)
    }

    /// The name of the node that stands in the queue.
    pub(crate) fn node_name(&self) -> Option<&str> {
        self.node.as_ref().and_then(EphemeralNode::name)
    }

    /// From now on, tells how many contenders are before us whenever that changes while we wait.
    pub(crate) fn publish_position(&mut self, positions: watch::Sender<usize>) {
        self.positions = Some(positions);
    }

    pub(crate) fn is_granted(&self) -> bool {
        *self.contender.standing() == Standing::Granted
    }

    /// Whether it is known to be in the queue no longer.
    pub(crate) fn is_outside(&self) -> bool {
        *self.contender.standing() == Standing::Outside
    }

    /// Whether it stands where the first create, and the list behind it, have put it.
    pub(crate) fn is_where_it_entered(&self) -> bool {
        self.asked == 1
    }

    /// Whether it has waited in its queue.
    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// It waits in its queue, so that past failures and losses are over.
    pub(crate) fn waits(&mut self) {
        self.has_waited = true;
        self.failures.reset();
        self.losses.reset();
    }

    /// Looks where it stands, and enters the queue again if its node or its session is gone.
    ///
    /// # Cancel safety
    /// Only to be followed by dropping the place.
    pub(crate) async fn look(&mut self) -> Result<()> {
        self.drive(Action::List).await
    }

    /// Waits until the contender before us is gone or changed, and looks again.
    ///
    /// # Cancel safety
    /// Only to be followed by dropping the place.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        let action = self.contender.park();
        self.drive(action).await
    }

    /// The grant, if there is one. What is left of the place then is nothing.
    pub(crate) fn take_grant(&mut self) -> Option<Grant> {
        if !self.is_granted() {
            return None;
        }
        let czxid = self.node.as_ref()?.czxid()?;
        Some(Grant { node: self.node.take()?, czxid })
    }

    /// Leaves the queue, and waits for the confirmation.
    ///
    /// # Cancel safety
    /// The place is left in any case, in the background if this is cancelled.
    pub(crate) async fn leave(self) -> Result<()> {
        match self.node {
            Some(node) => node.remove().await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Does one action after the other until there is something to report.
    async fn drive(&mut self, mut action: Action) -> Result<()> {
        let mut watcher = None;
        loop {
            self.asked += usize::from(action != Action::Report);
            let outcome = match &action {
                Action::Requeue | Action::Create if !self.returns => return Ok(()),
                Action::Requeue => {
                    self.forget_node().await?;
                    Ok(Event::Start)
                }
                Action::Create => self.create().await,
                Action::MakeParents => self.make_parents().await,
                Action::Settle => self.settle().await,
                Action::List => self.list().await,
                Action::Date(undated) => self.date(undated).await,
                Action::Watch(name) => self.watch(name, &mut watcher).await,
                Action::Await => Ok(self.woken(watcher.take()).await),
                // Nothing of an old session may be believed, neither a grant nor a place.
                Action::Report if self.session().is_none_or(|session| session.is_over()) => {
                    Ok(Event::SessionOver)
                }
                // Nor a grant of a session that may have expired meanwhile.
                Action::Report if self.is_granted() && !self.is_valid() => self.list().await,
                Action::Report => {
                    self.failures.reset();
                    return Ok(());
                }
            };
            let event = match outcome {
                Ok(event) => event,
                Err(error) if error.ends_session() => Event::SessionOver,
                Err(error) => {
                    self.failures.pause_after(error, self.internals.client().retry_policy()).await?;
                    continue;
                }
            };
            action = self.on(event);
        }
    }

    fn on(&mut self, event: Event) -> Action {
        self.contender.on(event, |name| self.internals.on_stranger(name))
    }

    /// The session of our node.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.node.as_ref().map(EphemeralNode::session)
    }

    /// The session of our node, for a request that only makes sense on that one.
    fn own_session(&self) -> Result<&Arc<Session>> {
        self.session().ok_or_else(|| self.internals.error("stay in the queue of", zk::Error::SessionExpired))
    }

    async fn forget_node(&mut self) -> Result<()> {
        if let Some(node) = self.node.take() {
            tracing::info!(node = node.path(), "own node is gone, queueing again");
            node.forget();
        }
        let lost = self.internals.error("stay in the queue of", zk::Error::NoNode);
        self.losses.pause_or(lost, self.internals.client().retry_policy()).await
    }

    /// Enters the queue on the present session: creates and lists, sent back to back.
    async fn create(&mut self) -> Result<Event> {
        let internals = &self.internals;
        let node = match &mut self.node {
            Some(unsent) if unsent.is_unsent() => unsent,
            _ => {
                let session = internals.client().session().await?;
                let form = self.form.clone();
                self.node.insert(EphemeralNode::new(internals.client(), session, internals.path(), form))
            }
        };
        let session = node.session().clone();
        // `join` polls in this order, and the first poll sends: the list shows our node already.
        let (outcome, children) = join(node.create(), session.list(internals.path())).await;
        match outcome.map_err(|source| internals.error("create a node in", source))? {
            CreateOutcome::ParentMissing => Ok(Event::ParentMissing),
            CreateOutcome::Unknown(source) => {
                let error = internals.error("create a node in", source);
                self.failures.pause_after(error, internals.client().retry_policy()).await?;
                Ok(Event::CreateUnknown)
            }
            // Whatever kept the list away, a missing right or a lost connection, shows in the next one.
            CreateOutcome::Created => {
                let name = node.name().unwrap_or_default().to_owned();
                Ok(Event::Created { name, children: children.ok() })
            }
        }
    }

    async fn make_parents(&mut self) -> Result<Event> {
        if let Some(node) = &self.node {
            let made = node.make_parents().await;
            made.map_err(|(path, source)| Error::ZooKeeper { operation: "create", path, source })?;
        }
        Ok(Event::ParentsMade)
    }

    async fn settle(&mut self) -> Result<Event> {
        let Some(node) = &mut self.node else { return Ok(Event::Settled(None)) };
        let settled = node.settle().await;
        settled.map_err(|source| self.internals.error("find a node in", source))?;
        Ok(Event::Settled(self.node_name().map(str::to_owned)))
    }

    /// Whether the session of our node is known to live.
    fn is_valid(&self) -> bool {
        self.session().is_some_and(|session| session.validity().is_valid())
    }

    async fn list(&mut self) -> Result<Event> {
        let session = self.own_session()?;
        let list = self.internals.list(session);
        let listed = if self.is_valid() {
            list.await
        } else {
            // Which a grant needs; sent together, it takes no time.
            let (confirmed, listed) = join(session.sync(self.internals.path()), list).await;
            confirmed.and(listed)
        };
        listed.map(Event::Listed).map_err(|source| self.internals.error("list the children of", source))
    }

    async fn date(&mut self, undated: &[Queued]) -> Result<Event> {
        let dated = self.internals.dates(self.own_session()?, undated.to_vec()).await;
        dated.map(Event::Dated).map_err(|source| self.internals.error("date the contenders of", source))
    }

    async fn watch(&mut self, name: &str, watcher: &mut Option<Watcher>) -> Result<Event> {
        let path = self.internals.child(name);
        let session = self.own_session()?;
        let mut watched = session.watch_data(&path).await.map(|(_, watcher)| Some(watcher));
        if matches!(watched, Err(zk::Error::NoAuth)) {
            // Who may not read a node does not hear of its end, either; but of changes around it.
            let listed = session.watch_list(self.internals.path()).await;
            watched = listed
                .map(|(children, watcher)| children.iter().any(|child| child == name).then_some(watcher));
        }
        match watched {
            Ok(Some(set)) => *watcher = Some(set),
            Ok(None) | Err(zk::Error::NoNode) => return Ok(Event::BlockerChanged),
            Err(source) => return Err(Error::ZooKeeper { operation: "watch", path, source }),
        }
        self.waits();
        Ok(Event::Watched)
    }

    /// Waits for the watch on our blocker.
    async fn woken(&self, watcher: Option<Watcher>) -> Event {
        let Some(watcher) = watcher else { return Event::BlockerChanged };
        let event = tokio::select! {
            event = watcher.changed() => event,
            never = self.follow_position() => match never {},
        };
        match event {
            EventType::Session => Event::SessionOver,
            _ => Event::BlockerChanged,
        }
    }

    /// Publishes our position whenever the queue changes, if somebody wants to hear it.
    async fn follow_position(&self) -> Infallible {
        if let (Some(positions), Some(session), Some(own)) =
            (&self.positions, self.session(), self.node_name())
        {
            // A queue that cannot be read, or no longer has us, has no position to tell.
            while let Ok((children, changed)) = session.watch_list(self.internals.path()).await {
                let Ok(queue) = self.internals.in_order(session, children).await else { break };
                let Some(position) = position_of(own, &queue) else { break };
                positions.send_if_modified(|last| std::mem::replace(last, position) != position);
                changed.changed().await;
            }
        }
        std::future::pending().await
    }
}
