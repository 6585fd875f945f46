//! Locks of all kinds, many tasks on the same few paths.
//!
//! Promised are: no two valid guards that exclude each other; tokens that grow; first come, first served; no write of
//! an earlier holder after one of a later; no node of a valid guard is deleted; no caller waits without need; nothing
//! is left.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zk_recipes::shared::SharedCount;
use zk_recipes::{
    Client, Error, InterProcessLock, InterProcessMutex, LockGuard, LockOptions, MultiLock, ReadWriteLock,
    Result, Semaphore, SemaphoreMutex, SuspectPolicy,
};

use super::peers::{Library, Peer};
use super::{Recipe, all_done, expect_nothing, failed, first_come_first_served, number};
use crate::chance;
use crate::judge;
use crate::log::{count, note, violation};
use crate::machine::Machine;
use crate::plan::Fault;
use crate::world::World;

pub(super) const RECIPE: Recipe = Recipe {
    name: "locks",
    scenario: |world| Box::pin(play(world)),
    paths: &["/a", "/c", "/s", "/sm", "/rw", "/x", "/s3", "/g", "/h", "/t", COUNTED],
    operations: "acquired",
    ensembles: 1,
};

/// A semaphore with as many permits as a shared count says.
const COUNTED: &str = "/sc";
const COUNT: &str = "/count-of-sc";

const KINDS: [Kind; 20] = [
    Kind::Mutex,
    Kind::Shared,
    Kind::Linger,
    Kind::Cohort,
    Kind::Cohort,
    Kind::CohortLinger,
    Kind::Semaphore,
    Kind::SemaphoreMutex,
    Kind::Write,
    Kind::Read,
    Kind::Read,
    Kind::Multi,
    Kind::Many,
    Kind::One,
    Kind::Counted,
    Kind::MaxHold,
    Kind::GiveUp,
    Kind::Deadline,
    Kind::Ticket,
    Kind::TicketLinger,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mutex,
    /// One lock object for all tasks of a client.
    Shared,
    Linger,
    Cohort,
    CohortLinger,
    Semaphore,
    SemaphoreMutex,
    Write,
    Read,
    Multi,
    /// Two of three permits.
    Many,
    /// One of three permits.
    One,
    /// One of as many permits as a shared count says.
    Counted,
    MaxHold,
    GiveUp,
    Deadline,
    Ticket,
    TicketLinger,
}

/// A lock of one task.
struct Contended {
    kind: Kind,
    lock: Box<dyn InterProcessLock>,
    /// What excludes others.
    path: &'static str,
    limit: u32,
    weight: u32,
    /// Another kind of access to the same lock.
    other: Option<ReadWriteLock>,
    mutex: InterProcessMutex,
}

impl Contended {
    fn new(kind: Kind, client: &Client, shared: &InterProcessMutex, linger: Duration) -> Result<Self> {
        let mutex = |path| InterProcessMutex::new(client, path);
        let with = |path, options| -> Result<Box<dyn InterProcessLock>> {
            Ok(Box::new(mutex(path)?.with_options(options)?))
        };
        let options = LockOptions::new();
        let ms = Duration::from_millis;
        let both = ReadWriteLock::new(client, "/rw")?;
        let semaphore = |path, leases| Semaphore::new(client, path, leases);
        let (path, lock): (_, Box<dyn InterProcessLock>) = match kind {
            Kind::Mutex => ("/a", Box::new(mutex("/a")?)),
            Kind::Shared => ("/a", Box::new(shared.clone())),
            Kind::Linger => ("/a", with("/a", options.linger(linger))?),
            Kind::Cohort => ("/c", with("/c", options.cohort(3))?),
            Kind::CohortLinger => ("/c", with("/c", options.cohort(2).linger(ms(20)))?),
            Kind::Semaphore => ("/s", Box::new(semaphore("/s", 2)?)),
            Kind::SemaphoreMutex => ("/sm", Box::new(SemaphoreMutex::new(client, "/sm")?)),
            Kind::Write => ("/rw", Box::new(both.write().clone())),
            Kind::Read => ("/rw", Box::new(both.read().clone())),
            Kind::Multi => ("/a", Box::new(MultiLock::new(client, ["/a", "/x"])?)),
            Kind::Many => ("/s3", Box::new(semaphore("/s3", 3)?.many(2)?)),
            Kind::One => ("/s3", Box::new(semaphore("/s3", 3)?)),
            Kind::Counted => {
                let count = SharedCount::new(client, COUNT, 1)?;
                (COUNTED, Box::new(Semaphore::with_shared_count(client, COUNTED, &count)?))
            }
            Kind::MaxHold => ("/h", with("/h", options.max_hold(ms(40)))?),
            Kind::GiveUp => ("/g", with("/g", options.suspect_policy(SuspectPolicy::GiveUp))?),
            Kind::Deadline => ("/x", Box::new(mutex("/x")?)),
            Kind::Ticket => ("/t", Box::new(mutex("/t")?)),
            Kind::TicketLinger => ("/t", with("/t", options.linger(ms(5)))?),
        };
        let (limit, weight) = match kind {
            Kind::Semaphore => (2, 1),
            Kind::Many => (3, 2),
            Kind::One => (3, 1),
            _ => (1, 1),
        };
        let other = (kind == Kind::Write).then_some(both);
        Ok(Self { kind, lock, path, limit, weight, other, mutex: mutex(path)? })
    }

