//! Signs of life of a session: what the replies of the servers prove about its end. No I/O, no clock, any unit of
//! time.
//!
//! The leader expires a session when the session timeout has passed since it last counted the session as alive. If
//! the client is connected to a follower, the leader counts the session only when the follower reports which
//! sessions it has heard from, every half tick. A write that the follower forwards does not count, although the
//! leader commits it. So the reply to a write proves that the session was alive at that time, but not that its
//! timeout was counted from then on: if the follower is cut off before its next report, the timeout is counted from
//! an earlier request.
//!
//! The reply does prove this: everything that had been answered half a tick before the request was sent had been
//! reported by then. A follower sends its reports and its clients' writes to the leader in one stream. And a connection
//! that continues a session is reported at once: the server asks its leader, which counts the session as alive.

use std::collections::VecDeque;

use super::keep_alive::KeepAlive;

/// What a reply proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sign {
    /// A server has heard from the client. That server may be cut off from the others.
    Heard,
    /// A majority of the servers has committed the request, so the leader has not expired the session. Under
    /// [`KeepAlive::Leader`](super::KeepAlive::Leader), the reply of a leader counts as well.
    Confirmed,
}

/// A request that is made only for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Probe {
    /// Any server answers it, whatever the state of the others.
    Read,
    /// A leader answers it, even one that the others have replaced.
    Sync,
    /// A transaction that only checks. A majority commits it.
    Check,
}

impl Probe {
    /// Returns the probe that confirms a session.
    pub(crate) fn of(keep_alive: KeepAlive) -> Self {
        match keep_alive {
            KeepAlive::Quorum => Self::Check,
            KeepAlive::Leader => Self::Sync,
        }
    }

    /// Returns what its reply proves.
    pub(crate) fn sign(self, keep_alive: KeepAlive) -> Sign {
        if self == Self::Check || self == Self::of(keep_alive) { Sign::Confirmed } else { Sign::Heard }
    }
}

/// What is to be done before a lock is handed out on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Granting {
    /// Nothing.
    Now,
    /// The session is to be confirmed at that time, or now if it has passed.
    Confirm(u64),
}

/// Whether the session that the servers give continues the one that was asked for, by their ids. ZooKeeper refuses a
/// session that it does not know; other servers, and proxies, may give a new one instead.
pub(crate) fn continues(asked: i64, given: i64) -> bool {
    given == asked
}

/// What is known about one session. All times are relative to the start of its clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Signs {
    timeout: u64,
    margin: u64,
    /// When requests were sent, and by when a leader has been told of them if a write is committed later; oldest first. No
    /// two are closer, and none is older, than needed.
    heard: VecDeque<(u64, u64)>,
    /// A time since which the leader has counted the session as alive, at that time or later. `None` if nothing is
    /// known.
    counted: Option<u64>,
    last_heard: u64,
    last_confirmed: u64,
    until: u64,
}

impl Signs {
    /// Creates the signs of a session that was established after time 0 if `vouched` is true, or at an unknown time
    /// before. The leader counts a session as alive when it creates it.
    pub(crate) fn new(timeout: u64, margin: u64, vouched: bool) -> Self {
        Self {
            timeout,
            margin,
            heard: VecDeque::new(),
            counted: vouched.then_some(0),
            last_heard: 0,
            last_confirmed: 0,
            until: if vouched { timeout - margin } else { 0 },
        }
    }

    /// Records that a request sent at that time has been answered now.
    pub(crate) fn answered(&mut self, sign: Sign, sent: u64, now: u64) {
        // For an adopted session, the first reply counts as its establishment.
        self.counted.get_or_insert(sent);
        if sign == Sign::Confirmed {
            self.confirmed(sent);
        }
        self.last_heard = self.last_heard.max(sent);
        // Keeping fewer entries than needed is on the safe side.
        if self.heard.back().is_none_or(|(last, _)| last + self.timeout / 28 <= sent) {
            self.heard.push_back((sent, now + self.report()));
        }
        while self.heard.get(1).is_some_and(|(_, reported)| *reported <= sent) {
            self.heard.pop_front();
        }
    }

