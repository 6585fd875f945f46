//! The contenders of a queue, as others see them.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use zookeeper_client as zk;

use crate::client::{Process, Room, is_gzip};
use crate::error::Result;
use crate::lock::holding::lingering::Lingering;
use crate::queue::{Kind, LockInternals, Queued, Verdict, verdict};

/// A contender of a lock, from any process and any compatible library.
#[derive(Clone, PartialEq, Eq)]
pub struct Participant {
    node_path: String,
    identity: Option<Vec<u8>>,
    session_id: i64,
    since: SystemTime,
    fencing_token: i64,
    is_holder: bool,
    is_lingering: bool,
    is_revoke_requested: bool,
    is_compressed: bool,
    process: Process,
}

debug_by!(Participant, |it|
    node_path: it.node_path, is_holder: it.is_holder, identity: it.identity().map(String::from_utf8_lossy),
    session_id: format_args!("{:#x}", it.session_id), fencing_token: it.fencing_token
);

impl Participant {
    /// Returns the full path of the contender's node, including the namespace.
    pub fn node_path(&self) -> &str {
        &self.node_path
    }

    /// Returns the data of the contender's node, by which the contender identifies itself. By default this is [the
    /// identity of its process](crate::ClientBuilder::identity) for this library, and the local address for
    /// Curator. `None` if this client has no permission to read the data but the server reveals the rest.
    ///
    /// Data that was compressed with gzip, as Curator does after `enableCompression()`, is returned decompressed,
    /// if that yields at most 1 MiB, and 64 MiB for all contenders that were read together. Otherwise it is returned as it
    /// is.
    ///
    /// A revocation request overwrites this data. A holder of this library restores it immediately if it has held
    /// the lock for a second or awaits [`revoke_requested`](crate::LockGuard::revoke_requested); see
    /// [`operate::ask`](crate::operate::ask).
    pub fn identity(&self) -> Option<&[u8]> {
        self.identity.as_deref()
    }

    /// Returns the identity as text; empty if it cannot be read. Corresponds to Curator's `Participant.getId`.
    pub fn id(&self) -> Cow<'_, str> {
        self.identity().map(String::from_utf8_lossy).unwrap_or_default()
    }

    /// Returns the local address of the contender's process, if the default identity contains it, as in this
    /// library and in Curator.
    pub fn address(&self) -> Option<IpAddr> {
        self.process.address
    }

    /// Returns the host name of the contender's process, if the contender uses this library's default identity.
    ///
    /// ```no_run
    /// # async fn example(mutex: zk_recipes::InterProcessMutex) -> zk_recipes::Result<()> {
    /// if let Some(holder) = mutex.holder().await? {
    ///     match (holder.host(), holder.pid()) {
    ///         (Some(host), Some(pid)) => println!("held for {:?} by process {pid} on {host}", holder.age()),
    ///         _ => println!("held for {:?} by {}", holder.age(), holder.id()),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn host(&self) -> Option<&str> {
        self.process.host.as_deref()
    }

    /// Returns the process id of the contender, if the contender uses this library's default identity. In a
    /// container, this may be the id within the container.
    pub fn pid(&self) -> Option<u32> {
        self.process.pid
    }

    /// Returns the program name of the contender, if the contender uses this library's default identity.
    pub fn program(&self) -> Option<&str> {
        self.process.program.as_deref()
    }

    /// Returns the id of the session that owns the contender's node.
    pub fn session_id(&self) -> i64 {
        self.session_id
    }

    /// Returns the time at which the contender entered the queue, by the clock of the ensemble's leader, to the
    /// millisecond.
    pub fn since(&self) -> SystemTime {
        self.since
    }

    /// Returns how long the contender has been in the queue, as far as the clocks of the ensemble and of this
    /// machine agree.
    pub fn age(&self) -> Duration {
        self.since.elapsed().unwrap_or_default()
    }

    /// Returns the id of the transaction that created the contender's node, which is the fencing token with which
    /// it holds or will hold the lock. Exceptions: permits, and readers that downgraded from a writer, have the
    /// token of an earlier node of theirs.
    pub fn fencing_token(&self) -> i64 {
        self.fencing_token
    }

    /// Returns whether the contender holds the lock.
    pub fn is_holder(&self) -> bool {
        self.is_holder
    }

    /// Returns whether the contender's node only [lingers](crate::LockOptions::linger), or waits for the next of its
    /// [cohort](crate::LockOptions::cohort): it holds the lock, but nothing in its process does. Known for contenders of
    /// the client that was asked; those of other clients are shown as holders.
    pub fn is_lingering(&self) -> bool {
        self.is_lingering
    }

    /// Returns whether the contender was asked to give the lock back, by [`operate::ask`](crate::operate::ask) or
    /// Curator's `Revoker`: its node has been written to since it was created. Never shows for a
    /// [`LeaderLatch`](crate::LeaderLatch) that was asked by this library, which asks it in another way.
    pub fn is_revoke_requested(&self) -> bool {
        self.is_revoke_requested
    }

    /// Whether the data of its node is compressed. If it is, its client may be unable to read an uncompressed
    /// request.
    pub(super) fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// Creates a waiter from what its node shows.
    pub(crate) fn of_node(
        node_path: String,
        data: Option<Vec<u8>>,
        stat: &zk::Stat,
        room: &mut Room,
    ) -> Self {
        let plain = data.as_deref().and_then(|data| room.decompressed(data));
        // Without room for it, it counts as what it looks like.
        let is_compressed = plain.is_some() || room.is_short() && data.as_deref().is_some_and(is_gzip);
        let identity = plain.or(data);
        Self {
            is_compressed,
            node_path,
            process: identity.as_deref().and_then(Process::read).unwrap_or_default(),
            identity,
            is_revoke_requested: stat.version != 0,
            session_id: stat.ephemeral_owner,
            since: SystemTime::UNIX_EPOCH + Duration::from_millis(stat.ctime.unsigned_abs()),
            fencing_token: stat.czxid,
            is_holder: false,
            is_lingering: false,
        }
    }

    /// The same contender as a holder.
    pub(crate) fn holding(self) -> Self {
        Self { is_holder: true, ..self }
    }

    /// The same contender as a waiter.
    pub(crate) fn waiting(self) -> Self {
        Self { is_holder: false, ..self }
    }
}

