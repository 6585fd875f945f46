//! The sessions that a client has had.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::client::Session;

/// More than can have nodes at the servers at a time: each has ended before the next one began, as far as the client knew.
const REMEMBERED: usize = 64;

/// The latest sessions of a client in which it kept nodes, the present one last.
#[derive(Debug, Default)]
pub(in crate::nodes) struct OwnSessions(Mutex<VecDeque<(u64, i64)>>);

impl OwnSessions {
    pub(in crate::nodes) fn began(&self, session: &Session) {
        let mut sessions = self.0.lock();
        let session = (session.epoch(), session.id());
        if sessions.contains(&session) {
            return;
        }
        sessions.push_back(session);
        if sessions.len() > REMEMBERED {
            sessions.pop_front();
        }
    }

    /// Whether this is the id of a session of the client before that one.
    pub(in crate::nodes) fn has_ended(&self, id: i64, before: &Session) -> bool {
        self.0.lock().iter().any(|(epoch, known)| *known == id && *epoch < before.epoch())
    }
}
