//! Permits of a semaphore, as many as are wanted at once.

use std::fmt::Display;
use std::sync::Arc;

use super::acquirable::{Acquirable, Contending, Entry};
use crate::client::{Client, Room};
use crate::error::{Error, Result};
use crate::lock::holding::claims::{self, Awaited};
use crate::lock::holding::guard::LockGuard;
use crate::lock::holding::held_node::HeldNode;
use crate::lock::holding::owners::Owners;
use crate::lock::operating::participant::{self, Participant};
use crate::lock::options::LockOptions;
use crate::lock::owner::Owner;
use crate::meters::{LockMeters, WaitMeter};
use crate::queue::{Caller, Grant, Kind, Leases, Limit, LockInternals, PermitWaiter};

/// A semaphore, and how many permits an acquire takes.
#[derive(Clone, Debug)]
pub(crate) struct Permits {
    client: Client,
    leases: Arc<Leases>,
    owners: Arc<Owners>,
    options: Arc<LockOptions>,
    meters: LockMeters,
    wanted: u32,
}

/// A request for permits that waits in the queue.
#[derive(Debug)]
pub(crate) struct Turn {
    permits: Permits,
    owner: Owner,
    waiter: PermitWaiter,
}

impl Permits {
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    pub(crate) fn new(
        client: &Client,
        path: &str,
        limit: Limit,
        owners: impl FnOnce(&Arc<LockInternals>) -> Arc<Owners>,
    ) -> Result<Self> {
        let leases = Arc::new(Leases::new(client, path, limit)?);
        let owners = owners(leases.leases());
        let meters = client.labels().meters(leases.path(), leases.leases().recipe());
        Ok(Self { client: client.clone(), leases, owners, options: Arc::default(), meters, wanted: 1 })
    }

    /// The same semaphore, acquired with other options.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the options are not valid.
    pub(crate) fn with_options(&self, options: LockOptions) -> Result<Self> {
        Ok(Self { options: Arc::new(options.validated()?), ..self.clone() })
    }

    /// The same semaphore, of which as many permits are acquired at once.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: they cannot be granted at all.
    pub(crate) fn many(&self, wanted: u32) -> Result<Self> {
        let many = Self { wanted, ..self.clone() };
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

    /// Returns the full path of the semaphore.
    pub(crate) fn path(&self) -> &str {
        self.leases.path()
    }

    /// Returns how many permits are free.
    pub(crate) async fn available(&self) -> Result<u32> {
        let limit = match self.leases.limit() {
            Limit::Fixed(limit) => limit.permits(),
            // A negative count means no permits.
            Limit::Shared(count) => u32::try_from(count.get().await?).unwrap_or(0),
        };
        let leases = self.client.unless_closed(self.leases.leases().contenders()).await?;
        // After the count was lowered, more permits can be taken than there are.
        Ok(limit.saturating_sub(u32::try_from(leases.len()).unwrap_or(u32::MAX)))
    }

    /// Returns the holders, followed by the waiters.
    pub(crate) async fn participants(&self) -> Result<Vec<Participant>> {
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

    pub(crate) async fn holder(&self) -> Result<Option<Participant>> {
        self.client.unless_closed(participant::holder(self.leases.leases(), Kind::Shared)).await
    }

    pub(crate) async fn path_exists(&self) -> Result<bool> {
        self.client.exists(self.path()).await
    }

    pub(crate) fn is_acquired_in_this_process(&self) -> bool {
        !self.owners.is_empty(Kind::Shared)
    }

    pub(crate) fn is_owned_by(&self, owner: &Owner) -> bool {
        self.owners.has_permit(owner)
    }

    fn hold(&self, grants: Vec<Grant>, owner: &Owner) -> LockGuard {
        let hold = |grant: Grant| {
            let token = grant.czxid;
            let node = HeldNode::new(&self.client, grant, &self.options, &self.meters, None);
            tracing::debug!(node = &**node.path(), token, "acquired a permit");
            LockGuard::new(
                self.owners.enter_permit(owner, token, node, self.options.detects_deadlocks()),
                &self.client,
            )
        };
        LockGuard::of_permits(grants.into_iter().map(hold).collect())
    }
}

impl Acquirable for Permits {
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
        Ok(Entry::Queued(Turn { permits: self.clone(), owner: owner.clone(), waiter }))
    }
}

impl Contending for Turn {
    fn take(&mut self) -> Option<LockGuard> {
        self.waiter.take_grants().map(|grants| self.permits.hold(grants, &self.owner))
    }

    /// Never fails, because an owner may have several permits.
    fn ensure_no_deadlock(&self) -> Result<()> {
        Ok(())
    }

    fn awaited(&self) -> Option<Awaited> {
        let Permits { leases, wanted, .. } = &self.permits;
        // A shared count may be raised at any moment.
        let Limit::Fixed(limit) = leases.limit() else { return None };
        if !self.permits.options.detects_deadlocks() {
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
