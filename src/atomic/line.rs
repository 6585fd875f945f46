//! The line in which the operations of one client on one number stand, and the task that writes them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::batch::{Answer, Batch, Id, Op};
use super::number;
use super::tries::OPTIMISTIC_TRIES;
use crate::client::{ByPath, Client, Session};
use crate::error::{Error, Result};
use crate::shared::{Outcome, ValueNode, Version, pause};

pub(super) const CHANGE: &str = "change the number at";

/// For how long what was written or read last is taken to be there still. It is checked by each write, so it need not be
/// right; but the shorter this is, the less likely is a node that was deleted and created again, with the same version, in
/// between.
const REMEMBERED: Duration = Duration::from_secs(10);

/// A client that lost a race within this time lets others in now and then.
const CONTENDED: Duration = Duration::from_secs(1);
/// After this many writes in a row.
const TURN: u32 = 16;

type Lines = ByPath<(), Line>;

/// The line of all handles of a client on one number. Has no task while it is empty.
#[derive(Debug)]
pub(super) struct Line {
    /// Does not keep the client open.
    node: ValueNode,
    state: Mutex<State>,
    lines: Arc<Lines>,
}

#[derive(Debug, Default)]
struct State {
    batch: Batch,
    callers: HashMap<Id, Caller>,
    /// Whether a task carries out the operations.
    is_driven: bool,
    known: Option<Known>,
    /// Whether what was known was forgotten since the task began to read or to write: it must not be known again.
    is_forgotten: bool,
    /// How often another client was first.
    conflicts: u64,
    /// What the last task has met: an update that fails leaves none to be driven, and comes back at once.
    rivals: Rivals,
}

/// The waiter for an answer.
#[derive(Debug)]
struct Caller {
    answer: oneshot::Sender<Result<Submitted>>,
    since: Instant,
    /// From then on, other clients may be first once more, but no further time.
    timeout: Duration,
}

/// What became of an operation that was submitted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Submitted {
    Answered(Answer),
    /// It was not done. It has failed often enough to try its lock first.
    Failing,
    /// It was not done. Another one has arrived since the number was [foreseen](Foreseen).
    Overtaken,
}

/// What the number will be once all operations that have arrived are done, unless another client writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foreseen {
    pub(super) value: i64,
    /// The next operation.
    next: Id,
}

/// The number as it was written or read last.
#[derive(Clone, Copy, Debug)]
struct Known {
    value: i64,
    version: Version,
    at: Instant,
}

impl Known {
    fn is_recent(&self, now: Instant) -> bool {
        now - self.at < REMEMBERED
    }
}

impl Line {
    /// Returns the line that all handles of this client share.
    pub(super) fn of(node: &ValueNode) -> Arc<Self> {
        let lines: Arc<Lines> = node.client().extension();
        let make = || Self { node: node.detached(), state: Mutex::default(), lines: lines.clone() };
        lines.share(node.path(), (), make)
    }

    /// Returns what the number is about to be, if that is known without a request.
    pub(super) fn foresee(&self) -> Option<Foreseen> {
        let state = self.state.lock();
        let value = state.batch.foresee(state.known().map(|known| known.value))?;
        Some(Foreseen { value, next: state.batch.next_id() })
    }

    /// Returns how often another client was first so far.
    pub(super) fn conflicts(&self) -> u64 {
        self.state.lock().conflicts
    }

