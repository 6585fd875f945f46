//! How many contenders of one client are on their way into or out of a queue. Further ones wait here, in order, and cost
//! the servers nothing.
//!
//! Without a bound, callers that give up sooner than the servers answer fill the queue with nodes that nobody wants any
//! more, each of which has to be created and deleted, and listed by all others. And in a crowd, a place that is given up
//! is kept for a moment: callers that give up mostly come back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::caller::Caller;
use super::seat::Seat;
use crate::client::NodeForm;

/// Creates and deletes that are under way at a time. Fewer would slow down callers that stay; more would not make them
/// faster, and keep the servers busy for longer when they give up. The figures are in `BENCHMARKS.md`.
const MOST: usize = 64;

/// From so many contenders of this client on, places are kept.
const CROWD: usize = 8;

/// For how long a place is kept. Others wait for it meanwhile, if it is the first.
const MOMENT: Duration = Duration::from_millis(2);

/// If none of those on the way has come anywhere for so long, they are waited for no more: nobody may be polling them.
const STANDSTILL: Duration = Duration::from_secs(1);

/// Of one queue and one client.
#[derive(Debug, Default)]
pub(crate) struct Admission(Mutex<State>);

/// Places that nobody has, each with the end of its moment. The task that looks after them owns them.
type Kept = Mutex<VecDeque<(Instant, Seat)>>;

#[derive(Debug, Default)]
struct State {
    on_the_way: usize,
    /// Counts how often those on the way were written off.
    round: u64,
    /// Counts those of this round that were on the way.
    ended: u64,
    /// Counts those that have got into the queue.
    arrived: u64,
    /// Counts the callers that had to wait.
    callers: u64,
    /// By their numbers.
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
    round: u64,
}

/// Counts for a place that somebody has, until this is dropped.
#[derive(Debug)]
pub(super) struct Seated(Arc<Admission>);

/// A caller that waits. Dropping it ends that.
struct Waiting<'a> {
    admission: &'a Admission,
    number: u64,
}

/// When this is dropped, the caller counts as one that has reached the queue if others have meanwhile: then it has waited
/// for them, and not for the servers.
pub(super) struct Arrivals<'a> {
    admission: &'a Admission,
    caller: &'a Caller,
    before: u64,
}

impl Admission {
    /// Waits until this caller may enter the queue, or has the place of another one.
    ///
    /// # Cancel safety
    /// The caller waits no longer, and nothing is lost.
    pub(super) async fn admit(self: &Arc<Self>, form: &NodeForm, takes: bool) -> Pass {
        if !takes {
            // It is not to find anybody before it that is nobody.
            drop(self.take_all_kept());
        } else if let Some(seat) = self.take_kept(form) {
            return Pass::TakeOver(seat);
        }
        loop {
            let (waiting, mut given) = {
                let mut state = self.state();
                if state.on_the_way < MOST && state.waiting.is_empty() {
                    return Pass::Enter(self.on_the_way(&mut state));
                }
                let (pass, given) = oneshot::channel();
                state.callers += 1;
                let number = state.callers;
                state.waiting.insert(number, Waiter { form: form.clone(), takes, pass });
                (Waiting { admission: self, number }, given)
            };
            let given = loop {
                let ended = self.state().ended;
                match timeout(STANDSTILL, &mut given).await {
                    Ok(given) => break given,
                    Err(_) => self.write_off(ended),
                }
            };
            drop(waiting);
            if let Ok(pass) = given {
                return pass;
            }
        }
    }

    fn on_the_way(self: &Arc<Self>, state: &mut State) -> OnTheWay {
        state.on_the_way += 1;
        OnTheWay { admission: self.clone(), round: state.round }
    }

    /// Counts those on the way no more, if none of them has come anywhere since so many had, and lets in as many others.
    fn write_off(self: &Arc<Self>, ended: u64) {
        let next: Vec<_> = {
            let mut state = self.state();
            if state.ended != ended {
                return;
            }
            state.ended += 1;
            state.round += 1;
            state.on_the_way = 0;
            let next = std::iter::from_fn(|| state.waiting.pop_first()).take(MOST).collect::<Vec<_>>();
            next.into_iter().map(|(_, waiter)| (waiter, self.on_the_way(&mut state))).collect()
        };
        tracing::debug!("nobody has come into or out of a queue for {STANDSTILL:?}");
        for (waiter, on_the_way) in next {
            // As in the drop of `OnTheWay`.
            let _ = waiter.pass.send(Pass::Enter(on_the_way));
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

    /// Somebody has got into the queue.
    pub(super) fn arrived(&self) {
        self.state().arrived += 1;
    }

    /// For a caller that waits for others.
    pub(super) fn arrivals_for<'a>(&'a self, caller: &'a Caller) -> Arrivals<'a> {
        Arrivals { admission: self, caller, before: self.state().arrived }
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
            let mut seats = kept.lock();
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
        let mut seats = kept.lock();
        let first = seats.iter().position(|(_, seat)| seat.form() == form)?;
        seats.remove(first).map(|(_, seat)| seat)
    }

    /// All of them.
    fn take_all_kept(&self) -> VecDeque<(Instant, Seat)> {
        let kept = self.state().kept.upgrade();
        kept.map_or_else(VecDeque::new, |kept| std::mem::take(&mut *kept.lock()))
    }

    /// Somebody has a place.
    pub(super) fn seated(self: &Arc<Self>) -> Seated {
        self.state().seats += 1;
        Seated(self.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl OnTheWay {
    /// For a contender that leaves, which nobody can forbid.
    pub(super) fn leaving(admission: &Arc<Admission>) -> Self {
        admission.on_the_way(&mut admission.state())
    }
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        let next = {
            let mut state = self.admission.state();
            if self.round != state.round {
                return;
            }
            state.ended += 1;
            state.on_the_way -= 1;
            let next = if state.on_the_way < MOST { state.waiting.pop_first() } else { None };
            next.map(|(_, waiter)| (waiter, self.admission.on_the_way(&mut state)))
        };
        if let Some((waiter, on_the_way)) = next {
            // If the caller has gone meanwhile, this is dropped, and it is the turn of the one behind.
            let _ = waiter.pass.send(Pass::Enter(on_the_way));
        }
    }
}

/// Gives up the places that nobody has wanted for a moment, until there is none.
async fn look_after(kept: Arc<Kept>) {
    loop {
        let Some(next) = kept.lock().front().map(|(end, _)| *end) else { return };
        sleep_until(next).await;
        let over = {
            let mut seats = kept.lock();
            if seats.front().is_some_and(|(end, _)| *end <= Instant::now()) {
                seats.pop_front()
            } else {
                None
            }
        };
        drop(over);
    }
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

impl Drop for Arrivals<'_> {
    fn drop(&mut self) {
        if self.admission.state().arrived != self.before {
            self.caller.reached();
        }
    }
}
