//! Numbers and values that processes change together.
//!
//! Promised are: no increment is lost or done twice, but for those whose outcome no one knows; what is read includes
//! every change before; ids are unique, and rise in a process; a value is replaced by one other only; who watches sees
//! the last value; no call waits without need.

use std::fmt;

use zk_recipes::atomic::{AtomicOptions, CachedAtomicLong, DistributedAtomicLong, DistributedAtomicValue};
use zk_recipes::shared::{SharedCount, SharedState, SharedValue};

use super::number;
use super::prelude::*;

// Whoever deletes a number has lost it.
pub(super) const RECIPE: Recipe = Recipe::new("numbers", |world| Box::pin(play(world)), &[LOCK], "changes");

const LOCK: &str = "/lock-of-a-number";
const LONGEST: Duration = Duration::from_secs(60);

const KINDS: [Kind; 9] = [
    Kind::Increment,
    Kind::Increment,
    Kind::Promoted,
    Kind::FetchUpdate,
    Kind::Id,
    Kind::CompareAndSet,
    Kind::Exchange,
    Kind::Update,
    Kind::UpdateCount,
];

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Increment,
    /// Under a lock, when others are faster.
    Promoted,
    FetchUpdate,
    Id,
    CompareAndSet,
    Exchange,
    Update,
    UpdateCount,
}

/// What is known of a number that only grows, one by one.
#[derive(Debug, Default)]
struct Counter {
    returned: BTreeSet<i64>,
    done: i64,
    in_doubt: i64,
}

