//! Numbers and values that processes change together, for threads. The blocking twin of [`atomic`](crate::atomic).

mod cached;
mod long;
mod value;

pub use self::cached::CachedAtomicLong;
pub use self::long::DistributedAtomicLong;
pub use self::value::DistributedAtomicValue;
