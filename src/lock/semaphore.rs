//! The counting semaphore.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use super::inter_process_lock::inter_process_lock;
use super::options::LockOptions;
use super::owner::Owner;
use crate::client::{Client, Room};
use crate::error::{Error, Result};
use crate::lock::acquiring::acquirable::{Acquirable, Contending, Entry};
use crate::lock::acquiring::attempt;
use crate::lock::acquiring::wait::{Wait, unending};
use crate::lock::holding::claims::{self, Awaited};
use crate::lock::holding::guard::LockGuard;
use crate::lock::holding::held_node::HeldNode;
use crate::lock::holding::minder::Minder;
use crate::lock::holding::owners::Owners;
use crate::lock::operating::participant::{self, Participant};
use crate::meters::{LockMeters, WaitMeter};
use crate::queue::{Caller, FixedLimit, Grant, Kind, Leases, Limit, LockInternals, PermitWaiter};
use crate::shared::SharedCount;

/// A number of permits, shared by all processes that use the same path.
///
/// Fair: first come, first served, however many permits each request asks for. The place of a caller that gives up may
/// go to another caller of the same client. Compatible with Curator's `InterProcessSemaphoreV2` on the same path, in
/// both directions. All users of the path must agree on the number of permits, or
/// [share it](Self::with_shared_count).
///
/// A permit is a [`LockGuard`]: it is not tied to a task and can be released anywhere. Permits are not re-entrant:
/// acquiring twice takes two permits. [`many`](Self::many) acquires several at once, all or none.
///
/// A semaphore and another kind of lock on one path, of different clients, are noticed only in part, because a semaphore
/// keeps its nodes one level below its path. An acquire fails with `KindConflict` if its client uses the path for the first
/// time and the other lock is held. A client that has used the path before does not look again, and two that come at the
/// same moment do not see each other: then both are granted.
///
/// This is a handle that can be cloned; clones, and the handles that [`many`](Self::many),
/// [`owned_by`](Self::owned_by) and [`with_options`](Self::with_options) return, are the same lock object.
///
/// Curator acquires several permits one at a time, and keeps the first while it waits for the next. If Curator
/// clients acquire several permits at this path, acquire several permits with a deadline here, as they must among
/// themselves.
///
/// # Requests
///
/// If this client was the last one at the gate, an acquire of any number of permits takes one round trip: one transaction
/// creates the node at the gate and all lease nodes, provided that no other client was there in between. That the permits
/// were free is shown by a list; or by the numbers of the nodes, if no other client has permits. Otherwise it takes two: one
/// creates the node at the gate and lists the leases; one transaction creates the lease nodes, provided that the node at
/// the gate still exists. With servers before 3.8.2, the second way takes three. The removal of the node at the gate is not
/// awaited. A release is one delete. A failed try is a create, a list and a delete. The first acquire of a client also lists
/// the path, in the first round trip. Curator needs five round trips for each lease.
///
/// ```no_run
/// use zk_recipes::{Client, Semaphore};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let licences = Semaphore::new(&client, "/semaphores/licences", 10)?;
///
/// let one = licences.acquire().await?;
/// let three = licences.many(3)?.acquire().await?;
/// one.release().await?;
/// three.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// Corresponds to Curator's `InterProcessSemaphoreV2`.
#[derive(Clone)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore {
    client: Client,
    leases: Arc<Leases>,
    owners: Arc<Owners>,
    options: Arc<LockOptions>,
    meters: LockMeters,
    /// How many permits an acquire takes.
    wanted: u32,
    /// For whom permits are acquired: the current task, or outside of tasks the current thread, if it is `None`.
    owner: Option<Owner>,
}

