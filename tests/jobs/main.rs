//! Scheduled jobs.

#[path = "../support/mod.rs"]
mod support;

mod clocks;
mod fleet;
mod jobs;
mod probes;

use support::within;
