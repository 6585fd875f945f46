//! A server that lags behind, and a session that moves to it.
//!
//! It takes clients that have seen no later transaction than it has done. What a client has seen, it has from answers;
//! events do not count.

use std::collections::VecDeque;

use super::client::{Client, What};
use super::queue::connection::Connection;
use super::world::World;
use super::zookeeper::{Change, ClientId, Path, Transaction, ZooKeeper, conflict};

/// The slot of what has a server catch up.
pub(crate) const CATCH_UP: usize = usize::MAX;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lag {
    /// It does not happen any more.
    None,
    /// It may happen: the server as of the last answer, what was done since, and how much was done before.
    Possible { server: ZooKeeper, since: Vec<Transaction>, seen: usize },
    /// The server, and what it has not done yet. Until it is known to have caught up on a connection, what it says
    /// counts for nothing but the queue.
    Behind { server: ZooKeeper, ahead: VecDeque<Transaction>, caught_up: Connection },
}

impl Lag {
    pub(crate) fn is_behind(&self) -> bool {
        matches!(self, Self::Behind { .. })
    }

    /// The server that the client asks, if it is not one that is up to date.
    pub(crate) fn server(&mut self) -> Option<&mut ZooKeeper> {
        match self {
            Self::Behind { server, .. } => Some(server),
            Self::None | Self::Possible { .. } => None,
        }
    }

    /// Of a server that is behind.
    pub(crate) fn watches(&self) -> impl Iterator<Item = &(ClientId, Path)> {
        let server = if let Self::Behind { server, .. } = self { Some(server) } else { None };
        server.into_iter().flat_map(|server| &server.watches)
    }

    /// The last transaction that an answer of now shows.
    pub(crate) fn seen(&self) -> usize {
        match self {
            Self::Possible { since, seen, .. } => seen + since.len(),
            Self::None | Self::Behind { .. } => 0,
        }
    }

    /// The client has an answer that shows this one.
    pub(crate) fn see(&mut self, last: usize) {
        if let Self::Possible { server, since, seen } = self {
            for transaction in since.drain(..last.saturating_sub(*seen)) {
                server.follow(transaction);
            }
            *seen = last.max(*seen);
        }
    }

    pub(crate) fn caught_up(&mut self, on: Connection) {
        if let Self::Behind { caught_up, .. } = self {
            *caught_up = on;
        }
    }

    pub(crate) fn can_fall_behind(&self) -> bool {
        matches!(self, Self::Possible { since, .. } if !since.is_empty())
    }

    pub(crate) fn is_yet_to_delete(&self, name: &str) -> bool {
        let deletes = |done: &Transaction| matches!(done, Transaction::Delete(gone) if gone == name);
        matches!(self, Self::Behind { ahead, .. } if ahead.iter().any(deletes))
    }

    /// Whether a holder by that node would read, without a doubt, what was written before somebody before it left.
    pub(crate) fn shows_the_past(&self, own: &str, now: Connection) -> bool {
        let Self::Behind { server, ahead, caught_up } = self else { return false };
        let Some(own) = server.child(own) else { return false };
        let leaves_before = |done: &Transaction| match done {
            Transaction::Delete(gone) => {
                server.child(gone).is_some_and(|gone| gone.place < own.place && conflict(gone.kind, own.kind))
            }
            _ => false,
        };
        *caught_up == now && ahead.iter().any(leaves_before)
    }
}

impl World {
    /// Tells those servers that lag, or may, what was done.
    pub(crate) fn spread(&mut self) {
        if self.server.done.is_empty() {
            return;
        }
        let fired = self.server.fire_children();
        self.announce(fired);
        for done in std::mem::take(&mut self.server.done) {
            for client in self.clients.iter_mut().filter(|client| client.lag != Lag::None) {
                match &mut client.lag {
                    Lag::None => {}
                    Lag::Possible { since, .. } => since.push(done.clone()),
                    Lag::Behind { ahead, .. } => ahead.push_back(done.clone()),
                }
            }
        }
    }

    /// The client turns to a server that has done what the client has seen, and no more.
    pub(crate) fn fall_behind(&mut self, id: ClientId) {
        self.faults.lag -= 1;
        let client = &mut self.clients[id];
        let watched = client.reconnect();
        let Lag::Possible { mut server, since, .. } = std::mem::replace(&mut client.lag, Lag::None) else {
            return;
        };
        server.watches.clear();
        for path in watched {
            if server.exists(&path) {
                server.watches.insert((id, path));
            } else {
                client.missed.insert((path, Change::Deleted));
            }
        }
        client.lag = Lag::Behind { server, ahead: since.into(), caught_up: Connection::NONE };
        client.send(0, CATCH_UP, What::CatchUp);
        self.server.watches.retain(|(watching, _)| *watching != id);
        // Nobody else will.
        if self.faults.lag == 0 {
            self.clients
                .iter_mut()
                .filter(|client| !client.lag.is_behind())
                .for_each(|of| of.lag = Lag::None);
        }
    }

    /// The server of that client does the next of what the others have done.
    pub(crate) fn catch_up(&mut self, id: ClientId) {
        let Lag::Behind { server, ahead, .. } = &mut self.clients[id].lag else { return };
        let fired = ahead.pop_front().map(|done| server.follow(done));
        if ahead.is_empty() {
            let watches = std::mem::take(&mut server.watches);
            self.server.watches.extend(watches);
            self.clients[id].lag = Lag::None;
        }
        self.announce(fired.unwrap_or_default());
    }
}

impl Client {
    /// Forgets what nobody listens to at a server that lags.
    pub(crate) fn tidy_lag(&mut self) {
        let mut lag = std::mem::replace(&mut self.lag, Lag::None);
        if let Some(server) = lag.server() {
            server.watches.retain(|(_, path)| self.listens_to(path));
        }
        self.lag = lag;
    }
}

impl What {
    /// Whether any server answers it by what it has.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Self::List | Self::Date { .. } | Self::Watch(_) | Self::Look { .. })
    }
}
