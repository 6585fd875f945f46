//! The counting semaphore.

use std::sync::Arc;
use std::time::Duration;

use super::inter_process_lock::inter_process_lock;
use super::options::LockOptions;
use super::owner::Owner;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::lock::acquiring::attempt::{self, Contending, Entry};
use crate::lock::holding::guard::LockGuard;
use crate::lock::holding::held_node::HeldNode;
use crate::lock::holding::owners::Owners;
use crate::lock::operating::participant::{self, Participant};
use crate::queue::{Caller, FixedLimit, Grant, Kind, Leases, Limit, LockInternals, PermitWaiter};
use crate::shared_count::SharedCount;

/// A number of permits, shared by all processes that use the same path.
///
/// Fair: first come, first served, however many permits each request asks for. Compatible with Curator's
/// `InterProcessSemaphoreV2` on the same path, in both directions. All users of the path must agree on the number
/// of permits, or [share it](Self::with_shared_count).
///
/// A permit is a [`LockGuard`]: it is not tied to a task and can be released anywhere. Permits are not re-entrant:
/// acquiring twice takes two permits.
///
/// Curator acquires several permits one at a time, and keeps the first while it waits for the next. If Curator
/// clients acquire several permits at this path, acquire several permits with a deadline here, as they must among
/// themselves.
///
/// # Requests
///
/// An acquire of any number of permits takes two round trips if they are available immediately: one creates a node
/// at the gate and lists the free permits; one transaction creates all lease nodes, provided that the node at the
/// gate still exists. With servers before 3.8.2 it takes three. The removal of the node at the gate is not
/// awaited. A release is one delete. A failed try is the first of the two round trips and a delete. Curator needs
/// five round trips for each lease.
///
/// ```no_run
/// use zk_recipes::{Client, Semaphore};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let licences = Semaphore::new(&client, "/semaphores/licences", 10)?;
///
/// let one = licences.acquire().await?;
/// let three = licences.acquire_many(3).await?;
/// one.release().await?;
/// drop(three);
/// # Ok(())
/// # }
/// ```
///
/// Corresponds to Curator's `InterProcessSemaphoreV2`.
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore {
    client: Client,
    leases: Arc<Leases>,
    owners: Arc<Owners>,
    options: LockOptions,
}

inter_process_lock!(Semaphore);

/// A request for permits that waits in the queue.
#[derive(Debug)]
struct Turn {
    semaphore: Semaphore,
    waiter: PermitWaiter,
}

impl Semaphore {
    /// Creates a semaphore at `path`, below the client's namespace, with a fixed number of permits. Makes no
    /// request. The first acquire creates the path and its parents as containers, which the server removes after
    /// they have been empty for a while.
    ///
    /// The path must not be used for anything else, and every user of it must pass the same number of permits. A
    /// different number is detected only where the check is free:
    ///
    /// - by this function, while another object of this client uses the path with a different number;
    /// - as [`Error::PermitsDiffer`], by an acquire that finds at least two more permits taken than this semaphore
    ///   has. One more proves nothing, because a waiting Curator client already has a lease node.
    ///
    /// Otherwise each process applies its own number.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    /// - [`Error::InvalidArgument`]: `permits` is zero, more than `i32::MAX`, or differs from the number of
    ///   another object of this client.
    pub fn new(client: &Client, path: &str, permits: u32) -> Result<Self> {
        Self::with_limit(client, path, fixed(client, path, permits)?, Owners::new)
    }

    /// Returns the lock object that this function shares among all callers for the path.
    pub(super) fn shared(client: &Client, path: &str, permits: u32) -> Result<Self> {
        Self::with_limit(client, path, fixed(client, path, permits)?, Owners::shared)
    }

    /// Creates a semaphore at `path`, below the client's namespace, whose number of permits is the value of a
    /// [`SharedCount`]. Makes no request.
    ///
    /// Raising the count wakes waiters. Lowering it takes no permit away; it keeps further permits from being
    /// granted. While the count is below one, no permit is granted.
    ///
    /// The count must have been created with the same client, so that its path means the same node to both and it
    /// is read on the session on which the leases are counted. For a count outside of the client's namespace,
    /// create both the count and the semaphore with a client without that namespace.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    /// - [`Error::InvalidArgument`]: the count belongs to another client.
    pub fn with_shared_count(client: &Client, path: &str, count: &SharedCount) -> Result<Self> {
        if !count.is_of(client) {
            let reason = format!(
                "the count at {} is of another client, which may be connected to other servers or below another path; \
                 make it with the client of the semaphore",
                count.path()
            );
            return Err(Error::InvalidArgument { argument: "count", reason });
        }
        Self::with_limit(client, path, Limit::Shared(count.detached()), Owners::new)
    }

    fn with_limit(
        client: &Client,
        path: &str,
        limit: Limit,
        owners: impl FnOnce(&Arc<LockInternals>) -> Arc<Owners>,
    ) -> Result<Self> {
        let leases = Arc::new(Leases::new(client, path, limit)?);
        let owners = owners(leases.leases());
        Ok(Self { client: client.clone(), leases, owners, options: LockOptions::new() })
    }

