//! All kinds of locks on the same few paths, by tasks that are polled late, in random order and on other threads, while
//! connections, servers and an operator do their worst. Nobody may be let in beside a valid guard, no write may come
//! under the next holder, all must be served when it is over, and nothing may be left behind.
//!
//! What is drawn comes from a seed that is printed: `BAD_LUCK_SEED` plays the same again, as far as threads, sockets and
//! servers let it; what they do is not drawn. `BAD_LUCK_SECONDS` says how long the trouble lasts (30), and
//! `BAD_LUCK_ACQUISITIONS` how many locks are to be acquired at least. One server and three servers take turns.
//!
//! - A witness looks at all guards of a path whenever one comes in ([`room`]).
//! - What each path has seen is checked for linearizability ([`check`], [`spec`]).
//! - What an operator does by hand is excused, exactly ([`acts`]).
//! - It is a failure, too, if something of it never happened ([`tally`]).

mod acts;
mod check;
mod claim;
#[path = "../chaos/clock.rs"]
mod clock;
mod locks;
mod luck;
mod room;
mod run;
mod spec;
mod stage;
#[path = "../../support/mod.rs"]
mod support;
mod tally;
mod trouble;
mod worker;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::task::JoinSet;

use crate::locks::Locks;
use crate::luck::{Luck, Scheduler};
use crate::run::Run;
use crate::stage::Stage;
use crate::tally::Tally;
use crate::trouble::{Network, Operator, Span};
use crate::worker::Worker;

/// Short, so that it is over often; long enough for a busy machine, of which a third is the margin.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// Of each client.
const TASKS: usize = 7;

/// What must happen when the trouble is over, happens within this time even on a busy machine.
const BOUND: Duration = Duration::from_secs(90);

const LONGEST_ROUND: Duration = Duration::from_secs(30);

/// In which the servers disagreed with each other, or lost what they had confirmed.
const MOST_VOID_ROUNDS: u32 = 2;

/// For so many rounds it plays on if something has never happened that happens by chance.
const MOST_ROUNDS_FOR_CHANCE: u32 = 6;

fn main() {
    // Of a runner that wants to know what tests there are.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let seed = from_environment("BAD_LUCK_SEED").unwrap_or_else(|| fastrand::u64(..));
    let time = Duration::from_secs(from_environment("BAD_LUCK_SECONDS").unwrap_or(30));
    let acquisitions = from_environment("BAD_LUCK_ACQUISITIONS").unwrap_or(0);
    println!("BAD_LUCK_SEED={seed}");
    check::refuses_broken_histories();
    room::notices_overlaps();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // More threads than cores: the system's scheduler is bad luck, too.
    let runtime = runtime.worker_threads(6).enable_all().build().unwrap();
    runtime.block_on(play(seed, time, acquisitions));
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}

async fn play(seed: u64, time: Duration, acquisitions: u64) {
    let started = Instant::now();
    let tally = Arc::new(Tally::default());
    let scheduler = Scheduler::start(seed);
    let mut rng = Rng::with_seed(seed);
    let length = (time / 2).min(LONGEST_ROUND);
    let mut void = 0;
    for round in 0_u32.. {
        let is_enough = round >= 2 && started.elapsed() >= time && tally.acquisitions() >= acquisitions;
        // Some things happen by chance; it plays on for them, for a while.
        // What luck did is reported at the end.
        let is_missing = tally.missing().iter().any(|what| !what.starts_with("luck: "));
        if is_enough && (!is_missing || round >= MOST_ROUNDS_FOR_CHANCE) {
            break;
        }
        let has_three = round % 2 == 1;
        let before = (Instant::now(), tally.acquisitions());
        let run = Run::new(&tally, &scheduler, started, rng.u64(..));
        if let Some(failure) = play_round(&run, has_three, length, &mut rng).await {
            println!("round {round} tells nothing, since the servers have failed: {failure}");
            tally.count("servers: failed");
            void += 1;
            assert!(void <= MOST_VOID_ROUNDS, "BAD_LUCK_SEED={seed}: the servers fail too often");
            continue;
        }
        run.check();
        let (servers, acquired) = (if has_three { "three" } else { "one" }, tally.acquisitions() - before.1);
        println!(
            "round {round}, servers: {servers}, {:.1} s, {acquired} acquisitions",
            before.0.elapsed().as_secs_f64()
        );
        let faults = run.faults();
        if !faults.is_empty() {
            tally.print();
            panic!("BAD_LUCK_SEED={seed}, round {round}: {} faults, printed above", faults.len());
        }
    }
    scheduler.report(&tally);
    tally.print();
    let (count, elapsed) = (tally.acquisitions(), started.elapsed().as_secs_f64());
    println!(
        "{count} acquisitions in {elapsed:.0} s: no overlap, all served after the trouble, nothing left behind"
    );
    let missing = tally.missing();
    assert!(missing.is_empty(), "BAD_LUCK_SEED={seed}: never happened: {missing:?}");
}

