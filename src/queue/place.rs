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

/// After a request that failed for want of a connection, where nobody waits for its outcome.
const PAUSE: Duration = Duration::from_millis(100);

/// A contender in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Place {
    internals: Arc<LockInternals>,
    form: NodeForm,
    /// Whether it goes back to the end of the queue by itself when it has lost its place.
    returns: bool,
    /// What was known when it entered the queue for the first time.
    entry: Entry,
    /// How it was granted, if it was.
    passage: Option<Passage>,
    contender: Contender,
    /// Of the session that our node is of.
    line: Arc<SharedLine>,
    node: Option<EphemeralNode>,
    /// Of our node, if it is known to exist.
    membership: Option<Membership>,
    /// Whether our node is watched while nobody may poll this.
    may_idle: bool,
    idle: Option<IdleWatch>,
    /// The contender of another session that we wait for.
    blocker: Option<BlockerWatch>,
    /// By which the line wakes us.
    wake: Arc<Notify>,
    /// Failures in a row to reach the servers.
    failures: Failures,
    /// Losses in a row of our node.
    losses: Losses,
    /// Whether it has found its parents missing, since it was in its queue.
    has_made_parents: bool,
    /// Whether it has waited in its queue.
    has_waited: bool,
    /// Who wants to hear how many contenders are before us.
    positions: Option<watch::Sender<usize>>,
    caller: Caller,
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
        caller: Caller,
    ) -> Result<Self> {
        internals.ensure_recipe()?;
        let node = EphemeralNode::new(internals.client(), session, internals.path(), form.clone());
        let mut place = Self::new(internals, form, true, node);
        place.caller = caller;
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

    /// How many contenders were before it at its last look at the queue.
    pub(crate) fn position(&self) -> usize {
        match self.contender.standing() {
            Standing::Waiting { position } => position,
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

    /// Where it stands, as far as is known.
    pub(crate) fn standing(&self) -> Standing {
        self.contender.standing()
    }

    pub(crate) fn is_granted(&self) -> bool {
        self.standing() == Standing::Granted
    }

    /// How it was granted, if it was.
    pub(crate) fn passage(&self) -> Option<Passage> {
        self.passage
    }

    /// The present connection of its session.
    pub(crate) fn connection(&self) -> Connection {
        self.line.connection()
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

    /// From now on, nobody may poll this for long: those of the line who wait for it are let on if its node is gone
    /// meanwhile. That is a request for as long as somebody waits for it.
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
        let action = self.contender.park(self.line.connection());
        self.drive(action).await
    }

    /// The grant, if there is one. What is left of the place then is nothing.
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
    /// The place is left in any case, in the background if this is cancelled.
    pub(crate) async fn leave(mut self) -> Result<()> {
        match self.take_out() {
            Some((node, membership)) => node.remove(membership).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// What is to be removed, in this order. It counts as on its way until it is gone.
    fn take_out(&mut self) -> Option<(EphemeralNode, Option<Membership>)> {
        let mut node = self.node.take()?;
        node.keep_until_gone(OnTheWay::leaving(self.internals.admission()));
        Some((node, self.membership.take()))
    }

    /// Does one action after the other until there is something to report.
    async fn drive(&mut self, mut action: Action) -> Result<()> {
        let mut is_confirmed = false;
        loop {
            if self.caller.has_gone() {
                // What is sent is known by now. Nothing more is sent for nobody.
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
                // Nothing of an old session may be believed, neither a grant nor a place.
                Action::Report if self.session().is_none_or(|session| session.is_over()) => {
                    Ok(Event::SessionOver)
                }
                // While nobody polled it, its node was seen to be gone: one of its name is somebody else's.
                Action::Report if !self.is_in_line() => {
                    self.contender = self.internals.contender();
                    action = Action::Requeue;
                    continue;
                }
                // The drop of this place removes the node.
                Action::Refuse { child, found } => return Err(self.internals.kind_conflict(child, found)),
                // Nor a grant of a session that may have expired meanwhile. One that is in doubt because nothing was asked
                // during the wait would be in doubt, or lost, as soon as it is had.
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

    /// Pauses before the next attempt at what has failed.
    ///
    /// # Errors
    /// Hands `error` back when it is none that passes; or when the policy allows no more attempts, unless it waits in its
    /// queue. Then it goes on until its session is over.
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

    /// Takes our node into the line, if it is known to exist.
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

    /// Whether others of the line wait for us as they should.
    fn is_in_line(&self) -> bool {
        self.membership.as_ref().is_some_and(Membership::is_in_line)
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
        // By its watch; or by that of the line, while nobody polled this.
        let is_seen_gone = self.own_sight() == Sight::Gone || self.membership.is_some() && !self.is_in_line();
        self.idle = None;
        self.membership = None;
        self.blocker = None;
        if let Some(node) = self.node.take() {
            tracing::info!(node = node.path(), "own node is gone, queueing again");
            // A node of that name would be somebody else's. If it was only not listed, it is deleted: that costs less than to
            // wait behind it, should it be there.
            if is_seen_gone {
                node.forget();
            }
        }
        self.losses.pause(self.internals.path()).await
    }

    /// Enters the queue on the present session: creates, in the company that makes the queue known, all sent back to
    /// back.
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
        let (company, mut at) = self.line.with(|line, now| {
            self.entry.sent(line.vacancy(now));
            (line.company(now), line.moment(now))
        });
        let parent_watch = company.parent_watch.then(|| session.watch_existence(internals.path()));
        let list = company.list.then(|| session.list(internals.path()));
        // `join3` polls in this order, and the first poll sends: the list shows our node already.
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
                // Without the watch, the next one lists, too.
                if let Some(Ok((true, watch))) = parent_watch {
                    at = self.line.parent_watched(watch, at.on);
                }
                // Whatever kept the list away, a missing right or a lost connection, shows in the next one.
                Ok(self.created(children.and_then(Result::ok), at))
            }
        }
    }

    async fn make_parents(&mut self) -> Result<Event> {
        if std::mem::replace(&mut self.has_made_parents, true) {
            // Somebody removes them as often as they are made.
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

    /// Whether the session of our node is known to live.
    fn is_valid(&self) -> bool {
        self.session().is_some_and(|session| session.validity().is_valid())
    }

    /// Whether a grant can be handed out. A session that is in doubt is asked about once: over a slow connection it may
    /// be in doubt again by the answer.
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

    /// Lists the queue and, if that is wanted, has the session confirmed.
    async fn list(&mut self, confirm: bool) -> Result<Event> {
        self.ready().await;
        let session = self.own_session()?;
        let at = self.line.moment();
        let list = self.internals.list(session);
        let listed = if !confirm {
            list.await
        } else {
            // Sent together, it takes no time.
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

    /// Watches what is to be watched, our own node first.
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
            // Set earlier, it may have told meanwhile; if not, it says nothing of this connection.
            None if self.own_sight() == Sight::There => Sight::Unwatched,
            None | Some(Ok(())) => self.own_sight(),
            Some(Err(zk::Error::NoNode)) => Sight::Gone,
            Some(Err(source)) => return Err(cannot_watch(self.node_path().unwrap_or_default(), source)),
        };
        self.waits();
        Ok(Event::Watched { own, blocker, on })
    }

    /// Watches our node, unless it is watched already, and returns how it was seen.
    ///
    /// # Cancel safety
    /// It may be watched.
    pub(crate) async fn watch_own(&mut self) -> Result<Sight> {
        let watched = self.own_sight();
        if matches!(watched, Sight::There | Sight::Gone) {
            return Ok(watched);
        }
        self.ready().await;
        let Some(node) = &mut self.node else { return Ok(Sight::Gone) };
        let seen = match node.watch().await {
            Ok(()) => Ok(self.own_sight()),
            // Who may not read a node hears nothing of its end.
            Err(zk::Error::NoAuth) => match node.session().stat(&node.path()).await {
                Ok(stat) => Ok(stat.map_or(Sight::Gone, |_| Sight::Unwatched)),
                Err(source) => Err(source),
            },
            Err(zk::Error::NoNode) => Ok(Sight::Gone),
            Err(source) => Err(source),
        };
        seen.map_err(|source| cannot_watch(self.node_path().unwrap_or_default(), source))
    }

    /// Waits until the watch on our node has told something; for ever if there is none.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn own_changed(&mut self) {
        match self.node.as_mut().and_then(EphemeralNode::watcher) {
            Some(watcher) => drop(watcher.changed().await),
            None => pending().await,
        }
    }

    /// Waits until our node is known to be gone; for ever if that cannot be told.
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

    /// Waits for a watch, or for the line.
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
            // If no watch tells.
            () = session.ended() => {}
            Some(()) = OptionFuture::from(following) => {}
        }
        let blocker = self.blocker.as_mut().map_or(Sight::Unwatched, BlockerWatch::sight);
        let own = self.own_sight();
        // What has told is not to wake us again, unless that is the end of it.
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
