//! The recipes that are not locks: caches, kept nodes, values, counters, barriers, service discovery.

mod barriers;
mod cache;
mod discovery;
mod nodes;
pub(crate) mod stage;
mod values;

/// What all tests of recipes are told with.
mod prelude {
    pub(crate) use super::stage::*;
    pub(crate) use crate::installed::{Generation, Peers};
    pub(crate) use crate::support::prelude::*;
}
