//! Locks of all kinds, many tasks on the same few paths.
//!
//! Promised are: no two valid guards that exclude each other; tokens that grow; first come, first served; no write of
//! an earlier holder after one of a later; no node of a valid guard is deleted; no caller waits without need; nothing
//! is left. What an operator takes away is excused until its holder must have heard of it.

mod holding;

use self::holding::{hold, hold_time};

use std::rc::Weak;

use zk_recipes::shared::SharedCount;

use super::number;
use super::peers::{self, Held, Library, Peer};
use super::prelude::*;

pub(super) const RECIPE: Recipe = Recipe::new(
    "locks",
    |world| Box::pin(play(world)),
    &["/a", "/c", "/s", "/sm", "/rw", "/x", "/s3", "/g", "/h", "/t", COUNTED],
    "acquired",
);

/// A semaphore with as many permits as a shared count says.
const COUNTED: &str = "/sc";
const COUNT: &str = "/count-of-sc";

const KINDS: [Kind; 26] = [
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
    Kind::Mixed,
    Kind::Many,
    Kind::One,
    Kind::Counted,
    Kind::MaxHold,
    Kind::GiveUp,
    Kind::Deadline,
    Kind::Ticket,
    Kind::TicketLinger,
    Kind::OwnedWrite,
    Kind::OwnedRead,
    Kind::OwnedRead,
    Kind::OwnedMulti,
    Kind::OwnedMulti,
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
    /// Locks of two kinds, and of two clients.
    Mixed,
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
    /// By tasks of one owner for each client.
    OwnedWrite,
    OwnedRead,
    OwnedMulti,
}

/// What the tasks of a process share.
struct Process {
    client: Client,
    other: Option<Client>,
    mutex: InterProcessMutex,
    owner: Owner,
    linger: Duration,
}

/// A lock of one task.
struct Contended {
    kind: Kind,
    lock: Arc<dyn InterProcessLock>,
    /// What excludes others.
    path: &'static str,
    limit: u32,
    weight: u32,
    /// Both kinds of access to the same lock.
    both: Option<ReadWriteLock>,
    mutex: InterProcessMutex,
    /// The machine, if other tasks there have the same owner.
    owner: Option<usize>,
}