    /// Carries out an operation, together with others that wait; one that goes by what was `foreseen`, only if it is
    /// the next. `timeout` after `since`, other clients may be first once more, but no further time. Without a lock to
    /// try, it is never [`Failing`](Submitted::Failing).
    ///
    /// # Cancel safety
    /// An operation that was not sent yet is not done.
    pub(super) async fn submit(
        self: &Arc<Self>,
        op: Op,
        foreseen: Option<Foreseen>,
        (since, timeout): (Instant, Duration),
        has_lock_to_try: bool,
    ) -> Result<Submitted> {
        let (sender, answer) = oneshot::channel();
        let caller = Caller { answer: sender, since, timeout };
        let (id, is_driven, rivals) = {
            let mut state = self.state.lock();
            if foreseen.is_some_and(|foreseen| foreseen.next != state.batch.next_id()) {
                return Ok(Submitted::Overtaken);
            }
            let id = state.batch.enqueue(op, has_lock_to_try);
            state.callers.insert(id, caller);
            (id, std::mem::replace(&mut state.is_driven, true), state.rivals)
        };
        let _place = Place { line: self, id };
        if !is_driven {
            let rivals = Some(rivals).filter(Rivals::is_contended).unwrap_or_default();
            let driver = Driver { line: self.clone(), rivals, is_made: false, is_over: false };
            self.client().spawn(driver.drive());
        }
        // The task has ended with the client, or with its runtime.
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// Forgets what was written last, because somebody else is known to have written.
    pub(super) fn forget(&self) {
        let mut state = self.state.lock();
        state.known = None;
        state.is_forgotten = true;
    }

    fn client(&self) -> &Client {
        self.node.client()
    }

    /// Returns the number as it is now; `None` if the node does not exist.
    async fn read(&self) -> Result<Option<(i64, Version)>> {
        let seen = self.node.get(CHANGE).await?;
        seen.map(|seen| Ok((parse(&self.node, seen.value())?, seen.version()))).transpose()
    }

    /// Creates the node.
    async fn make(&self) -> Result<()> {
        // Zero, which is what a missing node counts as: so it does no harm to create it twice.
        let make =
            |session: Arc<Session>| async move { self.node.make(&session, &0_i64.to_be_bytes()).await };
        self.client().request(CHANGE, self.node.path(), make).await
    }

    /// Changes the state, and then sends the answers that this gives. Not while it is locked: a waker may do anything, such as
    /// drop another call.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> (T, Replies)) -> T {
        let (changed, replies) = change(&mut self.state.lock());
        for (call, answer) in replies {
            // A call that is gone does not mind.
            let _ = call.send(answer);
        }
        changed
    }
}

/// Returns the number in the data of a node.
///
/// # Errors
/// [`Error::NotANumber`].
pub(super) fn parse(node: &ValueNode, data: &[u8]) -> Result<i64> {
    number::parse(data).map_err(|length| Error::NotANumber { path: node.path().to_string(), length })
}

/// The place of a caller, who may leave.
struct Place<'a> {
    line: &'a Line,
    id: Id,
}

/// Answers, each with the call that waits for it.
type Replies = Vec<(oneshot::Sender<Result<Submitted>>, Result<Submitted>)>;

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // Dropped when the state is not locked: it may have the last handle of a waker.
        let _caller = self.line.state.lock().withdraw(self.id);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.lines.forget(self.node.path());
    }
}

impl State {
    /// Returns the number that is taken to be there.
    fn known(&self) -> Option<Known> {
        self.known.filter(|known| known.is_recent(Instant::now()))
    }

    /// Takes the number to be there, unless it was forgotten since the task began to read or to write.
    fn remember(&mut self, known: Known) {
        self.known = Some(known).filter(|_| !self.is_forgotten);
    }

    /// Takes back an operation whose caller is gone.
    fn withdraw(&mut self, id: Id) -> Option<Caller> {
        let caller = self.callers.remove(&id)?;
        self.batch.withdraw(id);
        Some(caller)
    }

    fn answer(&mut self, answers: Vec<(Id, Answer)>) -> Replies {
        self.tell(answers.into_iter().map(|(id, answer)| (id, Ok(Submitted::Answered(answer)))))
    }

    fn fail(&mut self, ids: Vec<Id>, error: &Error) -> Replies {
        self.tell(ids.into_iter().map(|id| (id, Err(error.clone()))))
    }

    /// Answers all callers that there is no task to carry out anything.
    fn abandon(&mut self) -> Replies {
        let next = self.batch.next_id();
        let _ = (self.batch.failed(), self.batch.give_up(next));
        self.known = None;
        self.is_driven = false;
        let callers = std::mem::take(&mut self.callers).into_values();
        callers.map(|caller| (caller.answer, Err(Error::Closed))).collect()
    }

