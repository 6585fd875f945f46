//! A scheduled job, started by each process.
//!
//! Promised are: no run beside another; none is begun twice, after a later one, or more often than it is to be repeated;
//! no two are for the same time; a distance between them; none is left out where all missed ones are made up for; no
//! process runs the job whose clock is wrong; the record shows what was begun; in calm weather each run takes place;
//! nothing is left.

use std::io;
use std::sync::{Mutex, Weak};
use std::time::SystemTime;

use zk_recipes::job::{JobOptions, JobRun, JobState, MissedRuns, ScheduledJob, UnfinishedRun};

use super::prelude::*;

// Who deletes the record has the job start anew.
pub(super) const RECIPE: Recipe = Recipe::new("jobs", |world| Box::pin(play(world)), &["/j/leader"], "runs");

const PATH: &str = "/j";
/// That of all periods here.
const TOLERANCE: Duration = Duration::from_millis(100);

/// What all processes have in common.
#[derive(Clone, Copy, Debug)]
struct Terms {
    period: Duration,
    missed: MissedRuns,
    repeats: u32,
    at_least_for: Duration,
    /// How long the servers may take to answer, in which a clock may be wrong and no one knows.
    slack: Duration,
    is_operated: bool,
}

/// What has happened.
struct History {
    /// When it began by a clock that is right.
    start: (SystemTime, Instant),
    begun: BTreeSet<(u64, u32)>,
    times: BTreeMap<SystemTime, u64>,
    last: Option<Last>,
    running: Vec<(String, i64, Weak<Leadership>)>,
    is_calm: bool,
}

/// The run that was begun last.
#[derive(Clone, Copy, Debug)]
struct Last {
    number: u64,
    scheduled_at: SystemTime,
    token: i64,
    begun: Instant,
}

thread_local! {
    static HISTORY: RefCell<Option<History>> = const { RefCell::new(None) };
}

fn with_history<T>(work: impl FnOnce(&mut History) -> T) -> T {
    HISTORY.with_borrow_mut(|history| work(history.as_mut().expect("a run")))
}

impl Terms {
    fn drawn(plan: &Plan) -> Self {
        // All that a clock is ever ahead is less than so many periods.
        let missed =
            [MissedRuns::Skip, MissedRuns::RunOnce, MissedRuns::RunAll(10_000)][fastrand::usize(..3)];
        let period = Duration::from_millis([100, 200, 1000][fastrand::usize(..3)]);
        let at_least_for = if fastrand::bool() { period / 4 } else { Duration::ZERO };
        let repeats = if fastrand::bool() { fastrand::u32(1..3) } else { 0 };
        let (slack, is_operated) = (slack(plan), plan.is_operated());
        Self { period, missed, repeats, at_least_for, slack, is_operated }
    }

    fn options(&self) -> JobOptions {
        let leader = LeaderOptions::new().grace(Duration::from_millis(fastrand::u64(1..2000)));
        let unfinished = match self.repeats {
            0 => UnfinishedRun::Skip,
            repeats => UnfinishedRun::Repeat(repeats),
        };
        let options = JobOptions::new().missed_runs(self.missed).unfinished_run(unfinished);
        options.at_least_for(self.at_least_for).leader(leader)
    }
}

fn slack(plan: &Plan) -> Duration {
    let delays_no_answer = |fault: &Fault| match fault {
        Fault::Reap | Fault::Drop | Fault::Crash | Fault::WallClock | Fault::Suspension => true,
        fault => fault.is_operators(),
    };
    let is_delayed = Fault::ALL.iter().any(|fault| plan.has(*fault) && !delays_no_answer(fault));
    if is_delayed { plan.session_timeout * 2 } else { Duration::from_millis(50) }
}

/// What a clock shows that is right.
fn now() -> SystemTime {
    let (at, start) = with_history(|history| history.start);
    at + start.elapsed()
}

/// By how much the clock of this machine is wrong.
fn difference() -> Duration {
    SystemTime::now().duration_since(now()).unwrap_or_else(|behind| behind.duration())
}

async fn play(world: World) {
    HISTORY.set(Some(History {
        start: (SystemTime::now(), Instant::now()),
        begun: BTreeSet::new(),
        times: BTreeMap::new(),
        last: None,
        running: Vec::new(),
        is_calm: false,
    }));
    let terms = Terms::drawn(world.plan());
    note(|| format!("{terms:?}"));
    let clients = world.processes(move |world, machine| process(world, machine, terms)).await;
    sleep(Duration::from_secs(5)).await;
    let mut left = world.servers().nodes_below(PATH);
    left.retain(|(_, node)| node.ephemeral_owner != 0);
    if !left.is_empty() {
        violation(format!("left: {left:?}"));
    }
    world.ends(clients).await;
    HISTORY.take();
}