    fn is_exclusive(&self) -> bool {
        self.kind != Kind::Read
    }

    /// Whether it has one node for each hold, in the order of the holds.
    fn is_queued(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Linger
                | Kind::Cohort
                | Kind::CohortLinger
                | Kind::TicketLinger
                | Kind::Multi
                | Kind::Semaphore
                | Kind::SemaphoreMutex
                | Kind::Many
                | Kind::One
                | Kind::Counted
        )
    }

    /// Whether a second acquire of the same owner is granted at once.
    fn is_reentrant(&self) -> bool {
        matches!(self.kind, Kind::Mutex | Kind::Shared)
    }

    /// Acquires it in one of several ways. `None` if it was given up.
    async fn acquire(&self, world: &World, who: &str) -> Option<Result<LockGuard>> {
        let longest = Duration::from_secs(fastrand::u64(5..40));
        match self.kind {
            Kind::Ticket if chance(200) => {
                let ticket = match world.chancy(self.mutex.enqueue(), longest).await? {
                    Ok(ticket) => ticket,
                    Err(error) => return Some(Err(error)),
                };
                if chance(60) {
                    sleep(Duration::from_millis(fastrand::u64(0..300))).await;
                }
                if chance(30) {
                    return None;
                }
                if chance(40) {
                    let _ = timeout(Duration::from_secs(2), ticket.position()).await;
                }
                world.chancy(ticket.acquired(), longest).await
            }
            Kind::Deadline => {
                let limit = Duration::from_millis(fastrand::u64(1..if chance(100) { 5 } else { 3_000 }));
                let start = Instant::now();
                let got = world.chancy(self.lock.try_acquire_for(limit), Duration::from_secs(100)).await;
                let took = start.elapsed();
                if world.plan().is_punctual() && took > limit + Duration::from_millis(150) {
                    violation(format!("{who}: try_acquire_for({limit:?}) took {took:?}"));
                }
                got?.transpose()
            }
            _ if chance(25) => {
                world.chancy(self.lock.try_acquire(), Duration::from_secs(100)).await?.transpose()
            }
            _ => world.chancy(self.lock.acquire(), longest).await,
        }
    }
}

struct Holder {
    path: &'static str,
    weight: u32,
    is_exclusive: bool,
    who: String,
    is_valid: Box<dyn Fn() -> bool>,
}

#[derive(Default)]
struct Holders {
    valid: Vec<Holder>,
    tokens: BTreeMap<&'static str, (i64, u64)>,
    /// The shared count, and since when.
    counts: Vec<(Instant, u32)>,
}

thread_local! {
    static HOLDERS: RefCell<Holders> = RefCell::default();
}

fn is_valid(guard: &Weak<LockGuard>) -> bool {
    guard.upgrade().is_some_and(|guard| guard.is_valid())
}

/// The register that holders of a path write.
fn register_of(path: &str) -> Option<&'static str> {
    match path {
        "/a" => Some("/register-a"),
        "/t" => Some("/register-t"),
        _ => None,
    }
}

/// The token that grows from hold to hold. That of a multi-lock is for its first member.
fn token(guard: &LockGuard) -> (i64, u64) {
    let guard = guard.members().first().unwrap_or(guard);
    (guard.fencing_token(), guard.turn())
}