    fn tell(&mut self, answers: impl IntoIterator<Item = (Id, Result<Submitted>)>) -> Replies {
        let answers = answers.into_iter();
        answers.filter_map(|(id, answer)| Some((self.callers.remove(&id)?.answer, answer))).collect()
    }
}

/// The number that is written over.
struct Seen {
    known: Known,
    /// It was read after all operations before this one had arrived; zero if it was not read, but remembered.
    fresh_before: Id,
}

/// Carries out the operations until there are none. If it is dropped before, the callers learn it.
struct Driver {
    line: Arc<Line>,
    rivals: Rivals,
    /// Whether the node was created since the number was seen last.
    is_made: bool,
    is_over: bool,
}

/// What the task remembers of the conflicts so far.
#[derive(Clone, Copy, Debug, Default)]
struct Rivals {
    conflicts: u32,
    last: Option<Instant>,
    /// Writes since the last conflict or pause.
    wins: u32,
}

impl Driver {
    async fn drive(mut self) {
        let closing = self.line.client().closing();
        let carried_out = closing.run_until_cancelled(self.carry_out()).await;
        self.is_over = carried_out.is_some();
    }

    async fn carry_out(&mut self) {
        // An end is decided together with the state, so that no caller is left behind.
        while !self.is_done() {
            let known = {
                let mut state = self.line.state.lock();
                state.is_forgotten = false;
                state.known()
            };
            let seen = match known {
                Some(known) => Some(Seen { known, fresh_before: 0 }),
                None => self.look().await,
            };
            if let Some(seen) = seen {
                self.is_made = false;
                self.write(seen).await;
            }
        }
    }

