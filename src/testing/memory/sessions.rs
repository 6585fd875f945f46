//! Which sessions there are, and until when. Times are given, and counted from the start of the server.

use std::collections::BTreeMap;
use std::time::Duration;

use super::connections::ConnectionId;

#[derive(Debug)]
pub(super) struct Session {
    timeout: Duration,
    deadline: Duration,
    /// The connection that it is attached to.
    pub(super) connection: Option<ConnectionId>,
}

#[derive(Debug)]
pub(super) struct Sessions {
    sessions: BTreeMap<i64, Session>,
    next: i64,
    tick: Duration,
}

impl Sessions {
    /// `first` is the id of the first session.
    pub(super) fn new(first: i64, tick: Duration) -> Self {
        Self { sessions: BTreeMap::new(), next: first, tick }
    }

    /// Returns an id for a session that is to be opened.
    pub(super) fn next_id(&mut self) -> i64 {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn add(&mut self, id: i64, timeout: Duration, now: Duration) {
        let deadline = self.deadline(timeout, now);
        self.sessions.insert(id, Session { timeout, deadline, connection: None });
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = i64> {
        self.sessions.keys().copied()
    }

    /// Notes a sign of life. Returns whether there is that session.
    pub(super) fn touch(&mut self, id: i64, now: Duration) -> bool {
        let Some(timeout) = self.sessions.get(&id).map(|session| session.timeout) else { return false };
        self.set_timeout(id, timeout, now)
    }

    /// Sets the timeout of a session, from now on. Returns whether there is that session.
    pub(super) fn set_timeout(&mut self, id: i64, timeout: Duration, now: Duration) -> bool {
        let deadline = self.deadline(timeout, now);
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        (session.timeout, session.deadline) = (timeout, deadline.max(session.deadline));
        true
    }

    /// Takes over the sessions of another server. They are not connected here.
    pub(super) fn restore(&mut self, other: &Self) {
        let sessions = other.sessions.iter();
        self.sessions =
            sessions.map(|(id, session)| (*id, Session { connection: None, ..*session })).collect();
    }

    pub(super) fn contains(&self, id: i64) -> bool {
        self.sessions.contains_key(&id)
    }

    pub(super) fn get_mut(&mut self, id: i64) -> Option<&mut Session> {
        self.sessions.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: i64) -> Option<Session> {
        self.sessions.remove(&id)
    }

    pub(super) fn expired(&self, now: Duration) -> Vec<i64> {
        let expired = self.sessions.iter().filter(|(_, session)| session.deadline <= now);
        expired.map(|(id, _)| *id).collect()
    }

    /// Gives each session its whole time again, as a restarted server does.
    pub(super) fn renew(&mut self, now: Duration) {
        for id in self.ids().collect::<Vec<_>>() {
            self.touch(id, now);
        }
    }

    /// Returns when a session ends without a further sign of life: at the first tick after its timeout.
    fn deadline(&self, timeout: Duration, now: Duration) -> Duration {
        let tick = self.tick.as_millis().max(1);
        let ticks = ((now + timeout).as_millis() / tick).saturating_add(1);
        Duration::from_millis(u64::try_from(ticks.saturating_mul(tick)).unwrap_or(u64::MAX))
    }
}

/// Returns an id as that of a real server: its number, and then the time, in milliseconds since 1970, at which it was
/// started. So no client takes the session of another server for its own.
pub(super) fn first_id(server: i64, started: i64, random: u16) -> i64 {
    server << 56 | (started & 0xff_ffff_ffff) << 16 | i64::from(random)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_session_ends_at_the_tick_after_its_timeout() {
        let mut sessions = Sessions::new(1, ms(100));
        let id = sessions.next_id();
        sessions.add(id, ms(250), ms(20));
        assert_eq!(sessions.expired(ms(299)), [0_i64; 0]);
        assert_eq!(sessions.expired(ms(300)), [id]);
        assert!(sessions.touch(id, ms(70)));
        assert_eq!(sessions.expired(ms(399)), [0_i64; 0]);
        assert_eq!(sessions.expired(ms(400)), [id]);
        sessions.renew(ms(1_000));
        assert_eq!(sessions.expired(ms(1_299)), [0_i64; 0]);
        sessions.remove(id);
        assert!(!sessions.touch(id, ms(70)));
    }
}
