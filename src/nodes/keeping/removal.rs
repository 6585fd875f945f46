//! The end of a kept node.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use zookeeper_client as zk;

use super::decision::{self, Data, End, Known, Lifetime, Seen, Sight};
use super::doubt::Doubt;
use super::keeper::Keeper;
use super::paths::KeptPath;
use super::requests::is_own;
use crate::client::{Client, Failures, RetryPolicy, Session};
use crate::error::{Error, Result};
use crate::failure::{Failure, if_exists};

/// How often a delete that others have forestalled by a write is repeated, after growing pauses. After that, the node is
/// deleted whatever they write, if it is still ours right before.
const MOST_LOSSES: u32 = 6;
const PAUSE_AFTER_LOSS: Duration = Duration::from_millis(20);

/// The failures of a removal for lack of a connection.
#[derive(Default)]
struct Outage {
    /// Those before someone is told.
    reported: Failures,
    background: Failures,
}

/// Never gives up.
fn patience() -> RetryPolicy {
    RetryPolicy::bounded_exponential_backoff(Duration::from_millis(50), Duration::from_secs(1), u32::MAX)
}

impl Keeper {
    /// Deletes the node if it is ours, and waits until that is confirmed, or its session is over. If it belongs to no
    /// session, an outage is reported to the caller that waits, and the work goes on.
    ///
    /// # Errors
    /// The servers refuse.
    pub(super) async fn remove(&mut self) -> Result<()> {
        self.find_unnamed().await?;
        let Some(path) = self.path.clone() else { return Ok(()) };
        let may_be_there = match self.lifetime {
            Lifetime::Session => self.may_exist,
            Lifetime::Value => self.known.is_some() || self.doubt.lasts(Instant::now()),
            // The servers remove it when no one touches it any more.
            Lifetime::Touched => false,
        };
        if !may_be_there {
            return Ok(());
        }
        let mut outage = Outage::default();
        loop {
            let session = match self.session.clone().filter(|session| !session.is_over()) {
                Some(session) => session,
                // It went with its session.
                None if self.lifetime == Lifetime::Session => return Ok(()),
                None => match self.client.session().await {
                    Ok(session) => self.session.insert(session).clone(),
                    Err(error @ (Error::Closed | Error::SessionOver { .. })) => return Err(error),
                    Err(error) => {
                        self.outlast(error, &mut outage).await;
                        continue;
                    }
                },
            };
            let Err(source) = self.try_to_remove(&session, &path).await else {
                self.sweep_late(session, path);
                return Ok(());
            };
            let failure = Failure::of(&source);
            let error = Error::ZooKeeper { operation: "delete", path: path.to_string(), source };
            match failure {
                Failure::Refused => return Err(error),
                Failure::SessionOver => {
                    self.session = None;
                    if self.lifetime != Lifetime::Session {
                        outage.background.pause_in_background(error).await;
                    }
                }
                Failure::Postponed | Failure::Unknown if session.is_connected() => {
                    self.outlast(error, &mut outage).await;
                }
                Failure::Postponed | Failure::Unknown => {
                    let error = self.client.not_connected(self.client.connection_timeout());
                    self.outlast(error, &mut outage).await;
                }
            }
        }
    }

    /// Finds out whether the numbered node exists whose create has an unknown outcome. If it does, it is kept at its path.
    ///
    /// # Errors
    /// The servers refuse.
    async fn find_unnamed(&mut self) -> Result<()> {
        let mut failures = Failures::default();
        while let Some(node) = &mut self.unnamed {
            let session = node.session().clone();
            let settled = self.client.attempt_one(&session, node.settle()).await;
            match settled {
                Ok(()) => {
                    let found = self.unnamed.take().filter(|node| node.name().is_some());
                    found.map(|node| self.named(node, None));
                }
                Err(source) if Failure::of(&source) == Failure::SessionOver => self.unnamed = None,
                Err(source) => {
                    let error = Error::ZooKeeper { operation: "find", path: node.path(), source };
                    failures.pause_after(error, &patience()).await?;
                }
            }
        }
        Ok(())
    }

