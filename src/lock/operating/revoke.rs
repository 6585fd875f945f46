//! Revocation: asking a holder for its lock, and taking it away.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use zookeeper_client as zk;

use super::participant::{self, Participant};
use crate::client::{Client, REVOKE_REQUEST, Write, compressed};
use crate::error::{Error, Result};
use crate::lock::latch::{election_of_latch, request_to_latch};
use crate::queue::{ANY_LOCK, LEASES, LockInternals};

/// Asks the holder of the lock at `path`, below the client's namespace, to give it back. The lock can be of any kind;
/// if there are several holders, all readers or all holders of permits are asked. Returns those that were asked;
/// empty if the lock is free.
///
/// The holder decides. With this library, a holder that awaits
/// [`LockGuard::revoke_requested`](crate::LockGuard::revoke_requested) is notified of the request; with Curator,
/// one that has called `makeRevocable`.
///
/// The request overwrites the data of the holder's node, by which the holder identifies itself. A holder of this
/// library that notices the request remembers it and writes its own data again, so that [`Participant::identity`]
/// still identifies the holder; [`Participant::is_revoke_requested`] shows that it was asked. Waiters, holders of
/// Curator, and holders that have no permission to write to their own nodes keep showing the request, which is
/// Curator's `__REVOKE__`. Each of the two writes makes the waiter behind the holder list the queue again.
///
/// If the holder's data is compressed, the request is compressed too, because a Curator client with
/// `enableCompression()` cannot read an uncompressed one.
///
/// For a [`LeaderLatch`](crate::LeaderLatch), the request is written to the path of the election instead, because
/// a Curator latch that waits behind the leader no longer notices the deletion of the leader's node after a write
/// to it. For the same reason, a latch that was asked by Curator's `Revoker` does not write its own data again; it
/// resigns.
///
/// Corresponds to Curator's `Revoker`, which needs to be given the path of the holder's node.
///
/// # Errors
/// - [`Error::InvalidPath`](crate::Error::InvalidPath): `path` is not a valid path.
/// - [`Error::NoSuchPath`]: the path does not exist; it may be mistyped.
/// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): permission to read the queue or to write to the node is
///   missing, or the server cannot be reached within the client's retry policy.
/// - [`Error::NotConnected`](crate::Error::NotConnected): the server cannot be reached, and nothing could be
///   sent.
/// - [`Error::Closed`](crate::Error::Closed): the client is closed.
///
/// # Cancel safety
/// If cancelled, some holders may have been asked.
pub async fn ask(client: &Client, path: &str) -> Result<Vec<Participant>> {
    let mut asked = holders(client, path).await?;
    for holder in std::mem::take(&mut asked) {
        if send_request(client, &holder).await? {
            asked.push(holder);
        }
    }
    Ok(asked)
}

/// Asks one contender, a holder or a waiter. Returns whether its node still existed.
///
/// A waiter is notified of the request once it holds the lock. There are two exceptions: a waiter for a permit
/// is not, because it will hold the permit by another node; and of several candidates of a latch, only the one
/// that was asked last is.
///
/// # Errors
/// Same as [`ask`], and:
/// - [`Error::NoSuchPath`]: the parent path of its node does not exist, for example because the client has a
///   different chroot.
///
/// # Cancel safety
/// If cancelled, the contender may have been asked.
pub async fn ask_participant(client: &Client, participant: &Participant) -> Result<bool> {
    let is_asked = send_request(client, participant).await?;
    if !is_asked {
        ensure_path(client, participant).await?;
    }
    Ok(is_asked)
}

/// Asks one contender. Returns whether its node still existed.
pub(crate) async fn send_request(client: &Client, participant: &Participant) -> Result<bool> {
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
                None => session.set_data(path, request, None).await.map(drop),
            })
        }
    });
    client.unless_closed(write).await
}

/// Takes the lock at `path`, below the client's namespace, away from its holder. This is for operators, when a
/// holder neither works nor ends. The lock can be of any kind; if there are several holders, it is taken from all
/// readers or all holders of permits. Returns those from which it was taken; empty if the lock is free.
///
/// It deletes the holder's node. A holder that still works does not notice immediately, so what the lock protects
/// must check its [fencing token](crate::LockGuard::fencing_token). A holder of this library notices promptly if
/// it has held the lock for a second or awaits a notification, such as
/// [`revoke_requested`](crate::LockGuard::revoke_requested) or [`lost`](crate::LockGuard::lost); otherwise when it
/// releases the lock. To take the lock from one of several holders, see [`force_release_participant`].
///
/// Corresponds to Redisson's `forceUnlock`.
///
/// # Errors
/// Same as [`ask`]; the permission needed is the one to delete the node.
///
/// # Cancel safety
/// If cancelled, the lock may have been taken from some holders.
pub async fn force_release(client: &Client, path: &str) -> Result<Vec<Participant>> {
    let mut released = holders(client, path).await?;
    for holder in std::mem::take(&mut released) {
        if take_from(client, &holder).await? {
            released.push(holder);
        }
    }
    Ok(released)
}

/// Takes the lock, or the place in the queue, away from one contender. Returns whether its node still existed: a
/// node of the same name that was created by another transaction is left alone.
///
/// # Errors
/// Same as [`force_release`], and:
/// - [`Error::NoSuchPath`]: the parent path of its node does not exist, for example because the client has a
///   different chroot.
///
/// # Cancel safety
/// If cancelled, it may have been taken.
pub async fn force_release_participant(client: &Client, participant: &Participant) -> Result<bool> {
    let is_taken = take_from(client, participant).await?;
    if !is_taken {
        ensure_path(client, participant).await?;
    }
    Ok(is_taken)
}

/// Deletes the node of a contender. Returns whether it still existed.
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

/// The outcome of a request that may be sent several times.
#[derive(Default)]
struct Done {
    /// The reply to an earlier attempt was lost.
    in_doubt: AtomicBool,
}

impl Done {
    /// Interprets an attempt. If the node is gone and an earlier attempt may have succeeded, the request counts as
    /// done.
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

/// Checks that at least the path of the contender's queue exists.
///
/// # Errors
/// - [`Error::NoSuchPath`]: it does not exist.
async fn ensure_path(client: &Client, participant: &Participant) -> Result<()> {
    let (path, _) = participant.node_path().rsplit_once('/').unwrap_or_default();
    match client.exists(path).await? {
        true => Ok(()),
        false => Err(Error::NoSuchPath { path: path.to_owned() }),
    }
}

/// Returns the holders of the lock at a path.
///
/// # Errors
/// - [`Error::NoSuchPath`]: the path does not exist.
async fn holders(client: &Client, path: &str) -> Result<Vec<Participant>> {
    // The holders of a semaphore are one level below.
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
