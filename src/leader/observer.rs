//! Observing an election without taking part in it.

use std::sync::Arc;

use tokio::time::{Instant, sleep};

use crate::client::{Client, Failures, LatestWatch, Room, Session, Watcher, is_revoke_request};
use crate::error::{Error, Result};
use crate::failure::if_exists;
use crate::lock::{Participant, participant};
use crate::queue::{ANY_LOCK, Kind, LockInternals};
use crate::watch::{Watch, Watched};

/// Shows who leads at a path without standing for election there, for example to route requests to the leader.
///
/// It observes the elections of [`LeaderLatch`](crate::LeaderLatch) and [`LeaderSelector`](crate::LeaderSelector),
/// and those of Curator and `zookeeper-client`. It also shows the holder of a lock, because a selector works like
/// a lock.
///
/// ```no_run
/// use zk_recipes::{LeaderObserver, Observation};
///
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// let mut leader = LeaderObserver::new(&client, "/leaders/reports")?.watch_leader();
/// while let Some(seen) = leader.changed().await {
///     match seen {
///         Observation::Leader(leader) => println!("{} leads with {}", leader.id(), leader.fencing_token()),
///         Observation::Nobody => println!("nobody leads"),
///         other => println!("{other:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "an observer does nothing until it is asked"]
pub struct LeaderObserver {
    client: Client,
    internals: Arc<LockInternals>,
}

debug_by!(LeaderObserver, |it| path: it.internals.path());

/// The result of an observation.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Nothing was observed yet, or nothing can be observed any more, for this reason. The observer keeps trying.
    Unknown(Option<Error>),
    /// There is no candidate, or the path [does not exist](LeaderObserver::path_exists).
    Nobody,
    /// This candidate leads.
    Leader(Participant),
}

impl LeaderObserver {
    /// Creates an observer of the election at `path`, below the client's namespace. Makes no request.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { client: client.clone(), internals: LockInternals::of(client, path, &ANY_LOCK)? })
    }

    /// Reads the queue and returns the leader. `None` if there is no candidate or the path [does not
    /// exist](Self::path_exists).
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the queue or a node in it cannot be read.
    /// - [`Error::NotConnected`]: the servers cannot be reached.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn leader(&self) -> Result<Option<Participant>> {
        let holder = participant::holder(&self.internals, Kind::Exclusive);
        self.client.unless_closed(holder).await
    }

    /// Returns all candidates in queue order, the leader first. Empty if the path [does not
    /// exist](Self::path_exists).
    ///
    /// # Errors
    /// Same as [`leader`](Self::leader).
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        let participants = participant::of(&self.internals, Some(Kind::Exclusive));
        self.client.unless_closed(participants).await
    }

    /// Returns whether the path exists, which tells an election without candidates from a mistyped path. See
    /// [`InterProcessMutex::path_exists`](crate::InterProcessMutex::path_exists).
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the server refuses the request or cannot be reached.
    /// - [`Error::NotConnected`]: the servers cannot be reached, and nothing could be sent.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn path_exists(&self) -> Result<bool> {
        self.client.exists(self.internals.path()).await
    }

    /// Follows the leader, of whom nothing is known at first. Ends with the client.
    ///
    /// Each change of the leader costs a list, a read, and a watch on the leader's node; other candidates that
    /// come and go cost nothing. When the connection is lost, the last leader is shown for as long as
    /// [`connection_timeout`](crate::ClientBuilder::connection_timeout), and is unknown after that. A candidate
    /// that is shown as the leader may not know it yet, or may no longer consider itself the leader.
    ///
    /// The servers do not tell of a change that is made while this client is not permitted to read the node. So it looks
    /// again also when nothing is told, after one to two session timeouts.
    pub fn watch_leader(&self) -> Watch<Observation> {
        let observing = |watched| observe(self.internals.clone(), watched);
        let closed = |_| Observation::Unknown(Some(Error::Closed));
        self.internals.client().follow(Observation::Unknown(None), observing, closed)
    }
}