debug_by!(Semaphore, |it| path: it.path());

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
        let meters = client.labels().meters(leases.path(), leases.leases().recipe());
        let (client, options) = (client.clone(), Arc::default());
        Ok(Self { client, leases, owners, options, meters, wanted: 1, owner: None })
    }

    /// Returns a handle to the same semaphore whose permits have these options. By default a permit has no maximum
    /// hold time, and its node data is the client's identity.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: a time is zero, the node data is not allowed (see
    ///   [`LockOptions::node_data`]), or an option is set that only an
    ///   [`InterProcessMutex`](crate::InterProcessMutex) has: `linger`, `cohort`, `cohort_time`.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { options: Arc::new(options.validated()?), ..self.clone() })
    }

    /// Returns a handle to the same semaphore that acquires this many permits at once, all or none. Its guards hold
    /// all of them: see [`LockGuard::members`] and [`LockGuard::into_permits`].
    ///
    /// A waiter has none of its permits until it gets them all, so two requests for several permits cannot
    /// deadlock. Requests behind it wait as well, even for fewer permits.
    ///
    /// With a [shared count](Self::with_shared_count), a request for more permits than the count waits until the
    /// count is raised.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: `permits` is zero, more than the fixed number of permits, or more than one
    ///   request can create. Servers accept requests of up to 1 MiB, which is some thousands of permits.
    pub fn many(&self, permits: u32) -> Result<Self> {
        let many = Self { wanted: permits, ..self.clone() };
        many.validate()?;
        Ok(many)
    }

    fn validate(&self) -> Result<()> {
        let reason = match self.leases.limit() {
            _ if self.wanted == 0 => "acquire at least 1".into(),
            Limit::Fixed(limit) if self.wanted > limit.permits() => {
                format!("there are {} in all; acquire no more", limit.permits())
            }
            _ => return self.leases.ensure_fit(self.wanted, self.options.data()),
        };
        Err(Error::InvalidArgument { argument: "permits", reason })
    }

    /// Returns a handle to the same semaphore that acquires for this owner instead of the current task. Permits are
    /// not re-entrant: the owner shows in [`is_owned_by`](Self::is_owned_by), and counts with
    /// [`LockOptions::detect_deadlocks`].
    pub fn owned_by(&self, owner: &Owner) -> Self {
        Self { owner: Some(owner.clone()), ..self.clone() }
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
    ///   Also if the connection was lost with the request that takes the permits, eleven times in a row.
    /// - [`Error::NotConnected`]: the server cannot be reached, the retry policy is exhausted, and nothing could
    ///   be sent.
    /// - [`Error::PermitsDiffer`]: other processes use the path with more permits.
    /// - [`Error::KindConflict`]: another kind of recipe uses the path, as far as that is [noticed](Self).
    /// - [`Error::WouldDeadlock`]: too many permits are held by owners that wait for what this one holds. Only with
    ///   [`LockOptions::detect_deadlocks`].
    /// - [`Error::InvalidArgument`]: several permits with this much [node data](LockOptions::node_data) do not fit
    ///   into one request.
    /// - [`Error::Closed`]: the client is closed, or is closed while waiting.
    ///
    /// # Cancel safety
    /// If cancelled, the place in the queue is given up, and neither a node nor a watch is left behind.
    pub async fn acquire(&self) -> Result<LockGuard> {
        unending(attempt::try_acquire(self, &self.owner(), Wait::Forever).await)
    }

    /// Acquires a permit if one is available immediately; returns `None` otherwise.
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// If cancelled, nothing is left behind.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        attempt::try_acquire(self, &self.owner(), Wait::No).await
    }

    /// Acquires a permit, waiting at most `within`. Returns `None` if that time elapsed in the queue.
    ///
    /// The bound holds even while the servers are down or do not respond. Leaving the queue afterwards may take
    /// another round trip, at most 100 ms. Zero is the same as [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), and:
    /// - [`Error::NotConnected`]: the servers did not answer within this time: the queue was not reached, or the permits
    ///   were free at once and could not be taken.
    ///
    /// # Cancel safety
    /// Same as [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        attempt::try_acquire(self, &self.owner(), Wait::at_most(within)).await
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
        let leases = self.client.unless_closed(self.leases.leases().contenders()).await?;
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
            let mut room = Room::default();
            let leases = self.leases.leases();
            let mut participants =
                participant::read(leases, leases.contenders().await?, None, &mut room).await?;
            let waiting = participant::read(self.leases.gate(), waiting, None, &mut room).await?;
            participants.extend(waiting.into_iter().map(Participant::waiting));
            Ok(participants)
        };
        self.client.unless_closed(participants).await
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
        self.client.unless_closed(participant::holder(self.leases.leases(), Kind::Shared)).await
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
        self.client.exists(self.path()).await
    }

    /// Returns whether a permit is held through this object. Makes no request: a lost permit counts until its
    /// guard is gone.
    pub fn is_acquired_in_this_process(&self) -> bool {
        !self.owners.is_empty(Kind::Shared)
    }

    /// Returns whether a permit is held through this object that was acquired for this owner. Makes no request: a
    /// lost permit counts until its guard is gone.
    pub fn is_owned_by(&self, owner: &Owner) -> bool {
        self.owners.has_permit(owner)
    }

    /// Returns the full path of the semaphore, including the namespace.
    pub fn path(&self) -> &str {
        self.leases.path()
    }

    fn owner(&self) -> Owner {
        Owner::or_current(&self.owner)
    }

    fn hold(&self, grants: Vec<Grant>, owner: &Owner) -> LockGuard {
        let hold = |grant: Grant| {
            let node = HeldNode::new(&self.client, grant, &self.options, &self.meters, None);
            Minder::mind(&self.client, &node);
            tracing::debug!(node = &**node.path(), token = node.token(), "acquired a permit");
            LockGuard::new(self.owners.enter(&Owner::new(), owner, Kind::Shared, node), &self.client)
        };
        LockGuard::of_permits(grants.into_iter().map(hold).collect())
    }
}

