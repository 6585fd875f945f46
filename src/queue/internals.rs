//! Drives a contender over a session. Curator's `LockInternals`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{join, join_all};
use tokio::sync::watch;
use zookeeper_client::{self as zk, EventType, OneshotWatcher};

use super::contender::{Action, Contender, Event, Standing};
use super::name::Names;
use super::order::{Contenders, in_order_of_creation};
use super::rule::Verdict;
use crate::client::{Client, CreateOutcome, EphemeralNode, Failures, Session};
use crate::error::{Error, Result};

/// One queue: the contenders under one path, and the rule by which they get their turn.
#[derive(Debug)]
pub(crate) struct LockInternals {
    client: Client,
    /// The full path.
    path: Arc<str>,
    names: &'static Names,
    rule: fn(usize) -> Verdict,
    stranger_seen: AtomicBool,
}

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
    contender: Contender,
    node: Option<EphemeralNode>,
    /// Failures in a row to reach the servers.
    failures: Failures,
    /// Losses in a row of our node.
    losses: Failures,
    /// Who wants to hear how many contenders are before us.
    positions: Option<watch::Sender<usize>>,
}

impl LockInternals {
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn new(
        client: &Client,
        path: &str,
        names: &'static Names,
        rule: fn(usize) -> Verdict,
    ) -> Result<Self> {
        let path = client.full_path(path)?;
        Ok(Self { client: client.clone(), path, names, rule, stranger_seen: AtomicBool::new(false) })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The full path.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Whether the contender at this position of the queue holds.
    pub(crate) fn is_holder(&self, position: usize) -> bool {
        (self.rule)(position) == Verdict::Granted
    }

    pub(crate) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Enters the queue. The place has been told where it stands when this returns.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub(crate) async fn enqueue(self: &Arc<Self>) -> Result<Place> {
        let mut place = Place {
            internals: self.clone(),
            contender: Contender::new(self.names, self.rule),
            node: None,
            failures: Failures::default(),
            losses: Failures::default(),
            positions: None,
        };
        place.drive(Action::Create).await?;
        Ok(place)
    }

    /// The names of the contenders, in order.
    pub(crate) async fn contenders(&self) -> Result<Vec<String>> {
        self.read("list the children of", |session| async move {
            let children = self.list(&session).await?;
            self.in_order(&session, children).await
        })
        .await
    }

    /// Does a read on whatever session there is, again under the retry policy if it fails to get through.
    pub(crate) async fn read<T, F>(
        &self,
        operation: &'static str,
        attempt: impl Fn(Arc<Session>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, zk::Error>>,
    {
        let mut failures = Failures::default();
        loop {
            let outcome = match self.client.session().await {
                Ok(session) => attempt(session).await.map_err(|source| self.error(operation, source)),
                Err(error) => Err(error),
            };
            match outcome {
                Ok(value) => return Ok(value),
                Err(error) if error.ends_session() => {}
                Err(error) => failures.pause_after(error, self.client.retry_policy()).await?,
            }
        }
    }

    async fn list(&self, session: &Session) -> Result<Vec<String>, zk::Error> {
        match session.list(&self.path).await {
            // A queue that does not exist is empty.
            Err(zk::Error::NoNode) => Ok(Vec::new()),
            listed => listed,
        }
    }

    async fn in_order(&self, session: &Session, children: Vec<String>) -> Result<Vec<String>, zk::Error> {
        match Contenders::among(children, self.names, |name| self.on_stranger(name)).in_order() {
            Ok(queue) => Ok(queue),
            Err(names) => Ok(in_order_of_creation(self.dates(session, names).await?)),
        }
    }

    /// When each of these contenders was created; without those that are gone.
    async fn dates(&self, session: &Session, names: Vec<String>) -> Result<Vec<(String, i64)>, zk::Error> {
        let dates = join_all(names.iter().map(|name| {
            let path = self.child(name);
            async move { session.stat(&path).await }
        }))
        .await;
        let mut created = Vec::with_capacity(names.len());
        for (name, date) in names.into_iter().zip(dates) {
            created.extend(date?.map(|stat| (name, stat.czxid)));
        }
        Ok(created)
    }

    fn error(&self, operation: &'static str, source: zk::Error) -> Error {
        Error::ZooKeeper { operation, path: self.path.to_string(), source }
    }

    fn on_stranger(&self, name: &str) {
        if !self.stranger_seen.swap(true, Ordering::Relaxed) {
            tracing::warn!(path = %self.path, child = name, "ignoring children that are no contenders");
        }
    }
}

impl Place {
    pub(crate) fn standing(&self) -> &Standing {
        self.contender.standing()
    }

    /// The name of the node that stands in the queue.
    pub(crate) fn node_name(&self) -> Option<&str> {
        self.node.as_ref().and_then(EphemeralNode::name)
    }

    /// From now on, tells how many contenders are before us whenever that changes while we wait.
    pub(crate) fn publish_position(&mut self, positions: watch::Sender<usize>) {
        self.positions = Some(positions);
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
        if *self.contender.standing() != Standing::Granted {
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
            let outcome = match &action {
                Action::Requeue => {
                    self.forget_node().await?;
                    Ok(Event::Start)
                }
                Action::Create => self.create().await,
                Action::MakeParents => self.make_parents().await,
                Action::Settle => self.settle().await,
                Action::List => self.list().await,
                Action::Date(names) => self.date(names).await,
                Action::Watch(name) => self.watch(name, &mut watcher).await,
                Action::Await => Ok(self.woken(watcher.take()).await),
                // Nothing of an old session may be believed, neither a grant nor a place.
                Action::Report if self.session().is_none_or(|session| session.is_over()) => {
                    Ok(Event::SessionOver)
                }
                Action::Report => {
                    self.failures.reset();
                    return Ok(());
                }
            };
            let event = match outcome {
                Ok(event) => event,
                Err(error) if error.ends_session() => Event::SessionOver,
                Err(error) => {
                    self.failures.pause_after(error, self.internals.client.retry_policy()).await?;
                    continue;
                }
            };
            action = self.contender.on(event, |name| self.internals.on_stranger(name));
        }
    }

    fn session(&self) -> Option<&Arc<Session>> {
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
        self.losses.pause_or(lost, self.internals.client.retry_policy()).await
    }

    /// Enters the queue on the present session: creates and lists, sent back to back.
    async fn create(&mut self) -> Result<Event> {
        let internals = &self.internals;
        let session = internals.client.session().await?;
        let node = self.node.insert(EphemeralNode::new(&internals.client, session.clone(), &internals.path));
        // `join` polls in this order, and the first poll sends: the list shows our node already.
        let (outcome, children) =
            join(node.create(internals.names.marker()), session.list(&internals.path)).await;
        match outcome.map_err(|source| internals.error("create a node in", source))? {
            CreateOutcome::ParentMissing => Ok(Event::ParentMissing),
            CreateOutcome::Unknown(source) => {
                let error = internals.error("create a node in", source);
                self.failures.pause_after(error, internals.client.retry_policy()).await?;
                Ok(Event::CreateUnknown)
            }
            CreateOutcome::Created { name } => match children {
                Ok(children) => Ok(Event::Created { name, children: Some(children) }),
                // Whatever kept the list away, a missing right or a lost connection, shows in the next one.
                Err(_) => Ok(Event::Created { name, children: None }),
            },
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

    async fn list(&mut self) -> Result<Event> {
        let listed = self.internals.list(self.own_session()?).await;
        listed.map(Event::Listed).map_err(|source| self.internals.error("list the children of", source))
    }

    async fn date(&mut self, names: &[String]) -> Result<Event> {
        let dated = self.internals.dates(self.own_session()?, names.to_vec()).await;
        dated.map(Event::Dated).map_err(|source| self.internals.error("date the contenders of", source))
    }

    async fn watch(&mut self, name: &str, watcher: &mut Option<OneshotWatcher>) -> Result<Event> {
        let path = self.internals.child(name);
        *watcher = match self.own_session()?.watch(&path).await {
            Ok(watcher) => watcher,
            Err(source) => return Err(Error::ZooKeeper { operation: "watch", path, source }),
        };
        if watcher.is_none() {
            return Ok(Event::BlockerChanged);
        }
        self.failures.reset();
        self.losses.reset();
        Ok(Event::Watched)
    }

    /// Waits for the watch on our blocker.
    async fn woken(&self, watcher: Option<OneshotWatcher>) -> Event {
        let Some(watcher) = watcher else { return Event::BlockerChanged };
        let event = tokio::select! {
            event = watcher.changed() => event,
            never = self.follow_position() => match never {},
        };
        match event.event_type {
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
            while let Ok((children, changed)) = session.watch_list(&self.internals.path).await {
                let Ok(queue) = self.internals.in_order(session, children).await else { break };
                let Some(position) = queue.iter().position(|name| name == own) else { break };
                positions.send_if_modified(|last| std::mem::replace(last, position) != position);
                changed.changed().await;
            }
        }
        std::future::pending().await
    }
}
