//! One session in time: its client, the server that the client is connected to, and the ensemble's leader.

mod checked;

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
