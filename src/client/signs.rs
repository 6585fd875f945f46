//! Signs of life of a session: what the replies of the servers prove about its end. No I/O, no clock, any unit of
//! time.
//!
//! The leader expires a session when the session timeout has passed since it last counted the session as alive. If
//! the client is connected to a follower, the leader counts the session only when the follower reports which
//! sessions it has heard from. It asks for that every half tick, unless it stands still. A write that the follower
//! forwards does not count, although the leader commits it. So the reply to a write proves that the session was alive at
//! that time, but not that its timeout was counted from then on: if the follower is cut off before its next report, or if
//! the leader has just gone on after a pause, the timeout is counted from an earlier request.
//!
//! Three replies prove more. What was answered half a tick before a second request was sent, which the leader has
//! answered as well, is asked for by then, or as soon as the leader has gone on. So it has been reported before a third
//! request is committed that was sent a moment after the second was answered: a follower sends its reports and its
//! clients' requests to the leader in one stream. And a connection that continues a session is reported at once: the
//! server asks its leader, which counts the session as alive.

use std::collections::VecDeque;

use super::keep_alive::KeepAlive;

/// What a reply proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sign {
    /// A leader has answered. It may be cut off from the others, and replaced.
    Led,
    /// A majority of the servers has committed the request, so the leader has not expired the session. Under
    /// [`KeepAlive::Leader`](super::KeepAlive::Leader), the reply of a leader counts as well.
    Confirmed,
}

