//! Values and counters.

mod atomic;
mod shared;
mod watched;

use crate::recipes::prelude::*;
use crate::support::counter::server_with_version;
