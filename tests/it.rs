//! The integration tests, in one program: a program for each area would link the library as often, and let tests of one
//! wait for the last of another.

#[macro_use]
#[path = "interop/generations.rs"]
mod generations;
#[path = "interop/installed.rs"]
mod installed;
mod support;

mod client;
mod interop;
mod jobs;
mod leader;
mod locks;
mod memory;
mod recipes;
mod testing;

/// What most tests of locks and clients begin with.
mod prelude {
    pub(crate) use std::fmt::Debug;
    pub(crate) use std::time::Instant;

    pub(crate) use futures_util::FutureExt;
    pub(crate) use tokio::sync::mpsc;
    pub(crate) use tokio::task::JoinSet;

    pub(crate) use crate::locks::stage::*;
    pub(crate) use crate::support::prelude::*;
}
