//! One session in time: its client, the server that the client is connected to, and the ensemble's leader.

use std::hash::{Hash, Hasher};

use super::super::checker::{Checkable, Property};
use super::super::seen::Seen;
use super::KeepAlive;
use super::sessions::SESSIONS;
use super::signs::{Granting, Probe, Signs, continues};

/// The unit of time is an eighth of the session timeout.
const TIMEOUT: u64 = 8;
const MARGIN: u64 = TIMEOUT / 3;
/// What the servers grant after they were reconfigured.
const SHORTER: u64 = 5;
const LONGER: u64 = 12;
/// How often a follower reports which sessions it has heard from: half a tick, for a session of two ticks.
const REPORT: u64 = TIMEOUT / 4;
const END: u64 = TIMEOUT + 6;
/// The ids of the session, and of one that servers give instead of it.
const ID: i64 = 1;
const OTHER: i64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Server {
    Leader,
    Follower,
}

/// What servers do to a client that connects again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// They take it in. So does a leader that is isolated.
    Nothing,
    /// They grant a shorter timeout.
    Shorten,
    /// They grant a longer one, and have another leader, which does not know it.
    Lengthen,
    /// They give another session.
    Replace,
}

/// All that may happen to a session of a client that sends this many requests, whenever it likes.
pub(crate) struct Session {
    pub(crate) server: Server,
    pub(crate) requests: u8,
    /// Whether it may turn to another server when its own is isolated.
    pub(crate) moves: bool,
    /// What has changed when it connects again, if it may.
    pub(crate) reconnects: Option<Change>,
    /// How often the leader may stand still.
    pub(crate) pauses: u8,
    /// Whether a lock is handed out on it.
    pub(crate) grants: bool,
    /// For how long an answer may be on its way. Later ones are lost.
    pub(crate) latest: u64,
}

/// It is the same in all states.
impl Hash for Session {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[derive(Clone, Hash)]
pub(crate) struct World {
    session: &'static Session,
    now: u64,
    // What the client knows.
    signs: Signs,
    request: Option<Request>,
    requests_left: u8,
    /// Since when it connects again, and whether the servers have taken it in.
    connecting: Option<(u64, bool)>,
    // What the servers know.
    server: Server,
    /// By the leader that the majority follows.
    last_counted: u64,
    has_expired: bool,
    timeout: u64,
    may_reconnect: bool,
    /// Whether the connection is that of another session.
    is_another: bool,
    /// Whether the client has been told of that.
    is_told: bool,
    /// Whether the follower has heard from the client since its last report.
    has_news: bool,
    /// When the follower reports.
    report_phase: u64,
    /// Whether the client's server is cut off from the others, for ever.
    is_isolated: bool,
    /// Whether the others have a new leader.
    is_replaced: bool,
    pace: Pace,
    pauses_left: u8,
    may_move: bool,
    /// Whether an answer was on its way for longer than it mostly is.
    is_slow: bool,
    lock: Lock,
}

/// How the leader that the majority follows gets on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pace {
    Runs,
    /// It stands still, and has left undone to ask for reports, or not.
    Paused {
        is_overdue: bool,
    },
    /// It serves, but what it has left undone is done within the next unit of time.
    GoesOn {
        is_overdue: bool,
    },
}

