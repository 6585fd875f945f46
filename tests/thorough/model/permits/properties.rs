//! What must always be true.

use super::super::checker::{Checkable, Property};
use super::super::seen::Seen;
use super::driver::{Breach, Shown};
use super::game::{GAMES, Game};
use super::steps::Step;
use super::task::{Phase, Task};
use super::world::{Foreigner, World};

const AT_ONCE: &str = "takes by the count that came with the create";
const BY_COUNT: &str = "takes by a count";
const BY_SYNC: &str = "takes by a count behind a sync";
const WITH_CREATE: &str = "takes along with the create";
const BY_NUMBERS: &str = "counts leases by their numbers";
const GIVES_BACK: &str = "gives back what came with the create";
const IN_VAIN: &str = "tries to take along with the create while others come";
const WAIT: &str = "waits for leases";
const REQUEUE: &str = "losses of the place at the gate";

fn note(seen: &Seen, shown: Shown) {
    seen.note_those([
        (shown.keeps, WITH_CREATE),
        (shown.counts_by_numbers, BY_NUMBERS),
        (shown.gives_back, GIVES_BACK),
        (shown.tries_in_vain, IN_VAIN),
        (shown.takes_at_once, AT_ONCE),
        (shown.takes_by_count, BY_COUNT),
        (shown.takes_by_sync, BY_SYNC),
        (shown.waits, WAIT),
        (shown.requeues, REQUEUE),
    ]);
}

impl Checkable for World {
    type Game = Game;
    type Step = Step;

    const GAMES: &'static [Game] = GAMES;
    const ALWAYS: &'static [Property<Self>] = &[
        ("no more permits are out than there are", |world| permits_out(world) <= world.limit),
        ("no more leases are created than there are permits", |world| !has_too_many_leases(world)),
        ("nobody is refused where all have the same number of permits", |world| {
            world.breach != Some(Breach::Refused)
        }),
        ("nobody counts again on the same connection", |world| world.breach != Some(Breach::Spin)),
        ("whoever has lost its place takes nothing", |world| world.breach != Some(Breach::Evicted)),
        ("whoever waits stands at the gate", |world| !waits_outside(world)),
        ("nobody waits in vain, and nothing is left", |world| !waits_in_vain(world)),
    ];
    const TO_BE_SEEN: &'static [&'static str] =
        &[WITH_CREATE, BY_NUMBERS, GIVES_BACK, IN_VAIN, AT_ONCE, BY_COUNT, BY_SYNC, WAIT, REQUEUE];

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

/// By those who believe to hold. Of those whose session has expired at the server, their validity tells, which is no
/// part of this model.
fn permits_out(world: &World) -> u32 {
    let clients = world.clients.iter().filter(|client| !client.has_expired);
    let holds = |task: &Task| matches!(task.phase, Phase::Holding(_)).then_some(task.wanted);
    let ours: u32 = clients.flat_map(|client| client.tasks.iter().filter_map(holds)).sum();
    let others = world.foreigners.iter();
    let others = others.filter(|foreigner| matches!(foreigner, Foreigner::Passed | Foreigner::Holding));
    ours + others.count() as u32
}

/// Beside the one that a foreigner creates before it counts. Others would take it for a sign that somebody has another
/// number of permits.
///
/// Exception: where numbers begin anew, a try may succeed by accident while the news of that is on its way; and a shared
/// count may have been lowered since it was read. Or a transaction is done late, which was repeated meanwhile.
fn has_too_many_leases(world: &World) -> bool {
    let most = world.limit as usize + usize::from(!world.foreigners.is_empty());
    !world.may_err && world.server.now.leases.len() > most
}

fn waits_in_vain(world: &World) -> bool {
    let mut steps = Vec::new();
    world.steps(&mut steps);
    let is_over = world.clients.iter().flat_map(|client| &client.tasks).all(Task::is_done);
    let is_left = !world.server.now.gate.is_empty() || !world.server.now.leases.is_empty();
    let is_over = is_over && world.foreigners.iter().all(|foreigner| *foreigner == Foreigner::Done);
    world.breach.is_none() && !steps.iter().any(Step::is_due) && (!is_over || is_left)
}

/// Whether somebody waits whose node at the gate is gone, and nothing is going to tell it before others come or go.
fn waits_outside(world: &World) -> bool {
    let is_there = |task: &Task| task.name().is_some_and(|name| world.server.now.is_at_gate(name));
    let waits = |task: &&Task| matches!(task.phase, Phase::AwaitsGate | Phase::AwaitsLeases);
    let mut tasks = world.clients.iter().flat_map(|client| &client.tasks).filter(waits);
    world.breach.is_none() && tasks.any(|task| !is_there(task)) && world.is_still()
}
