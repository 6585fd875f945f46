//! What must always be true.

use stateright::Property;

use super::super::checked::{Checkable, Checked};
use super::super::seen::Seen;
use super::game::Game;
use super::world::{Shown, Step, World};

pub(crate) type Majority = Checked<World>;

const GRANTED: &str = "quorum locks granted";
const WITHOUT_SOME: &str = "granted without all members";
const REFUSED: &str = "refused after all were granted";
const GIVES_UP: &str = "passes that are given up";
const DOES_WITHOUT: &str = "stragglers that are not waited for";
const NOTICES: &str = "members lost during a pass";

/// What the model is for.
pub(crate) const TO_BE_SEEN: [&str; 6] = [GRANTED, WITHOUT_SOME, REFUSED, GIVES_UP, DOES_WITHOUT, NOTICES];

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

    fn begin(game: &Game) -> Self {
        Self::new(game)
    }

    fn next(&self, steps: &mut Vec<Step>) {
        steps.extend(self.due());
        steps.extend(self.faults());
    }

    fn step(&mut self, step: Step, seen: &Seen) {
        note(seen, self.take(step));
    }

    fn properties() -> Vec<Property<Checked<Self>>> {
        vec![
            Property::always("no two believe that they hold", |_, world: &World| world.believers() <= 1),
            Property::always("nobody waits in vain, and nothing is left", |_, world: &World| {
                !world.waits_in_vain()
            }),
        ]
    }
}
