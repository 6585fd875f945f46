//! The recipes that are not locks: caches, kept nodes, values, counters, barriers, service discovery.

#[path = "../interop/installed.rs"]
mod installed;
mod stage;
#[path = "../support/mod.rs"]
mod support;

mod barriers;
mod cache;
mod discovery;
mod nodes;
mod values;
