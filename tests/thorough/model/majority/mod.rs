//! Contenders for a lock over several ensembles, each of which may be cut off from any of them.

mod contender;
mod game;
pub(crate) mod mutants;
mod properties;
mod world;

pub(crate) use self::game::{GAMES, Game};
pub(crate) use self::world::World;
