//! A place in a queue that may change hands, with whatever is under way for it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::admission::{OnTheWay, Pass, Seated};
use super::caller::Caller;
use super::grant::Grant;
use super::internals::LockInternals;
use super::permits::Passage;
use super::place::Place;
use crate::client::{NodeForm, Session};
use crate::error::Result;

/// A contender for one caller. Dropping it leaves the queue, or gives the place to another caller of the client: those
/// behind it wait no longer than if the first one had stayed.
#[derive(Debug)]
pub(crate) struct Seat {
    queue: Arc<LockInternals>,
    form: NodeForm,
    state: State,
    /// For whom it is entered.
    caller: Caller,
    /// What was known of the place when it was last at rest.
    known: Option<Known>,
    pub(super) may_be_kept: bool,
    /// Whether it is that of a ticket, which is for one caller.
    is_reserved: bool,
    _counted: Seated,
}

enum State {
    /// Nothing is under way.
    Resting(Box<Place>),
    /// It is to be told where it stands. Another caller goes on with that, so that no answer is lost: callers may give up
    /// sooner than the servers answer.
    Moving { moving: Moving, leave: oneshot::Sender<()> },
    /// It was left, or there is none.
    Gone,
}

/// Ends without a place if it was told to leave.
type Moving = Pin<Box<dyn Future<Output = Result<Option<Box<Place>>>> + Send + Sync>>;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Wait until the contender before it is gone or changed, and look again.
    Wait,
    Look,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    position: usize,
    czxid: Option<i64>,
}

