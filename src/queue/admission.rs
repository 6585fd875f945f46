//! How many contenders of one client are on their way into or out of a queue. Further ones wait here, in order, and cost
//! the servers nothing.
//!
//! Without a bound, callers that give up sooner than the servers answer fill the queue with nodes that nobody wants any
//! more, each of which has to be created and deleted, and listed by all others. And in a crowd, a place that is given up
//! is kept for a moment: whoever gives up mostly comes back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::seat::Seat;
use crate::client::NodeForm;

/// Creates and deletes that are under way at a time. Fewer would slow down callers that stay; more would not make them
/// faster, and keep the servers busy for longer when they give up. The figures are in `BENCHMARKS.md`.
const MOST: usize = 64;

/// From so many contenders of this client on, places are kept.
const CROWD: usize = 8;

/// For how long. Others wait for a place that is kept, if it is the first.
const MOMENT: Duration = Duration::from_millis(2);

/// Of one queue and one client.
#[derive(Debug, Default)]
pub(crate) struct Admission(Mutex<State>);

/// Places that nobody has, each with the end of its moment. The task that looks after them owns them.
type Kept = Mutex<VecDeque<(Instant, Seat)>>;

#[derive(Debug, Default)]
struct State {
    on_the_way: usize,
    arrivals: u64,
    /// By the number of their arrival.
    waiting: BTreeMap<u64, Waiter>,
    seats: usize,
    kept: Weak<Kept>,
}

#[derive(Debug)]
struct Waiter {
    form: NodeForm,
    /// Whether it takes over.
    takes: bool,
    pass: oneshot::Sender<Pass>,
}

/// What a caller that wants to queue is given.
#[derive(Debug)]
pub(crate) enum Pass {
    /// It may create a node.
    Enter(OnTheWay),
    /// The place of a caller that has given up.
    TakeOver(Seat),
}

/// Counts for one contender until this is dropped.
#[derive(Debug)]
pub(crate) struct OnTheWay {
    // Not the queue itself, which would keep the client from being dropped.
    admission: Arc<Admission>,
}

/// Counts for a place that somebody has, until this is dropped.
#[derive(Debug)]
pub(super) struct Seated(Arc<Admission>);

/// A caller that waits. Dropping it ends that.
struct Waiting<'a> {
    admission: &'a Admission,
    number: u64,
}

impl Admission {
    /// Waits until this caller may enter the queue, or has the place of another one.
    ///
    /// # Cancel safety
    /// The caller waits no longer, and nothing is lost.
    pub(super) async fn admit(self: &Arc<Self>, form: &NodeForm, takes: bool) -> Pass {
        if takes && let Some(seat) = self.take_kept(form) {
            return Pass::TakeOver(seat);
        }
        loop {
            let (waiting, given) = {
                let mut state = self.state();
                if state.on_the_way < MOST && state.waiting.is_empty() {
                    state.on_the_way += 1;
                    return Pass::Enter(OnTheWay { admission: self.clone() });
                }
                let (pass, given) = oneshot::channel();
                state.arrivals += 1;
                let number = state.arrivals;
                state.waiting.insert(number, Waiter { form: form.clone(), takes, pass });
                (Waiting { admission: self, number }, given)
            };
            let given = given.await;
            drop(waiting);
            if let Ok(pass) = given {
                return pass;
            }
        }
    }

    /// The same for somebody who takes no place over.
    pub(super) async fn enter(self: &Arc<Self>, form: &NodeForm) -> OnTheWay {
        loop {
            if let Pass::Enter(on_the_way) = self.admit(form, false).await {
                return on_the_way;
            }
        }
    }

    /// Whether others are to be waited for.
    pub(super) fn is_crowded(&self) -> bool {
        self.state().on_the_way >= MOST
    }

    /// Gives a place to the first caller that waits for one like it; or returns it.
    pub(super) fn offer(&self, mut seat: Seat) -> Option<Seat> {
        loop {
            let taker = {
                let mut state = self.state();
                let mut waiting = state.waiting.iter();
                let first = waiting.find(|(_, waiter)| waiter.takes && waiter.form == *seat.form());
                let first = first.map(|(number, _)| *number);
                first.and_then(|number| state.waiting.remove(&number))
            };
            let Some(taker) = taker else { return Some(seat) };
            match taker.pass.send(Pass::TakeOver(seat)) {
                // It has gone meanwhile.
                Err(Pass::TakeOver(unwanted)) => seat = unwanted,
                Err(Pass::Enter(_)) | Ok(()) => return None,
            }
        }
    }

    /// Keeps a place for a moment, in a crowd; or returns it.
    pub(super) fn keep(&self, mut seat: Seat) -> Option<Seat> {
        if !seat.may_be_kept {
            return Some(seat);
        }
        let client = seat.queue().client().clone();
        let (kept, is_new) = {
            let mut state = self.state();
            if state.seats < CROWD {
                return Some(seat);
            }
            match state.kept.upgrade() {
                Some(kept) => (kept, false),
                None => {
                    let kept = Arc::default();
                    state.kept = Arc::downgrade(&kept);
                    (kept, true)
                }
            }
        };
        {
            let mut seats = lock(&kept);
            if seats.len() >= MOST {
                return Some(seat);
            }
            // Only once, in whatever way its moment ends.
            seat.may_be_kept = false;
            seats.push_back((Instant::now() + MOMENT, seat));
        }
        if is_new {
            client.spawn(look_after(kept));
        }
        None
    }

    /// The first of the places like this that are kept.
    fn take_kept(&self, form: &NodeForm) -> Option<Seat> {
        let kept = self.state().kept.upgrade()?;
        let mut seats = lock(&kept);
        let first = seats.iter().position(|(_, seat)| seat.form() == form)?;
        seats.remove(first).map(|(_, seat)| seat)
    }

    /// Somebody has a place.
    pub(super) fn seated(self: &Arc<Self>) -> Seated {
        self.state().seats += 1;
        Seated(self.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl OnTheWay {
    /// For a contender that leaves, which nobody can forbid.
    pub(super) fn leaving(admission: &Arc<Admission>) -> Self {
        admission.state().on_the_way += 1;
        Self { admission: admission.clone() }
    }
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        let next = {
            let mut state = self.admission.state();
            let next = if state.on_the_way > MOST { None } else { state.waiting.pop_first() };
            if next.is_none() {
                state.on_the_way -= 1;
            }
            next
        };
        if let Some((_, waiter)) = next {
            // If the caller has gone meanwhile, this is dropped, and it is the turn of the one behind.
            let _ = waiter.pass.send(Pass::Enter(Self { admission: self.admission.clone() }));
        }
    }
}

/// Gives up the places that nobody has wanted for a moment, until there is none.
async fn look_after(kept: Arc<Kept>) {
    loop {
        let Some(next) = lock(&kept).front().map(|(end, _)| *end) else { return };
        sleep_until(next).await;
        let over = {
            let mut seats = lock(&kept);
            if seats.front().is_some_and(|(end, _)| *end <= Instant::now()) {
                seats.pop_front()
            } else {
                None
            }
        };
        drop(over);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that can panic runs under these locks, and nothing is sent or dropped that takes them again.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waiter = self.admission.state().waiting.remove(&self.number);
        drop(waiter);
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        self.0.state().seats -= 1;
    }
}
