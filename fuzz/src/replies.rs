//! Contenders under any order of replies, events and faults: the game of `tests/thorough/model`, with more players than can be
//! played in all ways. A contender may be granted only if it is its turn in the true queue.

use std::sync::LazyLock;

use crate::model::checker::Checkable;
use crate::model::games::{Faults, GAMES, Game};
use crate::model::queue::name::Kind::{Exclusive, Shared};
use crate::model::queue::name::{MUTEX, READ_WRITE};
use crate::model::seen::Seen;
use crate::model::world::World;

/// Past this, an input only plays on.
const LONGEST: usize = 3000;

static PLAYED: LazyLock<Vec<Game>> = LazyLock::new(|| {
    let large = [
        Game {
            names: &MUTEX,
            clients: &[&[(Exclusive, 2), (Exclusive, 2), (Exclusive, 1)], &[(Exclusive, 2), (Exclusive, 1)]],
            foreigners: &[Exclusive, Exclusive],
            faults: Faults { cancel: 3, expire: 1, reconnect: 1, rob: 1, touch: 2, reap: 2, ..Faults::default() },
            ..GAMES[0].clone()
        },
        Game {
            names: &READ_WRITE,
            clients: &[&[(Exclusive, 2), (Shared, 2), (Exclusive, 1)], &[(Shared, 2), (Exclusive, 1)]],
            foreigners: &[Exclusive, Shared],
            faults: Faults { cancel: 2, downgrade: 3, touch: 1, reconnect: 1, ..Faults::default() },
            ..GAMES[0].clone()
        },
    ];
    GAMES.iter().chain(&large).cloned().collect()
});

/// # Panics
/// If what must always be true is not.
pub fn check(input: &[u8]) {
    let Some((game, choices)) = input.split_first() else { return };
    let seen = Seen::none_of(World::TO_BE_SEEN);
    let mut world = World::new(&PLAYED[usize::from(*game) % PLAYED.len()]);
    let mut played = Vec::new();
    // When the choices have run out, what is due happens in order.
    let choices = choices.iter().map(|byte| usize::from(*byte)).chain(std::iter::repeat(0));
    for choice in choices.take(LONGEST) {
        let mut steps = Vec::new();
        world.next(&mut steps);
        if steps.is_empty() {
            break;
        }
        let step = steps.swap_remove(choice % steps.len());
        played.push(step.clone());
        world.step(step, &seen);
        for (property, holds) in World::ALWAYS {
            assert!(holds(&world), "not true: {property}, after {played:#?}");
        }
    }
}