/// Follows the election until it is dropped.
async fn observe(internals: Arc<LockInternals>, watched: Watched<Observation>) {
    let mut failures = Failures::default();
    let mut seen_at = Instant::now();
    let mut watch = LatestWatch::default();
    loop {
        match look(&internals).await {
            Ok((session, seen, change)) => {
                failures.reset();
                show(&watched, seen);
                watch.wait(internals.client(), &session, change).await;
                seen_at = Instant::now();
            }
            Err(error) => {
                // A connection that is lost for a moment recovers by itself, and what was seen last is usually
                // still right.
                let recovers =
                    error.ends_session() || matches!(error, Error::ZooKeeper { .. }) && error.is_retryable();
                let left = internals.client().connection_timeout().saturating_sub(seen_at.elapsed());
                let is_shown = recovers && !left.is_zero();
                if !is_shown {
                    show(&watched, Observation::Unknown(Some(error.clone())));
                }
                if !error.ends_session() {
                    tokio::select! {
                        () = failures.pause_in_background(error) => {}
                        // The last look before it is shown no more.
                        () = sleep(left), if is_shown => {}
                    }
                }
            }
        }
    }
}

fn show(watched: &Watched<Observation>, seen: Observation) {
    watched.show_if(|before| (!is_the_same(before, &seen)).then_some((true, seen)));
}

/// Whether the leader is the same. A revocation request may have been written to its node meanwhile.
fn is_the_same(one: &Observation, other: &Observation) -> bool {
    match (one, other) {
        (Observation::Leader(one), Observation::Leader(other)) => {
            let shows_request = other.identity().is_some_and(is_revoke_request);
            one.fencing_token() == other.fencing_token()
                && (shows_request || one.identity() == other.identity())
        }
        _ => one == other,
    }
}

/// Returns the leader, and a watch of this session that fires when the leader may have changed.
async fn look(internals: &LockInternals) -> Result<(Arc<Session>, Observation, Watcher)> {
    let session = internals.client().session().await?;
    let path = internals.path();
    let error = |source| internals.error("observe the election at", source);
    loop {
        let children = internals.list(&session).await.map_err(error)?;
        let Some(first) = internals.in_order(&session, children).await.map_err(error)?.into_iter().next()
        else {
            let (children, change) = session.watch_list_or_creation(path).await.map_err(error)?;
            if internals.has_contenders(&children) {
                continue;
            }
            return Ok((session, Observation::Nobody, change));
        };
        let node_path = internals.child(&first.name);
        // If it has left since, list again.
        if let Some((identity, stat, change)) =
            if_exists(session.watch_data(&node_path).await).map_err(error)?
        {
            let leader =
                Participant::of_node(node_path, Some(identity), &stat, &mut Room::default()).holding();
            return Ok((session, Observation::Leader(leader), change));
        }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;
    use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

    use super::*;
    use crate::testing::MemoryServer;

    #[tokio::test]
    async fn an_observer_of_a_client_that_waits_as_long_as_it_takes_is_told_of_a_refusal() {
        let server = MemoryServer::start().unwrap();
        let client = Client::builder().connection_timeout(Duration::MAX);
        let client = client.connect(&server.connect_string()).await.unwrap();
        let nobody_reads = [Acl::new(Permission::ADMIN, AuthId::anyone())];
        let mode = CreateMode::Persistent.with_acls(Acls::new(&nobody_reads));
        client.zookeeper().await.unwrap().create("/election", b"", &mode).await.unwrap();
        let mut watch = LeaderObserver::new(&client, "/election").unwrap().watch_leader();
        let is_refused =
            |seen: &Observation| matches!(seen, Observation::Unknown(Some(Error::ZooKeeper { .. })));
        timeout(Duration::from_secs(30), watch.wait_for(is_refused)).await.unwrap().unwrap();
    }
}
