//! Limits how many contenders of one client are on their way into or out of a queue. Further callers wait here, in
//! order, and cost the servers nothing.
//!
//! Without a limit, callers that give up sooner than the servers answer would fill the queue with abandoned nodes,
//! each of which has to be created, deleted, and listed by all others. An abandoned place is also kept for a moment if
//! the client has another contender, since callers that give up mostly come back. Without that, a few clients with a few
//! callers each could keep the servers so busy that no caller had the lock before it gave up.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::caller::Caller;
use crate::client::{Client, NodeForm};

/// The maximum number of creates and deletes in progress. Fewer would slow down callers that stay. More would not
/// make them faster, and would keep the servers busy for longer when callers give up. The figures are in
/// `BENCHMARKS.md`.
const MOST: usize = 64;

/// Abandoned places are kept if the client has at least this many contenders, the one that gives up included. The
/// place of a lone caller goes at once: no one else of its client is likely to come for it.
const COMPANY: usize = 2;

/// How long a place is kept. If it is the first of the queue, others wait for that time.
const MOMENT: Duration = Duration::from_millis(2);

/// If no contender on its way has arrived or left for this long, they are no longer waited for: possibly no one
/// polls them.
const STANDSTILL: Duration = Duration::from_secs(1);

/// The admission to one queue for one client.
///
/// While its lock is held, nothing is sent, and nothing is dropped that takes the lock again.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    state: Mutex<State>,
    /// Cloned for each occupied place.
    seats: Arc<()>,
}

/// The place of a caller that has given up. Only who hands it on and who takes it over knows what it is.
pub(super) type Handed = Box<dyn Any + Send>;

/// Abandoned places, each with the time until which it is kept. The task that expires them owns them.
type Kept = Mutex<VecDeque<(Instant, NodeForm, Handed)>>;

#[derive(Debug, Default)]
struct State {
    on_the_way: usize,
    /// Counts how often the contenders on their way were written off.
    round: u64,
    /// Counts the contenders of the current round that have arrived or left, and the write-offs: it shows whether
    /// anything has moved.
    ended: u64,
    /// Counts the contenders that have entered the queue.
    arrived: u64,
    /// Counts the callers that had to wait.
    callers: u64,
    /// The waiting callers, by their numbers.
    waiting: BTreeMap<u64, Waiter>,
    kept: Weak<Kept>,
}

#[derive(Debug)]
struct Waiter {
    form: NodeForm,
    /// Whether the caller can take over a place.
    takes: bool,
    pass: oneshot::Sender<Pass<Handed>>,
}

/// What a caller that wants to queue gets.
#[derive(Debug)]
pub(crate) enum Pass<P> {
    /// The permission to create a node.
    Enter(OnTheWay),
    /// The place of a caller that has given up.
    TakeOver(P),
}

/// Counts one contender as on its way until this is dropped.
#[derive(Debug)]
pub(crate) struct OnTheWay {
    // Not the queue itself, which would keep the client from being dropped.
    admission: Arc<Admission>,
    round: u64,
}

/// A waiting caller. Dropping it ends the wait. If others have entered the queue meanwhile, the caller counts as having
/// reached the queue: then it has waited for them, not for the servers.
struct Waiting<'a> {
    admission: &'a Admission,
    number: u64,
    caller: &'a Caller,
    arrived_before: u64,
}

