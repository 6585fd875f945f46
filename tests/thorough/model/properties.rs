//! What must always be true.

use super::checker::{Checkable, Property};
use super::driver::{Ground, Shown};
use super::games::{GAMES, Game};
use super::grants::Breach;
use super::linger::Lingering;
use super::queue::contender::Standing;
use super::seen::Seen;
use super::steps::Step;
use super::task::{Node, Phase, Task};
use super::world::World;
use super::zookeeper::{Owner, conflict, number};

const BY_CREATE: &str = "grants by a create alone";
const BY_LIST: &str = "grants by a list";
const BY_NEW_PARENT: &str = "grants by the creation of the parent";
const BY_BLOCKER: &str = "grants by the blocker's end alone";
const BY_LOCAL_QUEUE: &str = "grants by the local queue alone";
const EARLY_LOOK: &str = "looks before the last blocker's end";
const DOWNGRADE: &str = "downgrades before somebody who waits";
const REFUSAL: &str = "refusals behind another recipe";
const GIVEN_BACK: &str = "readers given back after a loss";
const BY_LINGERING: &str = "grants by a node that lingers";
const BY_HANDING_ON: &str = "grants by a node that was handed on";
const LATE_WRITE: &str = "transactions done after their holder has gone";

fn note(seen: &Seen, shown: Shown) {
    seen.note(match shown.granted {
        Some(Ground::Create) => BY_CREATE,
        Some(Ground::List) => BY_LIST,
        Some(Ground::NewParent) => BY_NEW_PARENT,
        Some(Ground::BlockerGone) => BY_BLOCKER,
        Some(Ground::LocalQueue) => BY_LOCAL_QUEUE,
        Some(Ground::Lingering) => BY_LINGERING,
        Some(Ground::HandedOn) => BY_HANDING_ON,
        None if shown.is_refused => REFUSAL,
        None if shown.looks_early => EARLY_LOOK,
        None if shown.gives_back => GIVEN_BACK,
        None if shown.writes_late => LATE_WRITE,
        None => return,
    });
}

impl Checkable for World {
    type Game = Game;
    type Step = Step;

    const GAMES: &'static [Game] = GAMES;
    const ALWAYS: &'static [Property<Self>] = &[
        ("holders get along", |world| holders_get_along(world)),
        ("first in, first out", |world| world.breach != Some(Breach::Unfair)),
        ("nobody is granted without a node", |world| world.breach != Some(Breach::WithoutNode)),
        ("nothing is done for one under another", |world| world.breach != Some(Breach::LateWrite)),
        ("nobody is woken twice by one event", |world| world.breach != Some(Breach::Spin)),
        ("nobody is granted in an old session", |world| world.breach != Some(Breach::OldSession)),
        ("nobody is passed by one who holds without asking", |world| world.breach != Some(Breach::Passed)),
        ("nobody holds by a node whose time is over", |world| world.breach != Some(Breach::Overdue)),
        ("nothing lingers that was asked for", |world| {
            let mut lingering = world.clients.iter().filter_map(|client| client.lingering.as_ref());
            !lingering.any(Lingering::ignores_a_request)
        }),
        ("nobody is kept out by a cohort whose time is over", |world| {
            let mut lingering = world.clients.iter().filter_map(|client| client.lingering.as_ref());
            !lingering.any(Lingering::ignores_the_time)
        }),
        ("nobody is turned away without another recipe before it", |world| {
            world.breach != Some(Breach::TurnedAway)
        }),
        ("no holder reads the past", |world| !reads_the_past(world)),
        ("nobody hears of more before it than can be", |world| !hears_of_too_many(world)),
        ("nobody waits in vain", |world| !waits_in_vain(world)),
        ("whoever waits stands in the queue", |world| !waits_outside(world)),
    ];
    const TO_BE_SEEN: &'static [&'static str] = &[
        BY_CREATE,
        BY_LIST,
        BY_NEW_PARENT,
        BY_BLOCKER,
        BY_LOCAL_QUEUE,
        EARLY_LOOK,
        DOWNGRADE,
        REFUSAL,
        GIVEN_BACK,
        LATE_WRITE,
        BY_LINGERING,
        BY_HANDING_ON,
    ];

    fn begin(game: &'static Game) -> Vec<Self> {
        vec![Self::new(game)]
    }

    fn next(&self, steps: &mut Vec<Step>) {
        self.steps(steps);
    }

    fn step(&mut self, step: Step, seen: &Seen) {
        if matches!(step, Step::ReleaseWriter(..)) && self.server.children.len() > 2 {
            seen.note(DOWNGRADE);
        }
        note(seen, self.take(step));
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
    // A node may linger as long as nobody waits.
    let may_linger = world.clients.iter().any(|client| client.lingers);
    let lingers = |child| may_linger && world.lingers_by(child);
    let is_left = !is_over || !world.server.children.iter().all(lingers);
    let waits_as_first = world.server.children.iter().any(|child| match child.owner {
        Owner::Task { client, task } => {
            let tasks = &world.clients[client].tasks;
            // In its local queue, one that has lost its node without a word still holds.
            let is_held = tasks.iter().any(|task| task.is_robbed);
            tasks[task].phase == Phase::Awaiting
                && tasks[task].claims(&child.name)
                && !is_held
                && world.server.is_first(child)
        }
        Owner::Foreigner(_) => false,
    });
    is_quiet
        && world.breach.is_none()
        && (is_left && world.is_at_rest() || waits_as_first && world.is_still())
}

/// Whether somebody waits whose node is gone, and nothing is going to tell it before others come or go.
fn waits_outside(world: &World) -> bool {
    let is_there = |task: &Task| world.server.children.iter().any(|child| task.claims(&child.name));
    let mut tasks = world.clients.iter().flat_map(|client| &client.tasks);
    world.breach.is_none()
        && world.may_read_own
        && tasks.any(|task| task.phase == Phase::Awaiting && !is_there(task))
        && world.is_still()
}
