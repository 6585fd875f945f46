//! A place in a queue that can pass from one caller to another, together with the operation in progress on it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::oneshot;

use super::admission::{Handed, OnTheWay, Pass};
use super::caller::Caller;
use super::grant::Grant;
use super::internals::LockInternals;
use super::place::Place;
use super::pure::contender::Action;
use super::pure::permits::Passage;
use super::shared_local_queue::Guess;
use crate::client::{EphemeralNode, NodeForm};
use crate::error::Result;
use crate::watch::Watched;

/// The contender of one caller. Dropping it leaves the queue or hands the place over to another caller of the
/// client. Contenders behind it do not wait longer than if the first caller had stayed.
#[derive(Debug)]
pub(crate) struct Seat {
    queue: Arc<LockInternals>,
    form: NodeForm,
    state: State,
    /// The caller that the place was entered for.
    caller: Caller,
    /// What was known of the place when no operation was in progress last.
    known: Option<Known>,
    may_be_kept: bool,
    /// Whether it belongs to a ticket, which serves one caller only.
    is_reserved: bool,
    /// Counts the place as occupied.
    _counted: Arc<()>,
}

enum State {
    /// No operation is in progress.
    Resting(Box<Place>),
    /// An operation finds out where the place stands. Another caller can continue it, so that no reply is lost:
    /// callers may give up sooner than the servers answer.
    Moving { moving: Moving, leave: oneshot::Sender<()> },
    /// It was left, or there is none.
    Gone,
}

/// Yields no place if it was told to leave.
type Moving = Pin<Box<dyn Future<Output = Result<Option<Box<Place>>>> + Send + Sync>>;

#[derive(Clone, Copy, Debug)]
struct Known {
    position: usize,
    czxid: Option<i64>,
}

