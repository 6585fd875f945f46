//! A lock on several ensembles, of which a majority is enough.
//!
//! # Why no contender waits forever
//!
//! A contender takes the members in one order, which is the same everywhere, and waits for the holder of a member only
//! while all that it holds comes before that member. So each contender that is waited for holds by right, has ended its
//! pass and releases, or waits further along in the order, or further ahead in the same queue. No circle can form.
//!
//! If A holds the first two of three members and waits for the third, which B has taken after it skipped the first two,
//! then B is at the end of its pass without a majority, and releases. A does not depend on that: with a majority, it
//! waits for the rest only briefly.
//!
//! A member that does not answer is skipped after the response timeout, also by a contender that waits in its queue. What
//! stays of that contender in the queue is removed in the background, at the latest with its session.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use tokio::time::Instant;

use super::QuorumLock;
use crate::client::{Client, Failures, RetryPolicy, sleep_until};
use crate::error::{Error, LossReason, Result};
use crate::lock::acquiring::acquirable::{Acquirable, Contending, Entry};
use crate::lock::acquiring::attempt::granted;
use crate::lock::acquiring::reentrant::Reentrant;
use crate::lock::acquiring::wait::Wait;
use crate::lock::deadline::{from_now, until};
use crate::lock::holding::guard::{BRIEF_WAIT, LockGuard, any_lost, release_all};
use crate::lock::holding::quorum_guard::QuorumGuard;
use crate::lock::owner::Owner;
use crate::meters::{LockMeters, Outcome};
use crate::queue::{Caller, Next, Pass};

/// The pauses before a pass that follows one in which a majority did not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The lock on one ensemble.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Arc<str>,
    pub(super) lock: Reentrant,
    /// Whether it has not answered, and has had no connection since.
    is_silent: AtomicBool,
}

/// How an attempt at a member has ended.
enum Taken {
    Held(LockGuard),
    /// Others are ahead in its queue.
    Busy,
    Silent,
    /// Its session has ended, and there will be no other.
    Over(Error),
    /// There was no time left for it.
    Untried,
}

/// How a pass through all members has ended.
enum Round {
    Held(QuorumGuard),
    Missed(Missed),
}

/// Why a pass has ended without a majority.
#[derive(Default)]
struct Missed {
    is_busy: bool,
    /// The members that did not answer, or whose session has ended.
    silent: Vec<usize>,
    /// Those for which there was no time left.
    untried: Vec<usize>,
    /// Why sessions have ended that are not replaced.
    over: Vec<Error>,
}

/// A member that was taken in this pass.
struct HeldMember {
    member: usize,
    since: Instant,
    guard: LockGuard,
}

impl Member {
    pub(super) fn new(name: &str, lock: Reentrant) -> Self {
        Self { name: name.into(), lock, is_silent: AtomicBool::new(false) }
    }

    fn client(&self) -> &Client {
        self.lock.client()
    }

    fn is_suspended(&self) -> bool {
        !self.client().watch_connection().get().is_connected()
    }

    /// Whether it did not answer, and has had no connection since: it is not worth another wait. Where the session is
    /// over, that is known at once.
    fn is_known_silent(&self) -> bool {
        let is_suspended = self.is_suspended() && !self.client().is_over();
        self.is_silent.fetch_and(is_suspended, Ordering::Relaxed) && is_suspended
    }
}

impl QuorumLock {
    /// Returns `None` if others held the lock for that long. Counts as one wait, for the lock of the first member.
    pub(super) async fn acquire_by_majority(&self, wait: Wait) -> Result<Option<QuorumGuard>> {
        let closing = self.members.iter().map(|member| Box::pin(member.client().closing().cancelled_owned()));
        let closed = select_all(closing);
        let rounds = async {
            tokio::select! {
                biased;
                _ = closed => Err(Error::Closed),
                acquired = self.rounds(wait) => acquired,
            }
        };
        let first = &self.members[0];
        let mut meter = LockMeters::wait([first.lock.meters()]);
        // With the client's timers, since the caller may have none.
        let acquired = first.client().at_home(rounds).await;
        meter.ends_as(Outcome::of(&acquired));
        acquired
    }

    async fn rounds(&self, wait: Wait) -> Result<Option<QuorumGuard>> {
        let policy = RetryPolicy::bounded_exponential_backoff(FIRST_PAUSE, LONGEST_PAUSE, u32::MAX);
        let mut failures = Failures::default();
        let start = Instant::now();
        let mut missed = Missed::default();
        loop {
            match self.round(wait).await? {
                Round::Held(guard) => return Ok(Some(guard)),
                Round::Missed(mut last) if !self.quorum.is_held(self.members.len() - last.over.len()) => {
                    return Err(last.over.remove(0));
                }
                // One that had no time knows less than the one before.
                Round::Missed(last) if last.has_asked() || !missed.has_asked() => missed = last,
                Round::Missed(_) => {}
            }
            if matches!(wait, Wait::No) {
                return self.answer(&missed, start.elapsed());
            }
            let pause = failures.pause_or(self.not_connected(&missed, start.elapsed()), &policy);
            match wait.bound(pin!(pause)).await {
                Some(paused) => paused?,
                None => return self.answer(&missed, start.elapsed()),
            }
        }
    }

