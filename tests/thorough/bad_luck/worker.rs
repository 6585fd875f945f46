//! Tasks that take locks in every way there is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{sleep, timeout};
use zk_recipes::{
    CloseMode, Error, LeaderLatch, LeaderOptions, LockGuard, LockOptions, LossReason, Owner, SuspectPolicy,
};

use crate::claim::{Claim, Held, Read, Story, Write};
use crate::locks::{Lock, Locks, Rules};
use crate::luck::{Luck, Mood};
use crate::run::{ROOT, Run};
use crate::stage::{Member, number};
use crate::support::poll_times;
use crate::{SESSION_TIMEOUT, clock};

pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) member: Arc<Member>,
    pub(crate) locks: Arc<Locks>,
    pub(crate) run: Arc<Run>,
    pub(crate) luck: Arc<Luck>,
    pub(crate) rng: Rng,
    /// What it is doing, for the case that it does so for ever.
    pub(crate) doing: Arc<Mutex<String>>,
}

/// What a task does that is done.
pub(crate) const NOTHING: &str = "nothing any more";

/// How a lock is acquired.
#[derive(Clone, Copy, Debug)]
enum Way {
    Wait,
    Try,
    TryFor(Duration),
    /// Cancelled after so many polls.
    Cancel(usize),
    /// Awaited so much later.
    Ticket(Duration),
    TicketDropped(Duration),
}

/// What a task has of a lock.
struct Inside {
    guard: Arc<LockGuard>,
    claims: Vec<Arc<Claim>>,
}

impl Worker {
    /// Takes locks until the trouble is over; then each lock once more, which must end.
    pub(crate) async fn work(mut self) {
        let all = self.locks.all();
        while !self.run.is_calm() {
            let mood = Mood::draw(&mut self.rng);
            self.luck.set_mood(mood);
            // What is in fashion with a client, its tasks want all at once, and those of other clients mostly do not.
            let (fashion, share) = self.run.fashion(self.member.number);
            let index = if self.rng.u8(..100) < share {
                if self.rng.u8(..100) < 40 {
                    self.run.rush().await;
                    // Some use late what all have asked for at the same time.
                    self.luck.set_mood(if self.rng.bool() { Mood::Brisk } else { Mood::Slow });
                }
                fashion % all.len()
            } else {
                self.rng.usize(..all.len())
            };
            let lock = self.with_options(all[index].clone());
            let way = self.draw_way();
            self.visit(&lock, way).await;
        }
        self.luck.set_mood(Mood::Brisk);
        for lock in all {
            while !self.visit(&lock, Way::Wait).await {}
        }
        self.doing(NOTHING.into());
    }

    /// Leads, as the only task of its client, until the trouble is over, and then once more.
    pub(crate) async fn lead(mut self) {
        loop {
            let mood = Mood::draw(&mut self.rng);
            self.luck.set_mood(mood);
            let is_last = self.run.is_calm();
            let latch =
                LeaderLatch::start(&self.member.client, &format!("{ROOT}/latch"), LeaderOptions::new());
            let latch = latch.unwrap();
            // A term that is not resigned goes on until the latch is closed.
            for _ in 0..3 {
                self.doing("waits to lead".into());
                let asked = clock::now();
                let patience = Duration::from_millis(self.rng.u64(20..400));
                let elected = if is_last {
                    Some(latch.await_leadership().await)
                } else {
                    timeout(patience, latch.await_leadership()).await.ok()
                };
                let leadership = match elected {
                    None => break,
                    Some(Ok(leadership)) => leadership,
                    Some(Err(error)) => {
                        self.unexpected("the latch", &error);
                        break;
                    }
                };
                let claim = self.claim(
                    "acquired: latch",
                    Held::Leadership(leadership.clone(), latch.clone()),
                    true,
                    self.run.next(),
                    asked,
                );
                self.run.tally.count("acquired: latch");
                let claims: Vec<_> = claim.into_iter().collect();
                self.enter_rooms(&claims);
                self.read(&claims).await;
                self.linger(&claims).await;
                self.leave(claims);
                if self.rng.bool() {
                    break;
                }
                self.doing("resigns".into());
                match leadership.resign().await {
                    Ok(()) | Err(Error::LockLost { .. }) => {}
                    Err(error) => self.unexpected("resigning", &error),
                }
            }
            self.doing("closes the latch".into());
            match latch.close(CloseMode::Silent).await {
                Ok(()) | Err(Error::LockLost { .. }) => {}
                Err(error) => self.unexpected("closing the latch", &error),
            }
            if is_last {
                self.doing(NOTHING.into());
                return;
            }
            let pause = self.rng.u64(0..50);
            sleep(Duration::from_millis(pause)).await;
        }
    }