impl Contended {
    fn new(kind: Kind, process: &Process, machine: usize) -> Result<Self> {
        let Process { client, other, mutex: shared, owner, linger } = process;
        let mutex = |path| InterProcessMutex::new(client, path);
        let with = |path, options| -> Result<Arc<dyn InterProcessLock>> {
            Ok(Arc::new(mutex(path)?.with_options(options)?))
        };
        let options = LockOptions::new();
        let ms = Duration::from_millis;
        let both = ReadWriteLock::new(client, "/rw")?;
        let semaphore = |path, leases| Semaphore::new(client, path, leases);
        let (path, lock): (_, Arc<dyn InterProcessLock>) = match kind {
            Kind::Mutex => ("/a", Arc::new(mutex("/a")?)),
            Kind::Shared => ("/a", Arc::new(shared.clone())),
            Kind::Linger => ("/a", with("/a", options.linger(*linger))?),
            Kind::Cohort => ("/c", with("/c", options.cohort(3))?),
            Kind::CohortLinger => ("/c", with("/c", options.cohort(2).linger(ms(20)))?),
            Kind::Semaphore => ("/s", Arc::new(semaphore("/s", 2)?)),
            Kind::SemaphoreMutex => ("/sm", Arc::new(SemaphoreMutex::new(client, "/sm")?)),
            Kind::Write => ("/rw", Arc::new(both.write().clone())),
            Kind::Read => ("/rw", Arc::new(both.read().clone())),
            Kind::Multi => ("/a", Arc::new(MultiLock::new(client, ["/a", "/x"])?)),
            Kind::Mixed => {
                let other = InterProcessMutex::new(other.as_ref().unwrap_or(client), "/x")?;
                let locks: [Arc<dyn InterProcessLock>; 2] =
                    [Arc::new(SemaphoreMutex::new(client, "/sm")?), Arc::new(other)];
                ("/sm", Arc::new(MultiLock::of(locks)?))
            }
            Kind::Many => ("/s3", Arc::new(semaphore("/s3", 3)?.many(2)?)),
            Kind::One => ("/s3", Arc::new(semaphore("/s3", 3)?)),
            Kind::Counted => {
                let count = SharedCount::new(client, COUNT, 1)?;
                (COUNTED, Arc::new(Semaphore::with_shared_count(client, COUNTED, &count)?))
            }
            Kind::MaxHold => ("/h", with("/h", options.max_hold(ms(40)))?),
            Kind::GiveUp => ("/g", with("/g", options.suspect_policy(SuspectPolicy::GiveUp))?),
            Kind::Deadline => ("/x", Arc::new(mutex("/x")?)),
            Kind::Ticket => ("/t", Arc::new(mutex("/t")?)),
            Kind::TicketLinger => ("/t", with("/t", options.linger(ms(5)))?),
            Kind::OwnedWrite => ("/rw", Arc::new(both.write().owned_by(owner))),
            Kind::OwnedRead => ("/rw", Arc::new(both.read().owned_by(owner))),
            Kind::OwnedMulti => {
                let locks: [Arc<dyn InterProcessLock>; 2] = [Arc::new(mutex("/a")?), Arc::new(mutex("/x")?)];
                ("/a", Arc::new(MultiLock::of(locks)?.owned_by(owner)))
            }
        };
        let (limit, weight) = match kind {
            Kind::Semaphore => (2, 1),
            Kind::Many => (3, 2),
            Kind::One | Kind::Counted => (3, 1),
            _ => (1, 1),
        };
        let lock = match fastrand::u8(..) {
            // Locks of two kinds take none.
            0..16 => lock.with_options(LockOptions::new().max_hold(ms(fastrand::u64(1..40)))).unwrap_or(lock),
            16..32 => {
                lock.with_options(LockOptions::new().suspect_policy(SuspectPolicy::GiveUp)).unwrap_or(lock)
            }
            _ => lock,
        };
        let both = matches!(kind, Kind::Read | Kind::Write).then_some(both);
        let is_owned = matches!(kind, Kind::OwnedWrite | Kind::OwnedRead | Kind::OwnedMulti);
        let owner = is_owned.then_some(machine);
        Ok(Self { kind, lock, path, limit, weight, both, mutex: mutex(path)?, owner })
    }

