//! `zk-recipes`, its servers and its users in one thread, on a clock that does not wait, from one seed.
//!
//! The same seed gives the same run, to the last byte on the network.

mod dropped;
pub mod judge;
pub mod log;
pub mod machine;
pub mod plan;
pub mod recipes;
mod system;
pub mod world;

pub use network;

/// Returns true so many times of 256.
pub fn chance(of_256: u8) -> bool {
    fastrand::u8(..) < of_256
}
