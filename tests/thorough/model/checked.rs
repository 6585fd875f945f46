//! A world as `stateright` checks it.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use stateright::{Model, Property};

use super::seen::Seen;

/// Everything that there is in a game, at one moment.
pub(crate) trait Checkable: Clone + Debug + Hash + PartialEq + Sized {
    type Game: Clone;
    type Step: Clone + Debug + Hash + PartialEq;

    fn begin(game: &Self::Game) -> Self;

    /// What can happen next.
    fn next(&self, steps: &mut Vec<Self::Step>);

    /// Takes a step, and notes what is to be seen of it.
    fn step(&mut self, step: Self::Step, seen: &Seen);

    /// What must always be true.
    fn properties() -> Vec<Property<Checked<Self>>>;
}

/// The model of one game.
pub(crate) struct Checked<W: Checkable> {
    game: W::Game,
    seen: Arc<Seen>,
}

impl<W: Checkable> Checked<W> {
    pub(crate) fn new(game: &W::Game, seen: &Arc<Seen>) -> Self {
        Self { game: game.clone(), seen: seen.clone() }
    }
}

impl<W: Checkable> Model for Checked<W> {
    type State = W;
    type Action = W::Step;

    fn init_states(&self) -> Vec<W> {
        vec![W::begin(&self.game)]
    }

    fn actions(&self, world: &W, steps: &mut Vec<W::Step>) {
        world.next(steps);
    }

    fn next_state(&self, world: &W, step: W::Step) -> Option<W> {
        let mut next = world.clone();
        next.step(step, &self.seen);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        W::properties()
    }
}
