//! A place in a queue: drives a contender over a session.

mod drive;
mod new_queue;
mod own_node;
mod requests;

use std::sync::Arc;

use tokio::sync::Notify;

use super::admission::OnTheWay;
use super::blocker::BlockerWatch;
use super::caller::Caller;
use super::grant::Grant;
use super::internals::LockInternals;
use super::losses::Losses;
use super::pure::connection::Connection;
use super::pure::contender::{Action, Contender, Standing};
use super::pure::local_queue::Moment;
use super::pure::permits::{Entry, Passage};
use super::shared_local_queue::{Guess, LocalSlot, SharedLocalQueue};
use crate::client::{EphemeralNode, Failures, NodeForm, Session};
use crate::error::Result;
use crate::watch::Watched;

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
    local: Arc<SharedLocalQueue>,
    node: Option<EphemeralNode>,
    /// The slot of our node in the local queue, if the node is known to exist.
    slot: Option<LocalSlot>,
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
    way: Way,
    /// Whether the servers have refused to create the queue along with the node.
    cannot_create_queue: bool,
    /// Whether it has waited in its queue.
    has_waited: bool,
    /// Receives the number of contenders ahead of us.
    positions: Option<Watched<usize>>,
    caller: Caller,
}

/// How the next create is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// As the queue is likely to be.
    Forecast,
    /// Into a queue that exists.
    Enter,
    /// Along with the queue and its ancestors.
    WithQueue,
}

impl Place {
    /// Enters a queue with a node that was not sent yet, or that was created as guessed. Returns when the place knows where
    /// it stands. The requests are sent at the first poll.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub(crate) async fn enter(
        internals: Arc<LockInternals>,
        node: EphemeralNode,
        caller: Caller,
        guess: Option<Guess>,
    ) -> Result<Self> {
        let mut place = Self::new(&internals, node, caller);
        let action = match guess {
            None => {
                internals.ensure_recipe()?;
                Action::Create
            }
            Some(Guess { vacancy, at, .. }) => {
                place.entry.sent(vacancy);
                let event = place.created(None, at);
                place.on(event)
            }
        };
        place.drive(action).await?;
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
        children: Option<Vec<String>>,
        at: Moment,
    ) -> Result<Self> {
        let mut place = Self::new(internals, node, Caller::asking());
        place.returns = false;
        if let (Some(session), Some(children)) = (place.session(), &children) {
            internals.ensure_no_semaphore(session, children).await?;
        }
        let event = place.created(children, at);
        let action = place.on(event);
        place.drive(action).await?;
        Ok(place)
    }

    fn new(internals: &Arc<LockInternals>, node: EphemeralNode, caller: Caller) -> Self {
        Self {
            internals: internals.clone(),
            form: node.form().clone(),
            returns: true,
            entry: Entry::default(),
            passage: None,
            contender: internals.contender(),
            local: internals.local_queue(node.session()),
            node: Some(node),
            slot: None,
            blocker: None,
            wake: Arc::default(),
            failures: Failures::default(),
            losses: Losses::default(),
            has_made_parents: false,
            way: Way::Forecast,
            cannot_create_queue: false,
            has_waited: false,
            positions: None,
            caller,
        }
    }

    /// Returns how many contenders were ahead at the last look at the queue.
    pub(crate) fn position(&self) -> usize {
        self.contender.position()
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
    pub(crate) fn publish_position(&mut self, positions: Watched<usize>) {
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
        self.local.connection()
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

    /// Looks where it stands, and re-enters the queue if its node or its session is gone.
    ///
    /// # Cancel safety
    /// If cancelled, the place must be dropped.
    pub(crate) async fn look(&mut self) -> Result<()> {
        self.drive(Action::List).await
    }

    /// Returns the action that begins a wait until the contender ahead of us is gone or changed, and another look.
    pub(crate) fn park(&self) -> Action {
        self.contender.park(self.local.connection())
    }

    /// Waits until the contender ahead of us is gone or changed, and looks again.
    ///
    /// # Cancel safety
    /// If cancelled, the place must be dropped.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        self.drive(self.park()).await
    }

    /// Returns our slot in the local queue, if our node is known to exist.
    pub(crate) fn slot(&self) -> Option<&LocalSlot> {
        self.slot.as_ref()
    }

    /// Takes the grant, if there is one. The place is empty afterwards.
    pub(crate) fn take_grant(&mut self) -> Option<Grant> {
        if !self.is_granted() {
            return None;
        }
        let czxid = self.node.as_ref()?.czxid()?;
        Some(Grant { slot: self.slot.take(), node: self.node.take()?, czxid })
    }

    /// From now on, our node may stay until the next write of the session, but not for long.
    pub(crate) fn may_stay_a_moment(&mut self) {
        self.node.iter_mut().for_each(EphemeralNode::may_stay_a_moment);
    }

    /// Leaves the queue, and waits for the confirmation.
    ///
    /// # Cancel safety
    /// The place is left in any case; in the background if this is cancelled.
    pub(crate) async fn leave(mut self) -> Result<()> {
        match self.take_out() {
            Some((node, slot)) => node.remove(slot).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Takes what must be removed, in this order. It counts as under way until it is gone.
    fn take_out(&mut self) -> Option<(EphemeralNode, Option<LocalSlot>)> {
        let mut node = self.node.take()?;
        node.keep_until_gone(OnTheWay::leaving(self.internals.admission()));
        Some((node, self.slot.take()))
    }

    /// Returns the session of our node.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.node.as_ref().map(EphemeralNode::session)
    }

    /// Waits until the session of our node takes requests, for as long as one attempt does.
    async fn ready(&self) {
        if let Some(session) = self.session() {
            self.internals.client().ready(session).await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.take_out());
    }
}