    fn with_options(&mut self, lock: Lock) -> Lock {
        let mut options = LockOptions::new();
        if self.rng.u8(..100) < 30 {
            options = options.max_hold(Duration::from_micros(self.rng.u64(1_000..40_000)));
        }
        if self.rng.u8(..100) < 20 {
            options = options.suspect_policy(SuspectPolicy::GiveUp);
        }
        lock.with_options(options)
    }

    fn draw_way(&mut self) -> Way {
        let millis = |rng: &mut Rng, range| Duration::from_millis(rng.u64(range));
        match self.rng.u8(..100) {
            0..58 => Way::Wait,
            58..66 => Way::Try,
            66..78 => Way::TryFor(millis(&mut self.rng, 0..60)),
            78..88 => Way::Cancel(self.rng.usize(1..8)),
            88..95 => Way::Ticket(millis(&mut self.rng, 0..12)),
            _ => Way::TicketDropped(millis(&mut self.rng, 0..25)),
        }
    }

    /// Acquires the lock, stays for a while, and releases it. Says whether it had the lock.
    async fn visit(&mut self, lock: &Lock, way: Way) -> bool {
        self.doing(format!("acquires {} by {way:?}", lock.kind));
        let asked = clock::now();
        let owner = if self.rng.bool() { Owner::current() } else { Owner::new() };
        let guard = match self.acquire(lock, way, &owner).await {
            Ok(Some(guard)) => Arc::new(guard),
            Ok(None) => return false,
            // Its time was over before it was polled again.
            Err(Error::LockLost { reason: LossReason::Deadline, .. }) => {
                self.count_loss(LossReason::Deadline);
                return false;
            }
            Err(error) => {
                self.unexpected(lock.kind, &error);
                return false;
            }
        };
        self.run.tally.count(lock.kind);
        let number = self.run.next();
        let held = held(&guard);
        let claims = held.into_iter().enumerate().filter_map(|(index, held)| {
            // Permits do not know each other.
            let owner = if lock.rules == Rules::Permits && index > 0 { self.run.next() } else { number };
            self.claim(lock.kind, held, lock.is_exclusive(), owner, asked)
        });
        let claims = claims.collect();
        let inside = self.enter(guard, claims);
        self.stay(lock, &owner, number, inside).await;
        true
    }

    async fn acquire(
        &mut self,
        lock: &Lock,
        way: Way,
        owner: &Owner,
    ) -> zk_recipes::Result<Option<LockGuard>> {
        let run = self.run.clone();
        let none = |what, guard: &Option<LockGuard>| {
            if guard.is_none() {
                run.tally.count(what);
            }
        };
        match way {
            Way::Wait => lock.acquire(owner).await.map(Some),
            Way::Try => {
                lock.try_acquire(owner).await.inspect(|guard| none("acquires: tries that failed", guard))
            }
            Way::TryFor(within) => {
                let tried = lock.try_acquire_for(owner, within).await;
                tried.inspect(|guard| none("acquires: timed out", guard))
            }
            Way::Cancel(polls) => match poll_times(lock.acquire(owner), polls).await {
                Some(acquired) => acquired.map(Some),
                None => {
                    self.run.tally.count("acquires: cancelled");
                    Ok(None)
                }
            },
            Way::Ticket(idle) | Way::TicketDropped(idle) => {
                let Some(ticket) = lock.enqueue(owner).await? else {
                    return lock.acquire(owner).await.map(Some);
                };
                sleep(idle).await;
                if matches!(way, Way::TicketDropped(_)) {
                    self.run.tally.count("acquires: tickets dropped");
                    return Ok(None);
                }
                self.run.tally.count("acquires: tickets awaited late");
                match ticket.acquired().await {
                    // It was granted before it was awaited, and lost since.
                    Err(Error::LockLost { reason, .. }) => {
                        self.count_loss(reason);
                        Ok(None)
                    }
                    acquired => acquired.map(Some),
                }
            }
        }
    }

    /// `None` if it is lost already, before anybody could look.
    fn claim(
        &self,
        kind: &'static str,
        held: Held,
        exclusive: bool,
        owner: u64,
        asked: u64,
    ) -> Option<Arc<Claim>> {
        let session = self.member.session();
        let from = clock::now();
        if let Some(loss) = held.loss() {
            self.count_loss(loss);
            return None;
        }
        let node = held.node().to_owned();
        let story = Mutex::new(Story { valid_at: from, ..Story::default() });
        let id = self.run.next();
        Some(Arc::new(Claim { kind, id, owner, exclusive, held, node, session, asked, from, story }))
    }