/// Plays a round. Returns how the servers have failed, if they have.
async fn play_round(run: &Arc<Run>, has_three: bool, length: Duration, rng: &mut Rng) -> Option<String> {
    let mut stage = Stage::set(has_three, run.registers()).await;
    *run.bystander.lock().unwrap() = Some(stage.bystander.clone());
    let mut crew = Crew::hire(run, &stage, rng);
    let span = Span { end: tokio::time::Instant::now() + length };
    let (members, bystander) = (stage.members.clone(), stage.bystander.clone());
    let network = Network { members: members.clone(), run: run.clone(), rng: rng.fork() };
    let operator = Operator { members, bystander, run: run.clone(), rng: rng.fork() };
    let trouble = async {
        let of_servers = trouble::of_servers(&mut stage.servers, run, rng.fork(), span);
        tokio::join!(network.make_trouble(span), operator.make_trouble(span), of_servers);
        run.calm();
    };
    tokio::select! {
        () = trouble => {}
        () = crew.fails() => {}
    }
    let unserved = crew.end(BOUND).await;
    if stage.bystander.has_seen_the_past().await {
        return Some("they have lost writes that they had confirmed".into());
    }
    if !unserved.is_empty() {
        let disagreement = stage.servers.disagreement().await;
        if disagreement.is_some() {
            return disagreement;
        }
        for room in &run.rooms {
            println!(
                "{}: {:?}",
                room.path,
                support::nodes_below(&stage.bystander.zookeeper().await, &room.path).await
            );
        }
        run.fault(format!("NOT SERVED within {BOUND:?} after the trouble: {unserved:#?}"));
        return None;
    }
    *run.bystander.lock().unwrap() = None;
    stage.leave().await
}

/// All tasks.
struct Crew {
    tasks: JoinSet<()>,
    doing: Vec<(String, Arc<Mutex<String>>)>,
}

impl Crew {
    fn hire(run: &Arc<Run>, stage: &Stage, rng: &mut Rng) -> Self {
        let mut crew = Self { tasks: JoinSet::new(), doing: Vec::new() };
        for member in &stage.members {
            let locks = Arc::new(Locks::of(&member.client));
            for number in 0..=TASKS {
                let luck = Luck::new(&run.scheduler, rng.fork());
                let name = format!("task {number} of client {}", member.number);
                let worker = Worker {
                    name: name.clone(),
                    member: member.clone(),
                    locks: locks.clone(),
                    run: run.clone(),
                    luck: luck.clone(),
                    rng: rng.fork(),
                    doing: Arc::default(),
                };
                crew.doing.push((name, worker.doing.clone()));
                if number < TASKS {
                    crew.tasks.spawn(luck.befall(worker.work()));
                } else {
                    crew.tasks.spawn(luck.befall(worker.lead()));
                }
            }
        }
        crew
    }

    /// Returns when a task panics.
    async fn fails(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }

    /// Waits until each has had each lock; returns who has not, and what it does instead.
    async fn end(&mut self, bound: Duration) -> Vec<String> {
        if tokio::time::timeout(bound, self.fails()).await.is_ok() {
            return Vec::new();
        }
        let doing = self.doing.iter().map(|(name, doing)| (name, doing.lock().unwrap().clone()));
        let busy = doing.filter(|(_, doing)| doing != worker::NOTHING);
        busy.map(|(name, doing)| format!("{name} {doing}")).collect()
    }
}