/// There is room for one more who holds.
fn begins(world: &World, holder: Holder, limit: u32) {
    HOLDERS.with_borrow_mut(|holders| {
        holders.valid.retain(|holder| (holder.is_valid)());
        let excludes =
            |other: &Holder| other.path == holder.path && (other.is_exclusive || holder.is_exclusive);
        let excluded = || holders.valid.iter().filter(|other| excludes(other));
        let held: u32 = excluded().map(|other| other.weight).sum();
        if held + holder.weight > limit && !world.plan().is_operated() {
            let others: Vec<_> = excluded().map(|other| &*other.who).collect();
            violation(format!("{} holds {} beside {others:?}", holder.who, holder.path));
        }
        holders.valid.push(holder);
    });
}

/// Judges a guard that was just handed out to who has asked for it at that time.
fn granted(world: &World, contended: &Contended, who: &str, guard: &Rc<LockGuard>, asked: Instant) {
    count("acquired", 1);
    let &Contended { path, weight, .. } = contended;
    let limit = if path == COUNTED { greatest_count(world, asked) } else { contended.limit };
    let token = token(guard);
    note(|| format!("{who} holds {path} by {} with {token:?}", guard.node_path()));
    if !guard.is_valid() {
        violation(format!("{who} is given what is lost: {:?}", guard.loss()));
        return;
    }
    if contended.kind != Kind::MaxHold {
        expect_worth(world, who, guard);
    }
    let is_operated = world.plan().is_operated();
    let is_exclusive = contended.is_exclusive();
    let known = Rc::downgrade(guard);
    let is_valid = move || is_valid(&known);
    let holder = Holder { path, weight, is_exclusive, who: who.into(), is_valid: Box::new(is_valid.clone()) };
    begins(world, holder, limit);
    if limit == 1 && is_exclusive && path != COUNTED {
        HOLDERS.with_borrow_mut(|holders| {
            let last = holders.tokens.entry(path).or_default();
            if token <= *last && !is_operated {
                violation(format!("{who} holds {path} with {token:?} after {last:?}"));
            }
            *last = token.max(*last);
            if let Some(register) = register_of(path) {
                judge::granted(register, *last);
            }
        });
    }
    let members = guard.members();
    let members = if members.is_empty() { std::slice::from_ref(&**guard) } else { members };
    for member in members {
        judge::keep(member.node_path(), who.to_owned(), is_valid.clone());
        if is_operated {
            continue;
        }
        let node = world.servers().node(member.node_path());
        if node.as_ref().map(|node| node.czxid) != Some(member.fencing_token()) {
            violation(format!("{who} holds {} with {token:?}, servers have {node:?}", member.node_path()));
        }
        if contended.is_queued() {
            let excludes = |other: &str| is_exclusive || other.contains("WRIT");
            first_come_first_served(world.servers(), who, member.node_path(), excludes);
        }
    }
}

/// It has half of the session timeout ahead, unless the servers are too slow to grant that.
fn expect_worth(world: &World, who: &str, guard: &LockGuard) {
    const INACCURACY: Duration = Duration::from_millis(20);
    let ahead = guard.valid_until() - Instant::now();
    if world.plan().is_prompt() && ahead + INACCURACY < world.plan().session_timeout / 2 {
        violation(format!("{who} is given {} for {ahead:?} only", guard.node_path()));
    }
}

/// Changes the shared count, as an operator does.
async fn changes_count(world: World) {
    while world.is_stormy() {
        let count = fastrand::u32(1..4);
        if world.servers().set_data(COUNT, &count.to_be_bytes()) {
            HOLDERS.with_borrow_mut(|holders| holders.counts.push((Instant::now(), count)));
        }
        sleep(Duration::from_millis(fastrand::u64(1..3_000))).await;
    }
}

/// Returns the greatest that the shared count has been since then. Of several servers, some may show an earlier one.
fn greatest_count(world: &World, since: Instant) -> u32 {
    if world.plan().servers > 1 {
        return 3;
    }
    HOLDERS.with_borrow(|holders| {
        let ends = holders.counts.iter().skip(1).map(|(end, _)| Some(*end)).chain([None]);
        let counts = holders.counts.iter().zip(ends);
        let since_then = counts.filter(|(_, end)| end.is_none_or(|end| end >= since));
        since_then.map(|((_, count), _)| *count).max().unwrap_or(1)
    })
}

