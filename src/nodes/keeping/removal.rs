//! The end of a kept node.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use zookeeper_client as zk;

use super::decision::{self, Data, End, Known, Lifetime, Sight};
use super::keeper::Keeper;
use super::paths::Claim;
use crate::client::{Client, Failures, RetryPolicy, Session};
use crate::error::{Error, Result};
use crate::failure::Failure;

/// Longer than a server that the client has left goes on with its requests, in session timeouts.
const LATE: u32 = 2;

/// How often a delete that others have forestalled by a write is repeated, after growing pauses. After that, the node is
/// deleted whatever they write, if it is still ours right before.
const MOST_LOSSES: u32 = 6;
const PAUSE_AFTER_LOSS: Duration = Duration::from_millis(20);

/// Why the node is not known to be gone.
enum Left {
    Failed(zk::Error),
    /// It does not show whose it is.
    Hidden,
}

impl Keeper {
    /// Deletes the node if it is ours, and waits until that is confirmed, or its session is over. If it belongs to no
    /// session, an outage is reported to whoever waits, and the work goes on.
    ///
    /// # Errors
    /// The servers refuse.
    pub(super) async fn remove(&mut self) -> Result<()> {
        if let Some(node) = self.unnamed.take() {
            return node.remove(()).await.map(drop);
        }
        let Some(path) = self.path.clone() else { return Ok(()) };
        let may_be_there = match self.lifetime {
            Lifetime::Session => self.may_exist,
            Lifetime::Value => self.known.is_some() || self.is_in_doubt,
            // The servers remove it when no one touches it any more.
            Lifetime::Touched => false,
        };
        if !may_be_there {
            return Ok(());
        }
        let policy = RetryPolicy::bounded_exponential_backoff(
            Duration::from_millis(50),
            Duration::from_secs(1),
            u32::MAX,
        );
        let (mut failures, mut outages) = (Failures::default(), Failures::default());
        loop {
            let session = match self.session.clone().filter(|session| !session.is_over()) {
                Some(session) => session,
                // It went with its session.
                None if self.lifetime == Lifetime::Session => return Ok(()),
                None => match self.client.session_under_policy().await {
                    Ok(session) => self.session.insert(session).clone(),
                    Err(error) if error.is_retryable() => {
                        self.publisher.ended(Err(error.clone()));
                        outages.pause_in_background(error).await;
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            let source = match self.try_to_remove(&session, &path).await {
                Ok(()) => {
                    self.sweep_late(session, path);
                    return Ok(());
                }
                Err(Left::Hidden) => zk::Error::NoAuth,
                Err(Left::Failed(source)) => source,
            };
            let is_over = Failure::of(&source) == Failure::SessionOver;
            let error = Error::ZooKeeper { operation: "delete", path: path.to_string(), source };
            if is_over {
                self.session = None;
                if self.lifetime != Lifetime::Session {
                    outages.pause_in_background(error).await;
                }
                continue;
            }
            failures.pause_after(error, &policy).await?;
        }
    }

    async fn try_to_remove(&mut self, session: &Arc<Session>, path: &str) -> Result<(), Left> {
        let mut losses = 0;
        loop {
            let sight = look(&self.client, session, path).await?;
            if let (Sight::Node(seen), Some(_)) = (sight, self.is_same)
                && !self.known.is_some_and(|known| known.is_of(&seen))
            {
                self.known = self.read_own(session, path).await?;
            }
            let is_in_doubt = self.is_in_doubt && self.is_same.is_none();
            let version = match decision::end(self.lifetime, sight, self.known, is_in_doubt, session.id()) {
                End::Gone => return Ok(()),
                End::Unknown => return Err(Left::Hidden),
                End::Delete { version } => version,
            };
            let deleted = if losses < MOST_LOSSES {
                self.client.attempt_one(session, session.delete_version(path, version)).await
            } else {
                self.client.attempt_one(session, session.delete(path)).await
            };
            match deleted {
                Ok(()) | Err(zk::Error::NoNode) => return Ok(()),
                // A node that may not be read does not show its version.
                Err(zk::Error::BadVersion) if sight == Sight::Hidden => return Err(Left::Hidden),
                Err(zk::Error::BadVersion) => {}
                Err(error) => return Err(Left::Failed(error)),
            }
            sleep(PAUSE_AFTER_LOSS * 2_u32.pow(losses)).await;
            losses += 1;
        }
    }

    /// Reads a node that is known for ours by its data. Returns `None` if it is not.
    async fn read_own(&self, session: &Arc<Session>, path: &str) -> Result<Option<Known>, Left> {
        let wanted = self.wanted.borrow().clone();
        match self.client.attempt_one(session, self.compare(session, path, &wanted)).await {
            Ok(known) => Ok(Some(known).filter(|known| known.data != Data::Strangers)),
            Err(zk::Error::NoNode) => Ok(None),
            Err(zk::Error::NoAuth) => Err(Left::Hidden),
            Err(error) => Err(Left::Failed(error)),
        }
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
        if !self.is_in_doubt {
            return;
        }
        let late = Late { client: self.client.clone(), lifetime: self.lifetime, session, path };
        let data = self.wanted.borrow().data.clone();
        let closing = self.client.closing();
        self.client.spawn(async move {
            tokio::select! {
                () = late.sweep(&data) => {}
                () = closing.cancelled() => {}
            }
        });
    }
}

async fn look(client: &Client, session: &Session, path: &str) -> Result<Sight, Left> {
    Sight::of(client.attempt_one(session, session.stat(path)).await).map_err(Left::Failed)
}

/// A node that may come to exist late.
struct Late {
    client: Client,
    lifetime: Lifetime,
    session: Arc<Session>,
    path: Arc<str>,
}

impl Late {
    async fn sweep(&self, data: &[u8]) {
        sleep(self.session.timeout() * LATE).await;
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
                Ok(session) => match self.try_to_delete(&session, data).await {
                    Err(source) if Failure::of(&source).is_passing() => {
                        Error::ZooKeeper { operation: "delete", path: self.path.to_string(), source }
                    }
                    Ok(()) | Err(_) => return,
                },
                Err(error) if error.is_retryable() => error,
                Err(_) => return,
            };
            failures.pause_in_background(error).await;
        }
    }

    async fn try_to_delete(&self, session: &Session, data: &[u8]) -> Result<(), zk::Error> {
        let over = CancellationToken::new();
        over.cancel();
        // Another value may keep a node there by now. While it did, no other could come to exist.
        let Ok(claim) = Claim::new(&self.client, &self.path, &over) else { return Ok(()) };
        let _turn = claim.turn().await;
        let ours = match self.lifetime {
            // It does not say whose it is.
            Lifetime::Value => match self.client.attempt_one(session, session.data(&self.path)).await {
                Err(zk::Error::NoNode) => None,
                found => {
                    let (found, stat) = found?;
                    let is_fresh = stat.ephemeral_owner == 0 && stat.version == 0;
                    Some(stat).filter(|_| is_fresh && found == *self.client.node_data(data))
                }
            },
            Lifetime::Session => {
                let stat = self.client.attempt_one(session, session.stat(&self.path)).await?;
                stat.filter(|stat| stat.ephemeral_owner == session.id())
            }
            Lifetime::Touched => None,
        };
        if let Some(stat) = ours {
            self.client.attempt_one(session, session.delete_version(&self.path, stat.version)).await?;
        }
        Ok(())
    }
}
