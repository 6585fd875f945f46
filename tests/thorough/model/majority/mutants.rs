//! The conditions of `quorum.rs`, and the order of the members, broken.

use super::super::mutants::{Mutant, mutant};

const QUORUM: &str = "src/queue/pure/quorum.rs";
const CONTENDER: &str = "tests/thorough/model/majority/contender.rs";

pub(crate) const MUTANTS: &[Mutant] = &[
    mutant(
        "less than half of all members is a majority",
        QUORUM,
        "[[self.members / 2 + 1]]",
        "self.members / 2",
    )
    .shows_in_majority(|game| game.skips > 0),
    mutant(
        "what was granted on the way counts without another look",
        QUORUM,
        "filter(|member| [[is_valid(*member)]])",
        "{ let _ = is_valid(*member); true }",
    )
    .shows_in_majority(|game| game.cuts > 0),
    mutant(
        "a lock is valid until the last of its members is not",
        QUORUM,
        "nth([[self.majority() - 1]])",
        "0",
    )
    .shows_in_majority(|game| game.cuts > 1),
    mutant(
        "whoever has a majority waits for the others, however long that takes",
        QUORUM,
        "is_needed: [[!self.quorum.is_held(self.taken().count())]]",
        "true",
    )
    .shows_in_majority(|game| game.stays_at.is_some()),
    mutant(
        "contenders take the members in the order that they are given",
        CONTENDER,
        "[[order.sort_unstable();]]",
        "",
    )
    .shows_in_majority(|_| true),
];