async fn play(world: World) {
    HOLDERS.take();
    world.servers().create(COUNT, &1_u32.to_be_bytes(), false);
    HOLDERS.with_borrow_mut(|holders| holders.counts.push((Instant::now(), 1)));
    tokio::task::spawn_local(changes_count(world.clone()));
    for register in ["/register-a", "/register-t"] {
        world.servers().create(register, b"", false);
        judge::register(register);
    }
    let mut kinds = KINDS;
    fastrand::shuffle(&mut kinds);
    let kinds = kinds[..fastrand::usize(4..12)].to_vec();
    let holds_long = chance(100);
    let clients =
        world.processes(move |world, machine| process(world, machine, kinds.clone(), holds_long)).await;
    sleep(Duration::from_secs(3)).await;
    for path in RECIPE.paths {
        for path in [(*path).to_owned(), format!("{path}/locks"), format!("{path}/leases")] {
            expect_nothing(&world, &path, |name| number(name).is_some());
        }
    }
    world.ends(clients).await;
}

async fn process(world: World, machine: Machine, kinds: Vec<Kind>, holds_long: bool) -> Client {
    let client = machine.client().await;
    let shared = InterProcessMutex::new(&client, "/a").expect("a valid path");
    let linger = Duration::from_millis([50, 600_000][fastrand::usize(..2)]);
    let tasks = kinds.into_iter().enumerate().map(|(task, kind)| {
        let contended = Contended::new(kind, &client, &shared, linger).expect("valid paths");
        let who = format!("machine {} task {task} ({kind:?})", machine.number());
        machine.spawn(contend(world.clone(), contended, who, holds_long))
    });
    let peers = (0..if chance(100) { fastrand::usize(1..3) } else { 0 }).map(|peer| {
        let (path, limit) = PEERS[fastrand::usize(..PEERS.len())];
        let library = if path == "/x" { Library::Kazoo } else { Library::Curator };
        let who = format!("machine {} peer {peer} ({library:?})", machine.number());
        machine.spawn(peer_contends(world.clone(), machine.clone(), library, path, limit, who, holds_long))
    });
    all_done(tasks.chain(peers).collect::<Vec<_>>()).await;
    client
}

/// Where peers contend, and how many may hold.
const PEERS: [(&str, u32); 4] = [("/a", 1), ("/x", 1), ("/s", 2), ("/sm", 1)];

