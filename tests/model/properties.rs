//! What must always be true.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stateright::{Model, Property};

use super::driver::{Ground, Shown};
use super::games::Game;
use super::grants::Breach;
use super::queue::name::Kind;
use super::steps::Step;
use super::task::{Phase, Task};
use super::world::World;
use super::zookeeper::{Owner, conflict};

pub(crate) struct Queue {
    game: Game,
    seen: Arc<Seen>,
}

/// How often what the model is for has happened.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    by_create: AtomicUsize,
    by_list: AtomicUsize,
    by_blocker: AtomicUsize,
    by_line: AtomicUsize,
    early_looks: AtomicUsize,
    downgrades: AtomicUsize,
}

impl Seen {
    fn counts(&self) -> [(&'static str, usize); 6] {
        [
            ("grants by a create alone", &self.by_create),
            ("grants by a list", &self.by_list),
            ("grants by the blocker's end alone", &self.by_blocker),
            ("grants by the line alone", &self.by_line),
            ("looks before the last blocker's end", &self.early_looks),
            ("downgrades before somebody who waits", &self.downgrades),
        ]
        .map(|(what, count)| (what, count.load(Ordering::Relaxed)))
    }

    /// What has never happened.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        self.counts().iter().find(|(_, count)| *count == 0).map(|(what, _)| *what)
    }

    fn note(&self, shown: Shown) {
        let count = match shown.granted {
            Some(Ground::Create) => &self.by_create,
            Some(Ground::List) => &self.by_list,
            Some(Ground::BlockerGone) => &self.by_blocker,
            Some(Ground::Line) => &self.by_line,
            None if shown.looks_early => &self.early_looks,
            None => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts().map(|(what, count)| format!("{count} {what}"));
        write!(f, "{}", counts.join(", "))
    }
}

impl Queue {
    pub(crate) fn new(game: &Game, seen: &Arc<Seen>) -> Self {
        Self { game: game.clone(), seen: seen.clone() }
    }
}

impl Model for Queue {
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
        if matches!(step, Step::ReleaseWriter(..)) && world.server.children.len() > 2 {
            self.seen.downgrades.fetch_add(1, Ordering::Relaxed);
        }
        let shown = next.take(step);
        self.seen.note(shown);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("holders get along", |_, world: &World| holders_get_along(world)),
            Property::always("first in, first out", |_, world: &World| world.breach != Some(Breach::Unfair)),
            Property::always("nobody is granted without a node", |_, world: &World| {
                world.breach != Some(Breach::WithoutNode)
            }),
            Property::always("nobody is woken twice by one event", |_, world: &World| {
                world.breach != Some(Breach::Spin)
            }),
            Property::always("nobody is granted in an old session", |_, world: &World| {
                world.breach != Some(Breach::OldSession)
            }),
            Property::always("nobody waits in vain", |_, world: &World| !waits_in_vain(world)),
        ]
    }
}

/// No two hold who exclude each other.
///
/// Of ours, a holder is a task that believes to hold, from its grant until it begins to release. It does not count
/// - once its session has expired at the server: its validity tells it, which is no part of this model;
/// - once an operator has deleted its node after the grant: it will be told by its watch;
/// - if an operator deleted its node before the grant, and it could not know: see [`World::judge`].
///
/// Of others, a holder is whoever's node is the first that counts, from the moment in which it is.
fn holders_get_along(world: &World) -> bool {
    let mut holders: Vec<(Owner, Kind)> = Vec::new();
    for client in world.clients.iter().filter(|client| !client.has_expired) {
        for (task, of) in client.tasks.iter().enumerate() {
            let holds = of.holds().filter(|_| !of.is_robbed);
            holders.extend(holds.map(|kind| (Owner::Task { client: client.id, task }, kind)));
        }
    }
    for child in &world.server.children {
        if matches!(child.owner, Owner::Foreigner(_)) && world.server.is_first(child) {
            holders.push((child.owner, child.kind));
        }
    }
    holders.iter().enumerate().all(|(index, (owner, kind))| {
        holders[..index].iter().all(|(other, others)| owner == other || !conflict(*kind, *others))
    })
}

/// Whether somebody waits though it is its turn and nobody is going to tell it, or some node is left in the end.
fn waits_in_vain(world: &World) -> bool {
    let is_over = world.clients.iter().flat_map(|client| &client.tasks).all(Task::is_done);
    let is_quiet = world.clients.iter().all(|client| client.requests.is_empty() && client.inbox.is_empty());
    let is_left = !is_over || !world.server.children.is_empty();
    let waits_as_first = world.server.children.iter().any(|child| match child.owner {
        Owner::Task { client, task } => {
            let tasks = &world.clients[client].tasks;
            // In its line, one that has lost its node without a word still holds.
            let is_held = tasks.iter().any(|task| task.is_robbed);
            tasks[task].phase == Phase::Awaiting && !is_held && world.server.is_first(child)
        }
        Owner::Foreigner(_) => false,
    });
    is_quiet
        && world.breach.is_none()
        && (is_left && world.is_at_rest() || waits_as_first && world.is_still())
}