impl Seat {
    /// Enters a queue as soon as that is the caller's turn, or takes over a place in it. The caller is told where it
    /// stands when this returns, or has to wait for that.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub(crate) async fn take(queue: &Arc<LockInternals>, form: NodeForm, caller: Caller) -> Result<Self> {
        match Self::pass(queue, &form, &caller).await? {
            Pass::TakeOver(seat) => Ok(seat),
            Pass::Enter(on_the_way) => {
                let session = queue.client().session_under_policy().await?;
                Self::enter(queue, session, form, caller, on_the_way).await
            }
        }
    }

    /// Waits until a caller may enter the queue, or can take over a place in it.
    ///
    /// # Cancel safety
    /// The caller waits no longer.
    pub(crate) async fn pass(queue: &LockInternals, form: &NodeForm, caller: &Caller) -> Result<Pass> {
        let passing = async {
            let mut pass = {
                let _arrivals = queue.admission().arrivals_for(caller);
                queue.admission().admit(form, caller.may_wait()).await
            };
            if let Pass::TakeOver(seat) = &mut pass {
                seat.may_be_kept = true;
                if seat.known.is_none() {
                    // Whether it ever gets into the queue is up to the servers.
                    seat.arrive().await?;
                    caller.reached();
                } else {
                    caller.reached();
                    if seat.place().is_some() {
                        // Nobody has looked after it since.
                        seat.look().await?;
                    }
                }
            }
            Ok(pass)
        };
        tokio::select! {
            biased;
            pass = passing => pass,
            // In an outage, a caller is not to wait for others to be told of it.
            error = queue.client().outage() => Err(error),
        }
    }

    /// Enters a queue. The place has been told where it stands when this returns. The requests are sent at the first
    /// poll, on the session given.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    pub(crate) async fn enter(
        queue: &Arc<LockInternals>,
        session: Arc<Session>,
        form: NodeForm,
        caller: Caller,
        on_the_way: OnTheWay,
    ) -> Result<Self> {
        let entering = {
            let (queue, form, caller) = (queue.clone(), form.clone(), caller.clone());
            async move {
                let place = Place::enter(&queue, session, form, caller).await;
                drop(on_the_way);
                place.map(|place| Some(Box::new(place)))
            }
        };
        let _counted = queue.admission().seated();
        // To leave, it is seen through.
        let (leave, _) = oneshot::channel();
        let state = State::Moving { moving: Box::pin(entering), leave };
        let mut seat = Self {
            queue: queue.clone(),
            form,
            state,
            caller,
            known: None,
            may_be_kept: true,
            is_reserved: false,
            _counted,
        };
        seat.arrive().await?;
        Ok(seat)
    }

    /// Waits until the contender before it is gone or changed, and looks again.
    ///
    /// # Cancel safety
    /// Nothing is lost: the next call goes on from there.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        self.go_on(Step::Wait).await
    }

    /// Looks where it stands, and enters the queue again if its node or its session is gone.
    ///
    /// # Cancel safety
    /// As [`wait`](Self::wait).
    pub(crate) async fn look(&mut self) -> Result<()> {
        self.go_on(Step::Look).await
    }

    /// Goes on with what is under way, or takes that step.
    async fn go_on(&mut self, step: Step) -> Result<()> {
        self.state = match std::mem::replace(&mut self.state, State::Gone) {
            State::Resting(place) => {
                let (leave, leaving) = oneshot::channel();
                State::Moving { moving: Box::pin(take(step, place, leaving)), leave }
            }
            state => state,
        };
        self.arrive().await
    }

    /// Waits until nothing is under way.
    ///
    /// # Cancel safety
    /// As [`wait`](Self::wait).
    pub(crate) async fn arrive(&mut self) -> Result<()> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        // If it panics, it is gone, and no other caller polls it again.
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Moving { mut moving, leave } => {
                // Another caller may go on with it when the runtime of this one has ended.
                let Poll::Ready(moved) = self.queue.client().poll_at_home(moving.as_mut(), context) else {
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
    }

    /// The place, if nothing is under way.
    pub(crate) fn place(&self) -> Option<&Place> {
        match &self.state {
            State::Resting(place) => Some(place),
            State::Moving { .. } | State::Gone => None,
        }
    }

    /// As [`place`](Self::place).
    pub(crate) fn place_mut(&mut self) -> Option<&mut Place> {
        match &mut self.state {
            State::Resting(place) => Some(place),
            State::Moving { .. } | State::Gone => None,
        }
    }

    pub(crate) fn is_granted(&self) -> bool {
        self.place().is_some_and(|place| place.is_granted())
    }

    /// How it was granted, if it was.
    pub(crate) fn passage(&self) -> Option<Passage> {
        self.place().and_then(|place| place.passage())
    }

    /// The grant, if there is one. What is left then is nothing.
    pub(crate) fn take_grant(&mut self) -> Option<Grant> {
        self.place_mut()?.take_grant()
    }

    /// How many contenders were before it when it was last told.
    pub(crate) fn position(&self) -> usize {
        self.known.map_or(0, |known| known.position)
    }

    /// The transaction that created the node that stands in the queue, or stood there when it was last told.
    pub(crate) fn czxid(&self) -> Option<i64> {
        self.known.and_then(|known| known.czxid)
    }

    /// From now on, it is for one caller, who may not poll it for long. See [`Place::may_idle`].
    pub(crate) fn reserve(&mut self) {
        self.is_reserved = true;
        if let Some(place) = self.place_mut() {
            place.may_idle();
        }
    }

    pub(super) fn form(&self) -> &NodeForm {
        &self.form
    }

    pub(super) fn queue(&self) -> &Arc<LockInternals> {
        &self.queue
    }

    /// Leaves the queue, and waits for the confirmation.
    ///
    /// # Cancel safety
    /// The place is left in any case, in the background if this is cancelled.
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

    /// Gives the place to a caller that waits for one or, in a crowd, comes soon. Returns whether it did.
    fn is_given_away(&mut self) -> bool {
        match &self.state {
            _ if self.is_reserved => return false,
            // The grant of a caller that has given up is for those behind it, of whatever client.
            State::Resting(place) if place.is_granted() || place.is_idle() || place.node_name().is_none() => {
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
            may_be_kept: self.may_be_kept,
            is_reserved: false,
            _counted: self.queue.admission().seated(),
        };
        let admission = self.queue.admission();
        match admission.offer(seat).and_then(|seat| admission.keep(seat)) {
            Some(mut unwanted) => {
                std::mem::swap(&mut self.state, &mut unwanted.state);
                false
            }
            None => true,
        }
    }

    /// Leaves the queue. A create under way is seen through: then its node is known by name, and need not be looked for.
    fn end(&mut self) {
        if let State::Moving { moving, .. } = std::mem::replace(&mut self.state, State::Gone)
            && self.known.is_none()
        {
            self.caller.goes();
            self.queue.client().finish(moving);
        }
    }
}

/// Takes a step, unless it is told to leave.
async fn take(
    step: Step,
    mut place: Box<Place>,
    leaving: oneshot::Receiver<()>,
) -> Result<Option<Box<Place>>> {
    let told = {
        let step = async {
            match step {
                Step::Wait => place.wait().await,
                Step::Look => place.look().await,
            }
        };
        tokio::select! {
            biased;
            told = step => Some(told),
            Ok(()) = leaving => None,
        }
    };
    match told {
        Some(told) => told.map(|()| Some(place)),
        // On the heap, since few do.
        None => Box::pin(place.leave()).await.map(|()| None),
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.is_given_away() {
            self.end();
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
