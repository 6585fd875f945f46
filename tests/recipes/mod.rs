//! The recipes that are not locks: caches, kept nodes, values, counters, barriers, service discovery.

mod barriers;
mod cache;
mod discovery;
mod nodes;
mod stage;
mod values;
