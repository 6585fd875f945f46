//! A lock over three independent ensembles, and several tasks in each process that want it.
//!
//! Promised are: no two valid guards; each is valid when it is handed out, and for as long as it says; tokens that grow
//! on each ensemble; no node of a valid guard is deleted; no caller waits without need; nothing is left.

use std::rc::Weak;

use super::prelude::*;

pub(super) const RECIPE: Recipe = Recipe {
    ensembles: NAMES.len(),
    ..Recipe::new("quorum", |world| Box::pin(play(world)), &[PATH], "acquired")
};

const PATH: &str = "/q";
const NAMES: [&str; 3] = ["blue", "green", "red"];

/// Who holds the lock, and with which tokens it was ever held.
#[derive(Default)]
struct Holders {
    valid: Vec<(String, Weak<QuorumGuard>)>,
    tokens: BTreeMap<&'static str, i64>,
}

thread_local! {
    static HOLDERS: RefCell<Holders> = RefCell::default();
}

fn is_valid(guard: &Weak<QuorumGuard>) -> bool {
    guard.upgrade().is_some_and(|guard| guard.is_valid())
}

async fn play(world: World) {
    HOLDERS.take();
    let clients = world.processes(process).await;
    sleep(Duration::from_secs(5)).await;
    for (servers, name) in world.ensembles().iter().zip(NAMES) {
        let left = servers.children(PATH).unwrap_or_default();
        if !left.is_empty() {
            violation(format!("left on {name}: {left:?}"));
        }
    }
    world.ends(clients.into_iter().flatten()).await;
}

async fn process(world: World, machine: Machine) -> Vec<Client> {
    let connecting = (0..NAMES.len()).map(|ensemble| {
        let (machine, address) = (&machine, world.address_of(ensemble));
        async move { machine.connect(machine.builder(), &address).await }
    });
    let clients = join_all(connecting).await;
    let ensembles = Ensembles::new(NAMES.into_iter().zip(clients.clone())).expect("three names");
    let tasks = (0..2).map(|task| {
        let mut lock = QuorumLock::new(&ensembles, PATH).expect("three ensembles");
        if fastrand::bool() {
            let longest = Duration::from_millis(fastrand::u64(50..1500));
            lock = lock.with_response_timeout(longest).expect("not zero");
        }
        let who = format!("machine {} task {task}", machine.number());
        machine.spawn(contend(world.clone(), lock, who))
    });
    all_done(tasks).await;
    clients
}

async fn contend(world: World, lock: QuorumLock, who: String) {
    while world.is_stormy() {
        match acquire(&world, &lock, &who).await {
            Some(Ok(guard)) => hold(&world, &who, guard).await,
            // The machine has crashed.
            Some(Err(Error::Closed)) => return,
            Some(Err(error)) => {
                failed(&who, &error, is_expected(&error));
                sleep(Duration::from_millis(20)).await;
            }
            None => count("given up", 1),
        }
    }
    world.calm().await;
    sleep(Duration::from_secs(30)).await;
    let start = Instant::now();
    match timeout(Duration::from_secs(120), lock.acquire()).await {
        Ok(Ok(guard)) => {
            let guard = Rc::new(guard);
            granted(&world, &who, &guard);
            let guard = Rc::into_inner(guard).expect("not shared");
            if let Err(error) = guard.release().await {
                violation(format!("{who}: in calm weather, release: {error}"));
            }
        }
        Ok(Err(error)) => violation(format!("{who}: in calm weather: {error}")),
        Err(_) => {
            let queues: Vec<_> = world.ensembles().iter().map(|servers| servers.children(PATH)).collect();
            violation(format!("{who} waits for ever: {queues:?}"));
        }
    }
    let took = start.elapsed();
    if took > Duration::from_secs(10) {
        violation(format!("{who}: in calm weather, waited {took:?}"));
    }
}

