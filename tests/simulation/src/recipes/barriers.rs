//! Members of a double barrier, in rounds, and a gate at which the others wait.
//!
//! Promised are: members are let in when enough have come, or while one of a round is in; a member that has left waits
//! until all have who were in beside it; no one deletes the node of a member that is in; a wait at the gate ends when it is
//! opened, and not before; no one is stuck; after a round in calm weather nothing is left, whatever was before.

use zk_recipes::barriers::{Barrier, DoubleBarrier, Entered};

use super::prelude::*;

pub(super) const RECIPE: Recipe =
    Recipe::new("barriers", |world| Box::pin(play(world)), &[BARRIER, GATE], "entered");

const BARRIER: &str = "/barrier";
const GATE: &str = "/gate";
/// After the storm, no wait for something that is to come takes longer.
const SETTLED: Duration = Duration::from_secs(40);
/// After the storm, all members begin rounds together.
const CALM_ROUNDS: Duration = Duration::from_secs(60);
const IN_CALM: Duration = Duration::from_secs(20);

/// What the servers have of a barrier.
#[derive(Debug, Default)]
struct Truth {
    members: usize,
    /// The nodes of members.
    there: BTreeSet<String>,
    /// Those that are in.
    inside: BTreeSet<String>,
    /// Those that were in when `ready` was deleted, or replaced. A delete that was meant for an earlier one does that: a
    /// new one has the same version. They do not know of each other that they are of one round.
    mixed: BTreeSet<String>,
    /// Who was in when one has left.
    beside: BTreeMap<String, BTreeSet<String>>,
    /// Those that were in at any time, or may have been.
    let_in: BTreeSet<String>,
    gate_changes: u64,
}

thread_local! {
    static TRUTH: RefCell<Truth> = RefCell::default();
}

fn truth<T>(work: impl FnOnce(&mut Truth) -> T) -> T {
    TRUTH.with_borrow_mut(work)
}

impl Truth {
    fn observe(&mut self, change: &Observed) {
        if change.path == GATE && change.kind != ObservedKind::DataChanged {
            self.gate_changes += 1;
        }
        let Some(name) = change.path.strip_prefix(BARRIER).and_then(|name| name.strip_prefix('/')) else {
            return;
        };
        note(|| format!("{name} is {:?}", change.kind));
        match (name, change.kind) {
            ("ready", ObservedKind::Created) => self.opens(),
            ("ready", ObservedKind::DataChanged) => self.is_joined(),
            ("ready", ObservedKind::Deleted) => self.mixed.extend(self.inside.iter().cloned()),
            (_, ObservedKind::Created) => drop(self.there.insert(change.path.clone())),
            (_, ObservedKind::Deleted) => {
                self.there.remove(&change.path);
                if self.inside.remove(&change.path) {
                    self.beside.insert(change.path.clone(), self.inside.clone());
                }
            }
            _ => {}
        }
    }

    fn opens(&mut self) {
        if self.there.len() < self.members {
            // If it was deleted too early, it may be made again for one that is in, and perhaps has not heard of it yet.
            if self.inside.is_empty() && self.there.is_disjoint(&self.let_in) {
                violation(format!("the barrier opens for {} of {}", self.there.len(), self.members));
            }
            count("opened again", 1);
            self.let_in.extend(self.there.iter().cloned());
            return;
        }
        self.inside.extend(self.there.iter().cloned());
        self.let_in.extend(self.there.iter().cloned());
    }

    /// One of those that are there has come to a round that goes on, or the next round begins with what the last has left.
    fn is_joined(&mut self) {
        if !self.there.iter().any(|path| self.let_in.contains(path)) {
            return self.opens();
        }
        count("joined", 1);
        self.let_in.extend(self.there.iter().cloned());
    }

    fn enters(&mut self, who: &str, path: &str, is_operated: bool) {
        // Whose node was deleted cannot tell whether that was before the others were let in.
        if !self.let_in.contains(path) && !is_operated {
            violation(format!("{who} enters by {path}, and was not let in: {:?} are there", self.there));
        }
        // One that has joined, or may have.
        if self.there.contains(path) {
            self.inside.insert(path.to_owned());
        }
    }
}