async fn process(world: World, machine: Machine, terms: Terms) -> Client {
    let client = machine.client().await;
    let worker = Worker { who: format!("machine {}", machine.number()), terms, clock: Arc::default() };
    machine.spawn(worker.clone().watches_clock());
    let mut job = worker.start(&client);
    while world.is_stormy() {
        match fastrand::u8(0..20) {
            0 => job.interrupt_leadership(),
            1 if chance(100) => {
                if fastrand::bool() {
                    drop(world.chancy(job.close(), Duration::from_secs(40)).await);
                }
                job = worker.start(&client);
            }
            2 => worker.reads(&world, &job).await,
            _ => sleep(Duration::from_millis(fastrand::u64(0..800))).await,
        }
        if matches!(job.health().state, JobState::WrongClock(_)) {
            count("looks at a wrong clock", 1);
        }
    }
    worker.in_calm(&world, &job).await;
    client
}

/// A process, for its runs.
#[derive(Clone)]
struct Worker {
    who: String,
    terms: Terms,
    clock: Arc<Mutex<Clock>>,
}

/// How the clock of a machine differs from one that is right.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    by: Duration,
    since: Option<Instant>,
}

impl Clock {
    fn shows(&mut self, by: Duration) {
        if self.by != by {
            *self = Self { by, since: Some(Instant::now()) };
        }
    }
}

impl Worker {
    fn start(&self, client: &Client) -> ScheduledJob {
        let here = self.clone();
        let work = move |run| here.clone().runs(run);
        ScheduledJob::every(client, PATH, self.terms.period, self.terms.options(), work)
            .expect("a valid path")
    }

    async fn watches_clock(self) {
        while !with_history(|history| history.is_calm) {
            self.clock.lock().expect("one thread").shows(difference());
            sleep(Duration::from_millis(50)).await;
        }
        // All are right from then on.
        self.clock.lock().expect("one thread").shows(Duration::ZERO);
    }

    async fn runs(self, run: JobRun) -> io::Result<()> {
        let leadership = Arc::new(run.leadership().clone());
        self.begins(&run, &leadership);
        let is_calm = with_history(|history| history.is_calm);
        let longest = match chance(20) {
            _ if is_calm => 5_000,
            true => 3_000_000,
            false => 30_000,
        };
        sleep(Duration::from_micros(fastrand::u64(0..longest))).await;
        if !leadership.is_valid() {
            violation(format!("{}: run {} under a leadership that is lost", self.who, run.number()));
        }
        if chance(8) && !is_calm { Err(io::Error::other("as it is meant to")) } else { Ok(()) }
    }

    /// Judges a run as it begins.
    fn begins(&self, run: &JobRun, leadership: &Arc<Leadership>) {
        let Self { who, terms, .. } = self;
        let (number, attempt, token) = (run.number(), run.attempt(), run.fencing_token());
        let scheduled_at = run.scheduled_at();
        count("runs", 1);
        note(|| format!("{who} begins run {number} for {scheduled_at:?}, attempt {attempt}, with {token}"));
        if !leadership.is_valid() {
            violation(format!("{who}: run {number} is begun under a leadership that is lost"));
        }
        self.expect_right_clock(number, scheduled_at);
        with_history(|history| {
            history.expect_alone(who, number, token, terms);
            if !history.begun.insert((number, attempt)) || attempt > 1 + terms.repeats {
                violation(format!("{who}: run {number} is begun for the {attempt}. time, once more"));
            }
            // Whose node an operator has deleted may hear late that others have led since.
            let is_deposed = terms.is_operated && history.last.is_some_and(|last| token < last.token);
            if let Some(last) = history.last.filter(|_| !is_deposed) {
                expect_after(who, &last, run, terms);
            }
            if *history.times.entry(scheduled_at).or_insert(number) != number {
                violation(format!("{who}: run {number} is for the same time as {:?}", history.last));
            }
            history.running.push((who.clone(), token, Arc::downgrade(leadership)));
            if !is_deposed {
                history.last = Some(Last { number, scheduled_at, token, begun: Instant::now() });
            }
        });
    }