/// Acquires the lock in one of several ways. `None` if it was given up, or not granted.
async fn acquire(world: &World, lock: &QuorumLock, who: &str) -> Option<Result<QuorumGuard>> {
    let longest = Duration::from_secs(fastrand::u64(5..60));
    if chance(40) {
        return world.chancy(lock.try_acquire(), longest).await?.transpose();
    }
    if !chance(40) {
        return world.chancy(lock.acquire(), longest).await;
    }
    let limit = Duration::from_millis(fastrand::u64(0..5000));
    let start = Instant::now();
    let got = world.chancy(lock.try_acquire_for(limit), longest).await;
    let took = start.elapsed();
    // To give back what was taken takes up to twice 100 ms.
    if world.plan().is_punctual() && took > limit + Duration::from_millis(250) {
        violation(format!("{who}: try_acquire_for({limit:?}) took {took:?}"));
    }
    got?.transpose()
}

fn is_expected(error: &Error) -> bool {
    matches!(error, Error::NotConnected { .. } | Error::LockLost { .. } | Error::ZooKeeper { .. })
}

async fn hold(world: &World, who: &str, guard: QuorumGuard) {
    let guard = Rc::new(guard);
    granted(world, who, &guard);
    let longest = if chance(10) { 8_000_000 } else { 5_000 };
    let end = Instant::now() + Duration::from_micros(fastrand::u64(0..longest));
    let mut until = guard.valid_until();
    while guard.is_valid() && Instant::now() < end {
        sleep_until(end.min(Instant::now() + Duration::from_millis(100))).await;
        until = until.max(guard.valid_until());
    }
    let is_lost = !guard.is_valid();
    if is_lost {
        count("lost", 1);
        let plan = world.plan();
        let ends_early =
            !world.is_faithful() || plan.is_operated() || plan.has_any(&[Fault::Forget, Fault::Suspension]);
        let left = until.saturating_duration_since(Instant::now());
        if !ends_early && left > Duration::ZERO {
            violation(format!("{who} has lost it {left:?} before it might end"));
        }
    }
    // The others have weak ones.
    let guard = Rc::into_inner(guard).expect("not shared");
    if fastrand::bool() {
        note(|| format!("{who} drops it"));
        return;
    }
    note(|| format!("{who} releases it"));
    match world.chancy(guard.release(), Duration::from_secs(60)).await {
        Some(Ok(())) if is_lost => violation(format!("{who}: release of what was lost is Ok")),
        Some(Ok(()) | Err(Error::LockLost { .. })) => {}
        Some(Err(_)) => count("release errors", 1),
        None => count("releases given up", 1),
    }
}

/// Judges a guard that was just handed out.
fn granted(world: &World, who: &str, guard: &Rc<QuorumGuard>) {
    count("acquired", 1);
    let tokens: Vec<_> = guard.fencing_tokens().collect();
    note(|| format!("{who} holds it with {tokens:?}"));
    if !guard.is_valid() {
        violation(format!("{who} is given what is lost: {:?}", guard.loss()));
        return;
    }
    let is_operated = world.plan().is_operated();
    HOLDERS.with_borrow_mut(|holders| {
        holders.valid.retain(|(_, guard)| is_valid(guard));
        if !holders.valid.is_empty() && !is_operated {
            let others: Vec<_> = holders.valid.iter().map(|(who, _)| who).collect();
            violation(format!("{who} holds it beside {others:?}"));
        }
        holders.valid.push((who.to_owned(), Rc::downgrade(guard)));
    });
    for (ensemble, name) in NAMES.into_iter().enumerate() {
        let Some((_, member)) = guard.members().find(|(member, _)| *member == name) else { continue };
        let (node, token) = (member.node_path(), member.fencing_token());
        let known = Rc::downgrade(guard);
        judge::keep(node, format!("{who} on {name}"), move || is_held_on(&known, name));
        let last = HOLDERS.with_borrow_mut(|holders| {
            let last = holders.tokens.entry(name).or_default();
            std::mem::replace(last, token.max(*last))
        });
        if is_operated {
            continue;
        }
        if token <= last {
            violation(format!("{who} holds it on {name} with {token} after {last}"));
        }
        let found = world.ensembles()[ensemble].node(node);
        if member.is_valid() && found.as_ref().map(|node| node.czxid) != Some(token) {
            violation(format!("{who} holds it on {name} by {node} with {token}, servers have {found:?}"));
        }
    }
}

fn is_held_on(guard: &Weak<QuorumGuard>, name: &str) -> bool {
    let Some(guard) = guard.upgrade() else { return false };
    guard.members().any(|(member, guard)| member == name && guard.is_valid())
}