    fn enter(&self, guard: Arc<LockGuard>, claims: Vec<Arc<Claim>>) -> Inside {
        self.enter_rooms(&claims);
        Inside { guard, claims }
    }

    fn enter_rooms(&self, claims: &[Arc<Claim>]) {
        for claim in claims {
            let room = self.run.room_of(&claim.node);
            if let Err(overlap) = room.enter(claim.clone(), &self.run.acts) {
                self.run.fault(overlap);
            }
        }
    }

    async fn stay(&mut self, lock: &Lock, owner: &Owner, number: u64, mut inside: Inside) {
        self.doing(format!("holds {}", lock.kind));
        if self.rng.u8(..100) < 60 {
            self.read(&inside.claims).await;
        }
        let again = if self.rng.u8(..100) < 8 { self.enter_again(lock, owner, &inside).await } else { None };
        if let Some(read) = &lock.other_side
            && self.rng.u8(..100) < 30
        {
            inside = self.downgrade(&Lock::reading(read), owner, number, inside).await;
        }
        if lock.is_exclusive() && self.rng.u8(..100) < 35 {
            self.write(&inside).await;
        }
        self.linger(&inside.claims).await;
        if self.rng.u8(..100) < 30 {
            self.read(&inside.claims).await;
        }
        // Of a hold that was entered twice, one or the other goes first.
        if self.rng.bool() {
            drop(again);
            self.release(inside).await;
        } else {
            self.release(inside).await;
            drop(again);
        }
    }

    async fn enter_again(&mut self, lock: &Lock, owner: &Owner, inside: &Inside) -> Option<LockGuard> {
        if !lock.is_reentrant() {
            return None;
        }
        match lock.acquire(owner).await {
            Ok(again) => {
                self.run.tally.count("acquires: entered again");
                if again.fencing_token() != inside.guard.fencing_token() {
                    self.run.fault(format!("{again:?} is not the same hold as {:?}", inside.guard));
                }
                Some(again)
            }
            Err(Error::LockLost { .. }) => None,
            Err(error) => {
                self.unexpected("entering again", &error);
                None
            }
        }
    }

    /// Waits until a hold that ends by itself is about to.
    async fn approach_the_end(&mut self, inside: &Inside) {
        if let Some(left) = inside.guard.remaining_hold() {
            let before = Duration::from_micros(self.rng.u64(0..5_000));
            sleep(left.saturating_sub(before)).await;
        }
    }

    /// Becomes a reader. It is one beside its own writer, until that is released.
    async fn downgrade(&mut self, read: &Lock, owner: &Owner, number: u64, inside: Inside) -> Inside {
        self.doing("becomes a reader".into());
        if self.rng.bool() {
            self.approach_the_end(&inside).await;
        }
        let asked = clock::now();
        let guard = match read.acquire(owner).await {
            Ok(guard) => Arc::new(guard),
            Err(Error::LockLost { .. }) => return inside,
            Err(error) => {
                self.unexpected("becoming a reader", &error);
                return inside;
            }
        };
        self.run.tally.count("acquires: downgrades");
        let held = held(&guard).into_iter();
        let claims =
            held.filter_map(|held| self.claim("a reader that was a writer", held, false, number, asked));
        let reading = claims.collect();
        let reading = self.enter(guard, reading);
        self.release(inside).await;
        reading
    }

    /// Reads the register, on the session of the lock or as somebody else.
    async fn read(&mut self, claims: &[Arc<Claim>]) {
        let Some(claim) = claims.first() else { return };
        let Some(register) = &self.run.room_of(&claim.node).register else { return };
        let from = clock::now();
        let value = if self.rng.u8(..100) < 60 {
            self.run.bystander().read(register).await
        } else {
            let reading = async {
                let zookeeper = self.member.client.zookeeper().await.ok()?;
                number(zookeeper.get_data(register).await.ok()?.0)
            };
            timeout(SESSION_TIMEOUT, reading).await.ok().flatten()
        };
        let until = clock::now();
        let Some(value) = value else { return };
        if claim.look() {
            self.run.tally.count("register: reads");
            claim.story.lock().unwrap().reads.push(Read { from, until, value });
        }
    }

