//! The counting semaphore.

use std::sync::Arc;
use std::time::Duration;

use super::methods::inter_process_lock;
use super::options::LockOptions;
use super::owner::Owner;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::lock::acquiring::attempt::{self, Contending, Entry};
use crate::lock::holding::books::Books;
use crate::lock::holding::guard::LockGuard;
use crate::lock::holding::held_node::HeldNode;
use crate::lock::operating::participant::{self, Participant};
use crate::queue::{Applicant, Caller, FixedLimit, Grant, Kind, Leases, Limit, LockInternals};
use crate::shared_count::SharedCount;

/// A number of permits, among all processes that use the same path.
///
/// Fair: first come, first served, however many permits each wants. Compatible with Curator's `InterProcessSemaphoreV2`
/// on the same path, in both directions. All must agree on the number of permits, or
/// [share it](Self::with_shared_count).
///
/// A permit is a [`LockGuard`]: it belongs to no task, and can be released anywhere. Nobody is known again:
/// acquiring twice takes two permits.
///
/// Curator takes several permits one after the other, and waits for the next with the first in its hand. Where
/// clients of Curator do that, give those who want several here a deadline, as among themselves.
///
/// On the wire, an acquire of any number is two round trips if nobody is to be waited for: a node at the gate,
/// with a look at what is free; and one transaction that makes all the leases if the node at the gate still
/// exists. With old servers (before 3.8.2) it is three. The removal of the node at the gate is not waited for. A
/// release is a delete. A failed try is the first of the two and a delete. Curator needs five round trips for each
/// lease.
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
/// Source: Curator's `InterProcessSemaphoreV2`.
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore {
    client: Client,
    leases: Arc<Leases>,
    books: Arc<Books>,
    options: LockOptions,
}

inter_process_lock!(Semaphore);

/// An application for permits.
#[derive(Debug)]
struct Turn {
    semaphore: Semaphore,
    applicant: Applicant,
}

impl Semaphore {
    /// A semaphore at `path`, below the client's namespace, with a fixed number of permits. Nothing is sent.
    /// The path and its parents are made by the first acquire, as containers: the server removes them when
    /// they have been empty for a while.
    ///
    /// The path must be used for nothing else, and by everybody with the same number of permits. A different number is
    /// detected where that costs nothing: at once while another object of this client has one; and as
    /// [`Error::PermitsDiffer`] by an acquire that finds at least two more permits out than there are here. Two are what
    /// it takes, since a client of Curator that waits has a lease already. In all other cases each process goes by its
    /// own number.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; [`Error::InvalidArgument`]: no permits, more than `i32::MAX`, or another number than that
    /// of another object of this client.
    pub fn new(client: &Client, path: &str, permits: u32) -> Result<Self> {
        Self::with_limit(client, path, fixed(client, path, permits)?, Books::new)
    }

    /// The same lock object as all that this gives for the path.
    pub(super) fn shared(client: &Client, path: &str, permits: u32) -> Result<Self> {
        Self::with_limit(client, path, fixed(client, path, permits)?, Books::shared)
    }

    /// A semaphore at `path`, below the client's namespace, with as many permits as the count says. Nothing is
    /// sent.
    ///
    /// Raising the count wakes those who wait. Lowering it takes no permit away; it keeps others from being
    /// given out. Below one, nobody is let in.
    ///
    /// The count must have been made with the same client, so that its path means the same node to both, and it is read
    /// on the session on which the leases are counted. A path outside of the client's namespace takes a client without
    /// that namespace, for the semaphore as well.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; [`Error::InvalidArgument`]: the count is of another client.
    pub fn with_shared_count(client: &Client, path: &str, count: &SharedCount) -> Result<Self> {
        if !count.is_of(client) {
            let reason = format!(
                "the count at {} is of another client, which may be connected to other servers or below another path; \
                 make it with the client of the semaphore",
                count.path()
            );
            return Err(Error::InvalidArgument { argument: "count", reason });
        }
        Self::with_limit(client, path, Limit::Shared(count.detached()), Books::new)
    }

