//! One run: servers, machines and what goes wrong, in one thread.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use futures_util::future::{LocalBoxFuture, join_all};
use network::Listener;
use network::faults::{self, Direction, Requests, Which};
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use zk_recipes::Client;
use zk_recipes::testing::{MemoryEnsemble, MemoryVersion};

use crate::judge;
use crate::log::{self, Line, count, note, violation};
use crate::machine::{Lateness, Machine};
use crate::plan::{Event, Fault, Plan};
use crate::recipes::Recipe;
use crate::system::Simulated;

/// What a run is about. It must come to its end in calm weather, with all clients closed.
pub type Scenario = fn(World) -> LocalBoxFuture<'static, ()>;

/// A run as its scenario sees it.
#[derive(Clone)]
pub struct World(Rc<Shared>);

struct Shared {
    plan: Plan,
    ensembles: Vec<MemoryEnsemble>,
    machines: Vec<Machine>,
    storm_ends: Instant,
    /// Where operators delete nodes.
    paths: &'static [&'static str],
}

/// What has become of a run.
#[derive(Debug)]
pub struct Report {
    pub plan: Plan,
    pub violations: Vec<String>,
    pub counts: BTreeMap<&'static str, u64>,
    /// The time line, if it was asked for.
    pub lines: Vec<Line>,
    /// Two runs that have the same one were the same.
    pub fingerprint: u64,
    pub elapsed: Duration,
}

/// How long a scenario may take after the storm.
const PATIENCE: Duration = Duration::from_secs(900);

/// Plays a run of a recipe.
pub fn play(mut plan: Plan, recipe: Recipe, with_lines: bool) -> Report {
    let Recipe { scenario, paths, ensembles, needs_3_6, .. } = recipe;
    if needs_3_6 {
        plan.version = plan.version.max(MemoryVersion::V3_6);
    }
    play_scenario(plan, ensembles, paths, async move |world| scenario(world).await, with_lines)
}

/// Plays a run, on a thread of its own, with so many ensembles, where operators delete nodes at these paths.
pub fn play_scenario(
    plan: Plan,
    ensembles: usize,
    paths: &'static [&'static str],
    scenario: impl AsyncFnOnce(World) + Send + 'static,
    with_lines: bool,
) -> Report {
    // A new thread has no state from an earlier run.
    let thread = thread::Builder::new().name("simulation".into()).stack_size(16 << 20);
    let running = thread.spawn(move || run(plan, ensembles, paths, scenario, with_lines)).expect("a thread");
    running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run(
    plan: Plan,
    ensembles: usize,
    paths: &'static [&'static str],
    scenario: impl AsyncFnOnce(World),
    with_lines: bool,
) -> Report {
    let simulated = Simulated::of_seed(plan.seed);
    network::reset(plan.seed);
    log::begin(with_lines);
    judge::reset();
    let mut builder = Builder::new_current_thread();
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&plan.seed.to_be_bytes()));
    let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
    // What is left when a scenario fails is dropped where it lived: elsewhere, the last handle of a client would wait for
    // the end of its session.
    let here = runtime.enter();
    let local = LocalSet::new();
    let elapsed = local.block_on(&runtime, async {
        simulated.start();
        let start = Instant::now();
        let world = World::new(plan.clone(), ensembles, paths);
        let storm = tokio::task::spawn_local(world.clone().storm());
        if timeout(plan.storm + PATIENCE, scenario(world.clone())).await.is_err() {
            violation("the scenario does not end");
        }
        storm.await.expect("the storm");
        sleep(Duration::from_secs(2)).await;
        world.expect_no_sessions().await;
        start.elapsed()
    });
    drop(local);
    drop(here);
    drop(runtime);
    judge::reset();
    let written = log::end();
    let fingerprint = written.fingerprint ^ network::fingerprint();
    network::reset(0);
    drop(simulated);
    let log::Written { counts, violations, lines, .. } = written;
    Report { plan, violations, counts, lines, fingerprint, elapsed }
}

/// Returns the address of a server.
fn address(ensemble: usize, server: usize) -> String {
    format!("10.0.{ensemble}.{}:2181", server + 1)
}