    fn confirmed(&mut self, sent: u64) {
        let reported = self.heard.iter().rev().find(|(_, reported)| *reported <= sent);
        self.counted = self.counted.max(reported.map(|(sent, _)| *sent));
        let by_answer = (sent + self.timeout).saturating_sub(self.margin);
        let by_report = (self.counted.unwrap_or(0) + self.timeout).saturating_sub(self.clocks());
        self.until = self.until.max(by_answer.min(by_report));
        self.last_confirmed = self.last_confirmed.max(sent);
    }

    /// Records a connection that continues the session, made after `since` and after the end of the one before, and the
    /// timeout and margin that are granted on it. The servers may have counted by a shorter timeout before that. By a
    /// longer one only some do: the next leader goes by the one that the session was created with.
    pub(crate) fn connected(&mut self, timeout: u64, margin: u64, since: u64) {
        if timeout < self.timeout {
            (self.timeout, self.margin) = (timeout, margin);
            self.until = self.until.min(since + timeout - margin);
        }
        // What was heard before proves less from now on. Whatever is answered from now on was sent on it.
        self.heard.clear();
        self.heard.push_back((since, since));
    }

    /// Returns when the last answered request was sent.
    pub(crate) fn last_heard(&self) -> u64 {
        self.last_heard.max(self.last_confirmed)
    }

    /// Returns the longest time for which a follower keeps to itself what it has heard: half a tick. By default,
    /// servers grant no session timeout of less than two ticks.
    pub(crate) fn report(&self) -> u64 {
        self.timeout.div_ceil(4)
    }

    /// Returns the part of the margin for what no reply can prove: clocks that run at different rates, late reports
    /// of servers, and the time it takes to notice the loss.
    fn clocks(&self) -> u64 {
        self.margin / 7
    }

    /// Returns until when the session cannot have expired.
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    /// Returns what to do now before a lock is handed out, after so many confirmations that were made for that purpose.
    ///
    /// A holder that were to lose the lock soon, although the servers answer, would not have needed it. So the lock is
    /// handed out with a validity [worth having](Self::worth) ahead, or after a confirmation. After a silence of its
    /// connection, one confirmation is not enough: it cannot show that the leader has heard of the session before it
    /// expires it. The second can, once that has been reported. No more are waited for as long as the session is valid:
    /// over a slow connection, none might be enough.
    pub(crate) fn granting(&self, now: u64, confirmations: u32) -> Granting {
        let is_enough = confirmations > 1 || self.until >= self.last_confirmed + self.worth();
        if now + self.worth() <= self.until {
            Granting::Now
        } else if confirmations == 0 {
            Granting::Confirm(now)
        } else if now < self.until && is_enough {
            Granting::Now
        } else {
            Granting::Confirm(self.worth_confirming_at().unwrap_or(now))
        }
    }

    /// Returns the validity that a lock is to have when it is handed out: half of the timeout, or as much less as the
    /// margin leaves to a session that is confirmed regularly.
    fn worth(&self) -> u64 {
        (self.timeout / 2).min((self.timeout - self.margin).saturating_sub(self.timeout / 6))
    }

    /// Returns from when on the session is in doubt, unless another reply comes.
    pub(crate) fn suspect_at(&self) -> u64 {
        (self.last_confirmed + (self.timeout - self.margin) / 2).min(self.until)
    }

    /// Returns when the next request is due whose only purpose is to prove that the session is alive. It is sent
    /// even if nothing depends on the session, for the sake of later dependants; and earlier than a ping would be,
    /// so that it replaces the pings. After a silence, it comes as soon as what was heard since has been reported.
    pub(crate) fn beat_at(&self, is_needed: bool) -> u64 {
        let last = if is_needed { self.last_confirmed } else { self.last_heard };
        let regular = last + self.timeout / 7;
        if !is_needed || self.until >= self.last_confirmed + self.worth() {
            return regular;
        }
        self.next_report().map_or(regular, |at| at.min(regular))
    }

