//! The queue of contenders under one path: the core that all locks share.

mod admission;
mod blocker;
mod caller;
mod downgrade;
mod fixed_limit;
mod front;
mod grant;
mod internals;
mod leases;
mod losses;
mod multi_waiter;
mod new_paths;
mod permit_waiter;
mod place;
mod position;
mod prefetch;
mod pure;
mod seat;
mod shared_local_queue;

pub(crate) use self::caller::Caller;
pub(crate) use self::downgrade::{Downgrade, downgrade};
pub(crate) use self::fixed_limit::FixedLimit;
#[cfg(test)]
pub(crate) use self::fixed_limit::tests::known_paths as known_limits;
pub(crate) use self::grant::Grant;
pub(crate) use self::internals::LockInternals;
#[cfg(test)]
pub(crate) use self::internals::tests::known_paths as known_queues;
pub(crate) use self::leases::{Leases, Limit};
pub(crate) use self::losses::Losses;
pub(crate) use self::multi_waiter::MultiWaiter;
pub(crate) use self::permit_waiter::PermitWaiter;
pub(crate) use self::pure::linger::{
    Action as LingerAction, Circumstances, Event as LingerEvent, Linger, Release, Terms, is_alone,
};
pub(crate) use self::pure::name::{ANY_LOCK, Kind, LATCH, LEASES, MUTEX, Names, READ_WRITE};
pub(crate) use self::pure::order::Queued;
pub(crate) use self::pure::passing::{PassOn, Transactions};
pub(crate) use self::pure::quorum::{Next, Pass, Quorum};
pub(crate) use self::pure::rule::{Verdict, exclude_each_other, verdict};
pub(crate) use self::seat::Seat;