    fn with_limit(
        client: &Client,
        path: &str,
        limit: Limit,
        books: impl FnOnce(&Arc<LockInternals>) -> Arc<Books>,
    ) -> Result<Self> {
        let leases = Arc::new(Leases::new(client, path, limit)?);
        let books = books(leases.leases());
        Ok(Self { client: client.clone(), leases, books, options: LockOptions::new() })
    }

    /// The same semaphore, whose permits have these options. Without them a permit has no maximum hold time
    /// and the client's identity as node data.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`]: a maximum hold time of zero.
    pub fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { options: options.validated()?, ..self.clone() })
    }

    /// Acquires a permit, waiting for as long as it takes.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the server refuses, as for a missing right; at once. Or it cannot be reached,
    ///   and the client's [retry policy](crate::RetryPolicy) is exhausted.
    /// - [`Error::NotConnected`]: the same before anything could be sent.
    /// - [`Error::PermitsDiffer`]: others use the path with more permits.
    /// - [`Error::KindConflict`]: another kind of recipe uses the path.
    /// - [`Error::Closed`]: the client is closed, now or while waiting.
    ///
    /// A lost connection, an expired session or a deleted node do not end the wait. The place in the queue is
    /// kept for as long as the session lives; otherwise the wait goes on from the end of the queue.
    ///
    /// # Cancel safety
    /// The place in the queue is lost, and nothing stays behind: no node and no watch.
    pub async fn acquire(&self) -> Result<LockGuard> {
        attempt::acquire(self.client(), |caller| self.enter(1, caller)).await.map(the_one)
    }

    /// Acquires several permits, all of them or none: while it waits it has none, so that two who want several
    /// cannot wait for each other. Those behind it wait as well, also for fewer. Each is a guard of its own.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); [`Error::InvalidArgument`]: no permits, or more than the fixed number that
    /// there are, or more than one request creates: servers take requests of up to 1 MiB, which is some thousands of
    /// permits. More than a shared count says are waited for until that is raised.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, permits: u32) -> Result<Vec<LockGuard>> {
        self.validate(permits)?;
        attempt::acquire(self.client(), |caller| self.enter(permits, caller)).await
    }

    /// Acquires a permit if nobody is to be waited for; `None` otherwise.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        Ok(attempt::try_acquire(self.client(), |caller| self.enter(1, caller)).await?.map(the_one))
    }

    /// Acquires several permits, all of them or none, if nobody is to be waited for; `None` otherwise.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Vec<LockGuard>>> {
        self.validate(permits)?;
        attempt::try_acquire(self.client(), |caller| self.enter(permits, caller)).await
    }

    /// Acquires a permit if that can be done within this time; `None` if it waited in the queue for all of it.
    ///
    /// The time bounds everything, also while the servers are down or silent. Leaving the queue at its end
    /// may take a round trip more, 100 ms at most. Zero is [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::NotConnected`] also if the queue was not reached within this time: then it
    /// is not known whether anybody else has the permits.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_for(&self, within: Duration) -> Result<Option<LockGuard>> {
        Ok(attempt::try_acquire_for(self.client(), within, |caller| self.enter(1, caller))
            .await?
            .map(the_one))
    }

    /// Acquires several permits, all of them or none, if that can be done within this time; `None` if it waited in the
    /// queue for all of it.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many) and [`try_acquire_for`](Self::try_acquire_for).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_many_for(
        &self,
        permits: u32,
        within: Duration,
    ) -> Result<Option<Vec<LockGuard>>> {
        self.validate(permits)?;
        attempt::try_acquire_for(self.client(), within, |caller| self.enter(permits, caller)).await
    }

    /// How many permits are free now. Those who wait may be about to take some. All are free if the path
    /// [does not exist](Self::path_exists).
    ///
    /// # Errors
    /// [`Error::ZooKeeper`] and [`Error::NotConnected`] when the leases cannot be read; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn available_permits(&self) -> Result<u32> {
        let limit = match self.leases.limit() {
            Limit::Fixed(limit) => limit.permits(),
            // Below zero there are none, as at zero.
            Limit::Shared(count) => u32::try_from(count.get().await?).unwrap_or(0),
        };
        let leases = self.client().unless_closed(self.leases.leases().contenders()).await?;
        // More can be out than there are: the count was lowered.
        Ok(limit.saturating_sub(u32::try_from(leases.len()).unwrap_or(u32::MAX)))
    }

    /// Everybody who has a permit, in the order in which they were given out, and then everybody who waits for
    /// some, in order. Clients of Curator are among them; the first of those who wait may have its lease
    /// already, and then counts as a holder, too. Empty also if the path [does not exist](Self::path_exists).
    ///
    /// # Errors
    /// [`Error::ZooKeeper`] and [`Error::NotConnected`] when the queues cannot be read; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        let participants = async {
            // In this order, who passes the gate meanwhile is not overlooked.
            let waiting = self.leases.gate().contenders().await?;
            let mut participants = participant::of(self.leases.leases(), None).await?;
            let waiting = participant::read(self.leases.gate(), waiting, None).await?;
            participants.extend(waiting.into_iter().map(Participant::waiting));
            Ok(participants)
        };
        self.client().unless_closed(participants).await
    }

    /// Whether no permit is free. All are if its path does not exist, which is no error: see
    /// [`path_exists`](Self::path_exists).
    ///
    /// # Errors
    /// As [`available_permits`](Self::available_permits).
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn is_locked(&self) -> Result<bool> {
        self.available_permits().await.map(|free| free == 0)
    }

    /// Who has had its permit for longest, in whatever process. `None` also if the path
    /// [does not exist](Self::path_exists).
    ///
    /// # Errors
    /// As [`participants`](Self::participants).
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn holder(&self) -> Result<Option<Participant>> {
        self.client().unless_closed(participant::holder(self.leases.leases(), Kind::Shared)).await
    }

    /// Whether the path exists, to tell a semaphore that is free from a path that is mistyped. A path exists from the
    /// first acquire on, until nobody has used it for a while (a minute or so, by default) and the servers remove
    /// it; so a free one may have none. That it exists does not say that it is that of a semaphore.
    ///
    /// # Errors
    /// [`Error::ZooKeeper`] and [`Error::NotConnected`]
    /// when it cannot be looked for; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Nothing is changed by it.
    pub async fn path_exists(&self) -> Result<bool> {
        self.client().exists(self.path()).await
    }

    /// Whether somebody has a permit through this object. No request is made: a permit that was lost counts
    /// until its guard is gone.
    pub fn is_acquired_in_this_process(&self) -> bool {
        !self.books.is_empty(Kind::Shared)
    }

    /// The full path of the semaphore, namespace included.
    pub fn path(&self) -> &str {
        self.leases.path()
    }

    fn client(&self) -> &Client {
        &self.client
    }

    /// # Errors
    /// [`Error::InvalidArgument`]: as many cannot be had.
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
        let applicant = self.leases.apply(permits, self.options.data(), caller).await?;
        Ok(Entry::Queued(Turn { semaphore: self.clone(), applicant }))
    }

    fn hold(&self, grants: Vec<Grant>) -> Vec<LockGuard> {
        let hold = |grant: Grant| {
            let token = grant.czxid;
            let node = HeldNode::new(self.client(), grant, &self.options);
            tracing::debug!(node = &**node.path(), token, "acquired a permit");
            // Each permit has an owner of its own: nobody is known again.
            LockGuard::new(self.books.enter(&Owner::new(), Kind::Shared, token, node), &self.client)
        };
        grants.into_iter().map(hold).collect()
    }
}

impl Contending for Turn {
    type Guard = Vec<LockGuard>;

    fn take(&mut self) -> Option<Vec<LockGuard>> {
        self.applicant.take_grants().map(|grants| self.semaphore.hold(grants))
    }

    /// Permits have no owners.
    fn ensure_no_deadlock(&self) -> Result<()> {
        Ok(())
    }

    async fn wait(&mut self) -> Result<()> {
        self.applicant.wait().await
    }

    async fn leave(self) -> Result<()> {
        self.applicant.leave().await
    }
}

/// # Errors
/// As [`Semaphore::new`].
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

/// The guard of an acquire of one permit.
fn the_one(mut guards: Vec<LockGuard>) -> LockGuard {
    guards.swap_remove(0)
}