    /// Returns when another confirmation is worth a lock: when something will have been reported that was answered soon
    /// enough, or else anything.
    fn worth_confirming_at(&self) -> Option<u64> {
        let is_worth_it =
            |(sent, reported): &&(u64, u64)| sent + self.timeout - self.clocks() >= reported + self.worth();
        let mut unconfirmed = self.heard.iter().filter(|(_, reported)| *reported > self.last_confirmed);
        unconfirmed.find(is_worth_it).map(|(_, reported)| *reported).or_else(|| self.next_report())
    }

    /// Returns when the first that was heard and that no confirmation has counted yet will have been reported.
    fn next_report(&self) -> Option<u64> {
        self.heard.iter().map(|(_, reported)| *reported).filter(|at| *at > self.last_confirmed).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Sign::{Confirmed, Heard};

    const TIMEOUT: u64 = 8400;
    const BEAT: u64 = TIMEOUT / 7;

    fn signs() -> Signs {
        Signs::new(TIMEOUT, TIMEOUT / 3, true)
    }

    #[test]
    fn a_session_that_is_confirmed_regularly_is_valid_for_two_thirds_of_its_timeout() {
        let mut signs = signs();
        assert_eq!(signs.until(), TIMEOUT * 2 / 3);
        for beat in 1..50 {
            signs.answered(Confirmed, beat * BEAT, beat * BEAT);
            assert_eq!(signs.until(), beat * BEAT + TIMEOUT * 2 / 3);
            assert!(signs.heard.len() <= 9, "{signs:?}");
        }
    }

    #[test]
    fn what_is_only_heard_proves_nothing_by_itself() {
        let mut signs = signs();
        for beat in 1..50 {
            signs.answered(Heard, beat * BEAT, beat * BEAT);
        }
        assert_eq!(signs.until(), TIMEOUT * 2 / 3);
        // A later confirmation proves that it was reported.
        signs.answered(Confirmed, 50 * BEAT, 50 * BEAT);
        assert_eq!(signs.until(), 50 * BEAT + TIMEOUT * 2 / 3);
    }

    #[test]
    fn after_a_silence_it_counts_from_what_was_heard_before() {
        let mut signs = signs();
        signs.answered(Confirmed, TIMEOUT, TIMEOUT);
        let end = TIMEOUT * 3 / 2;
        signs.answered(Confirmed, end, end);
        let by_report = 2 * TIMEOUT - TIMEOUT / 21;
        assert_eq!(signs.until(), by_report);
        // Any number of confirmations at once prove no more; one that comes a quarter of the timeout later does.
        signs.answered(Confirmed, end + TIMEOUT / 4 - 1, end + TIMEOUT / 4 - 1);
        assert_eq!(signs.until(), by_report);
        signs.answered(Confirmed, end + TIMEOUT / 4, end + TIMEOUT / 4);
        assert_eq!(signs.until(), end + TIMEOUT / 4 + TIMEOUT * 2 / 3);
    }

    #[test]
    fn after_a_silence_a_lock_is_handed_out_when_the_second_confirmation_counts() {
        let mut signs = signs();
        signs.answered(Confirmed, 0, 0);
        let end = TIMEOUT * 4 / 5;
        assert_eq!(signs.granting(end, 0), Granting::Confirm(end));
        signs.answered(Confirmed, end, end);
        assert!(signs.until() > end, "it is valid, but not for long");
        let again = end + TIMEOUT / 4;
        assert_eq!(signs.granting(end, 1), Granting::Confirm(again));
        assert_eq!(signs.beat_at(true), end + BEAT);
        signs.answered(Confirmed, end + BEAT, end + BEAT);
        assert_eq!(signs.beat_at(true), again, "for who holds already");
        signs.answered(Confirmed, again, again);
        assert_eq!(signs.granting(again, 2), Granting::Now);
        assert_eq!(signs.until(), again + TIMEOUT * 2 / 3);
        assert_eq!(signs.beat_at(true), again + BEAT);
    }

    #[test]
    fn no_second_confirmation_comes_too_early_to_be_worth_a_lock() {
        let mut signs = signs();
        signs.connected(TIMEOUT, TIMEOUT / 3, TIMEOUT / 17);
        // A slow answer.
        let mut now = TIMEOUT * 5 / 8;
        signs.answered(Confirmed, TIMEOUT * 2 / 9, now);
        let mut confirmations = 0;
        while let Granting::Confirm(at) = signs.granting(now, confirmations) {
            let sent = now.max(at);
            now = sent + TIMEOUT / 22;
            signs.answered(Confirmed, sent, now);
            confirmations += 1;
        }
        assert!(signs.until() >= now + TIMEOUT / 2, "{signs:?} at {now}");
        assert_eq!(confirmations, 2);
    }

    #[test]
    fn on_a_connection_that_is_made_after_a_silence_one_confirmation_is_enough() {
        for answered in [0, BEAT] {
            let mut signs = signs();
            signs.answered(Confirmed, 0, 0);
            let since = TIMEOUT * 4 / 5;
            signs.connected(TIMEOUT, TIMEOUT / 3, since);
            assert!(signs.until() < since, "a connection alone proves nothing");
            let sent = since + answered;
            signs.answered(Confirmed, sent, sent);
            assert_eq!(signs.until(), (sent + TIMEOUT * 2 / 3).min(since + TIMEOUT - TIMEOUT / 21));
            assert_eq!(signs.granting(sent, 1), Granting::Now);
        }
    }

    #[test]
    fn connections_that_come_and_go_take_no_memory() {
        let mut signs = signs();
        for since in 0..1000 {
            signs.connected(TIMEOUT, TIMEOUT / 3, since);
        }
        assert_eq!(signs.heard.len(), 1);
    }

    #[test]
    fn the_second_confirmation_comes_when_what_was_heard_first_after_the_silence_is_reported() {
        let mut signs = signs();
        signs.answered(Confirmed, 0, 0);
        let end = TIMEOUT * 4 / 5;
        for heard in [end, end + TIMEOUT / 12, end + TIMEOUT / 6] {
            signs.answered(Heard, heard, heard);
        }
        let wanted = end + TIMEOUT / 5;
        assert!(signs.until() < wanted, "nothing is confirmed since the silence");
        signs.answered(Confirmed, wanted, wanted);
        let reported = end + TIMEOUT / 4;
        assert_eq!(signs.granting(wanted, 1), Granting::Confirm(reported));
        signs.answered(Confirmed, reported, reported);
        assert_eq!(signs.granting(reported, 2), Granting::Now);
        assert!(signs.until() >= reported + TIMEOUT / 2, "{signs:?}");
    }

    #[test]
    fn a_lock_is_handed_out_at_once_if_half_of_the_timeout_is_ahead() {
        let mut signs = signs();
        for beat in 1..10 {
            signs.answered(Heard, beat * BEAT, beat * BEAT);
        }
        // Between two beats; what was heard is as old as it can be.
        for sent in [10 * BEAT, 10 * BEAT + TIMEOUT / 28 - 1, 11 * BEAT - 1] {
            let mut signs = signs.clone();
            signs.answered(Confirmed, sent, sent);
            let answered = sent + TIMEOUT / 20;
            assert_eq!(signs.granting(answered, 0), Granting::Now, "{signs:?}");
            let half = signs.until() - TIMEOUT / 2;
            assert_eq!(signs.granting(half + 1, 0), Granting::Confirm(half + 1));
        }
    }

    #[test]
    fn whatever_the_margin_a_session_that_is_confirmed_regularly_is_good_for_a_lock() {
        for margin in (0..=TIMEOUT * 2 / 3).step_by(100) {
            let mut signs = Signs::new(TIMEOUT, margin, true);
            for beat in 1..9 {
                signs.answered(Confirmed, beat * BEAT, beat * BEAT + 10);
                assert_eq!(signs.granting((beat + 1) * BEAT + 10, 0), Granting::Now, "{margin}: {signs:?}");
            }
        }
    }

    #[test]
    fn a_slow_connection_keeps_nobody_waiting_for_more_than_two_confirmations_while_it_is_valid() {
        let mut signs = signs();
        let (mut now, mut confirmations, late) = (TIMEOUT, 0, TIMEOUT / 3);
        while let Granting::Confirm(at) = signs.granting(now, confirmations) {
            now = now.max(at) + late;
            signs.answered(Confirmed, now - late, now);
            confirmations += 1;
        }
        assert!(now < signs.until() && signs.until() < now + TIMEOUT / 2, "{signs:?} at {now}");
        assert_eq!(confirmations, 2);
        // One that is never valid is never good for a lock.
        let late = TIMEOUT;
        for _ in 0..20 {
            now += late;
            signs.answered(Confirmed, now - late, now);
            assert!(matches!(signs.granting(now, 2), Granting::Confirm(_)), "{signs:?} at {now}");
        }
    }

    #[test]
    fn what_was_answered_late_may_have_been_heard_late() {
        let mut signs = signs();
        signs.answered(Heard, TIMEOUT / 2, TIMEOUT / 2 + TIMEOUT / 4);
        signs.answered(Confirmed, TIMEOUT / 2 + TIMEOUT / 4, TIMEOUT);
        assert_eq!(signs.until(), TIMEOUT - TIMEOUT / 21, "it counts from the beginning");
        signs.answered(Confirmed, TIMEOUT, TIMEOUT);
        assert_eq!(signs.until(), TIMEOUT / 2 + TIMEOUT - TIMEOUT / 21);
    }

    #[test]
    fn a_smaller_margin_takes_nothing_from_the_time_of_a_report() {
        for margin in [0, TIMEOUT / 10, TIMEOUT / 3, TIMEOUT * 2 / 3] {
            let mut signs = Signs::new(TIMEOUT, margin, true);
            for sent in [0, BEAT, 2 * BEAT, 3 * BEAT] {
                signs.answered(Confirmed, sent, sent);
            }
            assert!(signs.until() <= BEAT + TIMEOUT - margin / 7, "{signs:?}");
            assert!(signs.until() <= 3 * BEAT + TIMEOUT - margin, "{signs:?}");
        }
    }

    #[test]
    fn late_answers_and_dense_ones_are_on_the_safe_side() {
        let mut signs = signs();
        for sent in (0..TIMEOUT).step_by(10) {
            signs.answered(Confirmed, sent, sent);
            assert!(signs.heard.len() <= 10, "{signs:?}");
        }
        let until = signs.until();
        assert!(until > TIMEOUT - 10 + TIMEOUT * 2 / 3 - TIMEOUT / 14, "{signs:?}");
        signs.answered(Confirmed, TIMEOUT / 2, TIMEOUT / 2);
        assert_eq!(signs.until(), until);
    }

    #[test]
    fn a_shorter_timeout_ends_it_sooner_and_a_longer_one_changes_nothing() {
        let mut signs = signs();
        signs.answered(Confirmed, TIMEOUT / 2, TIMEOUT / 2);
        let until = signs.until();
        let since = TIMEOUT / 2 + BEAT;
        signs.connected(TIMEOUT * 2, TIMEOUT * 2 / 3, since);
        assert_eq!(signs.until(), until);
        signs.answered(Confirmed, since, since);
        assert_eq!(signs.until(), since + TIMEOUT * 2 / 3);
        signs.connected(BEAT, BEAT / 3, since);
        assert_eq!(signs.until(), since + BEAT - BEAT / 3);
        for sent in (since..since + TIMEOUT).step_by(60) {
            signs.answered(Confirmed, sent, sent);
            assert!(signs.until() <= sent + BEAT - BEAT / 3);
        }
        assert!(signs.until() > since + TIMEOUT);
    }

    #[test]
    fn of_a_session_that_was_found_the_first_answer_is_taken_at_its_word() {
        let mut signs = Signs::new(TIMEOUT, TIMEOUT / 3, false);
        assert_eq!(signs.until(), 0);
        signs.answered(Confirmed, TIMEOUT, TIMEOUT);
        assert_eq!(signs.until(), TIMEOUT + TIMEOUT * 2 / 3);
    }
}