    /// Pauses before the next attempt. An ephemeral node goes with its session, so this waits for that. For any other node,
    /// the waiting caller gets the error once the client's retry policy gives up.
    async fn outlast(&mut self, error: Error, outage: &mut Outage) {
        if self.lifetime == Lifetime::Session {
            // This policy never gives up.
            let _ = outage.background.pause_or(error, &patience()).await;
        } else if let Err(error) = outage.reported.pause_after(error, self.client.retry_policy()).await {
            self.publisher.ended(Err(error.clone()));
            outage.background.pause_in_background(error).await;
        }
    }

    /// # Errors
    /// [`zk::Error::NoAuth`] also if the node does not show whose it is.
    async fn try_to_remove(&mut self, session: &Arc<Session>, path: &str) -> Result<(), zk::Error> {
        let mut losses = 0;
        loop {
            let sight = self.look(session, path).await?;
            if let Sight::Node(seen) = sight
                && self.is_shown_by_data(&seen)
            {
                self.known = self.read_own(session, path).await?;
            }
            let version = match decision::end(self.lifetime, sight, self.known, session.id()) {
                End::Gone => return Ok(()),
                End::Unknown => return Err(zk::Error::NoAuth),
                End::Delete { version } => version,
            };
            let deleted = match version.filter(|_| losses < MOST_LOSSES) {
                Some(version) => {
                    self.client.attempt_one(session, session.delete_version(path, version)).await
                }
                None => self.client.attempt_one(session, session.delete(path)).await,
            };
            match deleted {
                Ok(()) | Err(zk::Error::NoNode) => return Ok(()),
                // A write of ours was done whose reply was lost.
                Err(zk::Error::BadVersion) if sight.is_hidden() && self.is_write_lost => {
                    self.is_write_lost = false;
                    self.known = self.known.map(Known::written);
                    continue;
                }
                // A node that may not be read does not show its version.
                Err(zk::Error::BadVersion) if sight.is_hidden() => return Err(zk::Error::NoAuth),
                Err(zk::Error::BadVersion) => {}
                Err(error) => return Err(error),
            }
            sleep(PAUSE_AFTER_LOSS * 2_u32.pow(losses)).await;
            losses += 1;
        }
    }

    async fn look(&self, session: &Session, path: &str) -> Result<Sight, zk::Error> {
        let seen_on = session.connection();
        let sight = Sight::of(self.client.attempt_one(session, session.stat(path)).await)?;
        self.note(session, path, sight, seen_on).await?;
        if self.is_to_be_asked_for(sight) {
            return Ok(Sight::Hidden { is_own: is_own(&self.client, session, path).await? });
        }
        Ok(sight)
    }

    /// Whether only its data show whether a node is ours.
    fn is_shown_by_data(&self, seen: &Seen) -> bool {
        if self.is_same.is_some() {
            return !self.known.is_some_and(|known| known.is_of(seen));
        }
        let is_known = self.known.is_some_and(|known| known.czxid == seen.czxid);
        self.lifetime == Lifetime::Value && !is_known && self.doubt.lasts(Instant::now())
    }

    /// Reads a node that is known for ours by its data. Returns `None` if it is not.
    async fn read_own(&self, session: &Arc<Session>, path: &str) -> Result<Option<Known>, zk::Error> {
        let wanted = self.wanted.borrow().clone();
        let known = match self.is_same {
            Some(_) => {
                let known = self.client.attempt_one(session, self.compare(session, path, &wanted)).await;
                known.map(|known| Some(known).filter(|known| known.data != Data::Strangers))
            }
            None => {
                let made = made_in_doubt(&self.client, session, path, &self.doubt).await;
                let known =
                    |seen: Seen| Known { czxid: seen.czxid, version: seen.version, data: Data::Other };
                made.map(|seen| seen.map(known))
            }
        };
        Ok(if_exists(known)?.flatten())
    }