    fn is_exclusive(&self) -> bool {
        !matches!(self.kind, Kind::Read | Kind::OwnedRead)
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
                | Kind::Mixed
                | Kind::OwnedWrite
                | Kind::OwnedRead
                | Kind::OwnedMulti
                | Kind::Semaphore
                | Kind::SemaphoreMutex
                | Kind::Many
                | Kind::One
                | Kind::Counted
        )
    }

    /// Whether a second acquire of the same owner is granted at once.
    fn is_reentrant(&self) -> bool {
        matches!(self.kind, Kind::Mutex | Kind::Shared | Kind::Read | Kind::Write)
    }

    async fn enqueue(&self) -> Result<Ticket> {
        match (&self.both, self.kind) {
            (Some(both), Kind::Read) => both.read().enqueue().await,
            (Some(both), _) => both.write().enqueue().await,
            (None, _) => self.mutex.enqueue().await,
        }
    }

    /// How often it is acquired by a ticket, of 256 times.
    fn by_ticket(&self) -> u8 {
        match (self.kind, &self.both) {
            (Kind::Ticket, _) => 200,
            (_, Some(_)) => 30,
            (_, None) => 0,
        }
    }

    /// Acquires it in one of several ways. `None` if it was given up.
    async fn acquire(&self, world: &World, who: &str) -> Option<Result<LockGuard>> {
        let longest = Duration::from_secs(fastrand::u64(5..40));
        if chance(self.by_ticket()) {
            return self.acquire_by_ticket(world, longest).await;
        }
        if self.kind == Kind::Deadline || chance(15) {
            return self.acquire_in_time(world, who).await;
        }
        if chance(25) {
            return world.chancy(self.lock.try_acquire(), Duration::from_secs(100)).await?.transpose();
        }
        world.chancy(self.lock.acquire(), longest).await
    }

    async fn acquire_by_ticket(&self, world: &World, longest: Duration) -> Option<Result<LockGuard>> {
        let ticket = match world.chancy(self.enqueue(), longest).await? {
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

    async fn acquire_in_time(&self, world: &World, who: &str) -> Option<Result<LockGuard>> {
        let limit = Duration::from_millis(fastrand::u64(1..if chance(100) { 5 } else { 3_000 }));
        let start = Instant::now();
        let got = world.chancy(self.lock.try_acquire_for(limit), Duration::from_secs(100)).await;
        let took = start.elapsed();
        if world.plan().is_punctual() && took > limit + Duration::from_millis(150) {
            violation(format!("{who}: try_acquire_for({limit:?}) took {took:?}"));
        }
        got?.transpose()
    }
}

struct Holder {
    path: &'static str,
    weight: u32,
    is_exclusive: bool,
    owner: Option<usize>,
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

/// Whether a hold excludes others: by what it says, and while no operator has interfered.
fn is_valid(guard: &Weak<LockGuard>) -> bool {
    guard.upgrade().is_some_and(|guard| guard.is_valid() && !is_excused(&guard))
}

/// The guards of a multi-lock, or the one that it is.
fn members(guard: &LockGuard) -> &[LockGuard] {
    if guard.members().is_empty() { std::slice::from_ref(guard) } else { guard.members() }
}

/// Whether an operator took it away, or one of several.
fn is_excused(guard: &LockGuard) -> bool {
    members(guard).iter().any(|member| judge::is_excused(member.node_path()))
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
    let first = &members(guard)[0];
    (first.fencing_token(), first.turn())
}

/// There is room for one more who holds.
fn begins(holder: Holder, limit: u32) {
    HOLDERS.with_borrow_mut(|holders| {
        holders.valid.retain(|holder| (holder.is_valid)());
        let excludes = |other: &Holder| {
            other.path == holder.path
                && (other.is_exclusive || holder.is_exclusive)
                && (holder.owner.is_none() || other.owner != holder.owner)
        };
        let excluded = || holders.valid.iter().filter(|other| excludes(other));
        let held: u32 = excluded().map(|other| other.weight).sum();
        if held + holder.weight > limit && (holder.is_valid)() {
            let others: Vec<_> = excluded().map(|other| &*other.who).collect();
            violation(format!("{} holds {} beside {others:?}", holder.who, holder.path));
        }
        holders.valid.push(holder);
    });
}

/// Judges a guard that was just handed out to who has asked for it at that time.
fn granted(world: &World, contended: &Contended, who: &str, guard: &Rc<LockGuard>, asked: Instant) {
    count("acquired", 1);
    let &Contended { path, weight, owner, .. } = contended;
    let limit = if path == COUNTED { greatest_count(world, asked) } else { contended.limit };
    let token = token(guard);
    note(|| format!("{who} holds {path} by {} with {token:?}", guard.node_path()));
    if !guard.is_valid() {
        violation(format!("{who} is given what is lost: {:?}", guard.loss()));
        return;
    }
    // One that is entered again has what is left of it.
    if guard.remaining_hold().is_none() && owner.is_none() {
        expect_worth(world, who, guard);
    }
    let is_excused = is_excused(guard);
    let is_exclusive = contended.is_exclusive();
    let known = Rc::downgrade(guard);
    let is_valid = move || is_valid(&known);
    let is_still_valid = Box::new(is_valid.clone());
    begins(Holder { path, weight, is_exclusive, owner, who: who.into(), is_valid: is_still_valid }, limit);
    if contended.limit == 1 && is_exclusive {
        HOLDERS.with_borrow_mut(|holders| {
            let last = holders.tokens.entry(path).or_default();
            let is_new = token > *last || token == *last && owner.is_some();
            if !is_new && !is_excused {
                violation(format!("{who} holds {path} with {token:?} after {last:?}"));
            }
            *last = token.max(*last);
            if let Some(register) = register_of(path) {
                judge::granted(register, *last);
            }
        });
    }
    for member in members(guard) {
        judge::keep(member.node_path(), who.to_owned(), is_valid.clone());
        // The token of a reader may be that of the same owner's writer.
        if contended.kind == Kind::OwnedRead {
            continue;
        }
        let node = world.servers().node(member.node_path());
        // Asked last: to look at a node may bring its end.
        if judge::is_excused(member.node_path()) {
            continue;
        }
        if node.as_ref().map(|node| node.czxid) != Some(member.fencing_token()) {
            violation(format!("{who} holds {} with {token:?}, servers have {node:?}", member.node_path()));
        }
        if contended.is_queued() {
            let excludes = |other: &str| is_exclusive || other.contains("WRIT");
            first_come_first_served(world.servers(), who, member.node_path(), excludes);
        }
    }
}

/// It has a third of the session timeout ahead, unless the servers are too slow to grant that.
fn expect_worth(world: &World, who: &str, guard: &LockGuard) {
    const INACCURACY: Duration = Duration::from_millis(20);
    let ahead = guard.valid_until() - Instant::now();
    if world.plan().is_prompt() && ahead + INACCURACY < world.plan().session_timeout / 3 {
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
    let watches = world.servers().watch_count();
    if watches > 0 {
        violation(format!("left: {watches} watches"));
    }
    world.ends(clients).await;
}

async fn process(world: World, machine: Machine, kinds: Vec<Kind>, holds_long: bool) -> Client {
    let client = machine.client().await;
    let process = Process {
        other: if kinds.contains(&Kind::Mixed) { Some(machine.client().await) } else { None },
        mutex: InterProcessMutex::new(&client, "/a").expect("a valid path"),
        owner: Owner::new(),
        linger: Duration::from_millis([50, 600_000][fastrand::usize(..2)]),
        client,
    };
    let tasks = kinds.into_iter().enumerate().map(|(task, kind)| {
        let contended = Contended::new(kind, &process, machine.number()).expect("valid paths");
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
    if let Some(other) = process.other {
        other.close().await;
    }
    process.client
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
    let acquires = async |peer: &Peer, until| match path {
        "/s" | "/sm" => peer.takes(path, limit as usize, until).await,
        _ => peer.acquires(path, until).await,
    };
    let name = who.clone();
    let holds = async |held: &Held| {
        count("acquired by peers", 1);
        note(|| format!("{name} holds {path} by {}", held.path));
        let (who, is_valid) = (name.clone(), Box::new(held.validity()));
        begins(Holder { path, weight: 1, is_exclusive: true, owner: None, who, is_valid }, limit);
        sleep(hold_time(holds_long)).await;
    };
    peers::competes(world, machine, library, who, acquires, holds).await;
}

async fn contend(world: World, contended: Contended, who: String, holds_long: bool) {
    while world.is_stormy() {
        let asked = Instant::now();
        match contended.acquire(&world, &who).await {
            Some(Ok(guard)) => hold(&world, &contended, &who, guard, asked, holds_long).await,
            // The machine has crashed.
            Some(Err(Error::Closed)) => return,
            Some(Err(error)) => {
                let is_told = contended.owner.is_some() && matches!(error, Error::WouldDeadlock { .. });
                failed(&who, &error, is_expected(&error) || is_told);
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
    let acquiring = async {
        loop {
            match contended.lock.acquire().await {
                // Another task of its owner reads.
                Err(Error::WouldDeadlock { .. }) if contended.owner.is_some() => {
                    sleep(Duration::from_millis(1)).await;
                }
                acquired => return acquired,
            }
        }
    };
    match timeout(Duration::from_secs(120), acquiring).await {
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
    if let Error::Several { first, others } = error {
        return is_expected(first) && others.iter().all(is_expected);
    }
    matches!(
        error,
        Error::NotConnected { .. }
            | Error::LockLost { .. }
            | Error::ZooKeeper { .. }
            | Error::SessionOver { .. }
            | Error::PlaceLost { .. }
    )
}
