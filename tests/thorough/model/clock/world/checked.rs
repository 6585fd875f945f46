//! The steps of the game, and what must hold.

use super::*;

impl Checkable for World {
    type Game = Session;
    type Step = Step;

    const GAMES: &'static [Session] = SESSIONS;
    const ALWAYS: &'static [Property<Self>] = &[
        ("no session is valid that has expired", |world| !(world.has_expired && world.is_valid())),
        ("no lock is handed out that is lost already", |world| {
            !matches!(world.lock, Lock::Granted(Grant { ahead: 0, .. }))
        }),
        ("a lock is handed out with a third of the timeout ahead, or after a confirmation", |world| {
            match world.lock {
                Lock::Granted(grant) => grant.ahead >= TIMEOUT / 3 || grant.is_confirmed,
                Lock::Unwanted | Lock::Asked { .. } => true,
            }
        }),
        ("no lock is lost that was handed out while the servers are reached", |world| {
            !matches!(world.lock, Lock::Granted(Grant { is_calm: true, is_lost: true, .. }))
        }),
    ];
    const SOMETIMES: &'static [Property<Self>] = &[
        ("one is handed out after a confirmation", |world| {
            let is_so = matches!(world.lock, Lock::Granted(Grant { is_confirmed: true, is_calm: true, .. }));
            is_so || !world.session.grants
        }),
        ("a session expires", |world| world.has_expired),
        ("one is valid for longer than a timeout", |world| world.now > TIMEOUT && world.is_valid()),
        ("what may change has changed", |world| match world.session.reconnects {
            None => true,
            Some(Change::Nothing | Change::Lengthen) => {
                world.now > TIMEOUT && world.is_valid() && !world.may_reconnect
            }
            Some(Change::Shorten) => {
                world.timeout == SHORTER && world.is_valid() && world.connecting.is_none()
            }
            Some(Change::Replace) => world.is_told && !world.has_expired,
        }),
        ("one expires at a new leader, or its server is a follower", |world| {
            world.is_replaced && world.has_expired || world.session.server == Server::Follower
        }),
    ];
    const TO_BE_SEEN: &'static [&'static str] = &[];

    fn begin(session: &'static Session) -> Vec<Self> {
        let world = |report_phase| World {
            session,
            now: 0,
            signs: Signs::new(TIMEOUT, MARGIN, true),
            request: None,
            requests_left: session.requests,
            connecting: None,
            server: session.server,
            last_counted: 0,
            has_expired: false,
            is_slow: false,
            lock: Lock::Unwanted,
            timeout: TIMEOUT,
            may_reconnect: session.reconnects.is_some(),
            is_another: false,
            is_told: false,
            has_news: false,
            report_phase,
            is_isolated: false,
            is_replaced: false,
            pace: Pace::Runs,
            pauses_left: session.pauses,
            may_move: session.moves,
        };
        let phases = if session.server == Server::Follower || session.moves { REPORT } else { 1 };
        (0..phases).map(world).collect()
    }

    fn next(&self, steps: &mut Vec<Step>) {
        if self.is_told {
            // It is not valid any more, whatever happens.
            return;
        }
        let is_late = self.request.is_some_and(|request| request.sent + self.session.latest <= self.now);
        // The answer of servers that have shortened a timeout is not lost: that cannot be known.
        let is_due = self.connecting.is_some_and(|(since, _)| since + self.session.latest <= self.now);
        if is_late {
            steps.push(Step::Lose);
        } else if is_due {
            // Its answer, or its end.
        } else if self.is_in_a_hurry() {
            // A client that is stopped may lose whatever it is given.
        } else if self.now < END {
            steps.push(Step::Tick);
        }
        match self.lock {
            Lock::Unwanted if self.session.grants && self.request.is_none() => steps.push(Step::Ask),
            _ => {}
        }
        match (self.request, self.granting()) {
            (None, Some(Granting::Now)) => steps.push(Step::Grant),
            (None, Some(Granting::Confirm(at))) if at <= self.now => steps.push(Step::Send(Probe::Check)),
            _ => {}
        }
        match self.request {
            None if self.connecting.is_some() => {}
            None if self.lock != Lock::Unwanted => {}
            None if self.requests_left > 0 => {
                steps.extend([Probe::Sync, Probe::Check].map(Step::Send));
            }
            None => {}
            Some(Request { is_served: true, .. }) => steps.push(Step::Answer),
            Some(Request { probe, .. }) if self.serves(probe) => steps.push(Step::Serve),
            Some(_) => {}
        }
        match self.connecting {
            None if self.may_reconnect => steps.push(Step::Reconnect),
            None => {}
            Some((_, true)) => steps.push(Step::Reconnected),
            Some(_) if self.takes_in(self.session.reconnects) => {
                steps.extend(self.session.reconnects.map(Step::TakeIn))
            }
            Some(_) if is_due => steps.push(Step::Lose),
            Some(_) => {}
        }
        if self.has_expired || self.is_calm() {
            // Nothing that happens now makes a difference, or nothing happens.
            return;
        }
        match self.pace {
            Pace::Runs if self.pauses_left > 0 && self.is_led() => steps.push(Step::Pause),
            Pace::Paused { .. } => steps.push(Step::GoOn),
            Pace::Runs | Pace::GoesOn { .. } => {}
        }
        if !self.is_isolated {
            steps.push(Step::Isolate);
        } else if !self.is_led() {
            steps.push(Step::Elect);
        } else if self.may_move && !self.is_paused() {
            steps.push(Step::Move);
        }
    }

    fn step(&mut self, step: Step, _: &Seen) {
        match step {
            Step::Tick => self.tick(),
            Step::Send(probe) => {
                if self.lock == Lock::Unwanted {
                    self.requests_left -= 1;
                }
                self.request = Some(Request { probe, sent: self.now, is_served: false });
            }
            Step::Serve => {
                self.serve();
                self.request.as_mut().expect("it was sent").is_served = true;
            }
            Step::Answer => {
                let Request { probe, sent, .. } = self.request.take().expect("it was served");
                self.signs.answered(probe.sign(KeepAlive::Quorum), sent, self.now);
                self.is_slow |= self.session.grants && self.now > sent;
                if let Lock::Asked { confirmations } = &mut self.lock {
                    // More make no difference.
                    *confirmations = (*confirmations + 1).min(5);
                }
            }
            Step::Ask => self.lock = Lock::Asked { confirmations: 0 },
            Step::Grant => {
                let Lock::Asked { confirmations } = self.lock else { unreachable!("it was asked for") };
                self.lock = Lock::Granted(Grant {
                    ahead: self.signs.until().saturating_sub(self.now),
                    is_confirmed: confirmations > 0,
                    is_calm: !self.is_isolated && !self.is_slow && self.pace == Pace::Runs,
                    is_lost: false,
                });
                self.beat();
            }
            Step::Lose => {
                (self.request, self.connecting) = (None, None);
                if let Lock::Asked { confirmations } = &mut self.lock {
                    // It begins anew.
                    *confirmations = 0;
                }
            }
            Step::Pause => {
                self.pauses_left -= 1;
                self.pace = Pace::Paused { is_overdue: false };
            }
            Step::GoOn => {
                let Pace::Paused { is_overdue } = self.pace else { unreachable!("it stands still") };
                self.pace = Pace::GoesOn { is_overdue };
            }
            Step::Isolate => self.is_isolated = true,
            Step::Elect => {
                self.is_replaced = true;
                self.pace = Pace::Runs;
                self.last_counted = self.now;
            }
            Step::Reconnect => {
                self.request = None;
                self.connecting = Some((self.now, false));
                self.may_reconnect = false;
            }
            Step::TakeIn(change) => {
                // The leader counts it as alive.
                match change {
                    Change::Nothing if self.is_isolated => {}
                    Change::Nothing | Change::Lengthen => self.last_counted = self.now,
                    Change::Shorten => (self.last_counted, self.timeout) = (self.now, SHORTER),
                    Change::Replace => self.is_another = true,
                }
                self.connecting = self.connecting.map(|(since, _)| (since, true));
            }
            Step::Reconnected => {
                let (since, _) = self.connecting.take().expect("it was taken in");
                if continues(ID, if self.is_another { OTHER } else { ID }) {
                    let is_longer = self.session.reconnects == Some(Change::Lengthen);
                    let timeout = if is_longer { LONGER } else { self.timeout };
                    self.signs.connected(timeout, timeout / 3, since);
                } else {
                    (self.is_told, self.requests_left) = (true, 0);
                }
            }
            Step::Move => {
                self.request = None;
                self.connecting = None;
                self.server = Server::Follower;
                self.is_isolated = false;
                self.has_news = false;
                self.may_move = false;
                self.last_counted = self.now;
            }
        }
        self.tidy();
    }
}
