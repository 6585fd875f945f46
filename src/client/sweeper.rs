//! Removes nodes whose create has an unknown outcome: all those of one session together.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use zookeeper_client as zk;

use super::session::Session;
use crate::failure::Failure;

/// The delay of the second search, in session timeouts: twice as long as a server keeps a connection on which it
/// hears nothing.
const LATE: u32 = 2;

/// The delay of the last search. It is longer than a follower with a common configuration (`syncLimit` and
/// `initLimit`, in ticks) keeps requests that it cannot forward to its leader; they are carried out when the
/// follower has joined the leader again.
const VERY_LATE: Duration = Duration::from_secs(45);

/// The divisor of the session timeout that gives how long a late sweep waits for others to join it.
const GATHERING: u32 = 8;

/// In more queues than this, one list of all nodes of the session is less work than a list for each queue.
const MANY_PARENTS: usize = 8;

const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Returns the id with which the name of a protected node begins.
pub(super) fn id_of(name: &str) -> Option<&str> {
    const LENGTH: usize = "_c_".len() + uuid::fmt::Hyphenated::LENGTH + "-".len();
    name.get(..LENGTH)
}

/// Whether a node may still exist and another attempt may remove it.
pub(super) fn needs_another_attempt(session: &Session, node: &str, outcome: Result<(), zk::Error>) -> bool {
    let error = match outcome {
        Ok(()) | Err(zk::Error::NoNode) => return false,
        Err(error) => error,
    };
    let failure = Failure::of(&error);
    if failure == Failure::Refused {
        tracing::warn!(node, %error, "cannot remove; it stays until the session ends");
        session.leaves_a_node();
    }
    failure.is_passing() && !session.is_over()
}

/// Increasing pauses between attempts. The connection is down then, and requests wait for it anyway.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Self(MIN_PAUSE)
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(MAX_PAUSE);
        pause
    }
}

/// A node that may exist, or may come to exist.
#[derive(Debug)]
pub(super) struct Lost {
    parent: Arc<str>,
    /// The prefix of its name.
    id: Arc<str>,
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
    pub(super) fn new(parent: Arc<str>, id: &str) -> Self {
        Self { parent, id: id.into(), at: Instant::now(), look: Look::First }
    }

    /// A node that was searched for and not found. Its create may still be on its way: a server that the client has
    /// left forwards it for as long as it keeps the connection, which is the session timeout. The create takes
    /// effect if the client has asked that same server again to resume the session.
    pub(super) fn not_found(self, session: &Session) -> Self {
        Self { at: Instant::now() + session.timeout() * LATE, look: Look::Late, ..self }
    }

    /// Returns the next search after one without a result; `None` if that was the last.
    fn next(self, session: &Session) -> Option<Self> {
        match self.look {
            Look::First => Some(self.not_found(session)),
            Look::Late => Some(Self { at: Instant::now() + VERY_LATE, look: Look::Last, ..self }),
            Look::Last => None,
        }
    }

    /// When it is searched for, unless an earlier search takes it along.
    fn due(&self, session_timeout: Duration) -> Instant {
        if self.look == Look::First { self.at } else { self.at + session_timeout / GATHERING }
    }
}

/// Sweeps until there is nothing left to search for, or the session is over. One search serves everything that was
/// posted by then, so its cost does not depend on how many creates were lost.
///
/// An adopted session is searched also after its client was closed, and kept alive by that: nothing tells whether its owner
/// still has it.
pub(super) async fn sweep(session: Arc<Session>, mut posted: mpsc::UnboundedReceiver<Lost>) {
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
            match look_for(&session, due).await {
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

/// The outcome of a search.
enum Outcome {
    /// Whatever was found has been removed, or cannot be. These nodes were not found, and must be searched for
    /// again.
    Done(Vec<Lost>),
    /// The servers were not reached.
    Again(Vec<Lost>),
}

async fn look_for(session: &Session, due: Vec<Lost>) -> Outcome {
    let found = match find(session, &due).await {
        Ok(found) => found,
        Err(error) if needs_another_attempt(session, "the nodes of a session", Err(error.clone())) => {
            return Outcome::Again(due);
        }
        Err(_) => return Outcome::Done(Vec::new()),
    };
    let deleted = join_all(found.iter().map(|path| session.delete(path))).await;
    let mut outcomes = found.iter().zip(deleted);
    if outcomes.any(|(path, outcome)| needs_another_attempt(session, path, outcome)) {
        return Outcome::Again(due);
    }
    let found: HashSet<_> = found.iter().filter_map(|path| parent_and_id(path)).collect();
    let missing = due.into_iter().filter(|lost| !found.contains(&(&*lost.parent, &*lost.id)));
    Outcome::Done(missing.filter_map(|lost| lost.next(session)).collect())
}

/// Returns the paths of those that exist.
async fn find(session: &Session, due: &[Lost]) -> Result<Vec<String>, zk::Error> {
    let wanted: HashSet<_> = due.iter().map(|lost| (&*lost.parent, &*lost.id)).collect();
    let is_wanted = |path: &str| parent_and_id(path).is_some_and(|node| wanted.contains(&node));
    let parents: HashSet<_> = due.iter().map(|lost| &*lost.parent).collect();
    if parents.len() > MANY_PARENTS
        && let Some(mut all) = session.own_paths("/").await?
    {
        all.retain(|path| is_wanted(path));
        return Ok(all);
    }
    let search = async |parent| match session.own_nodes(parent, &is_wanted).await {
        // It says nothing about the others, and may be over at the next search.
        Err(error) if !needs_another_attempt(session, parent, Err(error.clone())) => Ok(Vec::new()),
        found => found,
    };
    let mut found = try_join_all(parents.into_iter().map(search)).await?.concat();
    // They are deleted in the order in which they were given up: leases before the node at the gate that guards them.
    let order: HashMap<_, _> = due.iter().zip(0..).map(|(lost, index)| (&*lost.id, index)).collect();
    found.sort_by_key(|path| parent_and_id(path).and_then(|(_, id)| order.get(id).copied()));
    Ok(found)
}

fn parent_and_id(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = path.rsplit_once('/')?;
    Some((parent, id_of(name)?))
}
