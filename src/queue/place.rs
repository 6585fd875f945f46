//! A place in a queue: drives a contender over a session.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{OptionFuture, join, join3};
use tokio::sync::{Notify, watch};
use zookeeper_client as zk;

use super::admission::OnTheWay;
use super::blocker::{BlockerWatch, cannot_watch, sight};
use super::caller::Caller;
use super::contender::{Action, Contender, Event, Sight, Standing};
use super::front;
use super::grant::Grant;
use super::idle::IdleWatch;
use super::internals::LockInternals;
use super::line::{Connection, Moment, Rank};
use super::losses::Losses;
use super::membership::{Membership, SharedLine};
use super::order::Queued;
use super::permits::{Entry, Passage};
use super::position;
use crate::client::{CreateOutcome, EphemeralNode, Failures, Health, NodeForm, Session, Watcher};
use crate::error::{Error, Result};

/// The pause after a request that failed for lack of a connection, where no caller waits for its outcome.
const PAUSE: Duration = Duration::from_millis(100);

/// A contender in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Place {
    internals: Arc<LockInternals>,
    form: NodeForm,
    /// Whether it re-enters at the end of the queue by itself after losing its place.
    returns: bool,
    /// What was known when it first entered the queue.
    entry: Entry,
    /// How it was granted; `None` if it was not.
    passage: Option<Passage>,
    contender: Contender,
    /// The local queue in the session of our node.
    line: Arc<SharedLine>,
    node: Option<EphemeralNode>,
    /// The membership of our node in the local queue, if the node is known to exist.
    membership: Option<Membership>,
    /// Whether our node stays watched because this place might not be polled for a long time.
    may_idle: bool,
    idle: Option<IdleWatch>,
    /// The watch on the contender of another session that we wait for.
    blocker: Option<BlockerWatch>,
    /// Notified by the local queue.
    wake: Arc<Notify>,
    /// Consecutive failures to reach the servers.
    failures: Failures,
    /// Consecutive losses of our node.
    losses: Losses,
    /// Whether it has found its parents missing since it was last in its queue.
    has_made_parents: bool,
    /// Whether it has waited in its queue.
    has_waited: bool,
    /// Receives the number of contenders ahead of us.
    positions: Option<watch::Sender<usize>>,
    caller: Caller,
}

