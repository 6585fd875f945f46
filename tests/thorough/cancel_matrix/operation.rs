//! What a caller does when it goes away.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use zk_recipes::{Client, Error, LockGuard, Result};

use super::subject::{Holder, Kind, Lock};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// For one whose time will be over.
pub(crate) const SHORT: Duration = Duration::from_millis(40);

pub(crate) type Doing = BoxFuture<'static, Result<Vec<LockGuard>>>;

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

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::AcquireOnNewPath => "acquire, new path",
            Self::AcquireAgain => "acquire, again",
            Self::AcquireKnown => "acquire, known",
            Self::Wait(_) => "acquire, taken",
            Self::TryAcquire => "try",
            Self::TryAcquireTaken(_) => "try, taken",
            Self::TryAcquireFor => "try for",
            Self::TryAcquireForTaken(_) => "try for, taken",
            Self::Ticket => "ticket",
            Self::WaitWithTicket => "ticket, taken",
            Self::Release => "release",
            Self::Run => "run",
            Self::Transaction => "transaction",
        }
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

    /// Whether it differs from another one only in how it begins, or in who is in the way.
    pub(crate) fn is_a_variant(self) -> bool {
        let is_other_start = matches!(self, Self::AcquireOnNewPath | Self::AcquireAgain | Self::AcquireKnown);
        is_other_start || self.holder() == Some(Holder::First)
    }

    /// Whether the holder makes way.
    pub(crate) fn is_let_in(self) -> bool {
        matches!(self, Self::Wait(_) | Self::WaitWithTicket)
    }

    /// Whether it begins with the lock held.
    pub(crate) fn is_of_a_holder(self) -> bool {
        matches!(self, Self::Release | Self::Run | Self::Transaction)
    }

    /// Whether it has a deadline itself.
    pub(crate) fn has_deadline(self) -> bool {
        matches!(self, Self::TryAcquireFor | Self::TryAcquireForTaken(_))
    }

    /// Begins nothing before it is polled.
    pub(crate) fn of(self, lock: Lock, guards: Vec<LockGuard>, client: Client, in_a_hurry: bool) -> Doing {
        match self {
            Self::Acquire
            | Self::AcquireOnNewPath
            | Self::AcquireAgain
            | Self::AcquireKnown
            | Self::Wait(_) => async move { lock.acquire().await }.boxed(),
            Self::TryAcquire | Self::TryAcquireTaken(_) => async move { lock.try_acquire().await }.boxed(),
            Self::TryAcquireFor => {
                let within = if in_a_hurry { SHORT } else { LONG };
                async move { lock.try_acquire_for(within).await }.boxed()
            }
            Self::TryAcquireForTaken(_) => async move {
                match lock.try_acquire_for(SHORT).await {
                    // On a busy machine the time is over before its queue has answered.
                    Err(Error::NotConnected { .. }) => Ok(Vec::new()),
                    tried => tried,
                }
            }
            .boxed(),
            Self::Ticket | Self::WaitWithTicket => {
                async move { lock.enqueue().await?.acquired().await.map(|guard| vec![guard]) }.boxed()
            }
            Self::Release => async move {
                for released in join_all(guards.into_iter().map(LockGuard::release)).await {
                    released?;
                }
                Ok(Vec::new())
            }
            .boxed(),
            Self::Run => async move {
                let guards = Arc::new(guards);
                // The keeper's watch, and a request of the work.
                let work = async { client.zookeeper().await.map(|zookeeper| (zookeeper, ())) };
                let (zookeeper, ()) = guards[0].run(work).await??;
                let _ = guards[0].run(zookeeper.check_stat("/work")).await?;
                drop(guards);
                Ok(Vec::new())
            }
            .boxed(),
            Self::Transaction => async move {
                guards[0].transaction().commit().await?;
                Ok(guards)
            }
            .boxed(),
        }
    }
}