#[derive(Debug, Default)]
struct Known {
    counters: BTreeMap<&'static str, Counter>,
    ids: BTreeSet<i64>,
    values: u64,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

fn counter<T>(path: &'static str, work: impl FnOnce(&mut Counter) -> T) -> T {
    KNOWN.with_borrow_mut(|known| work(known.counters.entry(path).or_default()))
}

impl Counter {
    fn greatest(&self) -> i64 {
        self.returned.last().copied().unwrap_or_default()
    }
}

/// A change whose outcome no one knows, unless it is told: its caller may be dropped, and the machine may crash.
struct Doubt<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Doubt<F> {
    fn ends(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for Doubt<F> {
    fn drop(&mut self) {
        if let Some(remember) = self.0.take() {
            count("in doubt", 1);
            remember();
        }
    }
}

/// All the handles of a task.
struct Task {
    world: World,
    who: String,
    number: DistributedAtomicLong,
    promoted: DistributedAtomicLong,
    ids: CachedAtomicLong,
    last_id: i64,
    value: SharedValue,
    text: SharedValue,
    count: SharedCount,
    atomic: DistributedAtomicValue,
}

impl Task {
    fn new(world: &World, client: &Client, ids: &CachedAtomicLong, who: String) -> Result<Self> {
        let long = |path| DistributedAtomicLong::new(client, path);
        Ok(Self {
            world: world.clone(),
            who,
            number: long("/number")?,
            promoted: long("/promoted")?.with_options(AtomicOptions::new().promoted_to_lock(LOCK))?,
            ids: ids.clone(),
            last_id: -1,
            value: SharedValue::new(client, "/value", "seed")?,
            text: SharedValue::new(client, "/text", "0")?,
            count: SharedCount::new(client, "/count", 0)?,
            atomic: DistributedAtomicValue::new(client, "/atomic")?,
        })
    }

    /// A server that has lost its disk may make others forget what was confirmed.
    fn broken(&self, text: String) {
        if self.world.is_faithful() {
            violation(format!("{}: {text}", self.who));
        }
    }

    async fn changes<T>(
        &self,
        change: impl Future<Output = Result<T>>,
        in_doubt: impl FnOnce(),
    ) -> Option<T> {
        let doubt = Doubt(Some(in_doubt));
        let error = match self.world.chancy(change, LONGEST).await? {
            Ok(done) => {
                count("changes", 1);
                doubt.ends();
                return Some(done);
            }
            Err(error) => error,
        };
        failed(&self.who, &error, is_expected(&error));
        if !is_in_doubt(&error) {
            doubt.ends();
        }
        sleep(Duration::from_millis(10)).await;
        None
    }

    async fn acts(&mut self, kind: Kind) {
        let next = |text: &[u8]| (to_number(text) + 1).to_string().into_bytes();
        match kind {
            Kind::Increment | Kind::FetchUpdate if chance(30) => self.gets().await,
            Kind::Increment => self.increments("/number", self.number.increment()).await,
            Kind::Promoted => self.increments("/promoted", self.promoted.increment()).await,
            Kind::FetchUpdate => {
                let update = async {
                    let before = self.number.fetch_update(|number| Some(number + 1)).await?;
                    Ok(before.expect("never left as it is") + 1)
                };
                self.increments("/number", update).await;
            }
            Kind::Update => {
                let update = async { Ok(to_number(self.text.update(next).await?.value())) };
                self.increments("/text", update).await;
            }
            Kind::UpdateCount => {
                let update = async { Ok(i64::from(*self.count.update(|number| number + 1).await?.value())) };
                self.increments("/count", update).await;
            }
            Kind::Id => self.takes_id().await,
            Kind::CompareAndSet => self.compares_and_sets().await,
            Kind::Exchange => self.exchanges().await,
        }
    }

    async fn gets(&self) {
        let (before, since) = (counter("/number", |counter| counter.greatest()), Instant::now());
        let Some(Ok(number)) = self.world.chancy(self.number.get(), LONGEST).await else { return };
        if number < before {
            self.broken(format!("get returns {number} after {before} was returned"));
        }
        let is_read = |data: Option<&[u8]>| data.map_or(0, |data| of_data("/number", data)) == number;
        self.expect_read("/number", since, is_read, &number);
    }

    /// What was read since then was there since then.
    fn expect_read(
        &self,
        path: &str,
        since: Instant,
        is_read: impl Fn(Option<&[u8]>) -> bool,
        read: &dyn fmt::Debug,
    ) {
        // A leader that is cut off, or wakes after others have elected another one, answers by itself.
        let plan = self.world.plan();
        let alone = [Fault::Partition, Fault::WakesAlone, Fault::Pause];
        let may_be_late = plan.servers > 1 && plan.has_any(&alone);
        if !may_be_late && !judge::was(path, since, is_read) {
            self.broken(format!("{path} is read as {read:?}, which it was not at that time"));
        }
    }

    async fn increments(&self, path: &'static str, change: impl Future<Output = Result<i64>>) {
        let (before, since) = (counter(path, |counter| counter.greatest()), Instant::now());
        let in_doubt = || counter(path, |counter| counter.in_doubt += 1);
        let Some(number) = self.changes(change, in_doubt).await else { return };
        if number <= before {
            self.broken(format!("{path} returns {number} after {before}"));
        }
        let number_of = |data: Option<&[u8]>| data.map_or(0, |data| of_data(path, data));
        // A write may be of several increments.
        if !judge::became(path, since, |old, new| (number_of(old) + 1..=number_of(new)).contains(&number)) {
            self.broken(format!("{path} returns {number}, which it did not become at that time"));
        }
        counter(path, |counter| {
            counter.done += 1;
            if !counter.returned.insert(number) {
                self.broken(format!("{path} returns {number} twice"));
            }
        });
    }

    async fn takes_id(&mut self) {
        let Some(id) = self.changes(self.ids.next(), || {}).await else { return };
        if !KNOWN.with_borrow_mut(|known| known.ids.insert(id)) {
            self.broken(format!("id {id} twice"));
        }
        if id <= self.last_id {
            self.broken(format!("id {id} after {}", self.last_id));
        }
        self.last_id = id;
        if chance(200) {
            sleep(Duration::from_millis(fastrand::u64(0..20))).await;
        }
    }

    async fn compares_and_sets(&self) {
        let since = Instant::now();
        let Some(Ok(seen)) = self.world.chancy(self.value.get_versioned(), LONGEST).await else { return };
        let (old, new) = (seen.value().clone(), self.new_value());
        self.expect_read("/value", since, |data| data == Some(&*old), &text(&old));
        if chance(40) {
            sleep(Duration::from_millis(fastrand::u64(0..50))).await;
        }
        let since = Instant::now();
        let set = self.value.compare_and_set(&seen, &new);
        match self.changes(set, || {}).await {
            Some(Ok(set)) if *set.value() != new => self.broken("another value was set".into()),
            Some(Ok(_)) => self.expect_replaced("/value", since, Some(&old), &new),
            Some(Err(now)) if *now.value() == new => self.broken("not set, and the value is there".into()),
            Some(Err(now)) => {
                self.expect_read("/value", since, |data| data == Some(&**now.value()), &text(now.value()));
            }
            None => {}
        }
    }

    async fn exchanges(&self) {
        let since = Instant::now();
        let Some(Ok(seen)) = self.world.chancy(self.atomic.get(), LONGEST).await else { return };
        self.expect_read("/atomic", since, |data| data == seen.as_deref(), &seen.as_deref().map(text));
        let (new, since) = (self.new_value(), Instant::now());
        let exchange = self.atomic.compare_exchange(seen.as_deref(), &new);
        match self.changes(exchange, || {}).await {
            Some(Ok(before)) if before != seen => {
                self.broken(format!("{before:?} was exchanged for {seen:?}"))
            }
            Some(Ok(_)) => self.expect_replaced("/atomic", since, seen.as_deref(), &new),
            Some(Err(now)) => {
                self.expect_read("/atomic", since, |data| data == now.as_deref(), &now.as_deref().map(text));
            }
            None => {}
        }
    }

    fn expect_replaced(&self, path: &str, since: Instant, old: Option<&[u8]>, new: &[u8]) {
        if !judge::became(path, since, |before, after| before == old && after == Some(new)) {
            let (old, new) = (old.map(text), text(new));
            self.broken(format!("{path} is said to be {new} instead of {old:?}, which it did not become"));
        }
    }

    fn new_value(&self) -> Vec<u8> {
        let number = KNOWN.with_borrow_mut(|known| {
            known.values += 1;
            known.values
        });
        format!("{} {number}", self.who).into_bytes()
    }

    async fn is_served_in_calm_weather(&self, kind: Kind) {
        match timeout(LONGEST, self.number.get()).await {
            Ok(Ok(_)) => {}
            got => violation(format!("{}: in calm weather, get: {got:?}", self.who)),
        }
        if kind != Kind::Increment {
            return;
        }
        let mut added = timeout(LONGEST, self.number.increment()).await;
        if matches!(added, Ok(Err(Error::WriteOutcomeUnknown { .. }))) {
            // An earlier attempt to connect, which came late to another server, took the session along. That shows, and ends
            // the connection, with the first write.
            counter("/number", |counter| counter.in_doubt += 1);
            added = timeout(LONGEST, self.number.increment()).await;
        }
        match added {
            Ok(Ok(_)) => counter("/number", |counter| counter.done += 1),
            Ok(Err(Error::Contended { .. })) => {}
            added => violation(format!("{}: in calm weather, increment: {added:?}", self.who)),
        }
    }
}

fn is_in_doubt(error: &Error) -> bool {
    use Error::{Closed, NodeReplaced, OutcomeUnknown, WriteOutcomeUnknown};
    matches!(error, WriteOutcomeUnknown { .. } | NodeReplaced { .. } | OutcomeUnknown { .. } | Closed)
}

fn is_expected(error: &Error) -> bool {
    use Error::{
        Closed, Contended, LockLost, NotConnected, PlaceLost, SessionOver, WriteOutcomeUnknown, ZooKeeper,
    };
    use zk::Error::{BadVersion, NoAuth, NoNode, NodeExists, NotEmpty};
    match error {
        ZooKeeper { source, .. } => !matches!(source, NoNode | BadVersion | NodeExists | NotEmpty | NoAuth),
        NotConnected { .. } | WriteOutcomeUnknown { .. } | Contended { .. } | Closed => true,
        LockLost { .. } | SessionOver { .. } | PlaceLost { .. } => true,
        _ => false,
    }
}

fn to_number(text: &[u8]) -> i64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number")
}

/// Returns the number that is the data of a node.
fn of_data(path: &str, data: &[u8]) -> i64 {
    match path {
        "/text" => to_number(data),
        "/count" => i32::from_be_bytes(data.try_into().expect("a count")).into(),
        _ => i64::from_be_bytes(data.try_into().expect("a number")),
    }
}

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// A process that has done its work, and watches.
struct Done {
    client: Client,
    count: Watch<SharedState<i32>>,
    value: Watch<SharedState<Vec<u8>>>,
}

async fn play(world: World) {
    KNOWN.take();
    for path in ["/number", "/promoted", "/text", "/count", "/value", "/atomic"] {
        judge::record(path);
    }
    let all = world.processes(process).await;
    sleep(Duration::from_secs(10)).await;
    if world.is_faithful() {
        judge_numbers(&world);
    }
    for (machine, done) in all.iter().enumerate() {
        let count = data(&world, "/count").map(|data| i32::from_be_bytes(data.try_into().expect("a count")));
        judge_watched(machine, &done.count, count);
        judge_watched(machine, &done.value, data(&world, "/value"));
    }
    expect_nothing(&world, LOCK, |name| number(name).is_some());
    let clients: Vec<_> = all.into_iter().map(|done| done.client).collect();
    sleep(Duration::from_secs(3)).await;
    world.ends(clients).await;
}

async fn process(world: World, machine: Machine) -> Done {
    let client = machine.client().await;
    let ids = DistributedAtomicLong::new(&client, "/ids").expect("a valid path");
    let ids = CachedAtomicLong::new(&ids, fastrand::u32(1..9)).expect("a valid size");
    let count = SharedCount::new(&client, "/count", 0).expect("a valid path").watch_state();
    let value = SharedValue::new(&client, "/value", "seed").expect("a valid path").watch_state();
    let tasks = (0..fastrand::usize(3..9)).map(|task| {
        let kind = KINDS[fastrand::usize(..KINDS.len())];
        let who = format!("machine {} task {task} ({kind:?})", machine.number());
        let task = Task::new(&world, &client, &ids, who).expect("valid paths");
        machine.spawn(work(task, kind))
    });
    all_done(tasks).await;
    Done { client, count, value }
}

async fn work(mut task: Task, kind: Kind) {
    let world = task.world.clone();
    while world.is_stormy() {
        task.acts(kind).await;
        if chance(128) {
            sleep(Duration::from_millis(fastrand::u64(0..30))).await;
        }
    }
    world.calm().await;
    sleep(Duration::from_secs(30)).await;
    task.is_served_in_calm_weather(kind).await;
}

fn data(world: &World, path: &str) -> Option<Vec<u8>> {
    world.servers().node(path).map(|node| node.data)
}

fn judge_numbers(world: &World) {
    KNOWN.with_borrow(|known| {
        for (path, Counter { done, in_doubt, .. }) in &known.counters {
            let now = data(world, path).map_or(0, |data| of_data(path, &data));
            if now < *done || now > done + in_doubt {
                violation(format!("{path} is {now}: {done} were done, {in_doubt} are in doubt"));
            }
        }
    });
}

fn judge_watched<T: Clone + PartialEq + std::fmt::Debug>(
    machine: usize,
    watched: &Watch<SharedState<T>>,
    now: Option<T>,
) {
    match (&watched.get(), &now) {
        (SharedState::Known(seen), Some(now)) if seen.value() == now => {}
        (SharedState::Missing, None) => {}
        (seen, now) => violation(format!("machine {machine} watches {seen:?}, the servers have {now:?}")),
    }
}
