//! Scheduled jobs.

mod clocks;
#[allow(dead_code, reason = "the simulation uses the rest")]
mod fleet;
mod runs;

use self::fleet::*;
use crate::recipes::stage::{server_and_client, server_and_clients};
use crate::support::prelude::*;