    /// Returns a handle to the same semaphore whose permits have these options. By default a permit has no maximum
    /// hold time, and its node data is the client's identity.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the maximum hold time is zero, or the node data is not allowed (see
    ///   [`LockOptions::node_data`]).
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { options: options.validated()?, ..self.clone() })
    }

    /// Acquires a permit, waiting until one is available.
    ///
    /// A lost connection, an expired session or a deleted node does not end the wait. The place in the queue is
    /// kept as long as the session lives; otherwise the wait continues from the end of the queue.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the server refuses the request, for example because permission is missing, which is
    ///   reported immediately; or it cannot be reached, and the client's [retry policy](crate::RetryPolicy) is
    ///   exhausted.
    /// - [`Error::NotConnected`]: the server cannot be reached, the retry policy is exhausted, and nothing could
    ///   be sent.
    /// - [`Error::PermitsDiffer`]: other processes use the path with more permits.
    /// - [`Error::KindConflict`]: another kind of recipe uses the path.
    /// - [`Error::Closed`]: the client is closed, or is closed while waiting.
    ///
    /// # Cancel safety
    /// If cancelled, the place in the queue is given up, and neither a node nor a watch is left behind.
    pub async fn acquire(&self) -> Result<LockGuard> {
        attempt::acquire(self.client(), |caller| self.enter(1, caller)).await.map(the_one)
    }

    /// Acquires several permits, all or none, waiting until they are available. Returns one guard per permit.
    ///
    /// A waiter has none of its permits until it gets them all, so two requests for several permits cannot
    /// deadlock. Requests behind it wait as well, even for fewer permits.
    ///
    /// With a [shared count](Self::with_shared_count), a request for more permits than the count waits until the
    /// count is raised.
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), and:
    /// - [`Error::InvalidArgument`]: `permits` is zero, more than the fixed number of permits, or more than one
    ///   request can create. Servers accept requests of up to 1 MiB, which is some thousands of permits.
    ///
    /// # Cancel safety
    /// Same as [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, permits: u32) -> Result<Vec<LockGuard>> {
        self.validate(permits)?;
        attempt::acquire(self.client(), |caller| self.enter(permits, caller)).await
    }

    /// Acquires a permit if one is available immediately; returns `None` otherwise.
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// If cancelled, nothing is left behind.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        Ok(attempt::try_acquire(self.client(), |caller| self.enter(1, caller)).await?.map(the_one))
    }

    /// Acquires several permits, all or none, if they are available immediately; returns `None` otherwise.
    ///
    /// # Errors
    /// Same as [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// If cancelled, nothing is left behind.
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Vec<LockGuard>>> {
        self.validate(permits)?;
        attempt::try_acquire(self.client(), |caller| self.enter(permits, caller)).await
    }

    /// Acquires a permit, waiting at most `within`. Returns `None` if that time elapsed in the queue.
    ///
    /// The bound holds even while the servers are down or do not respond. Leaving the queue afterwards may take
    /// another round trip, at most 100 ms. Zero is the same as [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), and:
    /// - [`Error::NotConnected`]: the queue was not reached within this time, so it is unknown whether the permits
    ///   are taken.
    ///
    /// # Cancel safety
    /// Same as [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        Ok(attempt::try_acquire_for(self.client(), within, |caller| self.enter(1, caller))
            .await?
            .map(the_one))
    }

    /// Acquires several permits, all or none, waiting at most `within`. Returns `None` if that time elapsed in the
    /// queue.
    ///
    /// # Errors
    /// Same as [`acquire_many`](Self::acquire_many) and [`try_acquire_for`](Self::try_acquire_for).
    ///
    /// # Cancel safety
    /// Same as [`acquire`](Self::acquire).
    pub async fn try_acquire_many_for(
        &self,
        permits: u32,
        within: Duration,
    ) -> Result<Option<Vec<LockGuard>>> {
        self.validate(permits)?;
        attempt::try_acquire_for(self.client(), within, |caller| self.enter(permits, caller)).await
    }

    /// Returns the number of permits that are free now. Waiters may be about to take some of them. All permits are
    /// free if the path [does not exist](Self::path_exists).
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the leases cannot be read.
    /// - [`Error::NotConnected`]: the servers cannot be reached.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn available_permits(&self) -> Result<u32> {
        let limit = match self.leases.limit() {
            Limit::Fixed(limit) => limit.permits(),
            // A negative count means no permits.
            Limit::Shared(count) => u32::try_from(count.get().await?).unwrap_or(0),
        };
        let leases = self.client().unless_closed(self.leases.leases().contenders()).await?;
        // After the count was lowered, more permits can be taken than there are.
        Ok(limit.saturating_sub(u32::try_from(leases.len()).unwrap_or(u32::MAX)))
    }

    /// Returns the holders of permits in the order of their grants, followed by the waiters in queue order. Empty
    /// if the path [does not exist](Self::path_exists).
    ///
    /// The list includes clients of Curator. The first waiter of Curator may already have its lease node, and then
    /// counts as a holder too.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the queues cannot be read.
    /// - [`Error::NotConnected`]: the servers cannot be reached.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        let participants = async {
            // The gate is listed first, so that a contender that passes it in between is not missed.
            let waiting = self.leases.gate().contenders().await?;
            let mut participants = participant::of(self.leases.leases(), None).await?;
            let waiting = participant::read(self.leases.gate(), waiting, None).await?;
            participants.extend(waiting.into_iter().map(Participant::waiting));
            Ok(participants)
        };
        self.client().unless_closed(participants).await
    }

    /// Returns whether no permit is free. All permits are free if the path does not exist, which is no error: see
    /// [`path_exists`](Self::path_exists).
    ///
    /// # Errors
    /// Same as [`available_permits`](Self::available_permits).
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn is_locked(&self) -> Result<bool> {
        self.available_permits().await.map(|free| free == 0)
    }

    /// Returns the holder that has had its permit for the longest time, in any process. `None` if no permit is
    /// taken or the path [does not exist](Self::path_exists).
    ///
    /// # Errors
    /// Same as [`participants`](Self::participants).
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn holder(&self) -> Result<Option<Participant>> {
        self.client().unless_closed(participant::holder(self.leases.leases(), Kind::Shared)).await
    }

    /// Returns whether the path exists, which tells a free semaphore from a mistyped path.
    ///
    /// The path exists from the first acquire until it has been unused for a while (about a minute by default) and
    /// the servers remove it, so the path of a free semaphore may not exist. An existing path is not necessarily
    /// the path of a semaphore.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the server refuses the request or cannot be reached.
    /// - [`Error::NotConnected`]: the servers cannot be reached, and nothing could be sent.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn path_exists(&self) -> Result<bool> {
        self.client().exists(self.path()).await
    }

    /// Returns whether a permit is held through this object. Makes no request: a lost permit counts until its
    /// guard is gone.
    pub fn is_acquired_in_this_process(&self) -> bool {
        !self.owners.is_empty(Kind::Shared)
    }

    /// Returns the full path of the semaphore, including the namespace.
    pub fn path(&self) -> &str {
        self.leases.path()
    }

    fn client(&self) -> &Client {
        &self.client
    }

    /// Checks that this many permits can be granted at all.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: they cannot.
    fn validate(&self, permits: u32) -> Result<()> {
        let reason = match self.leases.limit() {
            _ if permits == 0 => "acquire at least 1".into(),
            Limit::Fixed(limit) if permits > limit.permits() => {
                format!("there are {} in all; acquire no more", limit.permits())
            }
            _ => return self.leases.ensure_fit(permits, self.options.data()),
        };
        Err(Error::InvalidArgument { argument: "permits", reason })
    }

    async fn enter(&self, permits: u32, caller: Caller) -> Result<Entry<Turn>> {
        let waiter = PermitWaiter::enter(&self.leases, permits, self.options.data(), caller).await?;
        Ok(Entry::Queued(Turn { semaphore: self.clone(), waiter }))
    }

    fn hold(&self, grants: Vec<Grant>) -> Vec<LockGuard> {
        let hold = |grant: Grant| {
            let token = grant.czxid;
            let node = HeldNode::new(self.client(), grant, &self.options);
            tracing::debug!(node = &**node.path(), token, "acquired a permit");
            // A new owner for each permit, because permits are not re-entrant.
            LockGuard::new(self.owners.enter(&Owner::new(), Kind::Shared, token, node), &self.client)
        };
        grants.into_iter().map(hold).collect()
    }
}