inter_process_lock!(Semaphore, |it| &it.client);

/// A request for permits that waits in the queue.
#[derive(Debug)]
pub(crate) struct Turn {
    semaphore: Semaphore,
    owner: Owner,
    waiter: PermitWaiter,
}

impl Acquirable for Semaphore {
    type Waiter = Turn;

    fn client(&self) -> &Client {
        &self.client
    }

    fn name(&self) -> impl Display {
        self.path()
    }

    fn recipe(&self) -> &'static str {
        self.leases.leases().recipe()
    }

    fn options(&self) -> &LockOptions {
        &self.options
    }

    async fn first(&self) -> Result<Option<Participant>> {
        participant::first(self.leases.leases()).await
    }

    fn wait_meter(&self) -> WaitMeter {
        LockMeters::wait([&self.meters])
    }

    /// Never, because permits are not re-entrant.
    fn enter_again(&self, _: &Owner) -> Result<Option<LockGuard>> {
        Ok(None)
    }

    /// Never fails, because an owner may have several permits.
    fn ensure_can_be_granted(&self, _: &Owner) -> Result<()> {
        Ok(())
    }

    async fn enter(&self, owner: &Owner, caller: Caller) -> Result<Entry<Turn>> {
        if self.wanted > 1 {
            // Options may have been set since it was validated.
            self.validate()?;
        }
        let waiter = PermitWaiter::enter(&self.leases, self.wanted, self.options.data(), caller).await?;
        Ok(Entry::Queued(Turn { semaphore: self.clone(), owner: owner.clone(), waiter }))
    }
}

impl Contending for Turn {
    fn take(&mut self) -> Option<LockGuard> {
        self.waiter.take_grants().map(|grants| self.semaphore.hold(grants, &self.owner))
    }

    /// Never fails, because an owner may have several permits.
    fn ensure_no_deadlock(&self) -> Result<()> {
        Ok(())
    }

    fn awaited(&self) -> Option<Awaited> {
        let Semaphore { leases, wanted, .. } = &self.semaphore;
        // A shared count may be raised at any moment.
        let Limit::Fixed(limit) = leases.limit() else { return None };
        if !self.semaphore.options.detect_deadlocks {
            return None;
        }
        let gate = claims::Place {
            queue: leases.gate().path().clone(),
            kind: Kind::Exclusive,
            czxid: self.waiter.czxid()?,
        };
        let spare = limit.permits().saturating_sub(*wanted);
        let permits = claims::Permits { leases: leases.leases().path().clone(), spare };
        Some(Awaited { path: leases.path().clone(), places: vec![gate], permits: Some(permits) })
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
        let reason = "a semaphore needs at least 1 permit".into();
        return Err(Error::InvalidArgument { argument: "permits", reason });
    }
    if i32::try_from(permits).is_err() {
        let reason = format!("a semaphore counts up to {}; give no more", i32::MAX);
        return Err(Error::InvalidArgument { argument: "permits", reason });
    }
    Ok(Limit::Fixed(FixedLimit::of(client, &client.full_path(path)?, permits)?))
}
