//! Scheduled jobs.

mod clocks;
mod fleet;
mod probes;
mod runs;

use self::fleet::*;
use crate::recipes::stage::{server_and_client, server_and_clients};
use crate::support::prelude::*;
