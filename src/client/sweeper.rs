//! Removes nodes whose create has an unknown outcome: all those of one parent and one session together.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use zookeeper_client as zk;

use super::janitor::{Pauses, needs_another_attempt};
use super::node::id_of;
use super::session::Session;

/// The delay of the second search, in session timeouts: twice as long as a server keeps a connection on which it
/// hears nothing.
const LATE: u32 = 2;

/// The delay of the last search. It is longer than a follower with a common configuration (`syncLimit` and
/// `initLimit`, in ticks) keeps requests that it cannot forward to its leader; they are carried out when the
/// follower has joined the leader again.
const VERY_LATE: Duration = Duration::from_secs(45);

/// The divisor of the session timeout that gives how long a late sweep waits for others to join it.
const GATHERING: u32 = 8;

/// A node that may exist, or may come to exist.
#[derive(Debug)]
pub(super) struct Lost {
    /// The prefix of its name.
    id: String,
    /// When to search for it.
    at: Instant,
    look: Look,
}

/// Which search is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    First,
    Late,
    Last,
}

impl Lost {
    /// A node whose create was sent.
    pub(super) fn new(id: String) -> Self {
        Self { id, at: Instant::now(), look: Look::First }
    }

    /// A node that was searched for and not found. Its create may still be on its way: a server that the client has
    /// left forwards it for as long as it keeps the connection, which is the session timeout. The create takes
    /// effect if the client has asked that same server again to resume the session.
    pub(super) fn not_found(id: String, session: &Session) -> Self {
        Self { id, at: Instant::now() + session.timeout() * LATE, look: Look::Late }
    }

    /// Returns the next search after one without a result; `None` if that was the last.
    fn next(&self, session: &Session) -> Option<Self> {
        match self.look {
            Look::First => Some(Self::not_found(self.id.clone(), session)),
            Look::Late => {
                Some(Self { id: self.id.clone(), at: Instant::now() + VERY_LATE, look: Look::Last })
            }
            Look::Last => None,
        }
    }
}

/// Sweeps until there is nothing left to search for, or the session is over. One search serves everything that was
/// posted by then, so its cost does not depend on how many creates were lost.
pub(super) async fn sweep(
    session: Arc<Session>,
    parent: Arc<str>,
    mut posted: mpsc::UnboundedReceiver<Lost>,
) {
    let mut lost = Vec::new();
    let mut pauses = Pauses::new();
    loop {
        while let Ok(another) = posted.try_recv() {
            lost.push(another);
        }
        if session.is_over() {
            return;
        }
        let now = Instant::now();
        let (due, rest): (Vec<Lost>, Vec<Lost>) = lost.into_iter().partition(|lost| lost.at <= now);
        lost = rest;
        if !due.is_empty() {
            session.ready().await;
            match look_for(&session, &parent, due).await {
                Outcome::Done(missing) => {
                    lost.extend(missing);
                    pauses = Pauses::new();
                }
                Outcome::Again(due) => {
                    let at = Instant::now() + pauses.next();
                    lost.extend(due.into_iter().map(|lost| Lost { at, ..lost }));
                }
            }
            continue;
        }
        let Some(next) = lost.iter().map(|lost| lost.due(session.timeout())).min() else { return };
        tokio::select! {
            Some(another) = posted.recv() => lost.push(another),
            () = sleep_until(next) => {}
            () = session.ended() => return,
        }
    }
}

impl Lost {
    /// When it is searched for, unless an earlier search takes it along.
    fn due(&self, session_timeout: Duration) -> Instant {
        if self.look == Look::First { self.at } else { self.at + session_timeout / GATHERING }
    }
}

/// The outcome of a search.
enum Outcome {
    /// Whatever was found has been removed, or cannot be. These nodes were not found, and must be searched for
    /// again.
    Done(Vec<Lost>),
    /// The servers were not reached.
    Again(Vec<Lost>),
}

async fn look_for(session: &Session, parent: &str, due: Vec<Lost>) -> Outcome {
    let ids: HashSet<&str> = due.iter().map(|lost| &*lost.id).collect();
    let found = session.own_nodes(parent, |name| id_of(name).is_some_and(|id| ids.contains(id))).await;
    let found = match found {
        Ok(found) => found,
        Err(error) if needs_another_attempt(session, parent, Err(error.clone())) => {
            return Outcome::Again(due);
        }
        Err(_) => return Outcome::Done(Vec::new()),
    };
    let removed = join_all(found.iter().map(|name| remove(session, parent, name))).await;
    if removed.contains(&false) {
        return Outcome::Again(due);
    }
    let found: HashSet<&str> = found.iter().filter_map(|name| id_of(name)).collect();
    let missing = due.iter().filter(|lost| !found.contains(&*lost.id));
    Outcome::Done(missing.filter_map(|lost| lost.next(session)).collect())
}

/// Returns whether the node needs no further attempt.
async fn remove(session: &Session, parent: &str, name: &str) -> bool {
    let path = format!("{parent}/{name}");
    let outcome: Result<(), zk::Error> = session.delete(&path).await;
    !needs_another_attempt(session, &path, outcome)
}
