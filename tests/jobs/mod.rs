//! Scheduled jobs.

mod clocks;
mod fleet;
mod probes;
mod runs;

use crate::support::within;
