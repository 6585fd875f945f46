//! The conditions of `all_or_none.rs`, and the order of the paths, broken.

use super::super::mutants::{Mutant, mutant};

const ALL_OR_NONE: &str = "src/queue/pure/all_or_none.rs";
const MULTI: &str = "tests/thorough/model/joint/multi.rs";

pub(crate) const MUTANTS: &[Mutant] = &[
    mutant(
        "nobody looks again at the earlier places when the one waited for is granted",
        ALL_OR_NONE,
        "[[self.is_up_to_date = false;]]\n                self.stands",
        "",
    )
    .shows_in_joint(|game| game.faults.rob > 0),
    mutant(
        "nobody looks again at the earlier places after a transaction that enters the rest",
        ALL_OR_NONE,
        "self.is_up_to_date = [[self.places.is_empty()]];",
        "true",
    )
    .shows_in_joint(|game| game.faults.rob > 0),
    mutant(
        "whoever enters the rest stays in the queues behind the one that it waits in",
        ALL_OR_NONE,
        "self.places.len() > place + 1 || [[self.is_in_rest]]",
        "false",
    )
    .shows_in_joint(|_| true),
    mutant(
        "whoever must wait again for an earlier place keeps those behind it",
        ALL_OR_NONE,
        "[[self.places.len() > place + 1]] || self.is_in_rest",
        "false",
    )
    .shows_in_joint(|game| game.intruder.is_some()),
    mutant(
        "whoever must wait waits in its last place",
        ALL_OR_NONE,
        "[[self.places.iter().position(|place| *place != Standing::Granted)]]",
        "self.places.iter().any(|place| *place != Standing::Granted).then(|| self.places.len() - 1)",
    )
    .shows_in_joint(|game| game.intruder.is_some()),
    mutant(
        "whoever has lost a place goes on with the others",
        ALL_OR_NONE,
        "if [[self.places.contains(&Standing::Outside)]] {",
        "false",
    )
    .shows_in_joint(|game| game.faults.rob > 0),
    mutant(
        "whoever waits does not hear that it has lost another place",
        MULTI,
        "waited.or_else(|| [[(0..queue).map(stands)]].find(",
        "(0..0).map(stands)",
    )
    .shows_in_joint(|game| game.faults.rob > 0),
    mutant(
        "whoever has some of its places has all",
        ALL_OR_NONE,
        "[[self.places.len() == self.queues]] && self.waits_in().is_none()",
        "true",
    )
    .shows_in_joint(|_| true),
    mutant(
        "a place that waits counts as granted",
        ALL_OR_NONE,
        "self.places.len() == self.queues && [[self.waits_in().is_none()]]",
        "true",
    )
    .shows_in_joint(|_| true),
    mutant(
        "places outlive their session",
        ALL_OR_NONE,
        "Event::SessionOver => return [[self.leave_all(Loss::Session)]],",
        "self.go_on()",
    )
    .shows_in_joint(|game| game.faults.expire > 0),
    mutant(
        "multi-locks take their paths in the order that they are given",
        MULTI,
        "[[paths.sort_unstable();]]",
        "",
    )
    .shows_in_joint(|_| true),
];