async fn play(world: World) {
    let (calm, each) = (Instant::now() + world.plan().storm, fastrand::usize(1..4));
    let all = world.machines().len() * each;
    let members = if fastrand::bool() { all } else { fastrand::usize(1..=all) };
    TRUTH.set(Truth { members, ..Truth::default() });
    // What was confirmed, and how the servers go on from there, may differ when a disk is lost.
    if world.is_faithful() {
        world.servers().observe(|change| truth(|truth| truth.observe(change)));
    }
    let clients = world.processes(move |world, machine| process(world, machine, each, members, calm)).await;
    sleep(Duration::from_secs(10)).await;
    expect_nothing(&world, BARRIER, |_| true);
    if let Some(left) = world.servers().node(GATE) {
        violation(format!("left: {GATE}: {left:?}"));
    }
    world.ends(clients).await;
}

async fn process(world: World, machine: Machine, each: usize, members: usize, calm: Instant) -> Client {
    let client = machine.client().await;
    let tasks = (0..each).map(|task| {
        let who = format!("machine {} member {task}", machine.number());
        let barrier = DoubleBarrier::new(&client, BARRIER, members).expect("a valid path");
        let member = Member { world: world.clone(), who, barrier, calm };
        machine.spawn(member.takes_part())
    });
    let mut tasks: Vec<_> = tasks.collect();
    let gate = Barrier::new(&client, GATE).expect("a valid path");
    tasks.push(machine.spawn(guard_the_gate(world.clone(), gate, machine.number(), calm)));
    all_done(tasks).await;
    client
}

struct Member {
    world: World,
    who: String,
    barrier: DoubleBarrier,
    calm: Instant,
}

impl Member {
    async fn takes_part(self) {
        while self.world.is_stormy() {
            match self.enters().await {
                Some(Ok(entered)) => self.is_in(entered).await,
                // The machine has crashed.
                Some(Err(Error::Closed)) => return,
                Some(Err(error)) => {
                    self.fails("enter", &error);
                    sleep(Duration::from_millis(20)).await;
                }
                None => count("entries given up", 1),
            }
        }
        sleep_until(self.calm + CALM_ROUNDS).await;
        for round in 0..3 {
            match timeout(IN_CALM, self.barrier.enter()).await {
                Ok(Ok(entered)) => self.is_in(entered).await,
                Err(_) if self.lacks_others() => {}
                entered => {
                    let there = self.world.servers().children(BARRIER);
                    violation(format!(
                        "{}: in calm weather, round {round}: {entered:?}, {there:?}",
                        self.who
                    ));
                }
            }
        }
    }

    /// Enters, and waits until it is known that not enough others come any more.
    async fn enters(&self) -> Option<Result<Entered>> {
        if chance(self.world.plan().dropped_of_256 / 2) {
            return self.world.chancy(self.barrier.enter(), Duration::from_secs(5)).await;
        }
        let entered = timeout_at(self.calm + SETTLED, self.barrier.enter()).await;
        if entered.is_err() && !self.lacks_others() {
            truth(|Truth { there, inside, .. }| {
                violation(format!("{} is stuck before {there:?}, of whom {inside:?} are in", self.who));
            });
        }
        entered.ok()
    }

    /// Whether no one is in, and not enough have come.
    fn lacks_others(&self) -> bool {
        truth(|Truth { there, inside, members, .. }| there.len() < *members && inside.is_empty())
    }

    async fn is_in(&self, entered: Entered) {
        count("entered", 1);
        let path = entered.node_path().to_owned();
        note(|| format!("{} has entered by {path}", self.who));
        if self.world.is_faithful() {
            truth(|truth| truth.enters(&self.who, &path, self.world.plan().is_operated()));
        }
        let entered = Rc::new(entered);
        self.is_kept(&entered);
        let longest = if chance(30) { 3_000 } else { 4 };
        sleep(Duration::from_millis(fastrand::u64(0..longest))).await;
        if entered.loss().is_some() {
            count("lost", 1);
        }
        // It is not shared any more: the judge has a weak one.
        let Some(entered) = Rc::into_inner(entered) else { return };
        note(|| format!("{} leaves", self.who));
        if self.world.is_stormy() && chance(self.world.plan().dropped_of_256 / 4) {
            return drop(entered);
        }
        let latest = (self.calm + SETTLED).max(Instant::now() + IN_CALM);
        match timeout_at(latest, entered.leave()).await {
            Ok(Ok(())) => self.has_left(&path),
            Ok(Err(error)) => self.fails("leave", &error),
            Err(_) => {
                let there = truth(|truth| format!("{:?}, in: {:?}", truth.there, truth.inside));
                violation(format!("{} is stuck on its way out: {there}", self.who));
            }
        }
    }

