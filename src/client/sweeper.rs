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

/// In session timeouts: twice as long as a server keeps a connection on which it hears nothing.
const LATE: u32 = 2;

/// Longer than a follower keeps what it cannot pass on to its leader, as servers are mostly set up (`syncLimit` and
/// `initLimit`, in ticks): it is done when the follower has joined the leader again.
const VERY_LATE: Duration = Duration::from_secs(45);

/// The part of a session timeout for which a late sweep waits for others to join it.
const GATHERING: u32 = 8;

/// A node that may exist, or may come to exist.
#[derive(Debug)]
pub(super) struct Lost {
    /// By which its name begins.
    id: String,
    /// When to look for it.
    at: Instant,
    look: Look,
}

/// How often it was looked for, and not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    First,
    Late,
    Last,
}

impl Lost {
    /// Its create was sent.
    pub(super) fn new(id: String) -> Self {
        Self { id, at: Instant::now(), look: Look::First }
    }

    /// It was looked for and not found. Its create may still be on its way: a server that the client has left passes it
    /// on for as long as it keeps the connection, which is the session timeout; and it counts if the client has asked
    /// that server again to take the session.
    pub(super) fn not_found(id: String, session: &Session) -> Self {
        Self { id, at: Instant::now() + session.timeout() * LATE, look: Look::Late }
    }

    /// What to do if it is not found; `None` if that was the last time.
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

/// Sweeps until nothing that was posted is left to look for, or the session is over. One look serves everything that was
/// posted by then: what it costs is independent of how many creates were lost.
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
    /// When it is looked for, if nothing else is sooner.
    fn due(&self, session_timeout: Duration) -> Instant {
        if self.look == Look::First { self.at } else { self.at + session_timeout / GATHERING }
    }
}

/// What came of a look.
enum Outcome {
    /// Whatever was found is removed, or cannot be. These were not found, and are to be looked for again.
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

/// Returns whether that is done with.
async fn remove(session: &Session, parent: &str, name: &str) -> bool {
    let path = format!("{parent}/{name}");
    let outcome: Result<(), zk::Error> = session.delete(&path).await;
    !needs_another_attempt(session, &path, outcome)
}