impl Seat {
    /// Enters a queue when it is the caller's turn to enter, or takes over a place in the queue. Returns when the
    /// caller knows where it stands, or has to wait to find out.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub(crate) async fn take(queue: &Arc<LockInternals>, form: NodeForm, caller: Caller) -> Result<Self> {
        match Self::pass(queue, &form, &caller).await? {
            Pass::TakeOver(seat) => Ok(seat),
            Pass::Enter(on_the_way) => {
                let session = queue.client().session_under_policy().await?;
                let node = EphemeralNode::new(queue.client(), session, queue.path(), form);
                Self::enter(queue, node, caller, None, Some(on_the_way)).await
            }
        }
    }

    /// Waits until a caller may enter the queue or can take over a place in it.
    ///
    /// # Cancel safety
    /// The caller no longer waits.
    pub(crate) async fn pass(queue: &LockInternals, form: &NodeForm, caller: &Caller) -> Result<Pass<Self>> {
        let passing = async {
            let mut seat = match queue.admission().admit(form, caller).await {
                Pass::Enter(on_the_way) => return Ok(Pass::Enter(on_the_way)),
                Pass::TakeOver(handed) => Self::taken_over(handed),
            };
            seat.may_be_kept = true;
            if seat.known.is_none() {
                // Whether the place gets into the queue at all depends on the servers.
                seat.arrive().await?;
                caller.reached();
            } else {
                caller.reached();
                if seat.place().is_some() {
                    // It may be out of date: no one has polled it since.
                    seat.look().await?;
                }
            }
            Ok(Pass::TakeOver(seat))
        };
        tokio::select! {
            biased;
            pass = passing => pass,
            // In an outage, a caller must not wait for others before it learns of the outage.
            error = queue.client().outage() => Err(error),
        }
    }

    /// Enters a queue with a node that was not sent yet, or that was created as guessed. Returns when the place knows where
    /// it stands. The requests are sent at the first poll.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub(crate) async fn enter(
        queue: &Arc<LockInternals>,
        node: EphemeralNode,
        caller: Caller,
        guess: Option<Guess>,
        on_the_way: Option<OnTheWay>,
    ) -> Result<Self> {
        let form = node.form().clone();
        let place = Place::enter(queue.clone(), node, caller.clone(), guess);
        let entering = async {
            let place = place.await;
            drop(on_the_way);
            place.map(|place| Some(Box::new(place)))
        };
        // This operation cannot be told to leave: it is always completed.
        let (leave, _) = oneshot::channel();
        let mut seat = Self {
            queue: queue.clone(),
            form,
            state: State::Moving { moving: Box::pin(entering), leave },
            caller,
            known: None,
            may_be_kept: true,
            is_reserved: false,
            _counted: queue.admission().seat(),
        };
        seat.arrive().await?;
        Ok(seat)
    }

    /// Waits until the contender ahead is gone or changed, and looks again.
    ///
    /// # Cancel safety
    /// Nothing is lost: the next call continues.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        self.go_on(Place::park).await
    }

    /// Looks where it stands, and re-enters the queue if its node or its session is gone.
    ///
    /// # Cancel safety
    /// Same as [`wait`](Self::wait).
    pub(crate) async fn look(&mut self) -> Result<()> {
        self.go_on(|_| Action::List).await
    }

    /// Looks where it stands, unless it has: behind another one of its client it need not.
    ///
    /// # Cancel safety
    /// Same as [`wait`](Self::wait).
    pub(crate) async fn locate(&mut self) -> Result<()> {
        if self.is_granted() || self.position() > 0 { Ok(()) } else { self.look().await }
    }

    /// Continues the operation in progress, or begins with this action.
    async fn go_on(&mut self, action: fn(&Place) -> Action) -> Result<()> {
        self.state = match std::mem::replace(&mut self.state, State::Gone) {
            State::Resting(place) => {
                let (leave, leaving) = oneshot::channel();
                let action = action(&place);
                State::Moving { moving: Box::pin(drive(place, action, leaving)), leave }
            }
            state => state,
        };
        self.arrive().await
    }

    /// Waits until no operation is in progress.
    ///
    /// # Cancel safety
    /// Same as [`wait`](Self::wait).
    pub(crate) async fn arrive(&mut self) -> Result<()> {
        poll_fn(|context| {
            // If this panics, the place is gone, and no other caller polls it again.
            match std::mem::replace(&mut self.state, State::Gone) {
                State::Moving { mut moving, leave } => {
                    // Polled on the client's runtime: another caller may continue it after the runtime of this one has
                    // ended.
                    let Poll::Ready(moved) = self.queue.client().poll_at_home(moving.as_mut(), context)
                    else {
                        self.state = State::Moving { moving, leave };
                        return Poll::Pending;
                    };
                    if let Some(place) = moved? {
                        self.known = Some(Known { position: place.position(), czxid: place.czxid() });
                        self.state = State::Resting(place);
                    }
                }
                state => self.state = state,
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Returns the place, if no operation is in progress.
    pub(crate) fn place(&self) -> Option<&Place> {
        match &self.state {
            State::Resting(place) => Some(place),
            State::Moving { .. } | State::Gone => None,
        }
    }

    /// Same as [`place`](Self::place).
    pub(crate) fn place_mut(&mut self) -> Option<&mut Place> {
        match &mut self.state {
            State::Resting(place) => Some(place),
            State::Moving { .. } | State::Gone => None,
        }
    }

    pub(crate) fn is_granted(&self) -> bool {
        self.place().is_some_and(|place| place.is_granted())
    }

    /// Returns how the place was granted; `None` if it was not.
    pub(crate) fn passage(&self) -> Option<Passage> {
        self.place().and_then(|place| place.passage())
    }

    /// Takes the grant, if there is one. The seat is empty afterwards.
    pub(crate) fn take_grant(&mut self) -> Option<Grant> {
        self.place_mut()?.take_grant()
    }

    /// Returns how many contenders were ahead at the last look.
    pub(crate) fn position(&self) -> usize {
        self.known.map_or(0, |known| known.position)
    }

    /// Reads the queue and returns how many contenders are ahead. A place that was lost counts as being behind all
    /// others.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn read_position(&self) -> Result<usize> {
        self.queue.position_of(self.place().and_then(Place::node_name)).await
    }

    /// From now on, publishes how many contenders are ahead whenever that changes while the caller waits.
    pub(crate) fn publish_position(&mut self, positions: Watched<usize>) {
        if let Some(place) = self.place_mut() {
            place.publish_position(positions);
        }
    }

    /// Returns the transaction that created the node of the place, as of the last look.
    pub(crate) fn czxid(&self) -> Option<i64> {
        self.known.and_then(|known| known.czxid)
    }

    /// From now on, the seat serves one caller, who waits in the queue even while not polling it.
    pub(crate) fn reserve(&mut self) {
        self.is_reserved = true;
        if let Some(place) = self.place_mut() {
            place.waits();
        }
    }

    /// Leaves the queue, and waits for the confirmation.
    ///
    /// # Cancel safety
    /// The place is left in any case; in the background if this is cancelled.
    pub(crate) async fn leave(mut self) -> Result<()> {
        if self.is_given_away() {
            return Ok(());
        }
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Resting(place) => place.leave().await,
            State::Moving { moving, leave } => {
                let _ = leave.send(());
                match moving.await? {
                    Some(place) => place.leave().await,
                    None => Ok(()),
                }
            }
            State::Gone => Ok(()),
        }
    }

    /// Hands the place over to a caller that waits for one, or keeps it for one that may come soon. Returns whether
    /// it did.
    fn is_given_away(&mut self) -> bool {
        match &self.state {
            _ if self.is_reserved => return false,
            // The grant of a caller that has given up goes to the contenders behind it, of any client.
            State::Resting(place) if place.is_granted() || place.node_name().is_none() => {
                return false;
            }
            State::Resting(_) | State::Moving { .. } => {}
            State::Gone => return false,
        }
        let seat = Self {
            queue: self.queue.clone(),
            form: self.form.clone(),
            state: std::mem::replace(&mut self.state, State::Gone),
            caller: self.caller.clone(),
            known: self.known,
            // A place is kept only once, however that moment ends.
            may_be_kept: false,
            is_reserved: false,
            _counted: self.queue.admission().seat(),
        };
        let admission = self.queue.admission();
        let mut unwanted = admission.offer(&self.form, Box::new(seat));
        if self.may_be_kept {
            unwanted = unwanted.and_then(|seat| admission.keep(self.queue.client(), &self.form, seat));
        }
        let Some(unwanted) = unwanted else { return true };
        std::mem::swap(&mut self.state, &mut Self::taken_over(unwanted).state);
        false
    }

    /// Returns the seat that was handed on: nothing else is.
    fn taken_over(handed: Handed) -> Self {
        *handed.downcast().expect("only seats are handed on")
    }
}

/// Carries out one action after another, unless it is told to leave.
async fn drive(
    mut place: Box<Place>,
    action: Action,
    leaving: oneshot::Receiver<()>,
) -> Result<Option<Box<Place>>> {
    let told = tokio::select! {
        biased;
        told = place.drive(action) => Some(told),
        Ok(()) = leaving => None,
    };
    match told {
        Some(told) => told.map(|()| Some(place)),
        // On the heap, since this is rare.
        None => Box::pin(place.leave()).await.map(|()| None),
    }
}

impl Drop for Seat {
    /// Leaves the queue, unless the place is given away. A create in progress is completed in the background: then its node
    /// is known by name and need not be searched for.
    fn drop(&mut self) {
        if !self.is_given_away()
            && let State::Moving { moving, .. } = std::mem::replace(&mut self.state, State::Gone)
            && self.known.is_none()
        {
            self.caller.goes();
            self.queue.client().finish(moving);
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Resting(place) => f.debug_tuple("Resting").field(place).finish(),
            Self::Moving { .. } => f.write_str("Moving"),
            Self::Gone => f.write_str("Gone"),
        }
    }
}