/// Returns the contenders of a queue in order; all, or those of one kind.
pub(crate) async fn of(internals: &LockInternals, kind: Option<Kind>) -> Result<Vec<Participant>> {
    read(internals, internals.contenders().await?, kind, &mut Room::default()).await
}

/// Returns the first of a queue, which holds, or is about to.
pub(crate) async fn first(internals: &LockInternals) -> Result<Option<Participant>> {
    let mut queue = internals.contenders().await?;
    queue.truncate(1);
    Ok(read(internals, queue, None, &mut Room::default()).await?.pop())
}

/// Returns those of these contenders that still exist; all, or those of one kind.
pub(crate) async fn read(
    internals: &LockInternals,
    queue: Vec<Queued>,
    kind: Option<Kind>,
    room: &mut Room,
) -> Result<Vec<Participant>> {
    let nodes = join_all(queue.iter().map(|queued| node(internals, queued))).await;
    let mut present = Vec::with_capacity(queue.len());
    let mut participants = Vec::with_capacity(queue.len());
    for (queued, node) in queue.into_iter().zip(nodes) {
        // A contender may have left since the queue was listed; then the next one takes its position.
        let Some(node) = node? else { continue };
        participants.push(participant(internals, &queued, node, room));
        present.push(queued);
    }
    for (place, participant) in participants.iter_mut().enumerate() {
        participant.is_holder = verdict(&present, place) == Verdict::Granted;
    }
    let is_wanted = |queued: &Queued| kind.is_none_or(|kind| queued.kind == kind);
    Ok(participants
        .into_iter()
        .zip(&present)
        .filter(|(_, queued)| is_wanted(queued))
        .map(|(p, _)| p)
        .collect())
}

/// Returns the first holder of a kind.
pub(crate) async fn holder(internals: &LockInternals, kind: Kind) -> Result<Option<Participant>> {
    loop {
        let queue = internals.contenders().await?;
        let holders = (0..queue.len()).filter(|place| verdict(&queue, *place) == Verdict::Granted);
        let Some(holder) = holders.map(|place| &queue[place]).find(|queued| queued.kind == kind) else {
            return Ok(None);
        };
        // A contender that has left since the queue was listed has made way for another; list again.
        if let Some(node) = node(internals, holder).await? {
            return Ok(Some(participant(internals, holder, node, &mut Room::default()).holding()));
        }
    }
}

/// Returns whether a contender of a kind holds the lock.
pub(crate) async fn is_held(internals: &LockInternals, kind: Kind) -> Result<bool> {
    let queue = internals.contenders().await?;
    Ok((0..queue.len()).any(|place| queue[place].kind == kind && verdict(&queue, place) == Verdict::Granted))
}

/// What was read of the node of a contender; without the data if they may not be read.
type ReadNode = (Option<Vec<u8>>, zk::Stat);

fn participant(
    internals: &LockInternals,
    queued: &Queued,
    (data, stat): ReadNode,
    room: &mut Room,
) -> Participant {
    let path = internals.child(&queued.name);
    let idle = Lingering::idle_nodes(internals.client(), internals.path());
    let is_lingering = idle.iter().any(|idle| **idle == *path);
    Participant { is_lingering, ..Participant::of_node(path, data, &stat, room) }
}

/// Reads one contender, if it still exists.
async fn node(internals: &LockInternals, queued: &Queued) -> Result<Option<ReadNode>> {
    let path = &*internals.child(&queued.name);
    internals
        .request("read the contenders of", |session| async move {
            match session.data(path).await {
                Ok((data, stat)) => Ok(Some((Some(data), stat))),
                Err(zk::Error::NoNode) => Ok(None),
                Err(zk::Error::NoAuth) => Ok(session.stat(path).await?.map(|stat| (None, stat))),
                Err(error) => Err(error),
            }
        })
        .await
}