async fn peer_contends(
    world: World,
    machine: Machine,
    library: Library,
    path: &'static str,
    limit: u32,
    who: String,
    holds_long: bool,
) {
    let acquires = async |peer: &Peer, patience| match path {
        "/s" | "/sm" => peer.takes(path, limit as usize, patience).await,
        _ => peer.acquires(path, patience).await,
    };
    let peer = Peer::connects(library, &machine, &world).await;
    while world.is_stormy() {
        let Some(held) = acquires(&peer, Duration::from_secs(fastrand::u64(1..40))).await else {
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        count("acquired by peers", 1);
        note(|| format!("{who} holds {path} by {}", held.path));
        let is_valid = Box::new(held.validity());
        begins(&world, Holder { path, weight: 1, is_exclusive: true, who: who.clone(), is_valid }, limit);
        sleep(hold_time(holds_long)).await;
        held.gives_back().await;
    }
    world.calm().await;
    peer.closes().await;
    let peer = Peer::connects(library, &machine, &world).await;
    sleep(Duration::from_secs(30)).await;
    match acquires(&peer, Duration::from_secs(60)).await {
        Some(held) => held.gives_back().await,
        None => violation(format!("{who}: in calm weather, waits for ever for {path}")),
    }
    peer.closes().await;
}

async fn contend(world: World, contended: Contended, who: String, holds_long: bool) {
    while world.is_stormy() {
        let asked = Instant::now();
        match contended.acquire(&world, &who).await {
            Some(Ok(guard)) => hold(&world, &contended, &who, guard, asked, holds_long).await,
            // The machine has crashed.
            Some(Err(Error::Closed)) => return,
            Some(Err(error)) => {
                failed(&who, &error, is_expected(&error));
                sleep(Duration::from_millis(10)).await;
            }
            None => count("given up", 1),
        }
        if chance(30) {
            sleep(Duration::from_millis(fastrand::u64(0..200))).await;
        }
    }
    world.calm().await;
    sleep(Duration::from_secs(30)).await;
    let start = Instant::now();
    match timeout(Duration::from_secs(120), contended.lock.acquire()).await {
        Ok(Ok(guard)) => {
            if let Err(error) = guard.release().await {
                violation(format!("{who}: in calm weather, release: {error}"));
            }
        }
        Ok(Err(error)) => violation(format!("{who}: in calm weather: {error}")),
        Err(_) => {
            let queue = world.servers().children(contended.path);
            violation(format!("{who} waits for ever for {}: {queue:?}", contended.path));
        }
    }
    let took = start.elapsed();
    if took > Duration::from_secs(5) {
        violation(format!("{who}: in calm weather, waited {took:?}"));
    }
}

fn is_expected(error: &Error) -> bool {
    matches!(
        error,
        Error::NotConnected { .. }
            | Error::LockLost { .. }
            | Error::ZooKeeper { .. }
            | Error::SessionOver { .. }
            | Error::PlaceLost { .. }
    )
}

/// Returns for how long a holder holds: some hold long, most do not.
fn hold_time(holds_long: bool) -> Duration {
    let longest = if chance(if holds_long { 12 } else { 2 }) { 8_000_000 } else { 3_000 };
    Duration::from_micros(fastrand::u64(0..longest))
}

async fn hold(
    world: &World,
    contended: &Contended,
    who: &str,
    guard: LockGuard,
    asked: Instant,
    holds_long: bool,
) {
    let guard = Rc::new(guard);
    granted(world, contended, who, &guard, asked);
    let time = hold_time(holds_long);
    if let Some(register) = register_of(contended.path).filter(|_| chance(80)) {
        sleep(time / 2).await;
        let write = guard.transaction().set_data(register, judge::to_data(token(&guard)), None);
        let written = world.chancy(write.commit(), Duration::from_secs(20)).await;
        count(
            match written {
                Some(Ok(_)) => "writes",
                Some(Err(Error::OutcomeUnknown { .. })) => "writes in doubt",
                Some(Err(_)) => "writes refused",
                None => "writes given up",
            },
            1,
        );
    }
    let mut downgraded = None;
    if let Some(lock) = contended.other.as_ref().filter(|_| chance(100)) {
        downgraded = downgrade(world, lock, who, &guard).await;
    }
    if contended.is_reentrant() && chance(40) {
        match timeout(Duration::from_secs(10), contended.lock.acquire()).await {
            Ok(Ok(_again)) => count("re-entered", 1),
            Ok(Err(_)) => {}
            Err(_) if guard.is_valid() && world.plan().is_punctual() => {
                violation(format!("{who}: a re-entry takes more than 10 s"));
            }
            Err(_) => {}
        }
    }
    sleep(time).await;
    let is_lost = !guard.is_valid();
    if is_lost {
        count("lost", 1);
    }
    // It is not shared any more: the others have a weak one.
    let Ok(guard) = Rc::try_unwrap(guard) else { return };
    if fastrand::bool() {
        note(|| format!("{who} drops {}", contended.path));
        drop(guard);
    } else {
        match world.chancy(guard.release(), Duration::from_secs(60)).await {
            Some(Ok(())) if is_lost && time > Duration::from_millis(1) && downgraded.is_none() => {
                violation(format!("{who}: release of what was lost is Ok"));
            }
            Some(Ok(()) | Err(Error::LockLost { .. })) => {}
            Some(Err(_)) => count("release errors", 1),
            None => count("releases given up", 1),
        }
    }
    if let Some(reader) = downgraded {
        sleep(Duration::from_micros(fastrand::u64(0..3_000))).await;
        drop(reader);
    }
}

/// Takes the read lock while the write lock is held.
async fn downgrade(
    world: &World,
    lock: &ReadWriteLock,
    who: &str,
    writer: &Rc<LockGuard>,
) -> Option<Rc<LockGuard>> {
    match timeout(Duration::from_secs(10), lock.read().acquire()).await {
        Ok(Ok(reader)) => {
            count("downgrades", 1);
            let reader = Rc::new(reader);
            let guard = Rc::downgrade(&reader);
            let who = format!("{who}, downgraded,");
            let kept = guard.clone();
            judge::keep(reader.node_path(), who.clone(), move || is_valid(&kept));
            let is_valid = Box::new(move || is_valid(&guard));
            let holder = Holder { path: "/rw", weight: 1, is_exclusive: false, who, is_valid };
            HOLDERS.with_borrow_mut(|holders| holders.valid.push(holder));
            Some(reader)
        }
        Ok(Err(_)) => {
            count("downgrade errors", 1);
            None
        }
        Err(_) => {
            if writer.is_valid() && world.plan().is_punctual() && !world.plan().has(Fault::DeletePath) {
                violation(format!("{who}: a downgrade takes more than 10 s"));
            }
            None
        }
    }
}
