//! What a caller does when it goes away.

use std::time::Duration;

use zk_recipes::{Client, LockGuard, Result};

use super::every_kind::Lock;
use super::subject::{Holder, Kind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Acquire,
    /// Where the queue does not exist yet, nor what is above it.
    AcquireOnNewPath,
    /// After the reply to its first request was lost, which is settled on another connection.
    AcquireAgain,
    /// Where the client was the last one that held it, so that it takes permits along with the create at the gate.
    AcquireKnown,
    /// The lock is taken, and released when the caller waits for it.
    Wait(Holder),
    TryAcquire,
    TryAcquireTaken(Holder),
    TryAcquireFor,
    TryAcquireForTaken(Holder),
    Ticket,
    WaitWithTicket,
    Release,
    Run,
    Transaction,
}

/// For a caller that has time.
const LONG: Duration = Duration::from_secs(20);

/// For one whose time will be over. Long enough to come to any request, and to wait for a holder.
pub(crate) const SHORT: Duration = Duration::from_millis(40);

/// What a caller has at hand.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) kind: Kind,
    pub(crate) client: Client,
    pub(crate) path: String,
    pub(crate) lock: Lock,
    /// Of a holder.
    pub(crate) guard: Option<LockGuard>,
}

impl Operation {
    pub(crate) fn all_of(kind: Kind) -> Vec<Self> {
        let mut all = vec![
            Self::Acquire,
            Self::AcquireOnNewPath,
            Self::AcquireAgain,
            Self::TryAcquire,
            Self::TryAcquireFor,
            Self::Release,
            Self::Run,
            Self::Transaction,
        ];
        for holder in kind.holders() {
            all.extend([
                Self::Wait(*holder),
                Self::TryAcquireTaken(*holder),
                Self::TryAcquireForTaken(*holder),
            ]);
        }
        if kind.has_permits() {
            all.push(Self::AcquireKnown);
        }
        if kind.has_tickets() {
            all.extend([Self::Ticket, Self::WaitWithTicket]);
        }
        all
    }

    /// Who has the lock meanwhile.
    pub(crate) fn holder(self) -> Option<Holder> {
        match self {
            Self::Wait(holder) | Self::TryAcquireTaken(holder) | Self::TryAcquireForTaken(holder) => {
                Some(holder)
            }
            Self::WaitWithTicket => Some(Holder::Last),
            _ => None,
        }
    }

    /// Whether the holder makes way.
    pub(crate) fn is_let_in(self) -> bool {
        matches!(self, Self::Wait(_) | Self::WaitWithTicket)
    }

    /// Whether somebody else has the lock all the time.
    pub(crate) fn is_in_vain(self) -> bool {
        matches!(self, Self::TryAcquireTaken(_) | Self::TryAcquireForTaken(_))
    }

    /// Whether it begins with the lock held.
    pub(crate) fn is_of_a_holder(self) -> bool {
        matches!(self, Self::Release | Self::Run | Self::Transaction)
    }

    /// Whether it has a deadline itself.
    pub(crate) fn has_deadline(self) -> bool {
        matches!(self, Self::TryAcquireFor | Self::TryAcquireForTaken(_))
    }

    /// Does it.
    pub(crate) async fn of(self, caller: Caller, is_in_a_hurry: bool) -> Result<Option<LockGuard>> {
        let Caller { kind, client, path, lock, guard } = caller;
        let held = || guard.as_ref().expect("it is held");
        match self {
            Self::Acquire
            | Self::AcquireOnNewPath
            | Self::AcquireAgain
            | Self::AcquireKnown
            | Self::Wait(_) => lock.acquire().await.map(Some),
            Self::TryAcquire | Self::TryAcquireTaken(_) => lock.try_acquire().await,
            Self::TryAcquireFor => lock.try_acquire_for(if is_in_a_hurry { SHORT } else { LONG }).await,
            Self::TryAcquireForTaken(_) => lock.try_acquire_for(SHORT).await,
            Self::Ticket | Self::WaitWithTicket => {
                let ticket = kind.enqueue(&client, &path).await.expect("it has tickets")?;
                ticket.acquired().await.map(Some)
            }
            Self::Release => {
                guard.expect("it is held").release().await?;
                Ok(None)
            }
            Self::Run => {
                // The keeper's watch, and a request of the work.
                let zookeeper = held().run(client.zookeeper()).await??;
                let _ = held().run(zookeeper.check_stat("/work")).await?;
                Ok(None)
            }
            Self::Transaction => {
                held().transaction().commit().await?;
                Ok(guard)
            }
        }
    }
}
