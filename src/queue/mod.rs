//! How contenders line up under one path: the core that all locks share.

mod contender;
mod internals;
mod name;
mod order;
mod place;
mod rule;

pub(crate) use self::contender::Standing;
pub(crate) use self::internals::LockInternals;
pub(crate) use self::name::MUTEX;
pub(crate) use self::place::{Grant, Place};
pub(crate) use self::rule::exclusive;
