//! Asking a holder for its lock, and taking it away.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use zookeeper_client as zk;

use super::participant::{self, Participant};
use crate::client::{Client, REVOKE_REQUEST, Write, compressed};
use crate::error::{Error, Result};
use crate::queue::{ANY_LOCK, LATCH, LEASES, LockInternals};

/// Asks holders to give a lock back. It is up to them: with this library, who awaits
/// [`LockGuard::revoke_requested`](crate::LockGuard::revoke_requested) hears of it; with Curator, who has
/// called `makeRevocable`.
///
/// ```no_run
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// use zk_recipes::Revoker;
///
/// for holder in Revoker::request(&client, "/locks/orders").await? {
///     println!("asked {holder:?}");
/// }
/// # Ok(())
/// # }
/// ```
///
/// It is a write to the holder's node, over the data by which the holder says who it is. A holder of this library that
/// hears of it remembers the request and writes its own data again, so that [`Participant::identity`] tells who holds; that
/// it was asked shows in [`Participant::is_revoke_requested`]. Waiters, holders of Curator, and holders that may not write to
/// their own nodes, go on showing the request: Curator's `__REVOKE__`. Each of the two writes makes the waiter behind the
/// holder look at the queue.
///
/// A holder whose data is compressed gets a compressed request, since a client of Curator with `enableCompression()` cannot
/// read a plain one.
///
/// But for a `LeaderLatch`: there it is a write to the path of the election, since a latch of Curator that waits behind the
/// leader hears of its end no more after a write to its node. For the same reason a latch that was asked by Curator's
/// `Revoker` does not write its own data again; it resigns.
///
/// Source: Curator's `Revoker`, which needs to know the path of the holder's node.
#[derive(Debug)]
#[non_exhaustive]
pub struct Revoker;

impl Revoker {
    /// Asks the holder of the lock at `path`, below the client's namespace, of whatever kind it is: all of its
    /// readers, or all who have a permit, if there are several. Returns who was asked; nobody if the lock is
    /// free.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath).
    /// - [`Error::NoSuchPath`]: the path does not exist; perhaps it is mistyped.
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): no right to read the queue or to write to the node, or
    ///   the server cannot be reached under the client's retry policy;
    ///   [`Error::NotConnected`](crate::Error::NotConnected).
    /// - [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Cancel safety
    /// Some may have been asked.
    pub async fn request(client: &Client, path: &str) -> Result<Vec<Participant>> {
        let mut asked = holders(client, path).await?;
        for holder in std::mem::take(&mut asked) {
            if Self::ask(client, &holder).await? {
                asked.push(holder);
            }
        }
        Ok(asked)
    }

    /// Asks one contender, be it a holder or one that waits. Returns whether its node was still there.
    ///
    /// Who waits hears of it as a holder; but not who waits for a permit, which will be held by another node, and of
    /// several candidates of a latch only the one that was asked last.
    ///
    /// # Errors
    /// As [`request`](Self::request); [`Error::NoSuchPath`] if the path above its node does not exist, as for a client with
    /// another chroot.
    ///
    /// # Cancel safety
    /// It may have been asked.
    pub async fn request_from(client: &Client, participant: &Participant) -> Result<bool> {
        let is_asked = Self::ask(client, participant).await?;
        if !is_asked {
            ensure_path(client, participant).await?;
        }
        Ok(is_asked)
    }

    /// Asks one contender. Returns whether its node was still there.
    pub(crate) async fn ask(client: &Client, participant: &Participant) -> Result<bool> {
        let path = participant.node_path();
        let request = match participant.is_compressed() {
            true => Cow::Owned(compressed(REVOKE_REQUEST)),
            false => Cow::Borrowed(REVOKE_REQUEST),
        };
        let done = Done::default();
        let write = client.request("ask for the lock of", path, |session| {
            let (done, request) = (&done, &request);
            async move {
                done.after(match election_of_latch(path) {
                    Some(election) => {
                        let request = request_to_latch(participant.fencing_token());
                        let writes = [
                            Write::Check { path, version: None },
                            Write::SetData { path: election, data: &request, version: None },
                        ];
                        session.commit(&writes).await.map(drop).map_err(zk::Error::from)
                    }
                    None => session.set_data(path, request, None).await,
                })
            }
        });
        client.unless_closed(write).await
    }
}

