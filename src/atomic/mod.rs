//! Numbers and values that processes change together: [`DistributedAtomicLong`], [`DistributedAtomicValue`], and
//! [`CachedAtomicLong`], which draws numbers in blocks.
//!
//! Their methods are those of `std::sync::atomic`. They keep no state of their own at the servers besides the node, and
//! work together with Curator's classes of the same names on one path.
//!
//! # Lost replies
//!
//! Nothing is ever done twice. If a reply is lost, the write is repeated under the same condition, and the node usually
//! shows whether the first one was done. If it does not, the call fails with
//! [`Error::WriteOutcomeUnknown`](crate::Error::WriteOutcomeUnknown). Curator adds again in that case.

mod batch;
mod blocks;
mod cached;
mod line;
mod long;
mod number;
mod options;
mod promotion;
mod tries;
mod value;

pub use self::cached::CachedAtomicLong;
pub use self::long::DistributedAtomicLong;
pub use self::options::AtomicOptions;
pub use self::value::{CompareExchange, DistributedAtomicValue};
