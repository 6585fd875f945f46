//! Values and counters.

mod atomic;
mod atomic_in_trouble;
mod cached;
mod promotion;
mod shared;
mod shared_in_trouble;
mod watched;

use crate::recipes::prelude::*;
use crate::support::counter::server_with_version;