impl Contending for Turn {
    type Guard = Vec<LockGuard>;

    fn take(&mut self) -> Option<Vec<LockGuard>> {
        self.waiter.take_grants().map(|grants| self.semaphore.hold(grants))
    }

    /// Never fails, because permits have no owners.
    fn ensure_no_deadlock(&self) -> Result<()> {
        Ok(())
    }

    async fn wait(&mut self) -> Result<()> {
        self.waiter.wait().await
    }

    async fn leave(self) -> Result<()> {
        self.waiter.leave().await
    }
}

/// Checks the number of permits of a fixed limit.
///
/// # Errors
/// Same as [`Semaphore::new`].
fn fixed(client: &Client, path: &str, permits: u32) -> Result<Limit> {
    if permits == 0 {
        let reason = "a semaphore without permits lets nobody in; give at least 1".into();
        return Err(Error::InvalidArgument { argument: "permits", reason });
    }
    if i32::try_from(permits).is_err() {
        let reason = format!("a semaphore counts up to {}; give no more", i32::MAX);
        return Err(Error::InvalidArgument { argument: "permits", reason });
    }
    Ok(Limit::Fixed(FixedLimit::of(client, &client.full_path(path)?, permits)?))
}

/// Returns the guard of an acquire of one permit.
fn the_one(mut guards: Vec<LockGuard>) -> LockGuard {
    guards.swap_remove(0)
}