    /// While it is in, has not been told of a loss, and its session lives, no one but an operator deletes its node.
    fn is_kept(&self, entered: &Rc<Entered>) {
        let path = entered.node_path();
        let Some(node) = self.world.servers().node(path) else { return };
        let (world, entered) = (self.world.clone(), Rc::downgrade(entered));
        let is_in = move || entered.upgrade().is_some_and(|entered| entered.loss().is_none());
        let lives = move || world.servers().session_ids().contains(&node.ephemeral_owner);
        judge::keep(path, self.who.clone(), move || is_in() && lives());
    }

    fn has_left(&self, path: &str) {
        if truth(|truth| truth.mixed.contains(path)) {
            return count("rounds mixed", 1);
        }
        let others = truth(|truth| {
            let beside = truth.beside.remove(path).unwrap_or_default();
            beside.intersection(&truth.inside).cloned().collect::<Vec<_>>()
        });
        if !others.is_empty() {
            violation(format!("{} has left before {others:?}, who were in beside it", self.who));
        }
    }

    fn fails(&self, what: &'static str, error: &Error) {
        let is_expected = match error {
            Error::NotConnected { .. } | Error::ZooKeeper { .. } | Error::Closed => true,
            Error::PlaceLost { .. } => what == "enter",
            Error::MemberLost { .. } => what == "leave",
            _ => false,
        };
        let is_late = !self.world.is_stormy() && Instant::now() > self.calm + CALM_ROUNDS;
        failed(format_args!("{}: {what}", self.who), error, is_expected && !is_late);
    }
}

/// The first machine opens and closes it, the others wait.
async fn guard_the_gate(world: World, gate: Barrier, machine: usize, calm: Instant) {
    let who = format!("machine {machine} at the gate");
    while world.is_stormy() {
        let longest = Duration::from_secs(60);
        let done = match machine {
            0 if fastrand::bool() => world.chancy(gate.set(), longest).await,
            0 => world.chancy(gate.remove(), longest).await,
            _ => waits(&world, &gate, &who).await,
        };
        if matches!(done, Some(Err(Error::Closed))) {
            return;
        }
        sleep(Duration::from_millis(fastrand::u64(0..if machine == 0 { 500 } else { 20 }))).await;
    }
    // By then, what was sent in the storm has arrived.
    sleep_until(calm + SETTLED).await;
    for is_open in [false, true] {
        if machine == 0 {
            let turned = if is_open { gate.remove().await } else { gate.set().await };
            turned.unwrap_or_else(|error| violation(format!("{who}: in calm weather: {error}")));
        }
        sleep(Duration::from_secs(2)).await;
        match timeout(Duration::from_secs(5), gate.wait()).await {
            Ok(Ok(())) if is_open => {}
            Err(_) if !is_open => {}
            waited => violation(format!("{who}: in calm weather, is it open: {is_open}; {waited:?}")),
        }
        sleep_until(calm + SETTLED + Duration::from_secs(10)).await;
    }
}

async fn waits(world: &World, gate: &Barrier, who: &str) -> Option<Result<()>> {
    let look = || (world.servers().node(GATE).is_some(), truth(|truth| truth.gate_changes));
    let before = look();
    let within = Duration::from_millis(fastrand::u64(1..3_000));
    let opened = world.chancy(gate.wait_within(within), Duration::from_secs(60)).await?;
    if let Ok(is_open) = opened {
        count("waits", 1);
        let was_set = before.0;
        if is_open == was_set && look() == before && world.is_faithful() {
            violation(format!("{who}: is it open: {is_open}; was it set: {was_set}, the whole time"));
        }
    }
    Some(opened.map(drop))
}