    /// Returns what to tell a caller whose time is over.
    ///
    /// # Errors
    /// - [`Error::NotConnected`]: it is unknown whether others hold the lock.
    fn answer(&self, missed: &Missed, waited: Duration) -> Result<Option<QuorumGuard>> {
        let answered = self.members.len() - missed.unanswered().count();
        if missed.is_busy && self.quorum.is_held(answered) {
            return Ok(None);
        }
        Err(self.not_connected(missed, waited))
    }

    /// Returns one error for all members that did not answer.
    fn not_connected(&self, missed: &Missed, waited: Duration) -> Error {
        let (mut all_hosts, mut all_causes, mut first_source) = (Vec::new(), Vec::new(), None);
        for member in missed.unanswered() {
            let error = self.members[member].client().not_connected(waited);
            if let Error::NotConnected { hosts, causes, source, .. } = error {
                all_hosts.push(hosts);
                all_causes.extend(causes);
                first_source = first_source.or(source);
            }
        }
        Error::NotConnected {
            hosts: all_hosts.join(" and "),
            waited,
            causes: all_causes,
            source: first_source,
        }
    }

    async fn round(&self, wait: Wait) -> Result<Round> {
        let mut held = Vec::with_capacity(self.members.len());
        let passed = self.pass(wait, &mut held).await;
        if let Ok(None) = passed {
            return Ok(Round::Held(self.guard(held)));
        }
        let guards = held.into_iter().map(|held| held.guard).collect();
        let released = self.within_response_timeout(release_all(guards));
        // Otherwise, they are released in the background.
        wait.finish(pin!(released)).await;
        passed.map(|missed| Round::Missed(missed.unwrap_or_default()))
    }

    /// Takes one member after the other. Returns `None` if the lock is granted.
    async fn pass(&self, wait: Wait, held: &mut Vec<HeldMember>) -> Result<Option<Missed>> {
        let mut pass = Pass::new(self.quorum);
        let mut missed = Missed::default();
        for (index, _) in self.members.iter().enumerate().filter(|(_, member)| member.is_known_silent()) {
            pass.misses(index);
            missed.silent.push(index);
        }
        loop {
            let (member, is_needed) = match pass.next() {
                Next::Take { member, is_needed } => (member, is_needed),
                Next::GiveUp => return Ok(Some(missed)),
                Next::Check => break,
            };
            let mut taking = pin!(self.take(member, is_needed, wait));
            let taken = loop {
                tokio::select! {
                    biased;
                    taken = &mut taking => break taken?,
                    lost = any_lost(held.iter().map(|held| &held.guard).collect()) => {
                        missed.lost(held.swap_remove(lost), &mut pass);
                        if !pass.can_be_granted() {
                            return Ok(Some(missed));
                        }
                    }
                }
            };
            match taken {
                Taken::Held(guard) => {
                    pass.takes(member);
                    held.push(HeldMember { member, since: Instant::now(), guard });
                    continue;
                }
                Taken::Busy => missed.is_busy = true,
                Taken::Silent => missed.silent.push(member),
                Taken::Over(error) => {
                    missed.silent.push(member);
                    missed.over.push(error);
                }
                Taken::Untried => missed.untried.push(member),
            }
            pass.misses(member);
        }
        let confirmed = self.look(wait, held).await;
        // The first may have been granted long ago. What is not valid now is not part of the grant, nor is its token.
        for lost in held.extract_if(.., |held| !held.guard.is_valid()) {
            missed.lost(lost, &mut pass);
        }
        let is_held = |member| held.iter().any(|held| held.member == member);
        if pass.is_granted(|member| is_held(member) && confirmed.contains(&member)) {
            return Ok(None);
        }
        let unconfirmed = held.iter().map(|held| held.member).filter(|member| !confirmed.contains(member));
        missed.silent.extend(unconfirmed);
        Ok(Some(missed))
    }