    /// Writes the register by a transaction; of a hold that ends by itself, right before its end.
    async fn write(&mut self, inside: &Inside) {
        let (Some(claim), guard) = (inside.claims.first(), &inside.guard) else { return };
        self.approach_the_end(inside).await;
        let Some(register) = &self.run.room_of(&claim.node).register else { return };
        let value = self.run.next();
        let commit = guard.transaction().set_data(register, value.to_string(), None).commit();
        let was_valid = guard.is_valid();
        let from = clock::now();
        let committed = if self.rng.u8(..100) < 10 {
            poll_times(commit, self.rng.usize(1..3)).await
        } else {
            Some(commit.await)
        };
        let until = clock::now();
        if was_valid && !guard.is_valid() {
            self.run.tally.count("transactions: in flight at the loss");
        }
        let (what, until) = match committed {
            Some(Ok(_)) => ("transactions: committed", Some(until)),
            None => ("transactions: cancelled", None),
            Some(Err(Error::OutcomeUnknown { .. })) => ("transactions: in doubt", None),
            Some(Err(Error::LockLost { .. })) => return self.run.tally.count("transactions: refused"),
            Some(Err(error)) => return self.unexpected("the transaction", &error),
        };
        self.run.tally.count(what);
        claim.story.lock().unwrap().writes.push(Write { from, until, value });
    }

    /// Holds on for a moment; or, if its client is about to be cut off, until the lock is lost.
    async fn linger(&mut self, claims: &[Arc<Claim>]) {
        match self.rng.u8(..100) {
            0..55 => {}
            55..80 => sleep(Duration::from_micros(self.rng.u64(0..2_000))).await,
            80..97 => sleep(Duration::from_micros(self.rng.u64(2_000..10_000))).await,
            _ => sleep(Duration::from_micros(self.rng.u64(0..40_000))).await,
        }
        while self.member.stays() && !self.run.is_calm() {
            let valid = claims.iter().filter(|claim| claim.look()).count();
            if valid == 0 {
                break;
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    async fn release(&mut self, inside: Inside) {
        self.doing("releases".into());
        let Inside { guard, claims } = inside;
        self.leave(claims);
        // Somebody may be looking at it: then it is dropped after the look.
        let Some(guard) = Arc::into_inner(guard) else { return };
        let guards = if self.rng.bool() { guard.into_permits() } else { vec![guard] };
        for guard in guards {
            let released = match self.rng.u8(..100) {
                0..75 => Some(guard.release().await),
                75..85 => poll_times(guard.release(), 1).await,
                _ => None,
            };
            match released {
                Some(Err(Error::LockLost { reason: LossReason::Deleted, .. })) => {
                    self.count_loss(LossReason::Deleted)
                }
                None | Some(Ok(()) | Err(Error::LockLost { .. } | Error::Several { .. })) => {}
                Some(Err(error)) => self.unexpected("a release", &error),
            }
        }
    }

    fn leave(&self, claims: Vec<Arc<Claim>>) {
        for claim in claims {
            if let Some(loss) = claim.last_look() {
                self.count_loss(loss);
            }
            self.run.room_of(&claim.node).leave(&claim);
            self.run.record(&claim);
        }
    }

    fn count_loss(&self, loss: LossReason) {
        self.run.tally.count(match loss {
            LossReason::Expired => "losses: Expired",
            LossReason::Suspect => "losses: Suspect",
            LossReason::Deadline => "losses: Deadline",
            LossReason::Deleted => "losses: Deleted",
            _ => "losses: others",
        });
    }

    fn unexpected(&self, what: &str, error: &Error) {
        // It says so when there were no servers for as long as it takes to connect; of mixed locks, also that those
        // that it had were lost meanwhile.
        let is_outage = match error {
            Error::Several { first, others } => {
                matches!(**first, Error::NotConnected { .. })
                    && others.iter().all(|other| matches!(other, Error::LockLost { .. }))
            }
            error => matches!(error, Error::NotConnected { .. }),
        };
        if is_outage {
            return self.run.tally.count("acquires: no servers");
        }
        self.run.fault(format!("UNEXPECTED ERROR of {} at {what}: {error}", self.name));
    }

    fn doing(&self, what: String) {
        *self.doing.lock().unwrap() = what;
    }
}

/// The holds of a guard.
fn held(guard: &Arc<LockGuard>) -> Vec<Held> {
    match guard.members().len() {
        0 => vec![Held::Guard(guard.clone())],
        members => (0..members).map(|index| Held::Member(guard.clone(), index)).collect(),
    }
}
