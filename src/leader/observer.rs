//! Who leads, for those who do not stand.

use std::sync::Arc;

use tokio::sync::watch;
use zookeeper_client as zk;

use super::patience::pause_after;
use crate::client::{Client, Failures, Watcher, is_revoke_request};
use crate::error::{Error, Result};
use crate::lock::{Participant, participant};
use crate::queue::{ANY_LOCK, Kind, LockInternals};

/// Sees who leads at a path without standing for election there: to route requests to the leader, or to show it.
///
/// It sees the elections of [`LeaderLatch`](crate::LeaderLatch) and [`LeaderSelector`](crate::LeaderSelector), of
/// Curator and of `zookeeper-client`; and, since that is how a selector works, who holds a lock.
///
/// ```no_run
/// use zk_recipes::{LeaderObserver, Observation};
///
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// let mut leader = LeaderObserver::new(&client, "/leaders/reports")?.watch();
/// while leader.changed().await.is_ok() {
///     match &*leader.borrow_and_update() {
///         Observation::Leader(leader) => println!("{} leads with {}", leader.id(), leader.fencing_token()),
///         Observation::Nobody => println!("nobody leads"),
///         other => println!("{other:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an observer does nothing until it is asked"]
pub struct LeaderObserver {
    client: Client,
    internals: Arc<LockInternals>,
}

/// What an observer sees.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// It has not seen anything yet, or cannot see any more, for that reason. It goes on trying.
    Unknown(Option<Error>),
    /// Nobody stands for election, or the path [does not exist](LeaderObserver::path_exists).
    Nobody,
    /// This one leads.
    Leader(Participant),
}

impl LeaderObserver {
    /// An observer of the election at `path`, below the client's namespace. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::InvalidPath`].
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Self { client: client.clone(), internals: LockInternals::of(client, path, &ANY_LOCK)? })
    }

    /// Who leads, by a fresh look. `None` also if the path [does not exist](Self::path_exists).
    ///
    /// # Errors
    /// [`Error::ZooKeeper`] and [`Error::NotConnected`] when the queue or a node in it cannot be read;
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn leader(&self) -> Result<Option<Participant>> {
        let holder = participant::holder(&self.internals, Kind::Exclusive);
        self.client.unless_closed(holder).await
    }

    /// Everybody who stands for election, in order: the leader first. Empty also if the path
    /// [does not exist](Self::path_exists).
    ///
    /// # Errors
    /// As [`leader`](Self::leader).
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        let participants = participant::of(&self.internals, Some(Kind::Exclusive));
        self.client.unless_closed(participants).await
    }

    /// Whether the path exists, to tell an election without candidates from a path that is mistyped. See
    /// [`InterProcessMutex::path_exists`](crate::InterProcessMutex::path_exists).
    ///
    /// # Errors
    /// [`Error::ZooKeeper`] and [`Error::NotConnected`] when it cannot be looked for; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn path_exists(&self) -> Result<bool> {
        self.client.exists(self.internals.path()).await
    }

    /// Who leads, now and from now on: always the latest. The first [`changed`](watch::Receiver::changed) is what is
    /// known then, which is nothing at first. The channel ends with the client.
    ///
    /// Each change of the leader costs a list and a read, and a watch on the leader's node; candidates that come and go
    /// cost nothing. While the connection is lost, the last one stays for as long as
    /// [`connection_timeout`](crate::ClientBuilder::connection_timeout) says, and is unknown then. That somebody leads
    /// here does not say that it knows it already, or that it still believes so.
    pub fn watch(&self) -> watch::Receiver<Observation> {
        let (sender, mut receiver) = watch::channel(Observation::Unknown(None));
        let sender = Arc::new(sender);
        receiver.mark_changed();
        let internals = self.internals.clone();
        let client = internals.client().clone();
        client.spawn(async move {
            tokio::select! {
                () = observe(&internals, &sender) => {}
                () = sender.closed() => {}
                () = internals.client().closing().cancelled_owned() => {}
            }
        });
        receiver
    }
}

/// Follows the election without end.
async fn observe(internals: &LockInternals, sender: &Arc<watch::Sender<Observation>>) {
    let mut failures = Failures::default();
    loop {
        match look(internals).await {
            Ok((seen, mut change)) => {
                failures.reset();
                if !is_the_same(&sender.borrow(), &seen) {
                    show(internals, sender, seen).await;
                }
                tokio::select! {
                    _ = change.changed() => {}
                    // The watch would tell that only with the end of the session; the next look tells it before.
                    () = internals.client().disconnected() => {}
                }
            }
            Err(error) if error.ends_session() => {}
            Err(error) => {
                // A connection that is lost for a moment shows by itself; and what was seen last is mostly right.
                if !matches!(error, Error::ZooKeeper { .. }) || !error.is_retryable() {
                    show(internals, sender, Observation::Unknown(Some(error.clone()))).await;
                }
                pause_after(error, &mut failures).await;
            }
        }
    }
}

async fn show(internals: &LockInternals, sender: &Arc<watch::Sender<Observation>>, seen: Observation) {
    let sender = sender.clone();
    internals.client().told(move || drop(sender.send_replace(seen))).await;
}

/// Whether it is the same leader, to whose node a request may have been written meanwhile.
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

/// Who leads, with a watch that tells when that may have changed.
async fn look(internals: &LockInternals) -> Result<(Observation, Watcher)> {
    let session = internals.client().session().await?;
    let path = internals.path();
    let error = |source| internals.error("observe the election at", source);
    loop {
        let children = internals.list(&session).await.map_err(error)?;
        let Some(first) = internals.in_order(&session, children).await.map_err(error)?.into_iter().next()
        else {
            match session.watch_list(path).await {
                Ok((children, change)) if !internals.has_contenders(&children) => {
                    return Ok((Observation::Nobody, change));
                }
                Ok(_) => {}
                Err(zk::Error::NoNode) => {
                    let (exists, change) = session.watch_existence(path).await.map_err(error)?;
                    if !exists {
                        return Ok((Observation::Nobody, change));
                    }
                }
                Err(source) => return Err(error(source)),
            }
            continue;
        };
        let node_path = internals.child(&first.name);
        match session.watch_data(&node_path).await {
            Ok((identity, stat, change)) => {
                let leader = Participant::of_node(node_path, Some(identity), &stat).holding();
                return Ok((Observation::Leader(leader), change));
            }
            // It has left meanwhile.
            Err(zk::Error::NoNode) => {}
            Err(source) => return Err(error(source)),
        }
    }
}