    /// Takes one member.
    ///
    /// # Errors
    /// Only those that a later attempt would meet as well.
    ///
    /// # Cancel safety
    /// Nothing stays in its queue.
    async fn take(&self, index: usize, is_needed: bool, wait: Wait) -> Result<Taken> {
        let member = &self.members[index];
        loop {
            if let Wait::Until { deadline, .. } = wait
                && deadline <= Instant::now()
            {
                return Ok(Taken::Untried);
            }
            let caller = wait.caller();
            let is_behind = AtomicBool::new(false);
            // A place of its own says nothing of others before it is known where it stands.
            let has_waited =
                || is_behind.load(Ordering::Relaxed) || caller.has_reached() && !caller.has_sent();
            let ended = tokio::select! {
                biased;
                taken = wait.bound(Box::pin(member.queue_up(&caller, wait, &is_behind))) => taken,
                () = self.silence(member, &caller) => {
                    // Only now that its place is given up is it known whether it has waited for others of this client.
                    match caller.has_reached() && !member.is_suspended() {
                        true if is_needed && caller.may_wait() => continue,
                        true if has_waited() => return Ok(Taken::Busy),
                        _ => {}
                    }
                    member.is_silent.store(true, Ordering::Relaxed);
                    return Ok(Taken::Silent);
                }
                () = sleep_until(from_now(self.response_timeout)), if !is_needed => None,
            };
            return match ended {
                Some(Ok(Some(guard))) => Ok(Taken::Held(guard)),
                Some(Ok(None)) => Ok(Taken::Busy),
                Some(Err(error)) if error.is_retryable() => Ok(Taken::Silent),
                Some(Err(error @ Error::SessionOver { .. })) => Ok(Taken::Over(error)),
                Some(Err(error)) => Err(error),
                None if has_waited() => Ok(Taken::Busy),
                None => Ok(Taken::Silent),
            };
        }
    }

    /// Waits until the member does not answer: neither to the request for a place in the queue nor, while the caller
    /// waits in the queue, by staying connected. A caller that does not wait needs its answer by then.
    async fn silence(&self, member: &Member, caller: &Caller) {
        sleep_until(from_now(self.response_timeout)).await;
        let mut state = member.client().watch_connection();
        while caller.may_wait() && caller.has_reached() {
            if state.wait_for(|state| !state.is_connected()).await.is_none() {
                return;
            }
            tokio::select! {
                _ = state.wait_for(|state| state.is_connected()) => {}
                () = sleep_until(from_now(self.response_timeout)) => return,
            }
        }
    }

    /// Asks the servers whether the members that were taken a while ago are still held, and has their sessions confirmed
    /// where a lock is not to be handed out without it. Returns the members of which enough is known for that. Others may
    /// be valid nevertheless.
    async fn look(&self, wait: Wait, held: &[HeldMember]) -> Vec<usize> {
        let is_confirmed =
            |held: &HeldMember| held.guard.nodes().all(|node| node.session().is_worth_granting());
        let look = async |held: &HeldMember| {
            if held.since.elapsed() <= BRIEF_WAIT && is_confirmed(held) {
                return true;
            }
            let looks = self.within_response_timeout(join_all(held.guard.nodes().map(|node| node.look())));
            let answers = wait.finish(Box::pin(looks)).await.flatten();
            answers.is_some_and(|answers| !answers.contains(&false)) || is_confirmed(held)
        };
        let known = join_all(held.iter().map(look)).await;
        held.iter().zip(known).filter(|(_, is_known)| *is_known).map(|(held, _)| held.member).collect()
    }

    async fn within_response_timeout<T>(&self, step: impl Future<Output = T>) -> Option<T> {
        until(from_now(self.response_timeout), pin!(step)).await
    }

    fn guard(&self, mut held: Vec<HeldMember>) -> QuorumGuard {
        held.sort_unstable_by_key(|held| held.member);
        let members = held.into_iter().map(|held| (self.members[held.member].name.clone(), held.guard));
        QuorumGuard::new(members.collect(), self.quorum, self.response_timeout)
    }
}

impl Member {
    /// Queues up for it, for an owner of its own: an owner that came again would wait for an early member while it holds
    /// later ones. Returns `None` if it is not available immediately and the caller does not wait. Notes whether others
    /// were seen ahead.
    ///
    /// # Cancel safety
    /// Nothing stays in the queue.
    async fn queue_up(
        &self,
        caller: &Caller,
        wait: Wait,
        is_behind: &AtomicBool,
    ) -> Result<Option<LockGuard>> {
        let queueing = async {
            let mut waiter = match self.lock.enter(&Owner::new(), caller.clone()).await? {
                Entry::Granted(guard) => return Ok(Some(guard)),
                Entry::Queued(waiter) => waiter,
            };
            if let Some(guard) = waiter.take() {
                return Ok(Some(guard));
            }
            is_behind.store(true, Ordering::Relaxed);
            if !matches!(wait, Wait::No) {
                return granted(&mut waiter, None).await.map(Some);
            }
            waiter.leave().await.map(|()| None)
        };
        self.client().unless_closed(queueing).await
    }
}

impl Missed {
    fn lost(&mut self, lost: HeldMember, pass: &mut Pass) {
        pass.misses(lost.member);
        match lost.guard.loss() {
            // Its ensemble answers, and others are let in there.
            Some(LossReason::Deleted) => self.is_busy = true,
            _ => self.silent.push(lost.member),
        }
    }

    /// Whether there was time to find out anything.
    fn has_asked(&self) -> bool {
        self.is_busy || !self.silent.is_empty()
    }

    fn unanswered(&self) -> impl Iterator<Item = usize> {
        self.silent.iter().chain(&self.untried).copied()
    }
}
