//! Elections.

#[path = "../support/mod.rs"]
mod support;

mod elections;
mod trouble;