/// Starts an ensemble that is connected to the network.
fn start_servers(plan: &Plan, ensemble: usize) -> MemoryEnsemble {
    let servers = MemoryEnsemble::builder()
        .servers(plan.servers)
        .seed(plan.seed ^ ensemble as u64)
        .tick_time(plan.tick)
        .container_check_interval(plan.reap_interval)
        .forget_sessions(plan.forgets)
        .version(plan.version)
        .start()
        .expect("servers");
    for server in 0..plan.servers {
        let (servers, mut listener) = (servers.clone(), Listener::bind(&address(ensemble, server)));
        tokio::task::spawn_local(async move {
            loop {
                tokio::task::spawn_local(servers.serve(server, listener.accept().await));
            }
        });
    }
    judge::watch(&servers, plan);
    servers
}

impl World {
    fn new(plan: Plan, ensembles: usize, paths: &'static [&'static str]) -> Self {
        let ensembles = (0..ensembles).map(|ensemble| start_servers(&plan, ensemble)).collect();
        let hosts: Vec<_> = (0..plan.servers).map(|server| address(0, server)).collect();
        let machine = |number| {
            let machine = Machine::new(number, hosts.join(","), plan.session_timeout);
            machine.set_late(plan.late);
            machine
        };
        let machines = (0..plan.machines).map(machine).collect();
        let storm_ends = Instant::now() + plan.storm;
        Self(Rc::new(Shared { plan, ensembles, machines, storm_ends, paths }))
    }

    pub fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// Returns the servers, the first of the ensembles if there are several.
    pub fn servers(&self) -> &MemoryEnsemble {
        &self.0.ensembles[0]
    }

    /// Returns the independent ensembles.
    pub fn ensembles(&self) -> &[MemoryEnsemble] {
        &self.0.ensembles
    }

    /// Returns the connect string of an ensemble.
    pub fn address_of(&self, ensemble: usize) -> String {
        let hosts: Vec<_> = (0..self.0.plan.servers).map(|server| address(ensemble, server)).collect();
        hosts.join(",")
    }

    pub fn machines(&self) -> &[Machine] {
        &self.0.machines
    }

    /// Starts a process on each machine, and again after each crash. Waits until all have come to their end.
    pub fn processes<T, F, P>(&self, process: P) -> impl Future<Output = Vec<T>> + use<T, F, P>
    where
        T: 'static,
        F: Future<Output = T> + 'static,
        P: Fn(Self, Machine) -> F + Clone + 'static,
    {
        let boots = self.machines().iter().map(|machine| {
            let (world, here, process) = (self.clone(), machine.clone(), process.clone());
            machine.boots(move || process(world.clone(), here.clone()))
        });
        let all = join_all(boots);
        async { all.await.into_iter().map(|done| done.expect("a process")).collect() }
    }

    /// Whether servers keep what they have confirmed: not if disks are lost.
    pub fn is_faithful(&self) -> bool {
        !self.0.plan.has(Fault::Wipe)
    }

    /// Whether things may go wrong now.
    pub fn is_stormy(&self) -> bool {
        Instant::now() < self.0.storm_ends
    }

    /// Waits until nothing goes wrong any more.
    pub async fn calm(&self) {
        sleep_until(self.0.storm_ends).await;
    }

    /// Runs something for a time at most, and in some runs drops it on its way, at a poll or a time by chance.
    pub async fn chancy<F: Future>(&self, work: F, longest: Duration) -> Option<F::Output> {
        let dropped = crate::chance(self.0.plan.dropped_of_256) && self.is_stormy();
        if dropped && fastrand::bool() {
            let polls = fastrand::u32(0..8);
            return timeout(longest, crate::dropped::after(polls, work)).await.ok().flatten();
        }
        let longest = match dropped {
            true => Duration::from_micros(fastrand::u64(0..10_u64.pow(fastrand::u32(2..7)))),
            false => longest,
        };
        timeout(longest, work).await.ok()
    }

    async fn storm(self) {
        let start = Instant::now();
        for event in &self.0.plan.events {
            sleep_until(start + event.at).await;
            self.happens(event);
        }
        sleep_until(self.0.storm_ends).await;
        let Shared { ensembles, machines, .. } = &*self.0;
        faults::slow(network::USUAL);
        for (ensemble, servers) in ensembles.iter().enumerate() {
            servers.heal();
            for server in 0..servers.servers() {
                faults::refuse(&address(ensemble, server), false);
                servers.set_paused(server, false);
                servers.set_lag(server, Duration::ZERO);
                servers.omit_reply(server, false);
                servers.start(server);
            }
        }
        for machine in machines {
            machine.set_late(Lateness::default());
            machine.set_ahead(0);
        }
        note(|| "calm");
    }

    /// Undoes a fault after its time.
    fn later(&self, time: Duration, undo: impl FnOnce() + 'static) {
        let world = self.clone();
        tokio::task::spawn_local(async move {
            sleep(time).await;
            if world.is_stormy() {
                undo();
            }
        });
    }

    /// Cuts a server off from the others, if possible one to which a machine is connected.
    fn cuts_off_server_of(&self, machine: &Machine, dice: u64, time: Duration) -> String {
        let all = self.ensembles().iter().enumerate();
        let mut all: Vec<_> = all
            .flat_map(|(ensemble, servers)| (0..servers.servers()).map(move |server| (ensemble, server)))
            .collect();
        let connected = faults::addresses_of(machine.number());
        let its = |(ensemble, server): &(usize, usize)| connected.contains(&address(*ensemble, *server));
        if all.iter().any(its) {
            all.retain(its);
        }
        let (ensemble, alone) = all[(dice / 17 % all.len() as u64) as usize];
        let servers = self.ensembles()[ensemble].clone();
        let others: Vec<_> = (0..servers.servers()).filter(|other| *other != alone).collect();
        servers.partition(&[&[alone], &others]);
        let leader = servers.leader();
        // The others may know at once that they have no leader, and end its clients' sessions while it answers them.
        if leader == Some(alone) && dice.is_multiple_of(2) {
            for other in others {
                servers.stop(other);
                servers.start(other);
            }
        }
        self.later(time, move || servers.heal());
        format!("{} alone, leader {leader:?}, {time:?}", address(ensemble, alone))
    }

    fn happens(&self, event: &Event) {
        let Shared { ensembles, machines, paths, .. } = &*self.0;
        let Event { fault, time, dice, .. } = *event;
        let ensemble = (dice / 13 % ensembles.len() as u64) as usize;
        let servers = &ensembles[ensemble];
        let server = (dice % servers.servers() as u64) as usize;
        let address = address(ensemble, server);
        let machine = &machines[(dice / 7 % machines.len() as u64) as usize];
        let servers_later = servers.clone();
        let at = Which::At { address: address.clone() };
        count("faults", 1);
        let met = match fault {
            Fault::Cut => format!("{} connection", faults::cut(&Which::Any, Requests::Lost)),
            Fault::CutHalf => {
                let after = if dice % 3 == 0 { Duration::ZERO } else { time };
                format!("{} connection, {after:?}", faults::cut(&Which::Any, Requests::Arrive { after }))
            }
            Fault::CutMachine => {
                faults::cut(&Which::Of { machine: machine.number() }, Requests::Lost);
                format!("{machine:?}")
            }
            Fault::Silence => {
                let direction =
                    [Direction::Requests, Direction::Replies, Direction::Both][(dice % 3) as usize];
                faults::silence(&Which::Any, direction, time);
                format!("{direction:?}, {time:?}")
            }
            Fault::Slow => {
                faults::slow(100..=100_000);
                self.later(time, || faults::slow(network::USUAL));
                format!("{time:?}")
            }
            Fault::Refuse => {
                faults::refuse(&address, true);
                faults::cut(&at, Requests::Lost);
                let refused = address.clone();
                self.later(time, move || faults::refuse(&refused, false));
                format!("{address}, {time:?}")
            }
            Fault::Pause => {
                servers.set_paused(server, true);
                self.later(time, move || servers_later.set_paused(server, false));
                format!("{address}, {time:?}")
            }
            Fault::Restart | Fault::Wipe => {
                if fault == Fault::Wipe {
                    servers.wipe(server)
                } else {
                    servers.stop(server)
                }
                self.later(time, move || servers_later.start(server));
                format!("{address}, {time:?}")
            }
            Fault::Partition => self.cuts_off_server_of(machine, dice, time),
            Fault::WakesAlone => {
                machine.stand_still(time);
                let (world, here, timeout) = (self.clone(), machine.clone(), self.0.plan.session_timeout);
                let soon = timeout.mul_f64(dice as f64 / u64::MAX as f64 / 8.0);
                self.later(time + soon, move || {
                    let met = world.cuts_off_server_of(&here, dice, timeout.mul_f64(1.5));
                    note(|| format!("{here:?} wakes: {met}"));
                });
                format!("{machine:?}, {time:?}")
            }
            Fault::Lag => {
                let lag = if dice % 2 == 0 { time / 10 } else { time };
                servers.set_lag(server, lag);
                self.later(time, move || servers_later.set_lag(server, Duration::ZERO));
                format!("{address}, {lag:?} for {time:?}")
            }
            Fault::KillSession => {
                let sessions = servers.session_ids();
                let session = sessions.get((dice % sessions.len().max(1) as u64) as usize).copied();
                session.map(|session| servers.end_session(session));
                format!("{:x}", session.unwrap_or_default())
            }
            Fault::DeleteNode | Fault::DeletePath => {
                let path = paths[(dice % paths.len() as u64) as usize];
                let below = servers.nodes_below(path);
                let node = below.get((dice / 11 % below.len().max(1) as u64) as usize);
                let path = node.filter(|_| fault == Fault::DeleteNode).map_or(path, |(node, _)| node);
                servers.delete(path);
                path.to_owned()
            }
            Fault::Crash => {
                machine.crash();
                faults::cut(&Which::Of { machine: machine.number() }, Requests::Lost);
                format!("{machine:?}")
            }
            Fault::Standstill => {
                machine.stand_still(time);
                format!("{machine:?}, {time:?}")
            }
            Fault::Suspension => {
                machine.suspend(time);
                format!("{machine:?}, {time:?}")
            }
            Fault::WallClock => {
                let ahead = (time.as_millis() as i64) * if dice % 2 == 0 { 60 } else { -60 };
                machine.set_ahead(ahead);
                format!("{machine:?}, {ahead} ms ahead")
            }
            Fault::OmitReply => {
                servers.omit_reply(server, true);
                address
            }
            Fault::Reap | Fault::Late | Fault::Drop | Fault::Forget => String::new(),
        };
        note(|| format!("fault {}: {met}", fault.name()));
    }

    /// Expects that clients who do nothing cost nothing but their pings.
    pub async fn expect_idle(&self) {
        const TIME: Duration = Duration::from_secs(30);
        let packets = || self.ensembles().iter().map(MemoryEnsemble::packets).sum::<u64>();
        let before = packets();
        sleep(TIME).await;
        let packets = (packets() - before) as f64 / TIME.as_secs_f64() / self.machines().len() as f64;
        let most = 1.0 + 16.0 / self.0.plan.session_timeout.as_secs_f64();
        if packets > most * self.ensembles().len() as f64 {
            violation(format!("{packets} packets per second and idle client"));
        }
    }

    /// Ends a scenario.
    pub async fn ends(&self, clients: impl IntoIterator<Item = Client>) {
        self.expect_idle().await;
        for client in clients {
            client.close().await;
        }
    }

    async fn expect_no_sessions(&self) {
        let sessions = || self.ensembles().iter().map(|servers| servers.session_ids().len()).sum::<usize>();
        let left = sessions();
        // Those of machines that have crashed, and those that were made for no one, end by themselves.
        let time = self.0.plan.session_timeout * 2;
        sleep(time).await;
        let later = sessions();
        let may_crash = self.0.plan.has(Fault::Crash);
        if later > 0 || left > 0 && !may_crash {
            violation(format!(
                "{left} sessions are left, and {later} {time:?} later, though all clients were closed"
            ));
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("plan", &self.0.plan).finish_non_exhaustive()
    }
}
