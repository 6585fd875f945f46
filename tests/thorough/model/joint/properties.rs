//! What must always be true.

use super::super::checker::{Checkable, Property};
use super::super::seen::Seen;
use super::game::{GAMES, Game};
use super::multi::{Breach, Shown};
use super::other::Other;
use super::steps::Step;
use super::world::World;

const AT_ONCE: &str = "multi-locks granted by one transaction";
const AFTER_A_LOOK: &str = "granted after a look at all";
const WAIT: &str = "waits";
const LEAVES_BEHIND: &str = "times that later queues are left";
const STARTS_ANEW: &str = "new starts";

fn note(seen: &Seen, shown: Shown) {
    seen.note_those([
        (shown.granted_at_once, AT_ONCE),
        (shown.granted_after_a_look, AFTER_A_LOOK),
        (shown.waits, WAIT),
        (shown.leaves_behind, LEAVES_BEHIND),
        (shown.starts_anew, STARTS_ANEW),
    ]);
}

impl Checkable for World {
    type Game = Game;
    type Step = Step;

    const GAMES: &'static [Game] = GAMES;
    const ALWAYS: &'static [Property<Self>] = &[
        ("no path has two holders", |world| (0..world.queues.len()).all(|path| world.holders(path) <= 1)),
        ("nobody holds what was lost before the last place was granted", |world| {
            is_without(world, Breach::Stale)
        }),
        ("nobody holds only some of its paths", |world| is_without(world, Breach::Partial)),
        ("nobody asks again and again", |world| is_without(world, Breach::Spin)),
        ("nobody waits in vain, and nothing is left", |world| !waits_in_vain(world)),
        ("whoever waits has all places before that one", |world| {
            !world.multis.iter().any(|multi| multi.waits_with_a_loss(&world.queues))
        }),
    ];
    const TO_BE_SEEN: &'static [&'static str] = &[AT_ONCE, AFTER_A_LOOK, WAIT, LEAVES_BEHIND, STARTS_ANEW];

    fn begin(game: &'static Game) -> Vec<Self> {
        vec![Self::new(game)]
    }

    fn next(&self, steps: &mut Vec<Step>) {
        self.steps(steps);
    }

    fn step(&mut self, step: Step, seen: &Seen) {
        note(seen, self.take(step));
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