impl Admission {
    /// Waits until this caller may enter the queue, or receives the place of another caller if it may wait.
    ///
    /// # Cancel safety
    /// The caller no longer waits, and nothing is lost.
    pub(super) async fn admit(self: &Arc<Self>, form: &NodeForm, caller: &Caller) -> Pass<Handed> {
        let takes = caller.may_wait();
        if !takes {
            // This caller must not find abandoned contenders ahead of it.
            drop(self.take_all_kept());
        } else if let Some(place) = self.take_kept(form) {
            return Pass::TakeOver(place);
        }
        loop {
            let (waiting, mut given) = {
                let mut state = self.state.lock();
                if state.on_the_way < MOST && state.waiting.is_empty() {
                    return Pass::Enter(self.on_the_way(&mut state));
                }
                let (pass, given) = oneshot::channel();
                state.callers += 1;
                let number = state.callers;
                state.waiting.insert(number, Waiter { form: form.clone(), takes, pass });
                (Waiting { admission: self, number, caller, arrived_before: state.arrived }, given)
            };
            let given = loop {
                let ended = self.state.lock().ended;
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

    /// Stops counting those on their way, if none of them has moved since `ended` was read, and admits as many
    /// others.
    fn write_off(self: &Arc<Self>, ended: u64) {
        let next: Vec<_> = {
            let mut state = self.state.lock();
            if state.ended != ended {
                return;
            }
            state.ended += 1;
            state.round += 1;
            state.on_the_way = 0;
            let next = std::iter::from_fn(|| state.waiting.pop_first()).take(MOST).collect::<Vec<_>>();
            next.into_iter().map(|(_, waiter)| (waiter, self.on_the_way(&mut state))).collect()
        };
        tracing::debug!("no contender has entered or left a queue for {STANDSTILL:?}");
        for (waiter, on_the_way) in next {
            // A caller that has gone drops it, as in the drop of `OnTheWay`.
            let _ = waiter.pass.send(Pass::Enter(on_the_way));
        }
    }

    /// Waits until a caller that takes over no place may enter the queue.
    pub(super) async fn enter(self: &Arc<Self>, form: &NodeForm) -> OnTheWay {
        loop {
            if let Pass::Enter(on_the_way) = self.admit(form, &Caller::asking()).await {
                return on_the_way;
            }
        }
    }

    /// Records that a contender has entered the queue.
    pub(super) fn arrived(&self) {
        self.state.lock().arrived += 1;
    }

    /// Hands a place to the first caller that waits for one of this form; returns it if there is none.
    pub(super) fn offer(&self, form: &NodeForm, mut place: Handed) -> Option<Handed> {
        loop {
            let taker = {
                let mut state = self.state.lock();
                let mut waiting = state.waiting.iter();
                let first = waiting.find(|(_, waiter)| waiter.takes && waiter.form == *form);
                let first = first.map(|(number, _)| *number);
                first.and_then(|number| state.waiting.remove(&number))
            };
            let Some(taker) = taker else { return Some(place) };
            match taker.pass.send(Pass::TakeOver(place)) {
                // That caller has gone meanwhile.
                Err(Pass::TakeOver(unwanted)) => place = unwanted,
                Err(Pass::Enter(_)) | Ok(()) => return None,
            }
        }
    }

    /// Keeps a place for a moment if the client has other contenders; otherwise returns it.
    pub(super) fn keep(&self, client: &Client, form: &NodeForm, place: Handed) -> Option<Handed> {
        let (kept, is_new) = {
            let mut state = self.state.lock();
            // The one that gives up counts twice, since its place is about to change seats.
            if self.occupied() - 1 < COMPANY {
                return Some(place);
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
            let mut places = kept.lock();
            if places.len() >= MOST {
                return Some(place);
            }
            places.push_back((Instant::now() + MOMENT, form.clone(), place));
        }
        if is_new {
            client.spawn(look_after(kept));
        }
        None
    }

    /// Takes the first kept place of this form.
    fn take_kept(&self, form: &NodeForm) -> Option<Handed> {
        let kept = self.state.lock().kept.upgrade()?;
        let mut places = kept.lock();
        let first = places.iter().position(|(_, kept, _)| kept == form)?;
        places.remove(first).map(|(_, _, place)| place)
    }

    /// Takes all kept places.
    fn take_all_kept(&self) -> VecDeque<(Instant, NodeForm, Handed)> {
        let kept = self.state.lock().kept.upgrade();
        kept.map_or_else(VecDeque::new, |kept| std::mem::take(&mut *kept.lock()))
    }

    /// Whether anyone of this client waits in the queue, or is on its way into it.
    pub(super) fn has_callers(&self) -> bool {
        self.occupied() > 0 || !self.state.lock().waiting.is_empty()
    }

    /// Returns what counts one place as occupied until it is dropped.
    pub(super) fn seat(&self) -> Arc<()> {
        self.seats.clone()
    }

    fn occupied(&self) -> usize {
        Arc::strong_count(&self.seats) - 1
    }
}

impl OnTheWay {
    /// Counts a contender that leaves, which is admitted in any case.
    pub(super) fn leaving(admission: &Arc<Admission>) -> Self {
        admission.on_the_way(&mut admission.state.lock())
    }
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        let next = {
            let mut state = self.admission.state.lock();
            if self.round != state.round {
                return;
            }
            state.ended += 1;
            state.on_the_way -= 1;
            let next = if state.on_the_way < MOST { state.waiting.pop_first() } else { None };
            next.map(|(_, waiter)| (waiter, self.admission.on_the_way(&mut state)))
        };
        if let Some((waiter, on_the_way)) = next {
            // If the caller has gone meanwhile, this is dropped, and it is the turn of the next one.
            let _ = waiter.pass.send(Pass::Enter(on_the_way));
        }
    }
}

/// Expires the kept places that no caller has taken, until there is none.
async fn look_after(kept: Arc<Kept>) {
    loop {
        let Some(next) = kept.lock().front().map(|(end, ..)| *end) else { return };
        sleep_until(next).await;
        let over = {
            let mut places = kept.lock();
            if places.front().is_some_and(|(end, ..)| *end <= Instant::now()) {
                places.pop_front()
            } else {
                None
            }
        };
        drop(over);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.admission.state.lock();
        if state.arrived != self.arrived_before {
            self.caller.reached();
        }
        let waiter = state.waiting.remove(&self.number);
        drop(state);
        drop(waiter);
    }
}
