//! What must always be true.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stateright::{Model, Property};

use super::driver::{Breach, Shown};
use super::game::Game;
use super::steps::Step;
use super::task::{Phase, Task};
use super::world::{Foreigner, World};

pub(crate) struct Permits {
    game: Game,
    seen: Arc<Seen>,
}

/// How often what the model is for has happened.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    at_once: AtomicUsize,
    by_count: AtomicUsize,
    by_sync: AtomicUsize,
    waits: AtomicUsize,
    requeues: AtomicUsize,
}

impl Seen {
    fn counts(&self) -> [(&'static str, usize); 5] {
        [
            ("takes by the count that came with the create", &self.at_once),
            ("takes by a count", &self.by_count),
            ("takes by a count behind a sync", &self.by_sync),
            ("waits for leases", &self.waits),
            ("losses of the place at the gate", &self.requeues),
        ]
        .map(|(what, count)| (what, count.load(Ordering::Relaxed)))
    }

    /// What has never happened.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        self.counts().iter().find(|(_, count)| *count == 0).map(|(what, _)| *what)
    }

    fn note(&self, shown: Shown) {
        for (is_shown, count) in [
            (shown.takes_at_once, &self.at_once),
            (shown.takes_by_count, &self.by_count),
            (shown.takes_by_sync, &self.by_sync),
            (shown.waits, &self.waits),
            (shown.requeues, &self.requeues),
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

impl Permits {
    pub(crate) fn new(game: &Game, seen: &Arc<Seen>) -> Self {
        Self { game: game.clone(), seen: seen.clone() }
    }
}

impl Model for Permits {
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
            Property::always("no more permits are out than there are", |_, world: &World| {
                permits_out(world) <= world.limit
            }),
            Property::always(
                "nobody is refused where all have the same number of permits",
                |_, world: &World| world.breach != Some(Breach::Refused),
            ),
            Property::always("nobody counts again on the same connection", |_, world: &World| {
                world.breach != Some(Breach::Spin)
            }),
            Property::always("whoever has lost its place notices at the next change", |_, world: &World| {
                world.breach != Some(Breach::Evicted)
            }),
            Property::always("nobody waits in vain, and nothing is left", |_, world: &World| {
                !waits_in_vain(world)
            }),
        ]
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

fn waits_in_vain(world: &World) -> bool {
    let mut steps = Vec::new();
    world.steps(&mut steps);
    let is_over = world.clients.iter().flat_map(|client| &client.tasks).all(Task::is_done);
    let is_left = !world.server.now.gate.is_empty() || !world.server.now.leases.is_empty();
    let is_over = is_over && world.foreigners.iter().all(|foreigner| *foreigner == Foreigner::Done);
    world.breach.is_none() && !steps.iter().any(Step::is_due) && (!is_over || is_left)
}
