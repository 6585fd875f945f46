//! Elections.

#[path = "../support/mod.rs"]
mod support;

mod elections;
mod eligibility;
mod failing;
mod trouble;
