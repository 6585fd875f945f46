//! What must always be true.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stateright::{Model, Property};

use super::game::Game;
use super::multi::{Breach, Shown};
use super::other::Other;
use super::steps::Step;
use super::world::World;

pub(crate) struct Joint {
    game: Game,
    seen: Arc<Seen>,
}

/// How often what the model is for has happened.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    at_once: AtomicUsize,
    after_a_look: AtomicUsize,
    waits: AtomicUsize,
    leaves_behind: AtomicUsize,
    starts_anew: AtomicUsize,
}

impl Seen {
    fn counts(&self) -> [(&'static str, usize); 5] {
        [
            ("multi-locks granted by one transaction", &self.at_once),
            ("granted after a look at all", &self.after_a_look),
            ("waits", &self.waits),
            ("times that later queues are left", &self.leaves_behind),
            ("new starts", &self.starts_anew),
        ]
        .map(|(what, count)| (what, count.load(Ordering::Relaxed)))
    }

    /// What has never happened.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        self.counts().iter().find(|(_, count)| *count == 0).map(|(what, _)| *what)
    }

    fn note(&self, shown: Shown) {
        for (is_shown, count) in [
            (shown.granted_at_once, &self.at_once),
            (shown.granted_after_a_look, &self.after_a_look),
            (shown.waits, &self.waits),
            (shown.leaves_behind, &self.leaves_behind),
            (shown.starts_anew, &self.starts_anew),
        ] {
            count.fetch_add(usize::from(is_shown), Ordering::Relaxed);
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts().map(|(what, count)| format!("{count} {what}"));
        write!(f, "{}", counts.join(", "))
    }
}

impl Joint {
    pub(crate) fn new(game: &Game, seen: &Arc<Seen>) -> Self {
        Self { game: game.clone(), seen: seen.clone() }
    }
}

impl Model for Joint {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.game)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        world.steps(steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        let shown = next.take(step);
        self.seen.note(shown);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no path has two holders", |_, world: &World| {
                (0..world.queues.len()).all(|path| world.holders(path) <= 1)
            }),
            Property::always(
                "nobody holds what was lost before the last place was granted",
                |_, world: &World| is_without(world, Breach::Stale),
            ),
            Property::always("nobody holds only some of its paths", |_, world: &World| {
                is_without(world, Breach::Partial)
            }),
            Property::always("nobody asks again and again", |_, world: &World| {
                is_without(world, Breach::Spin)
            }),
            Property::always("nobody waits in vain, and nothing is left", |_, world: &World| {
                !waits_in_vain(world)
            }),
        ]
    }
}

fn is_without(world: &World, breach: Breach) -> bool {
    world.multis.iter().all(|multi| multi.breach != Some(breach))
}

fn waits_in_vain(world: &World) -> bool {
    let is_over = world.multis.iter().all(|multi| multi.is_over()) && world.others.iter().all(Other::is_idle);
    let is_left = world.queues.iter().any(|queue| !queue.is_empty());
    let has_breach = world.multis.iter().any(|multi| multi.breach.is_some());
    !has_breach && !world.goes_on() && (!is_over || is_left)
}