/// Takes the lock at `path`, below the client's namespace, away from its holder, of whatever kind the lock is:
/// from all of its readers, or all who have a permit, if there are several. For operators, when a holder does
/// not work and does not end. Returns from whom it was taken; nobody if the lock is free.
///
/// It deletes the holder's node. A holder that still works does not notice at once: it must be protected by its
/// [token](crate::LockGuard::fencing_token). Of this library it hears when it releases, or at once if it awaits
/// [`revoke_requested`](crate::LockGuard::revoke_requested). For one of several holders see
/// [`force_release_participant`].
///
/// Redisson's `forceUnlock`.
///
/// # Errors
/// As [`Revoker::request`]; a right to delete is needed.
///
/// # Cancel safety
/// The lock may have been taken from some.
pub async fn force_release(client: &Client, path: &str) -> Result<Vec<Participant>> {
    let mut released = holders(client, path).await?;
    for holder in std::mem::take(&mut released) {
        if take_from(client, &holder).await? {
            released.push(holder);
        }
    }
    Ok(released)
}

/// Takes its lock, or its place in the queue, away from one contender. Returns whether it was still there: a
/// node of the same name that was created by another transaction is left alone.
///
/// # Errors
/// As [`force_release`]; [`Error::NoSuchPath`] if the path above its node does not exist, as for a client with another
/// chroot.
///
/// # Cancel safety
/// It may have been done.
pub async fn force_release_participant(client: &Client, participant: &Participant) -> Result<bool> {
    let is_taken = take_from(client, participant).await?;
    if !is_taken {
        ensure_path(client, participant).await?;
    }
    Ok(is_taken)
}

/// Deletes the node of a contender. Returns whether it was still there.
async fn take_from(client: &Client, participant: &Participant) -> Result<bool> {
    let path = participant.node_path();
    let done = Done::default();
    let delete = client.request("delete", path, |session| {
        let done = &done;
        async move {
            let stat = session.stat(path).await?;
            let is_the_same = stat.is_some_and(|stat| stat.czxid == participant.fencing_token());
            done.after(if is_the_same { session.delete(path).await } else { Err(zk::Error::NoNode) })
        }
    });
    client.unless_closed(delete).await
}

/// The path of the election, if the node is that of a latch.
pub(crate) fn election_of_latch(node_path: &str) -> Option<&str> {
    let (election, name) = node_path.rsplit_once('/')?;
    LATCH.read(name).map(|_| election)
}

/// What asks the latch with this token to resign, as the data of the path of the election.
pub(crate) fn request_to_latch(token: i64) -> Vec<u8> {
    [REVOKE_REQUEST, format!(" {token}").as_bytes()].concat()
}

/// Whether a request was done that may be sent several times.
#[derive(Default)]
struct Done {
    /// The reply to one of them was lost.
    in_doubt: AtomicBool,
}

impl Done {
    /// What it comes to when the node is gone: if one of them may have been done, it counts as done.
    fn after(&self, outcome: Result<(), zk::Error>) -> Result<bool, zk::Error> {
        match outcome {
            Ok(()) => Ok(true),
            Err(zk::Error::NoNode) => Ok(self.in_doubt.load(Ordering::Relaxed)),
            Err(error) => {
                self.in_doubt.store(true, Ordering::Relaxed);
                Err(error)
            }
        }
    }
}

/// # Errors
/// [`Error::NoSuchPath`]: there is not even the path of the contender's queue.
async fn ensure_path(client: &Client, participant: &Participant) -> Result<()> {
    let (path, _) = participant.node_path().rsplit_once('/').unwrap_or_default();
    match client.exists(path).await? {
        true => Ok(()),
        false => Err(Error::NoSuchPath { path: path.to_owned() }),
    }
}

/// Who holds the lock at a path.
///
/// # Errors
/// [`Error::NoSuchPath`], among others.
async fn holders(client: &Client, path: &str) -> Result<Vec<Participant>> {
    // A semaphore has its holders one level below.
    let leases = LockInternals::of(client, &format!("{path}/leases"), &LEASES)?;
    let lock = LockInternals::of(client, path, &ANY_LOCK)?;
    let holders = async {
        let mut participants = participant::of(&leases, None).await?;
        if participants.is_empty() {
            participants = participant::of(&lock, None).await?;
        }
        if participants.is_empty() && !client.exists(lock.path()).await? {
            return Err(Error::NoSuchPath { path: lock.path().to_string() });
        }
        participants.retain(Participant::is_holder);
        Ok(participants)
    };
    client.unless_closed(holders).await
}