    fn expect_right_clock(&self, number: u64, scheduled_at: SystemTime) {
        let Self { who, terms, clock, .. } = self;
        let tolerance = TOLERANCE + terms.slack;
        if let Ok(early) = scheduled_at.duration_since(now())
            && early > tolerance
        {
            violation(format!("{who}: run {number} is begun {early:?} early"));
        }
        // Whoever watches it may be late.
        clock.lock().expect("one thread").shows(difference());
        let Clock { by, since } = *clock.lock().expect("one thread");
        let since = since.map(|since| since.elapsed()).unwrap_or_default();
        // A run may be under way when the clock is set.
        if by > tolerance && since > terms.slack {
            violation(format!(
                "{who}: run {number} is begun by a clock that is {by:?} wrong since {since:?}"
            ));
        }
    }

    async fn reads(&self, world: &World, job: &ScheduledJob) {
        // A leader that is cut off answers a `sync`, and reads behind it, by itself for a while.
        const STALE: Duration = Duration::from_secs(10);
        let last = with_history(|history| history.last.filter(|last| last.begun.elapsed() > STALE));
        let begun = last.map_or(0, |last| last.number);
        match world.chancy(job.record(), Duration::from_secs(5)).await {
            Some(Ok(record)) => {
                let recorded = record.and_then(|record| record.last_run).map_or(0, |last| last.number);
                if recorded < begun {
                    violation(format!("{}: run {begun} is begun, and run {recorded} recorded", self.who));
                }
            }
            Some(Err(error @ Error::NotAJobRecord { .. })) => violation(format!("{}: {error}", self.who)),
            Some(Err(_)) => count("record errors", 1),
            None => {}
        }
    }

    async fn in_calm(&self, world: &World, job: &ScheduledJob) {
        const TIME: Duration = Duration::from_secs(20);
        let Self { who, terms, .. } = self;
        world.calm().await;
        with_history(|history| history.is_calm = true);
        // What a wrong clock has put into the future is waited for at most for a minute.
        let may_wait = world.plan().has(Fault::WallClock);
        sleep(Duration::from_secs(if may_wait { 110 } else { 40 })).await;
        let last = || with_history(|history| history.last);
        let before = last().map_or(0, |last| last.number);
        sleep(TIME).await;
        let runs = last().map_or(0, |last| last.number) - before;
        let expected = TIME.as_secs_f64() / terms.period.as_secs_f64() * 0.9;
        let due = last().map(|last| last.scheduled_at);
        let is_late = due.is_none_or(|due| due + terms.period + Duration::from_secs(3) < now());
        if (runs as f64) < expected || is_late {
            let health = job.health();
            violation(format!(
                "{who}: {runs} runs in {TIME:?} of calm weather, the last for {due:?}: {health:?}"
            ));
        }
        sleep(Duration::from_secs(5)).await;
        match timeout(Duration::from_secs(60), job.close()).await {
            Ok(Ok(())) => {}
            closed => violation(format!("{who}: in calm weather, close: {closed:?}")),
        }
    }
}

impl History {
    fn expect_alone(&mut self, who: &str, number: u64, token: i64, terms: &Terms) {
        // A run that is over has dropped its leadership.
        let is_excluding = |(_, other, leadership): &(String, i64, Weak<Leadership>)| {
            leadership.upgrade().is_some_and(|leadership| *other == token || leadership.is_valid())
        };
        self.running.retain(is_excluding);
        let may_be = |other: i64| other != token && terms.is_operated;
        let others: Vec<_> = self.running.iter().filter(|(_, other, _)| !may_be(*other)).collect();
        if !others.is_empty() {
            violation(format!("{who}: run {number} with {token} beside {others:?}"));
        }
    }
}

fn expect_after(who: &str, last: &Last, run: &JobRun, terms: &Terms) {
    let (number, attempt, scheduled_at) = (run.number(), run.attempt(), run.scheduled_at());
    let violates = |how: &str| violation(format!("{who}: run {number}, attempt {attempt}, {how}: {last:?}"));
    if number < last.number || number == last.number && attempt == 1 || scheduled_at < last.scheduled_at {
        violates("after a later one");
    }
    if number == last.number && scheduled_at != last.scheduled_at {
        violates("for another time");
    }
    let runs = u32::try_from(number.saturating_sub(last.number)).unwrap_or(u32::MAX);
    // Those between them are recorded as begun, though their leader has not come to it.
    if matches!(terms.missed, MissedRuns::RunAll(_))
        && scheduled_at != last.scheduled_at + terms.period * runs
    {
        violates("leaves out others");
    }
    let is_of_same = last.token == run.fencing_token();
    let least = terms.at_least_for.saturating_sub(if is_of_same { Duration::ZERO } else { terms.slack });
    if last.begun.elapsed() < least {
        violates("too early");
    }
}
