//! Signs of life of a session: what the answers of the servers prove about its end. No I/O, no clock, any unit of time.
//!
//! The leader expires a session when its timeout has passed since the leader last counted it as alive. For a client
//! that is connected to a follower, the leader does so only when the follower reports which sessions it has heard
//! from, every half tick. A write that the follower passes on is not counted, although the leader commits it. So the
//! answer to a write proves that the session was alive then, but not that its time was counted from then on: if the
//! follower is cut off before its next report, it is counted from an earlier request.
//!
//! What an answer does prove: whatever had been answered half a tick before the request was sent was reported before. A
//! follower sends its reports and its clients' writes to the leader in one stream.

use std::collections::VecDeque;

use super::keep_alive::KeepAlive;

/// What an answer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sign {
    /// A server has heard from the client. It may be cut off from the others.
    Heard,
    /// A majority of the servers has committed the request, so that its leader has not expired the session. Under
    /// [`KeepAlive::Leader`](super::KeepAlive::Leader) also that a leader has answered.
    Confirmed,
}

/// A request that is made for its answer alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Probe {
    /// Any server answers it, whatever the others do.
    Read,
    /// A leader answers it, also one that the others have replaced.
    Sync,
    /// A transaction that only checks. A majority commits it.
    Check,
}

impl Probe {
    /// By which a session is confirmed.
    pub(crate) fn of(keep_alive: KeepAlive) -> Self {
        match keep_alive {
            KeepAlive::Quorum => Self::Check,
            KeepAlive::Leader => Self::Sync,
        }
    }

    /// What its answer tells.
    pub(crate) fn sign(self, keep_alive: KeepAlive) -> Sign {
        if self == Self::Check || self == Self::of(keep_alive) { Sign::Confirmed } else { Sign::Heard }
    }
}

/// What is known of one session. All times are since the clock of the session started.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Signs {
    timeout: u64,
    margin: u64,
    /// When requests were sent, and answered; the oldest first, no two closer than needed, none older than needed.
    heard: VecDeque<(u64, u64)>,
    /// The leader has counted the session as alive at this time or later. `None` if nothing is known of it.
    counted: Option<u64>,
    last_heard: u64,
    last_confirmed: u64,
    until: u64,
}

impl Signs {
    /// Of a session that was made since time 0 or, if that is not vouched for, at some time before. The leader counts
    /// a session as alive when it makes it.
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

    /// A request that was sent at that time is answered now.
    pub(crate) fn answered(&mut self, sign: Sign, sent: u64, now: u64) {
        // Of a session of somebody else, the first answer is taken as if it had been made then.
        self.counted.get_or_insert(sent);
        if sign == Sign::Confirmed {
            self.confirmed(sent);
        }
        self.last_heard = self.last_heard.max(sent);
        self.remember(sent, now);
    }

    fn confirmed(&mut self, sent: u64) {
        let is_reported = |heard: &&(u64, u64)| heard.1 + self.report() <= sent;
        let reported = self.heard.iter().rev().find(is_reported);
        self.counted = self.counted.max(reported.map(|(sent, _)| *sent));
        let by_answer = (sent + self.timeout).saturating_sub(self.margin);
        let by_report = (self.counted.unwrap_or(0) + self.timeout).saturating_sub(self.clocks());
        self.until = self.until.max(by_answer.min(by_report));
        self.last_confirmed = self.last_confirmed.max(sent);
    }

    fn remember(&mut self, sent: u64, now: u64) {
        // Less dense than needed is on the safe side.
        if self.heard.back().is_none_or(|(last, _)| last + self.timeout / 28 <= sent) {
            self.heard.push_back((sent, now));
        }
        while self.heard.get(1).is_some_and(|(_, answered)| answered + self.report() <= sent) {
            self.heard.pop_front();
        }
    }

    /// The servers grant another timeout from a connection on that was made since that time. Sooner they may have counted
    /// by the new one, later not by the old one any more.
    pub(crate) fn renegotiated(&mut self, timeout: u64, margin: u64, since: u64) {
        (self.timeout, self.margin) = (timeout, margin);
        self.until = self.until.min(since + timeout - margin);
    }

    /// When something was heard for the last time.
    pub(crate) fn last_heard(&self) -> u64 {
        self.last_heard.max(self.last_confirmed)
    }

    /// For how long a follower keeps what it has heard to itself, at most: half a tick, and by default servers grant no
    /// session of less than two ticks.
    pub(crate) fn report(&self) -> u64 {
        self.timeout.div_ceil(4)
    }

    /// The part of the margin for what no answer can prove: clocks that run at different speeds, servers that are
    /// late with their reports, the time that it takes to notice the loss.
    fn clocks(&self) -> u64 {
        self.margin / 7
    }

    /// Until when the session cannot have expired.
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    /// From when on it is in doubt unless another answer comes.
    pub(crate) fn suspect_at(&self) -> u64 {
        (self.last_confirmed + (self.timeout - self.margin) / 2).min(self.until)
    }

    /// When the next request is due that only proves that the session is alive, for somebody who depends on it or, for the
    /// sake of those who may come, for nobody. Earlier than a ping would be, so that it takes the place of the pings.
    pub(crate) fn beat_at(&self, is_needed: bool) -> u64 {
        let last = if is_needed { self.last_confirmed } else { self.last_heard };
        last + self.timeout / 7
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
        // But what is confirmed afterwards proves that it was reported.
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
        // As many as may come at once prove no more; a quarter of the timeout later one does.
        signs.answered(Confirmed, end + TIMEOUT / 4 - 1, end + TIMEOUT / 4 - 1);
        assert_eq!(signs.until(), by_report);
        signs.answered(Confirmed, end + TIMEOUT / 4, end + TIMEOUT / 4);
        assert_eq!(signs.until(), end + TIMEOUT / 4 + TIMEOUT * 2 / 3);
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
    fn a_shorter_timeout_ends_it_sooner_and_a_longer_one_not_before_an_answer() {
        let mut signs = signs();
        signs.answered(Confirmed, TIMEOUT / 2, TIMEOUT / 2);
        let until = signs.until();
        let since = TIMEOUT / 2 + BEAT;
        signs.renegotiated(TIMEOUT * 2, TIMEOUT * 2 / 3, since);
        assert_eq!(signs.until(), until);
        signs.renegotiated(BEAT, BEAT / 3, since);
        assert_eq!(signs.until(), since + BEAT - BEAT / 3);
        for sent in (since..since + TIMEOUT).step_by(60) {
            signs.answered(Confirmed, sent, sent);
            assert!(signs.until() <= sent + BEAT - BEAT / 3);
        }
        assert!(signs.until() > since + TIMEOUT);
        signs.renegotiated(TIMEOUT, TIMEOUT / 3, since + TIMEOUT);
        for sent in (since + TIMEOUT..since + 3 * TIMEOUT).step_by(60) {
            signs.answered(Confirmed, sent, sent);
        }
        assert!(signs.until() > since + 3 * TIMEOUT + TIMEOUT / 2);
    }

    #[test]
    fn of_a_session_that_was_found_the_first_answer_is_taken_at_its_word() {
        let mut signs = Signs::new(TIMEOUT, TIMEOUT / 3, false);
        assert_eq!(signs.until(), 0);
        signs.answered(Confirmed, TIMEOUT, TIMEOUT);
        assert_eq!(signs.until(), TIMEOUT + TIMEOUT * 2 / 3);
    }
}
