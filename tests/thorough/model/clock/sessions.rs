//! The sessions that are played.

use std::fmt;

use super::world::{Change, Server, Session};

/// Of which the others differ in something.
const AT_A_LEADER: Session = Session {
    server: Server::Leader,
    requests: 3,
    moves: false,
    reconnects: None,
    pauses: 0,
    grants: false,
    latest: 2,
};

const AT_A_FOLLOWER: Session = Session { server: Server::Follower, ..AT_A_LEADER };

pub(crate) const SESSIONS: &[Session] = &[
    AT_A_LEADER,
    AT_A_FOLLOWER,
    Session { pauses: 1, ..AT_A_FOLLOWER },
    Session { moves: true, ..AT_A_FOLLOWER },
    Session { reconnects: Some(Change::Shorten), requests: 2, ..AT_A_LEADER },
    Session { reconnects: Some(Change::Shorten), requests: 2, ..AT_A_FOLLOWER },
    Session { reconnects: Some(Change::Replace), ..AT_A_LEADER },
    Session { reconnects: Some(Change::Replace), ..AT_A_FOLLOWER },
    Session { requests: 2, grants: true, ..AT_A_LEADER },
    Session { requests: 2, grants: true, ..AT_A_FOLLOWER },
    Session { pauses: 1, requests: 1, grants: true, ..AT_A_FOLLOWER },
    Session { reconnects: Some(Change::Nothing), requests: 2, ..AT_A_LEADER },
    Session { reconnects: Some(Change::Lengthen), requests: 2, ..AT_A_FOLLOWER },
];

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = if self.server == Server::Leader { "leader" } else { "follower" };
        write!(f, "a session at a {server}, {} requests", self.requests)?;
        if self.moves {
            write!(f, ", and another server")?;
        }
        match self.reconnects {
            None => Ok(()),
            Some(Change::Nothing) => write!(f, ", and another connection"),
            Some(Change::Shorten) => write!(f, ", and a shorter timeout"),
            Some(Change::Lengthen) => write!(f, ", and a longer timeout"),
            Some(Change::Replace) => write!(f, ", and another session"),
        }?;
        if self.pauses > 0 {
            write!(f, ", and {} pauses of the leader", self.pauses)?;
        }
        if self.grants { write!(f, ", and a lock that is handed out") } else { Ok(()) }
    }
}
