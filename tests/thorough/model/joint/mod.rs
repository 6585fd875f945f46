//! Contenders for places in several queues, all or none, beside those that take one place, or one after the other.

mod game;
mod multi;
pub(crate) mod mutants;
mod other;
mod properties;
mod steps;
mod world;

pub(crate) use self::game::{GAMES, Game};
pub(crate) use self::world::World;
