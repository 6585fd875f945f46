//! What must always be true.

use super::super::checker::{Checkable, Property};
use super::super::seen::Seen;
use super::game::{GAMES, Game};
use super::world::{Shown, Step, World};

const GRANTED: &str = "quorum locks granted";
const WITHOUT_SOME: &str = "granted without all members";
const REFUSED: &str = "refused after all were granted";
const GIVES_UP: &str = "passes that are given up";
const DOES_WITHOUT: &str = "stragglers that are not waited for";
const NOTICES: &str = "members lost during a pass";

fn note(seen: &Seen, shown: Shown) {
    seen.note_those([
        (shown.granted, GRANTED),
        (shown.granted_without_some, WITHOUT_SOME),
        (shown.refused_at_the_end, REFUSED),
        (shown.gave_up, GIVES_UP),
        (shown.did_without, DOES_WITHOUT),
        (shown.noticed, NOTICES),
    ]);
}

impl Checkable for World {
    type Game = Game;
    type Step = Step;

    const GAMES: &'static [Game] = GAMES;
    const ALWAYS: &'static [Property<Self>] = &[
        ("no two believe that they hold", |world| world.believers() <= 1),
        ("nobody waits in vain, and nothing is left", |world| !world.waits_in_vain()),
    ];
    const TO_BE_SEEN: &'static [&'static str] =
        &[GRANTED, WITHOUT_SOME, REFUSED, GIVES_UP, DOES_WITHOUT, NOTICES];

    fn begin(game: &'static Game) -> Vec<Self> {
        vec![Self::new(game)]
    }

    fn next(&self, steps: &mut Vec<Step>) {
        steps.extend(self.due());
        steps.extend(self.faults());
    }

    fn step(&mut self, step: Step, seen: &Seen) {
        note(seen, self.take(step));
    }
}