impl Place {
    /// Enters a queue. Returns when the place knows where it stands. The requests are sent at the first poll, on
    /// the given session.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub(crate) async fn enter(
        internals: &Arc<LockInternals>,
        session: Arc<Session>,
        form: NodeForm,
        caller: Caller,
    ) -> Result<Self> {
        internals.ensure_recipe()?;
        let node = EphemeralNode::new(internals.client(), session, internals.path(), form.clone());
        let mut place = Self::new(internals, form, true, node);
        place.caller = caller;
        place.drive(Action::Create).await?;
        Ok(place)
    }

    /// Creates the place of a node that exists, with the children listed behind its create if that reply came. The
    /// place does not re-enter the queue by itself when the node is lost.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub(crate) async fn of(
        internals: &Arc<LockInternals>,
        node: EphemeralNode,
        form: NodeForm,
        children: Option<Vec<String>>,
        at: Moment,
    ) -> Result<Self> {
        let mut place = Self::new(internals, form, false, node);
        let event = place.created(children, at);
        let action = place.on(event);
        place.drive(action).await?;
        Ok(place)
    }

    fn new(internals: &Arc<LockInternals>, form: NodeForm, returns: bool, node: EphemeralNode) -> Self {
        Self {
            internals: internals.clone(),
            form,
            returns,
            entry: Entry::default(),
            passage: None,
            contender: internals.contender(),
            line: internals.line(node.session()),
            node: Some(node),
            membership: None,
            may_idle: false,
            idle: None,
            blocker: None,
            wake: Arc::default(),
            failures: Failures::default(),
            losses: Losses::default(),
            has_made_parents: false,
            has_waited: false,
            positions: None,
            caller: Caller::asking(),
        }
    }

    /// Returns how many contenders were ahead at the last look at the queue.
    pub(crate) fn position(&self) -> usize {
        match self.contender.standing() {
            Standing::Waiting { position } => position,
            Standing::Granted | Standing::Outside => 0,
        }
    }

    /// Returns the transaction that created our node in the queue.
    pub(crate) fn czxid(&self) -> Option<i64> {
        self.node.as_ref().and_then(EphemeralNode::czxid)
    }

    /// Returns the full path of our node in the queue.
    pub(crate) fn node_path(&self) -> Option<String> {
        self.node.as_ref().filter(|node| node.name().is_some()).map(EphemeralNode::path)
    }

    /// Returns the name of our node in the queue.
    pub(crate) fn node_name(&self) -> Option<&str> {
        self.node.as_ref().and_then(EphemeralNode::name)
    }

    /// From now on, publishes how many contenders are ahead of us whenever that changes while we wait.
    pub(crate) fn publish_position(&mut self, positions: watch::Sender<usize>) {
        self.positions = Some(positions);
    }

    /// Returns where it stands, as far as is known.
    pub(crate) fn standing(&self) -> Standing {
        self.contender.standing()
    }

    pub(crate) fn is_granted(&self) -> bool {
        self.standing() == Standing::Granted
    }

    /// Returns how it was granted; `None` if it was not.
    pub(crate) fn passage(&self) -> Option<Passage> {
        self.passage
    }

    /// Returns the current connection of its session.
    pub(crate) fn connection(&self) -> Connection {
        self.line.connection()
    }

    /// Whether it has waited in its queue.
    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Records that it waits in its queue, which ends the past series of failures and losses.
    pub(crate) fn waits(&mut self) {
        self.has_waited = true;
        self.failures.reset();
        self.losses.reset();
    }

    /// From now on, this place might not be polled for long. If its node goes away meanwhile, the local waiters
    /// behind it are woken nevertheless. That costs one request, and only while there are such waiters.
    pub(crate) fn may_idle(&mut self) {
        if !std::mem::replace(&mut self.may_idle, true) {
            self.watch_while_idle();
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.may_idle
    }

    fn watch_while_idle(&mut self) {
        let watched = self.membership.as_ref().zip(self.node_name()).filter(|_| self.may_idle);
        self.idle = watched.map(|(membership, name)| {
            IdleWatch::of(&self.internals, &self.line, membership.rank(), name.to_owned())
        });
    }

    /// Looks where it stands, and re-enters the queue if its node or its session is gone.
    ///
    /// # Cancel safety
    /// If cancelled, the place must be dropped.
    pub(crate) async fn look(&mut self) -> Result<()> {
        self.drive(Action::List).await
    }

    /// Waits until the contender ahead of us is gone or changed, and looks again.
    ///
    /// # Cancel safety
    /// If cancelled, the place must be dropped.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        let action = self.contender.park(self.line.connection());
        self.drive(action).await
    }

    /// Takes the grant, if there is one. The place is empty afterwards.
    pub(crate) fn take_grant(&mut self) -> Option<Grant> {
        if !self.is_granted() {
            return None;
        }
        let czxid = self.node.as_ref()?.czxid()?;
        Some(Grant { membership: self.membership.take(), node: self.node.take()?, czxid })
    }

    /// Leaves the queue, and waits for the confirmation.
    ///
    /// # Cancel safety
    /// The place is left in any case; in the background if this is cancelled.
    pub(crate) async fn leave(mut self) -> Result<()> {
        match self.take_out() {
            Some((node, membership)) => node.remove(membership).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Takes what must be removed, in this order. It counts as under way until it is gone.
    fn take_out(&mut self) -> Option<(EphemeralNode, Option<Membership>)> {
        let mut node = self.node.take()?;
        node.keep_until_gone(OnTheWay::leaving(self.internals.admission()));
        Some((node, self.membership.take()))
    }

    /// Carries out one action after another until there is something to report.
    async fn drive(&mut self, mut action: Action) -> Result<()> {
        let mut is_confirmed = false;
        loop {
            if self.caller.has_gone() {
                // What was sent has been answered by now. Nothing more is sent for a caller that has gone.
                return Ok(());
            }
            let outcome = match &action {
                Action::Requeue | Action::Create if !self.returns => return Ok(()),
                Action::Requeue => {
                    self.forget_node().await?;
                    Ok(Event::Start)
                }
                Action::Create => self.create().await,
                Action::MakeParents => self.make_parents().await,
                Action::Settle => self.settle().await,
                Action::List => self.list(!self.is_valid()).await,
                Action::Date(undated) => self.date(undated).await,
                Action::Watch { own, blocker } => self.watch(*own, blocker.as_deref()).await,
                Action::Await => Ok(self.woken().await),
                // Nothing of an old session may be trusted, neither a grant nor a place.
                Action::Report if self.session().is_none_or(|session| session.is_over()) => {
                    Ok(Event::SessionOver)
                }
                // Its node was seen to be gone while the place was not polled: a node of that name is another
                // contender's.
                Action::Report if !self.is_in_line() => {
                    self.contender = self.internals.contender();
                    action = Action::Requeue;
                    continue;
                }
                // Dropping this place removes the node.
                Action::Refuse { child, found } => return Err(self.internals.kind_conflict(child, found)),
                // Do not trust a grant of a session that may have expired meanwhile. If it is in doubt only because
                // nothing was requested during the wait, the lock would be suspect, or lost, right after the grant.
                Action::Report if self.is_granted() && !self.is_to_be_believed(is_confirmed) => {
                    let listed = self.list(true).await;
                    is_confirmed |= listed.is_ok();
                    listed
                }
                Action::Report => {
                    self.internals.is_used_now();
                    self.failures.reset();
                    return Ok(());
                }
            };
            let event = match outcome {
                Ok(event) => event,
                Err(error) if error.ends_session() => Event::SessionOver,
                Err(error) => {
                    self.pause_after(error).await?;
                    continue;
                }
            };
            action = self.on(event);
        }
    }

    /// Waits before the next attempt at what has failed.
    ///
    /// # Errors
    /// Returns `error` if a retry cannot help, or if the policy allows no more attempts. Exception: a contender
    /// that waits in its queue retries until its session is over.
    pub(crate) async fn pause_after(&mut self, error: Error) -> Result<()> {
        let waits = self.has_waited && self.node_name().is_some();
        match self.failures.pause_after(error, self.internals.client().retry_policy()).await {
            Err(error) if waits && error.is_retryable() => {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
            paused => paused,
        }
    }

    fn on(&mut self, event: Event) -> Action {
        let entered = match &event {
            Event::Created { own, children, .. } => Some((own.sequence, children.is_some())),
            _ => None,
        };
        let stranger = |name: &str| self.internals.on_stranger(name);
        let (action, now) =
            self.line.with(|line, now| (self.contender.on(event, line, now, stranger), line.moment(now)));
        let since_entry = match entered {
            Some((sequence, listed)) => self.entry.shows(sequence, listed, now),
            None => self.passage.is_some_and(|passage| passage.since_entry),
        };
        self.passage = self.is_granted().then_some(Passage { on: now.on, since_entry });
        action
    }

    /// Our node was created by a request of that moment.
    fn created(&mut self, children: Option<Vec<String>>, at: Moment) -> Event {
        match self.arrive(Some(at)) {
            Some((own, rank)) => Event::Created { own, rank, children, at },
            None => Event::Settled(None),
        }
    }

    /// Adds our node to the local queue, if it is known to exist.
    fn arrive(&mut self, created: Option<Moment>) -> Option<(Queued, Rank)> {
        let own = self.internals.read(self.node_name()?)?;
        let rank = self.membership.insert(self.line.arrive(&own, created, &self.wake)).rank();
        self.has_made_parents = false;
        front::watch_over(&self.internals, &self.line, rank);
        self.watch_while_idle();
        self.caller.reached();
        self.internals.admission().arrived();
        Some((own, rank))
    }

    /// Whether our node is in the local queue, so that others wait for it as they must.
    fn is_in_line(&self) -> bool {
        self.membership.as_ref().is_some_and(Membership::is_in_line)
    }

    /// Returns the session of our node.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.node.as_ref().map(EphemeralNode::session)
    }

    /// Returns the session of our node, for a request that is only meaningful on that session.
    fn own_session(&self) -> Result<&Arc<Session>> {
        self.session().ok_or_else(|| self.internals.error("stay in the queue of", zk::Error::SessionExpired))
    }

    async fn forget_node(&mut self) -> Result<()> {
        // By its own watch; or by that of the local queue, while the place was not polled.
        let is_seen_gone = self.own_sight() == Sight::Gone || self.membership.is_some() && !self.is_in_line();
        self.idle = None;
        self.membership = None;
        self.blocker = None;
        if let Some(node) = self.node.take() {
            tracing::info!(node = node.path(), "own node is gone, queueing again");
            // If our node was seen to be gone, a node of that name is another contender's. If it was only missing
            // in a list, it is deleted: that costs less than waiting behind it, should it exist.
            if is_seen_gone {
                node.forget();
            }
        }
        self.losses.pause(self.internals.path()).await
    }

    /// Enters the queue on the current session: sends the create, and with it the requests that make the queue
    /// known, back to back.
    async fn create(&mut self) -> Result<Event> {
        let internals = &self.internals;
        self.idle = None;
        self.membership = None;
        self.blocker = None;
        let node = match &mut self.node {
            Some(unsent) if unsent.is_unsent() => unsent,
            _ => {
                let session = internals.client().session().await?;
                let form = self.form.clone();
                self.line = internals.line(&session);
                self.node.insert(EphemeralNode::new(internals.client(), session, internals.path(), form))
            }
        };
        let session = node.session().clone();
        let (prefetch, mut at) = self.line.with(|line, now| {
            self.entry.sent(line.vacancy(now));
            (line.prefetch(now), line.moment(now))
        });
        let parent_watch = prefetch.parent_watch.then(|| session.watch_existence(internals.path()));
        let list = prefetch.list.then(|| session.list(internals.path()));
        // `join3` polls in this order, and the first poll sends: the list already shows our node.
        let create = async {
            self.caller.sends();
            node.create().await
        };
        let asked = join3(OptionFuture::from(parent_watch), create, OptionFuture::from(list));
        let (parent_watch, outcome, children) = internals
            .client()
            .attempt(&session, asked)
            .await
            .unwrap_or((None, Ok(CreateOutcome::Unknown(zk::Error::ConnectionLoss)), None));
        match outcome.map_err(|source| internals.error("create a node in", source))? {
            CreateOutcome::ParentMissing | CreateOutcome::GuardMissing => Ok(Event::ParentMissing),
            CreateOutcome::Unknown(source) => {
                let error = internals.error("create a node in", source);
                self.failures.pause_after(error, internals.client().retry_policy()).await?;
                Ok(Event::CreateUnknown)
            }
            CreateOutcome::Created => {
                // Without the watch, the next create lists as well.
                if let Some(Ok((true, watch))) = parent_watch {
                    at = self.line.parent_watched(watch, at.on);
                }
                // Whatever prevented the list, a missing permission or a lost connection, shows in the next one.
                Ok(self.created(children.and_then(Result::ok), at))
            }
        }
    }

    async fn make_parents(&mut self) -> Result<Event> {
        if std::mem::replace(&mut self.has_made_parents, true) {
            // Something removes them as often as they are created.
            self.losses.pause(self.internals.path()).await?;
        }
        if let Some(node) = &self.node {
            let made = self.internals.client().attempt(node.session(), node.make_parents()).await;
            let made =
                made.unwrap_or_else(|| Err((self.internals.path().to_string(), zk::Error::ConnectionLoss)));
            made.map_err(|(path, source)| Error::ZooKeeper { operation: "create", path, source })?;
        }
        Ok(Event::ParentsMade)
    }

    async fn settle(&mut self) -> Result<Event> {
        let Some(node) = &mut self.node else { return Ok(Event::Settled(None)) };
        let session = node.session().clone();
        let settled = self.internals.client().attempt_one(&session, node.settle()).await;
        settled.map_err(|source| self.internals.error("find a node in", source))?;
        Ok(Event::Settled(self.arrive(None)))
    }

    /// Whether the session of our node is known to be alive.
    fn is_valid(&self) -> bool {
        self.session().is_some_and(|session| session.validity().is_valid())
    }

    /// Whether a grant can be handed out. A session in doubt is confirmed only once: over a slow connection it may
    /// be in doubt again when the reply arrives.
    fn is_to_be_believed(&self, is_confirmed: bool) -> bool {
        let health = self.session().map_or(Health::Over, |session| session.health());
        health == Health::Sound || is_confirmed && health == Health::Suspect
    }

    /// Waits until the session of our node takes requests, for as long as one attempt does.
    async fn ready(&self) {
        if let Some(session) = self.session() {
            self.internals.client().ready(session).await;
        }
    }

    /// Lists the queue and, if `confirm` is set, has the session confirmed.
    async fn list(&mut self, confirm: bool) -> Result<Event> {
        self.ready().await;
        let session = self.own_session()?;
        let at = self.line.moment();
        let list = self.internals.list(session);
        let listed = if !confirm {
            list.await
        } else {
            // Sent together, this costs no extra time.
            let (confirmed, listed) = join(session.become_valid(), list).await;
            confirmed.and(listed)
        };
        let event = listed.map(|children| Event::Listed { children, at });
        event.map_err(|source| self.internals.error("list the children of", source))
    }

    async fn date(&mut self, undated: &[Queued]) -> Result<Event> {
        self.ready().await;
        let dated = self.internals.dates_in(&self.line, undated.to_vec()).await;
        let event = dated.map(|created| Event::Dated { created, asked: undated.len() });
        event.map_err(|source| self.internals.error("date the contenders of", source))
    }

    /// Sets the requested watches, that on our own node first.
    async fn watch(&mut self, own: bool, blocker: Option<&str>) -> Result<Event> {
        self.ready().await;
        let on = self.line.connection();
        let session = self.own_session()?.clone();
        let is_watched = self.blocker.as_mut().is_some_and(|watched| watched.is_still_on(blocker, on));
        let blocker = blocker.filter(|_| !is_watched);
        if !is_watched {
            self.blocker = None;
        }
        let own_watch = self.node.as_mut().filter(|_| own).map(EphemeralNode::watch);
        let blocker_watch = blocker.map(|name| BlockerWatch::set(self.internals.path(), &session, name, on));
        // `join` polls in this order, and the first poll sends.
        let (own_watch, blocker_watch) =
            join(OptionFuture::from(own_watch), OptionFuture::from(blocker_watch)).await;
        let blocker = match blocker_watch {
            None => Sight::Unwatched,
            Some(watched) => {
                let (sight, watch) = watched?;
                self.blocker = watch;
                sight
            }
        };
        let own = match own_watch {
            Some(Err(zk::Error::NoAuth)) => Sight::Unwatched,
            // It was set earlier and may have fired meanwhile; if not, it says nothing about this connection.
            None if self.own_sight() == Sight::There => Sight::Unwatched,
            None | Some(Ok(())) => self.own_sight(),
            Some(Err(zk::Error::NoNode)) => Sight::Gone,
            Some(Err(source)) => return Err(cannot_watch(self.node_path().unwrap_or_default(), source)),
        };
        self.waits();
        Ok(Event::Watched { own, blocker, on })
    }

    /// Watches our node, unless it is watched already, and returns what is known of it.
    ///
    /// # Cancel safety
    /// The watch may have been set.
    pub(crate) async fn watch_own(&mut self) -> Result<Sight> {
        let watched = self.own_sight();
        if matches!(watched, Sight::There | Sight::Gone) {
            return Ok(watched);
        }
        self.ready().await;
        let Some(node) = &mut self.node else { return Ok(Sight::Gone) };
        let seen = match node.watch().await {
            Ok(()) => Ok(self.own_sight()),
            // A client that may not read a node gets no event at its end.
            Err(zk::Error::NoAuth) => match node.session().stat(&node.path()).await {
                Ok(stat) => Ok(stat.map_or(Sight::Gone, |_| Sight::Unwatched)),
                Err(source) => Err(source),
            },
            Err(zk::Error::NoNode) => Ok(Sight::Gone),
            Err(source) => Err(source),
        };
        seen.map_err(|source| cannot_watch(self.node_path().unwrap_or_default(), source))
    }

    /// Waits until the watch on our node has fired; forever if there is none.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn own_changed(&mut self) {
        match self.node.as_mut().and_then(EphemeralNode::watcher) {
            Some(watcher) => drop(watcher.changed().await),
            None => pending().await,
        }
    }

    /// Waits until our node is known to be gone; forever if that cannot be determined.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn gone(&mut self) {
        loop {
            match self.watch_own().await {
                Ok(Sight::Gone) => return,
                Ok(_) => self.own_changed().await,
                Err(error) if error.is_retryable() => tokio::time::sleep(PAUSE).await,
                Err(_) => pending().await,
            }
        }
    }

    /// Waits for a watch, or for the local queue.
    async fn woken(&mut self) -> Event {
        let session = self.line.session();
        let name = self.node_name().filter(|_| self.positions.is_some()).map(str::to_owned);
        let following = name.as_deref().zip(self.positions.as_ref());
        let following =
            following.map(|(own, positions)| position::follow(&self.internals, &self.line, own, positions));
        let own = self.node.as_mut().and_then(EphemeralNode::watcher).map(Watcher::changed);
        let blocker = self.blocker.as_mut().map(BlockerWatch::changed);
        tokio::select! {
            Some(_) = OptionFuture::from(own) => {}
            Some(_) = OptionFuture::from(blocker) => {}
            () = self.wake.notified() => {}
            // In case no watch fires.
            () = session.ended() => {}
            Some(()) = OptionFuture::from(following) => {}
        }
        let blocker = self.blocker.as_mut().map_or(Sight::Unwatched, BlockerWatch::sight);
        let own = self.own_sight();
        // A watch that has fired must not wake us again, unless it reported the end of its node.
        if blocker != Sight::There {
            self.blocker = None;
        }
        if let Some(node) = self.node.as_mut().filter(|_| !matches!(own, Sight::There | Sight::Gone)) {
            drop(node.take_watch());
        }
        if self.line.session().is_over() { Event::SessionOver } else { Event::Woken { own, blocker } }
    }

    fn own_sight(&mut self) -> Sight {
        self.node.as_mut().and_then(EphemeralNode::watcher).map_or(Sight::Unwatched, sight)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.take_out());
    }
}