    /// Deletes the node when the value is gone, if the session outlives the client: an adopted one does.
    pub(super) async fn outlive_client(&mut self) {
        let Some(session) = self.session.clone() else { return };
        self.watch = None;
        tokio::select! {
            biased;
            () = session.ended() => return,
            () = self.closing.cancelled() => {}
        }
        tokio::select! {
            biased;
            () = session.ended() => {}
            _ = self.remove() => {}
        }
    }

    /// Deletes a node that comes to exist late, by a create whose reply was lost.
    fn sweep_late(&self, session: Arc<Session>, path: Arc<str>) {
        let Some(until) = self.doubt.may_be_late(Instant::now()) else { return };
        let (client, doubt) = (self.client.clone(), self.doubt.clone());
        let late = Late { client, lifetime: self.lifetime, session, path, doubt };
        let closing = self.client.closing();
        self.client.spawn(async move {
            tokio::select! {
                () = late.sweep(until) => {}
                () = closing.cancelled() => {}
            }
        });
    }
}

/// Reads a persistent node. Returns it if it counts as one that a create with an unknown outcome has made.
async fn made_in_doubt(
    client: &Client,
    session: &Session,
    path: &str,
    doubt: &Doubt,
) -> Result<Option<Seen>, zk::Error> {
    let (found, stat) = client.attempt_one(session, session.data(path)).await?;
    let has = |data: &[u8]| found == *client.node_data(data);
    Ok(Some(Seen::of(&stat)).filter(|seen| doubt.has_made(seen, has)))
}

/// A node that may come to exist late.
struct Late {
    client: Client,
    lifetime: Lifetime,
    session: Arc<Session>,
    path: Arc<str>,
    doubt: Doubt,
}

impl Late {
    async fn sweep(&self, until: Instant) {
        sleep_until(until).await;
        let mut failures = Failures::default();
        loop {
            let session = match self.lifetime {
                Lifetime::Value | Lifetime::Touched => self.client.session().await,
                Lifetime::Session if self.session.is_over() => return,
                Lifetime::Session => {
                    self.session.ready().await;
                    Ok(self.session.clone())
                }
            };
            let error = match session {
                Ok(session) => match self.try_to_delete(&session).await {
                    Err(source) if Failure::of(&source).is_passing() => {
                        Error::ZooKeeper { operation: "delete", path: self.path.to_string(), source }
                    }
                    Ok(()) | Err(_) => return,
                },
                Err(Error::Closed | Error::SessionOver { .. }) => return,
                Err(error) => error,
            };
            failures.pause_in_background(error).await;
        }
    }

    async fn try_to_delete(&self, session: &Session) -> Result<(), zk::Error> {
        let over = CancellationToken::new();
        over.cancel();
        // Another value may keep a node there by now. While it did, no other could come to exist.
        let Ok(claim) = KeptPath::claim(&self.client, &self.path, &over) else { return Ok(()) };
        let _turn = claim.turn().await;
        let ours = match self.lifetime {
            // It does not say whose it is.
            Lifetime::Value => {
                let made = made_in_doubt(&self.client, session, &self.path, &self.doubt).await;
                if_exists(made)?.flatten()
            }
            Lifetime::Session => match self.client.attempt_one(session, session.stat(&self.path)).await {
                Err(zk::Error::NoAuth) => {
                    return match is_own(&self.client, session, &self.path).await? {
                        true => self.client.attempt_one(session, session.delete(&self.path)).await,
                        false => Ok(()),
                    };
                }
                stat => stat?.map(|stat| Seen::of(&stat)).filter(|seen| seen.owner == session.id()),
            },
            Lifetime::Touched => None,
        };
        if let Some(seen) = ours {
            self.client.attempt_one(session, session.delete_version(&self.path, seen.version)).await?;
        }
        Ok(())
    }
}