/// A lock that is handed out on the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lock {
    Unwanted,
    /// Its node is first in the queue. The session was confirmed so often before it is handed out.
    Asked {
        confirmations: u32,
    },
    Granted(Grant),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Grant {
    /// For how long it was valid.
    ahead: u64,
    is_confirmed: bool,
    /// Whether the servers are reached, and answer at once, from then on.
    is_calm: bool,
    is_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Request {
    probe: Probe,
    sent: u64,
    is_served: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Tick,
    Send(Probe),
    /// The server gets a request and does its part; the answer is on its way.
    Serve,
    Answer,
    Lose,
    Isolate,
    /// The others elect a leader in place of the isolated one. It counts all sessions as alive.
    Elect,
    Pause,
    GoOn,
    /// The client turns to another follower, which has the leader count the session.
    Move,
    /// The client has lost its connection, and makes another.
    Reconnect,
    /// The servers take it in; the answer is on its way.
    TakeIn(Change),
    Reconnected,
    /// The lock is to be handed out.
    Ask,
    Grant,
}

impl World {
    /// Whether there is a leader that a majority follows.
    fn is_led(&self) -> bool {
        self.server == Server::Follower || !self.is_isolated || self.is_replaced
    }

    /// Forgets what makes no difference any more, so that states that are alike are equal.
    fn tidy(&mut self) {
        if self.has_expired {
            (self.last_counted, self.has_news, self.report_phase) = (0, false, 0);
        }
        if let Lock::Granted(grant) = &mut self.lock {
            self.is_slow = false;
            // All that is asked of it.
            let is_enough = grant.ahead > 0 && grant.is_confirmed;
            grant.ahead = if is_enough { TIMEOUT / 3 } else { grant.ahead.min(TIMEOUT / 3) };
            grant.is_confirmed &= grant.is_calm || !is_enough;
            grant.is_lost &= grant.is_calm;
        }
    }

    /// Whether the client takes the session for valid.
    fn is_valid(&self) -> bool {
        self.now < self.signs.until() && !self.is_told
    }

    /// Whether the client's server answers.
    fn serves(&self, probe: Probe) -> bool {
        let is_known = !self.has_expired || self.is_another;
        let knows_the_leader = !self.is_isolated && !self.is_paused() && is_known;
        match probe {
            Probe::Sync => knows_the_leader || self.is_isolated && self.server == Server::Leader,
            Probe::Check => knows_the_leader,
        }
    }

    /// Whether the client's server continues the session of a client that connects again.
    fn takes_in(&self, change: Option<Change>) -> bool {
        self.serves(if change == Some(Change::Nothing) { Probe::Sync } else { Probe::Check })
    }

    fn serve(&mut self) {
        match self.server {
            _ if self.is_another => {}
            Server::Leader if !self.is_isolated => self.last_counted = self.now,
            Server::Leader => {}
            Server::Follower => self.has_news = true,
        }
    }

    fn is_paused(&self) -> bool {
        matches!(self.pace, Pace::Paused { .. })
    }

    /// The leader asks for a report.
    fn report(&mut self) {
        if self.server == Server::Follower && !self.is_isolated && self.has_news {
            self.last_counted = self.now;
            self.has_news = false;
        }
    }

    /// The leader looks at its clock.
    fn expire(&mut self) {
        // In truth up to a tick later.
        self.has_expired |= self.is_led() && self.now >= self.last_counted + self.timeout;
    }

    fn tick(&mut self) {
        if let Pace::GoesOn { is_overdue } = self.pace {
            // In the worst order.
            self.expire();
            if is_overdue {
                self.report();
            }
            self.pace = Pace::Runs;
        }
        self.now += 1;
        let is_time = self.now % REPORT == self.report_phase;
        if let Pace::Paused { is_overdue } = &mut self.pace {
            *is_overdue |= is_time;
        } else {
            if is_time {
                self.report();
            }
            self.expire();
        }
        let is_valid = self.is_valid();
        if let Lock::Granted(grant) = &mut self.lock {
            grant.is_lost |= !is_valid;
        }
        self.beat();
    }

    /// Whether what the client sends is answered at once.
    fn is_calm(&self) -> bool {
        matches!(self.lock, Lock::Granted(Grant { is_calm: true, .. }))
    }

    /// Keeps a lock valid while the servers are reached.
    fn beat(&mut self) {
        if self.is_calm() && self.signs.beat_at(true) <= self.now && self.serves(Probe::Check) {
            self.serve();
            self.signs.answered(Probe::Check.sign(KeepAlive::Quorum), self.now, self.now);
        }
    }

    /// Whether there is something to do at once to hand out the lock.
    fn is_in_a_hurry(&self) -> bool {
        let is_due = |granting| match granting {
            Granting::Now => true,
            Granting::Confirm(at) => at <= self.now,
        };
        self.request.is_none() && self.granting().is_some_and(is_due)
    }

    /// What is to be done now to hand out the lock.
    fn granting(&self) -> Option<Granting> {
        match self.lock {
            Lock::Asked { confirmations } => Some(self.signs.granting(self.now, confirmations)),
            Lock::Unwanted | Lock::Granted(_) => None,
        }
    }
}

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
