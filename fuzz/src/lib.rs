//! What the fuzz targets check. Each takes one input, and panics if a promise is broken.

// They are the library's own files, of which each target uses a part.
#![allow(dead_code, unreachable_pub, unused_macros)]

pub mod connect_string;
pub mod names;
pub mod replies;

#[path = "../../tests/thorough/model"]
mod model {
    pub(crate) mod answers;
    pub(crate) mod checker;
    pub(crate) mod client;
    pub(crate) mod downgrade;
    pub(crate) mod driver;
    pub(crate) mod faults;
    pub(crate) mod games;
    pub(crate) mod grants;
    pub(crate) mod holders;
    pub(crate) mod idle;
    pub(crate) mod lag;
    pub(crate) mod line;
    pub(crate) mod linger;
    pub(crate) mod properties;
    pub(crate) mod queue;
    pub(crate) mod seen;
    pub(crate) mod shared;
    pub(crate) mod steps;
    pub(crate) mod task;
    pub(crate) mod world;
    pub(crate) mod zookeeper;
}

#[path = "../../src/client"]
mod client {
    pub(crate) mod hosts;
    pub(crate) mod path;
}

#[path = "../../src/cut.rs"]
mod cut;

/// What `client` names as the library's.
mod error {
    pub(crate) use zk_recipes::{Error, Result};
}