/// A request that is made only for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Probe {
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
        if self == Self::Check || self == Self::of(keep_alive) { Sign::Confirmed } else { Sign::Led }
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
    /// When requests were sent that a server has heard. And from when on the answer to a request proves that the leader
    /// asks that server. Oldest first; no two are closer than needed.
    heard: VecDeque<(u64, u64)>,
    /// When requests were sent that the leader asks for. And from when on the commit of a request proves that it has been
    /// told. Oldest first.
    asked_for: VecDeque<(u64, u64)>,
    /// A time since which the leader has counted the session as alive, at that time or later. `None` if nothing is
    /// known.
    counted: Option<u64>,
    last_heard: u64,
    last_confirmed: u64,
    /// How long the last answer took.
    took: u64,
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
            asked_for: VecDeque::new(),
            counted: vouched.then_some(0),
            last_heard: 0,
            last_confirmed: 0,
            took: 0,
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
        self.took = now.saturating_sub(sent);
        if let Some(heard) = take_due(&mut self.heard, sent) {
            self.asked_for.push_back((heard, now + self.moment()));
        }
        while self.asked_for.get(1).is_some_and(|(_, told)| *told <= sent) {
            self.asked_for.pop_front();
        }
        // Keeping fewer entries than needed is on the safe side.
        if self.heard.back().is_none_or(|(last, _)| last + self.moment() <= sent) {
            self.heard.push_back((sent, now + self.report()));
        }
    }

    fn confirmed(&mut self, sent: u64) {
        self.counted = self.counted.max(take_due(&mut self.asked_for, sent));
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
        self.asked_for.clear();
        self.asked_for.push_back((since, since));
    }

    /// Returns when the last answered request was sent.
    pub(crate) fn last_heard(&self) -> u64 {
        self.last_heard.max(self.last_confirmed)
    }

    /// Returns the longest time after which a leader asks its followers again what they have heard, unless it stands
    /// still: half a tick. By default, servers grant no session timeout of less than two ticks.
    pub(crate) fn report(&self) -> u64 {
        self.timeout.div_ceil(4)
    }

    /// Returns the time within which a leader that goes on after a pause does what it has left undone, or a bit more.
    fn moment(&self) -> u64 {
        self.timeout.div_ceil(28)
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
    /// expires it. The third can, a report after the first; or one of the next, if they overlap. No more than five are
    /// waited for as long as the session is valid, and two over a slow connection, where none might be enough.
    pub(crate) fn granting(&self, now: u64, confirmations: u32) -> Granting {
        let most = if self.is_slow() { 1 } else { 4 };
        let is_enough = confirmations > most || self.is_regular();
        if now + self.worth() <= self.until {
            Granting::Now
        } else if confirmations == 0 {
            Granting::Confirm(now)
        } else if now < self.until && is_enough {
            Granting::Now
        } else {
            Granting::Confirm(self.worth_confirming_at(now).unwrap_or(now))
        }
    }

    /// Returns the validity that a lock is to have when it is handed out: a third of the timeout while the session is
    /// confirmed regularly, and else as much as if it were. Less if the margin is larger.
    fn worth(&self) -> u64 {
        if self.is_regular() { self.usual().min(self.timeout / 3) } else { self.usual() }
    }

    /// Whether the session is valid for as long as the last answer can make it, or confirmations at the usual times make
    /// it valid for longer before that ends.
    fn is_regular(&self) -> bool {
        let is_in_time = |at| at + self.timeout * 2 / 7 + self.took <= self.until;
        self.until >= (self.last_confirmed + self.timeout).saturating_sub(self.margin)
            || self.next_report().is_none_or(is_in_time)
    }

    /// Whether answers take so long that none might make it regular.
    fn is_slow(&self) -> bool {
        self.took > self.timeout / 10
    }

    /// Returns for how long a session is valid from a confirmation on, if it is confirmed regularly.
    fn usual(&self) -> u64 {
        (self.timeout / 2).min((self.timeout - self.margin).saturating_sub(self.timeout / 6))
    }

    /// Returns from when on the session is in doubt, unless another reply comes.
    pub(crate) fn suspect_at(&self) -> u64 {
        (self.last_confirmed + (self.timeout - self.margin) / 2).min(self.until)
    }

    /// Returns the time from one request of [`beat_at`](Self::beat_at) to the next.
    pub(crate) fn beat(&self) -> u64 {
        self.timeout / 7
    }

    /// Returns when the next request is due whose only purpose is to prove that the session is alive. It is sent
    /// even if nothing depends on the session, for the sake of later dependants; and earlier than a ping would be,
    /// so that it replaces the pings. After a silence, it comes as soon as what was heard since has been reported.
    pub(crate) fn beat_at(&self, is_needed: bool) -> u64 {
        let last = if is_needed { self.last_confirmed } else { self.last_heard };
        let regular = last + self.beat();
        if !is_needed || self.is_regular() {
            return regular;
        }
        self.next_report().map_or(regular, |at| at.min(regular))
    }

    /// Returns when another confirmation is worth a lock: when it counts something before that is too old, or brings it
    /// about that something is counted that was heard soon enough, or else anything.
    fn worth_confirming_at(&self, now: u64) -> Option<u64> {
        let answered_at = |at: u64| now.max(at) + self.took;
        let counts = |(sent, at): &&(u64, u64)| self.lasts(*sent, self.until.max(answered_at(*at)));
        let is_worth_it = |(sent, at): &&(u64, u64)| self.lasts(*sent, at + self.usual());
        // The last of the former, so that each confirmation counts for as much as it can.
        let next = self.asked_for.iter().rfind(counts).or_else(|| self.heard.iter().find(is_worth_it));
        next.map(|(_, at)| *at).or_else(|| self.next_report())
    }

    /// Returns when a confirmation makes the session valid for longer, or brings that about.
    fn next_report(&self) -> Option<u64> {
        let mut uncounted = self.asked_for.iter().chain(&self.heard);
        uncounted.find(|(sent, _)| self.lasts(*sent, self.until)).map(|(_, at)| *at)
    }

    /// Whether the session is valid after that time, once it is known that the leader has been told of a request.
    fn lasts(&self, sent: u64, time: u64) -> bool {
        sent + self.timeout - self.clocks() > time
    }
}

