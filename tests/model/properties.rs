//! What must always be true.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stateright::{Model, Property};

use super::driver::{Ground, Shown};
use super::games::Game;
use super::grants::Breach;
use super::queue::contender::Standing;
use super::steps::Step;
use super::task::{Node, Phase};
use super::world::World;
use super::zookeeper::{Owner, conflict, number};

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
    refusals: AtomicUsize,
    given_back: AtomicUsize,
    late_writes: AtomicUsize,
}

impl Seen {
    fn counts(&self) -> [(&'static str, usize); 9] {
        [
            ("grants by a create alone", &self.by_create),
            ("grants by a list", &self.by_list),
            ("grants by the blocker's end alone", &self.by_blocker),
            ("grants by the line alone", &self.by_line),
            ("looks before the last blocker's end", &self.early_looks),
            ("downgrades before somebody who waits", &self.downgrades),
            ("refusals behind another recipe", &self.refusals),
            ("readers given back after a loss", &self.given_back),
            ("transactions done after their holder has gone", &self.late_writes),
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
            None if shown.is_refused => &self.refusals,
            None if shown.looks_early => &self.early_looks,
            None if shown.gives_back => &self.given_back,
            None if shown.writes_late => &self.late_writes,
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
            Property::always("nothing is done for one under another", |_, world: &World| {
                world.breach != Some(Breach::LateWrite)
            }),
            Property::always("nobody is woken twice by one event", |_, world: &World| {
                world.breach != Some(Breach::Spin)
            }),
            Property::always("nobody is granted in an old session", |_, world: &World| {
                world.breach != Some(Breach::OldSession)
            }),
            Property::always("nobody is turned away without another recipe before it", |_, world: &World| {
                world.breach != Some(Breach::TurnedAway)
            }),
            Property::always("no holder reads the past", |_, world: &World| !reads_the_past(world)),
            Property::always("nobody hears of more before it than can be", |_, world: &World| {
                !hears_of_too_many(world)
            }),
            Property::always("nobody waits in vain", |_, world: &World| !waits_in_vain(world)),
        ]
    }
}

/// No two hold who exclude each other.
fn holders_get_along(world: &World) -> bool {
    let holders = world.holders();
    holders.iter().enumerate().all(|(index, (owner, kind))| {
        holders[..index].iter().all(|(other, others)| owner == other || !conflict(*kind, *others))
    })
}

/// Whether a holder that is in no doubt would read what was written before the hold of one before it ended.
fn reads_the_past(world: &World) -> bool {
    world.clients.iter().any(|client| {
        client.tasks.iter().filter(|task| task.holds().is_some() && !task.is_robbed).any(|task| {
            let node = task.node.as_ref().and_then(|node| node.name.as_deref());
            node.is_some_and(|node| client.lag.shows_the_past(node, client.connection))
        })
    })
}

/// Whether somebody was told of more contenders before it than there are lower numbers. Where a writer goes on as a
/// reader, two have one number.
fn hears_of_too_many(world: &World) -> bool {
    let names = world.names();
    let mut tasks = world.clients.iter().flat_map(|client| &client.tasks);
    !names.have_shared()
        && tasks.any(|task| match (task.contender.standing(), &task.node) {
            (Standing::Waiting { position }, Some(Node { name: Some(name), .. })) => {
                usize::try_from(number(names, name)).is_ok_and(|lower| position > lower)
            }
            _ => false,
        })
}

/// Whether somebody waits though it is its turn and nobody is going to tell it, or some node is left in the end.
fn waits_in_vain(world: &World) -> bool {
    let mut tasks = world.clients.iter().flat_map(|client| &client.tasks);
    // Behind a ticket that nobody awaits one waits by right.
    if tasks.clone().any(|task| {
        task.phase == Phase::Idle && world.server.children.iter().any(|child| task.claims(&child.name))
    }) {
        return false;
    }
    let is_over = tasks.all(|task| task.is_done() || task.phase == Phase::Idle);
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
