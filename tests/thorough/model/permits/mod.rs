//! Contenders for the permits of a semaphore: a gate, the leases behind it, and a server that may lag behind.

mod driver;
mod game;
mod gate;
pub(crate) mod mutants;
mod properties;
mod server;
mod steps;
mod task;
mod world;

pub(crate) use self::game::{GAMES, Game};
pub(crate) use self::world::World;