/// Takes what is due by a time, and returns when the last of it was sent.
fn take_due(requests: &mut VecDeque<(u64, u64)>, by: u64) -> Option<u64> {
    let due = requests.iter().take_while(|(_, at)| *at <= by).count();
    requests.drain(..due).next_back().map(|(sent, _)| sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Sign::{Confirmed, Led};

    const TIMEOUT: u64 = 8400;
    const BEAT: u64 = TIMEOUT / 7;

    fn signs() -> Signs {
        Signs::new(TIMEOUT, TIMEOUT / 3, true)
    }

    #[test]
    fn a_session_that_is_confirmed_regularly_is_valid_for_half_of_its_timeout() {
        let mut signs = signs();
        assert_eq!(signs.until(), TIMEOUT * 2 / 3);
        for beat in 1..50 {
            signs.answered(Confirmed, beat * BEAT, beat * BEAT);
            assert!(signs.until() >= beat * BEAT + TIMEOUT / 2, "{signs:?}");
            assert!(signs.heard.len() + signs.asked_for.len() <= 9, "{signs:?}");
            // One that comes between two of them, a moment after the last.
            let (mut signs, sent) = (signs.clone(), beat * BEAT + signs.moment());
            signs.answered(Confirmed, sent, sent);
            assert!(signs.until() >= beat * BEAT + TIMEOUT * 2 / 3, "{signs:?}");
        }
    }

    #[test]
    fn connections_that_come_and_go_take_no_memory() {
        let mut signs = signs();
        for since in 0..1000 {
            signs.connected(TIMEOUT, TIMEOUT / 3, since);
        }
        assert_eq!(signs.heard.len() + signs.asked_for.len(), 1);
    }

    #[test]
    fn a_lock_is_handed_out_at_once_if_a_third_of_the_timeout_is_ahead() {
        let mut signs = signs();
        for beat in 1..10 {
            signs.answered(Led, beat * BEAT, beat * BEAT);
        }
        // Between two beats; what was heard is as old as it can be.
        for sent in [9 * BEAT + 1, 9 * BEAT + signs.moment() - 1, 10 * BEAT, 11 * BEAT - 1] {
            let mut signs = signs.clone();
            if sent >= 10 * BEAT {
                signs.answered(Led, 10 * BEAT, 10 * BEAT);
            }
            signs.answered(Confirmed, sent, sent);
            let answered = sent + TIMEOUT / 20;
            assert_eq!(signs.granting(answered, 0), Granting::Now, "{signs:?}");
            let third = signs.until() - TIMEOUT / 3;
            assert_eq!(signs.granting(third + 1, 0), Granting::Confirm(third + 1));
        }
    }

    #[test]
    fn whatever_the_margin_a_session_that_is_confirmed_regularly_is_good_for_a_lock() {
        for margin in (0..=TIMEOUT * 2 / 3).step_by(100) {
            let mut signs = Signs::new(TIMEOUT, margin, true);
            for beat in 1..15 {
                signs.answered(Confirmed, beat * BEAT, beat * BEAT + 10);
                assert_eq!(signs.granting((beat + 1) * BEAT + 10, 0), Granting::Now, "{margin}: {signs:?}");
            }
        }
    }

    #[test]
    fn a_slow_connection_keeps_nobody_waiting_for_much_longer_than_it_takes_to_be_valid() {
        let mut signs = signs();
        let (mut now, mut confirmations, late) = (TIMEOUT, 0, TIMEOUT / 6);
        while let Granting::Confirm(at) = signs.granting(now, confirmations) {
            now = now.max(at) + late;
            signs.answered(Confirmed, now - late, now);
            confirmations += 1;
        }
        assert!(now < signs.until() && signs.until() < now + TIMEOUT / 2, "{signs:?} at {now}");
        assert!(confirmations <= 5, "{confirmations}");
        // One that is never valid is never good for a lock.
        let late = TIMEOUT;
        for _ in 0..20 {
            now += late;
            signs.answered(Confirmed, now - late, now);
            assert!(matches!(signs.granting(now, 4), Granting::Confirm(_)), "{signs:?} at {now}");
        }
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
    fn who_only_waits_takes_no_memory() {
        let mut signs = signs();
        for beat in 1..1000 {
            signs.answered(Led, beat * BEAT, beat * BEAT + 10);
            assert!(signs.heard.len() + signs.asked_for.len() <= 9, "{signs:?}");
        }
    }

    /// Keeps a session alive with one request at a time. Returns when the last was answered.
    fn keep_alive(signs: &mut Signs, sign: Sign, beats: u64, took: impl Fn() -> u64) -> u64 {
        let mut now = 0;
        for _ in 0..beats {
            let sent = signs.beat_at(sign == Confirmed).max(now);
            now = sent + took();
            assert!(
                sign == Led || now < signs.until(),
                "it is lost, though it is answered: {signs:?} at {now}"
            );
            signs.answered(sign, sent, now);
        }
        now
    }

    #[test]
    fn a_holder_is_not_lost_while_the_servers_answer() {
        for percent in 0..=10 {
            keep_alive(&mut signs(), Confirmed, 1000, || TIMEOUT * percent / 100);
        }
        fastrand::seed(1);
        for _ in 0..100 {
            keep_alive(&mut signs(), Confirmed, 1000, || fastrand::u64(0..TIMEOUT / 12));
        }
    }

    #[test]
    fn keeping_alive_takes_no_more_than_a_request_every_seventh_of_the_timeout() {
        for margin in (0..=TIMEOUT * 2 / 3).step_by(100) {
            for percent in 0..=3 {
                let mut signs = Signs::new(TIMEOUT, margin, true);
                let end = keep_alive(&mut signs, Confirmed, 700, || TIMEOUT * percent / 100);
                assert!(end >= 95 * TIMEOUT, "{end} at {margin}, {percent}");
            }
        }
    }

    #[test]
    fn no_acquire_waits_for_ever_over_a_slow_connection() {
        for percent in 0..=18 {
            let took = TIMEOUT * percent / 100;
            let mut signs = signs();
            let mut sent = keep_alive(&mut signs, Led, 20, || took);
            let (begun, mut confirmations) = (sent, 0);
            signs.answered(Confirmed, sent, sent + took);
            while let Granting::Confirm(at) = signs.granting(sent + took, confirmations) {
                sent = at.max(sent + took);
                signs.answered(Confirmed, sent, sent + took);
                confirmations += 1;
                assert!(sent < begun + TIMEOUT, "{percent}: {signs:?}");
            }
            assert!(signs.until() > sent + took);
            assert!(confirmations == 0 || percent > 3, "{percent}: {confirmations}");
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

    /// Waits for a lock while the leader stands still at times; each answer takes `took` besides. Returns how long the
    /// lock is valid when it is handed out after the last of these times, and whether it is kept for a session timeout.
    fn granted_after_silences(took: u64, silences: &[[u64; 2]], first_at: u64) -> (u64, bool) {
        let answered_at = |now: u64| {
            let answered = now + took;
            silences.iter().fold(answered, |at, [begin, end]| if at < *begin { at } else { at.max(*end) })
        };
        let over = silences.last().map_or(0, |[_, end]| *end);
        let (mut signs, mut confirmations, mut was_silent) = (signs(), 0, false);
        let (mut beat, mut confirm, mut wakes, mut granted) = (None, None, None, None);
        for now in 0.. {
            if let Some((sign, sent, at)) = beat
                && at <= now
            {
                signs.answered(sign, sent, now);
                beat = None;
            }
            if let Some((sent, at)) = confirm
                && at <= now
            {
                signs.answered(Confirmed, sent, now);
                (confirm, confirmations) = (None, confirmations + 1);
                if !was_silent && now - sent > TIMEOUT / 4 {
                    (confirmations, was_silent) = (1, true);
                }
            }
            if beat.is_none() && signs.beat_at(granted.is_some()) <= now {
                let sign = if granted.is_some() { Confirmed } else { Led };
                beat = Some((sign, now, answered_at(now)));
            }
            match granted {
                Some((at, ahead)) if now >= signs.until() || now > at + TIMEOUT => {
                    return (ahead, now < signs.until());
                }
                // As `become_worth_granting`.
                None if confirm.is_none() && wakes.unwrap_or(first_at) <= now => {
                    match signs.granting(now, confirmations) {
                        Granting::Now if now < over => return (signs.until() - now, true),
                        Granting::Now => granted = Some((now, signs.until() - now)),
                        Granting::Confirm(at) if now < at && wakes.is_none() => wakes = Some(at),
                        Granting::Confirm(_) => (confirm, wakes) = (Some((now, answered_at(now))), None),
                    }
                }
                _ => {}
            }
        }
        unreachable!()
    }

    #[test]
    fn a_lock_that_is_handed_out_after_a_silence_is_kept_while_the_servers_answer() {
        for percent in [0, 1, 2, 3, 5, 8, 10] {
            for begin in (TIMEOUT..TIMEOUT + BEAT).step_by(200) {
                for end in (begin + TIMEOUT / 4..begin + TIMEOUT * 7 / 10).step_by(200) {
                    for first_at in (begin..end).step_by(400) {
                        let took = TIMEOUT * percent / 100;
                        let (ahead, is_kept) = granted_after_silences(took, &[[begin, end]], first_at);
                        assert!(
                            is_kept,
                            "{percent} %, {begin} to {end}, first at {first_at}: valid for {ahead}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_leader_that_stands_still_once_more_during_the_confirmations_costs_few_locks() {
        let (mut runs, mut lost) = (0, 0);
        for percent in [1, 3, 5, 8] {
            for end in (TIMEOUT * 5 / 4..TIMEOUT * 7 / 4).step_by(700) {
                for again in (end + 100..end + TIMEOUT / 3).step_by(300) {
                    for length in (TIMEOUT / 4..TIMEOUT * 6 / 10).step_by(700) {
                        let silences = [[TIMEOUT, end], [again, again + length]];
                        let (_, is_kept) =
                            granted_after_silences(TIMEOUT * percent / 100, &silences, end - 10);
                        runs += 1;
                        lost += u32::from(!is_kept);
                    }
                }
            }
        }
        // A quarter, if the count does not begin anew.
        assert!(lost * 25 < runs, "{lost} of {runs}");
    }

    /// They bring about that ever later times are the best ones.
    #[test]
    fn those_who_ask_meanwhile_do_not_put_off_the_confirmations_for_a_lock() {
        const TIMEOUT: u64 = 4_000_000;
        let mut signs = Signs::new(TIMEOUT, TIMEOUT / 3, true);
        for beat in 1..20 {
            signs.answered(Led, beat * TIMEOUT / 7, beat * TIMEOUT / 7 + 500);
        }
        let after_a_silence = 19 * TIMEOUT / 7 + TIMEOUT * 6 / 10;
        let (mut now, mut confirmations, mut wakes) = (after_a_silence, 0, None);
        // As `become_worth_granting`, which wakes up to a millisecond late.
        loop {
            match signs.granting(now, confirmations) {
                _ if wakes.is_some_and(|at| now < at) => {}
                Granting::Now => return,
                Granting::Confirm(at) if now < at && wakes.is_none() => {
                    wakes = Some(at.next_multiple_of(1000))
                }
                Granting::Confirm(_) => {
                    signs.answered(Confirmed, now, now + 500);
                    (now, confirmations, wakes) = (now + 500, confirmations + 1, None);
                }
            }
            now += 100;
            signs.answered(Led, now - 50, now);
            assert!(now < after_a_silence + TIMEOUT / 2, "{confirmations}");
        }
    }
}
