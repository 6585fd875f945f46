//! Several mutexes of one client, acquired in one transaction: a multi-lock of plain paths.

use std::fmt::Display;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;

use super::acquirable::{Acquirable, Contending, Entry};
use super::reentrant::Reentrant;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::lock::holding::claims::Awaited;
use crate::lock::holding::guard::LockGuard;
use crate::lock::operating::participant::Participant;
use crate::lock::options::LockOptions;
use crate::lock::owner::Owner;
use crate::meters::{LockMeters, WaitMeter};
use crate::queue::{Caller, MultiWaiter};

/// The members in the order in which everybody acquires them; at least one.
pub(crate) type Together = Arc<[Reentrant]>;

/// The acquire of a waiting owner.
#[derive(Debug)]
pub(crate) struct Turn {
    members: Together,
    owner: Owner,
    waiter: MultiWaiter,
    /// The guard by which the owner re-entered, if it acquired the locks through another call meanwhile.
    entered: Option<LockGuard>,
}

impl Acquirable for Together {
    type Waiter = Turn;

    fn client(&self) -> &Client {
        self[0].client()
    }

    fn name(&self) -> impl Display {
        let paths: Vec<_> = self.iter().map(Reentrant::path).collect();
        paths.join(", ")
    }

    fn recipe(&self) -> &'static str {
        "multi-lock"
    }

    fn options(&self) -> &LockOptions {
        self[0].options()
    }

    async fn first(&self) -> Result<Option<Participant>> {
        for member in &**self {
            let first = member.first().await?;
            if first.is_some() {
                return Ok(first);
            }
        }
        Ok(None)
    }

    fn wait_meter(&self) -> WaitMeter {
        LockMeters::wait(self.iter().map(Reentrant::meters))
    }

    fn enter_again(&self, owner: &Owner) -> Result<Option<LockGuard>> {
        let members = self.iter();
        let again = members.map(|member| member.enter_again(owner)).collect::<Result<Option<Vec<_>>>>()?;
        Ok(again.map(LockGuard::of_all))
    }

    fn ensure_can_be_granted(&self, owner: &Owner) -> Result<()> {
        self.iter().try_for_each(|member| member.ensure_can_be_granted(owner))
    }

    async fn enter(&self, owner: &Owner, caller: Caller) -> Result<Entry<Turn>> {
        let queues = self.iter().map(|member| member.internals().clone()).collect();
        let waiter = MultiWaiter::enter(&queues, self[0].options().data(), caller).await?;
        Ok(Entry::Queued(Turn { members: self.clone(), owner: owner.clone(), waiter, entered: None }))
    }
}

impl Contending for Turn {
    fn take(&mut self) -> Option<LockGuard> {
        if self.entered.is_some() {
            return self.entered.take();
        }
        let grants = self.waiter.take_grants()?.into_iter();
        let members = self.members.iter();
        let guards = members.zip(grants).map(|(member, grant)| member.hold(grant, &self.owner, None));
        Some(LockGuard::of_all(guards.collect()))
    }

    fn ensure_no_deadlock(&self) -> Result<()> {
        let Some((place, member)) = self.waiter.waiting() else { return Ok(()) };
        self.members[member].ensure_no_deadlock(place.czxid(), &self.owner)
    }

    fn awaited(&self) -> Option<Awaited> {
        let (_, member) = self.waiter.waiting()?;
        let members = &self.members;
        // Its places in the queues before are granted.
        let places = members[..=member].iter().zip(self.waiter.places());
        let places = places.map(|(member, place)| member.claimed(place.czxid()?)).collect::<Option<_>>()?;
        Some(Awaited { path: members[member].internals().path().clone(), places, permits: None })
    }

    async fn wait(&mut self) -> Result<()> {
        let Self { members, owner, waiter, entered } = self;
        let Some((place, member)) = waiter.waiting() else { return waiter.wait().await };
        tracing::debug!(path = members[member].path(), position = place.position(), "waiting");
        // At the last member: when its hold is registered, those of the others are.
        let Some(last) = members.last() else { return waiter.wait().await };
        let waiting = last.wait_as(owner);
        // A lost hold does not end the wait.
        let enter_again = || ready(Ok(members.enter_again(owner).unwrap_or_default()));
        *entered = waiting.until(pin!(waiter.wait()), enter_again).await?;
        Ok(())
    }

    async fn leave(self) -> Result<()> {
        Error::all(self.waiter.leave().await).map_or(Ok(()), Err)
    }
}