    /// Reads the number. If there is none, creates the node if there is something to write to it, and otherwise answers those
    /// who have asked.
    async fn look(&mut self) -> Option<Seen> {
        let fresh_before = self.line.state.lock().batch.next_id();
        let error = match self.line.read().await {
            Ok(Some((value, version))) => {
                let known = Known { value, version, at: Instant::now() };
                return Some(Seen { known, fresh_before });
            }
            Ok(None) if self.answer_of_nothing(fresh_before) => return None,
            Ok(None) => match self.line.make().await {
                Ok(()) => {
                    // Someone may delete the node whenever it is created.
                    if std::mem::replace(&mut self.is_made, true) {
                        self.after_conflict().await;
                    }
                    return None;
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        // Ends the calls that began before, for whom the error is news.
        self.line.change(|state| {
            let waiting = state.batch.give_up(fresh_before);
            ((), state.fail(waiting, &error))
        });
        None
    }

    /// Answers all that arrived before, if there is nothing to write to a node that does not exist.
    fn answer_of_nothing(&self, fresh_before: Id) -> bool {
        self.line.change(|state| {
            let composed = state.batch.compose(0, fresh_before);
            if composed.write.is_some() {
                state.batch.unsent();
            }
            (composed.write.is_none(), state.answer(composed.answers))
        })
    }

    fn is_done(&self) -> bool {
        let mut state = self.line.state.lock();
        (state.is_driven, state.rivals) = (!state.batch.is_idle(), self.rivals);
        !state.is_driven
    }

    async fn write(&mut self, seen: Seen) {
        let sent = Instant::now();
        let arrived_before = self.line.state.lock().batch.next_id();
        let mut new = seen.known.value;
        // Decided in the moment of sending, so that those that were cancelled before that are not done.
        let compose = || {
            new = self.compose(&seen)?;
            Some(Cow::Owned(self.line.node.stored(&new.to_be_bytes())))
        };
        let written = self.line.node.write_latest(CHANGE, Some(seen.known.version), compose).await;
        self.record(seen, &written, new, arrived_before);
        match written {
            Ok(Outcome::Written(_)) => {
                let pause = self.rivals.won(sent.elapsed());
                if !pause.is_zero() {
                    sleep(pause).await;
                }
            }
            Ok(Outcome::Conflict) => self.after_conflict().await,
            Ok(Outcome::Nothing) | Err(_) => {}
        }
    }

    /// Returns the number to be written over the one that was seen, unless that was too long ago. Answers callers if
    /// there is nothing to write.
    fn compose(&self, seen: &Seen) -> Option<i64> {
        self.line.change(|state| {
            state.batch.unsent();
            // The connection may have been missing for long.
            if !seen.known.is_recent(Instant::now()) {
                return (None, Replies::new());
            }
            let composed = state.batch.compose(seen.known.value, seen.fresh_before);
            (composed.write, state.answer(composed.answers))
        })
    }

    /// Answers the callers of a write.
    fn record(&self, seen: Seen, written: &Result<Outcome>, new: i64, arrived_before: Id) {
        self.line.change(|state| {
            state.known = None;
            let replies = match written {
                Ok(Outcome::Written(version)) => {
                    state.remember(Known { value: new, version: *version, at: Instant::now() });
                    let answers = state.batch.written();
                    state.answer(answers)
                }
                Ok(Outcome::Conflict) => {
                    state.conflicts += 1;
                    state.batch.conflict();
                    Replies::new()
                }
                Ok(Outcome::Nothing) => {
                    // What is only remembered answers no caller, so it must be read next.
                    if seen.fresh_before > 0 {
                        state.remember(seen.known);
                    }
                    Replies::new()
                }
                Err(error) => {
                    let is_sent = state.batch.is_sending();
                    let failed =
                        if is_sent { state.batch.failed() } else { state.batch.give_up(arrived_before) };
                    state.fail(failed, error)
                }
            };
            ((), replies)
        });
    }

    /// Waits until it is time to try again.
    async fn after_conflict(&mut self) {
        self.expire();
        let conflicts = self.rivals.conflicts;
        self.rivals = Rivals { conflicts: conflicts.saturating_add(1), last: Some(Instant::now()), wins: 0 };
        pause(conflicts, Duration::MAX).await;
    }

    /// Ends the calls whose time is over, and hands the operations that keep failing back to those that have a lock.
    fn expire(&self) {
        let contended = |waited| {
            let path = self.line.node.path().to_string();
            Err(Error::Contended { operation: CHANGE, path, waited })
        };
        self.line.change(|state| {
            let waited =
                state.callers.iter().map(|(id, caller)| (*id, caller.since.elapsed(), caller.timeout));
            let over = waited.filter(|(_, waited, timeout)| waited >= timeout);
            let mut answers: Vec<_> = over.map(|(id, waited, _)| (id, contended(waited))).collect();
            for (id, _) in &answers {
                state.batch.withdraw(*id);
            }
            let failing = state.batch.failing(OPTIMISTIC_TRIES);
            answers.extend(failing.into_iter().map(|id| (id, Ok(Submitted::Failing))));
            ((), state.tell(answers))
        });
    }
}

impl Rivals {
    fn is_contended(&self) -> bool {
        self.last.is_some_and(|last| last.elapsed() < CONTENDED)
    }

    /// Records a write, which took this long. Returns how long to pause: the one that wrote last knows the number and is
    /// always ahead of those who have to read it first; so it lets them in now and then.
    fn won(&mut self, round_trip: Duration) -> Duration {
        self.conflicts = 0;
        self.wins += 1;
        if !self.is_contended() || self.wins < TURN {
            return Duration::ZERO;
        }
        self.wins = 0;
        (round_trip * 3).min(CONTENDED / 10)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Otherwise another one may be at work by now.
        if !self.is_over {
            self.line.change(|state| ((), state.abandon()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_known_is_remembered_for_ten_seconds() {
        let at = Instant::now();
        let known = Known { value: 1, version: Version::new(1, 1, 1), at };
        assert!(known.is_recent(at + Duration::from_millis(9_999)));
        assert!(!known.is_recent(at + Duration::from_secs(10)));
        let mut state = State { known: Some(known), ..State::default() };
        assert!(state.known().is_some());
        tokio::time::advance(REMEMBERED).await;
        assert!(state.known().is_none());
        state.known = None;
        assert!(state.known().is_none());
    }
}
