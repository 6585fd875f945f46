//! The conditions of `permits.rs`, and of what drives it, broken.

use super::super::mutants::{Mutant, mutant};
use super::Game;

const PERMITS: &str = "src/queue/pure/permits.rs";
const KNOWLEDGE: &str = "src/queue/pure/local_queue/knowledge.rs";
const LOCAL_QUEUE: &str = "src/queue/pure/local_queue/mod.rs";
const STOCK: &str = "src/queue/pure/stock.rs";
const GATE: &str = "tests/thorough/model/permits/gate.rs";
const SERVER: &str = "tests/thorough/model/permits/server.rs";
const DRIVER: &str = "tests/thorough/model/permits/driver.rs";
const WORLD: &str = "tests/thorough/model/permits/world.rs";

pub(crate) const MUTANTS: &[Mutant] = &[
    // The defect of the first version.
    mutant(
        "the count that comes with a create is believed whenever the create's reply grants the place",
        PERMITS,
        "listed || [[vacancy.is_some_and(|vacancy| vacancy.was_filled_by(sequence, now))]]",
        "true",
    )
    .shows_in_permits(|_| true),
    mutant(
        "the count that comes with a create is believed where others may have taken numbers in between",
        KNOWLEDGE,
        "self.at == now && [[self.up_to.checked_add(1) == Some(sequence)]]",
        "true",
    )
    .shows_in_permits(|_| true),
    mutant(
        "a queue with contenders of the local queue counts as empty",
        LOCAL_QUEUE,
        "self.knowledge.vacancy(now).filter(|_| [[self.members.is_empty()]])",
        "true",
    )
    .shows_in_permits(|_| true),
    mutant(
        "the count that comes with the first create is believed for a later one",
        PERMITS,
        "Self::Sent(_) | Self::Repeated => [[Self::Repeated]],",
        "Self::Sent(vacancy)",
    )
    .shows_in_permits(|_| true),
    mutant(
        "the count that comes with a create is believed whenever the place is granted",
        PERMITS,
        "[[passage.is_some_and(|passage| passage.since_entry)]]",
        "passage.is_some()",
    )
    .shows_in_permits(|_| true),
    // Of a permit that an event has given, at a server that lags behind.
    mutant(
        "a count on another connection than the grant is believed without a sync",
        PERMITS,
        "fn is_up_to_date(self, on: Connection) -> bool {\n        [[self.on == on]]",
        "true",
    )
    .shows_in_permits(relocates),
    // That a count was asked for on the present connection is asked for besides. It changes nothing as long as the next
    // server is at least as far as the last reply, since a grant, or a sync, on one connection is not up to date on
    // another: broken, it is not noticed.
    mutant(
        "a count behind a sync is not believed",
        PERMITS,
        "([[count.synced]] || passage.is_up_to_date(now))",
        "false",
    )
    .shows_in_permits(relocates),
    mutant(
        "more is taken than is free",
        PERMITS,
        "if [[count.free() >= i64::from(self.wanted)]] {",
        "count.free() > 0",
    )
    .shows_in_permits(|game| game.limit > 1),
    mutant(
        "a lease of Curator's that waits counts as too many",
        PERMITS,
        "leases > [[limit.saturating_add(1)]]",
        "limit",
    )
    .shows_in_permits(|game| game.foreigners > 0),
    mutant(
        "whoever waits for leases does not watch its node at the gate",
        DRIVER,
        "filter(|_| [[watch]] && !is_watched)",
        "false",
    )
    .shows_in_permits(|game| game.faults.rob > 0),
    mutant(
        "whoever has lost its place at the gate goes on as if it had it",
        PERMITS,
        "[[self.passage = None;]]\n                Action::LookAtGate",
        "return self.go_on(now);",
    )
    .shows_in_permits(|game| game.faults.rob > 0),
    mutant(
        "leases that may have been created are not undone",
        PERMITS,
        "Event::TakeUnknown => [[Action::Undo]]",
        "self.go_on(now)",
    )
    .shows_in_permits(relocates),
    mutant(
        "leases are created without a node at the gate",
        WORLD,
        "if [[!view.is_at_gate(gate)]] {",
        "false",
    )
    .shows_in_permits(|game| game.faults.rob > 0),
    // Of leases that are created along with the node at the gate. What else makes a try, or not, costs round trips only.
    mutant("a try succeeds with any number", SERVER, "if [[self.next_number != number]] {", "false")
        .shows_in_permits(|game| game.has_stock),
    mutant(
        "permits are tried for that are not free",
        STOCK,
        "if [[known.limit.free(known.others + own) < i64::from(wanted)]] {",
        "false",
    )
    .shows_in_permits(|game| game.has_stock || game.is_known),
    mutant(
        "leases are counted by their numbers whatever these are",
        LOCAL_QUEUE,
        "[[next == Some(number)]]",
        "next.is_some()",
    )
    .shows_in_permits(|game| game.faults.stray > 0),
    mutant(
        "nobody hears that where the leases are was made again",
        WORLD,
        "[[client.leases.parent_changed();]]",
        "",
    )
    .shows_in_permits(|game| game.faults.stray > 0 && game.faults.reap > 0),
    mutant(
        "leases that came with the create are kept though there are too many",
        PERMITS,
        "Some(count) if [[count.free() >= 0]] => Action::Keep(count)",
        "true",
    )
    .shows_in_permits(|game| game.is_lowered),
    // Where the gate was made again, several conditions refuse what a try has created by accident, each of them alone:
    // that the number is one of the same parent's, that the place is granted, and that it was so at once. All of them
    // need to hear of it.
    mutant("nobody hears that the gate was made again", WORLD, "[[client.local.parent_changed();]]", "")
        .shows_in_permits(|game| game.faults.reap > 0),
    mutant(
        "leases that came with the create and are not kept are not given back",
        PERMITS,
        "Some(_) | None => [[Action::Undo]]",
        "self.go_on(now)",
    )
    .shows_in_permits(|game| game.faults.reap > 0 || game.is_lowered),
    mutant(
        "nobody looks for what a try may have created",
        GATE,
        "[[self.send(task, NOBODYS, What::GiveBack(take));]]",
        "",
    )
    .shows_in_permits(|game| game.has_stock && game.faults.relocate > 0),
    mutant(
        "whoever waits for leases watches nothing",
        PERMITS,
        "sync: !passage.is_up_to_date(now), watch: [[self.is_patient]]",
        "false",
    )
    .shows_in_permits(|_| true),
];

fn relocates(game: &Game) -> bool {
    game.faults.relocate > 0
}
