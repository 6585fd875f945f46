//! What goes wrong in a run, and when: drawn from its seed before it begins.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use zk_recipes::testing::MemoryVersion;

use crate::machine::Lateness;

/// Each with how often it happens in a minute in which it happens at all, and in how many of 256 runs that is.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident: $per_minute:literal, $of_256:literal;)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            pub const ALL: [Self; [$($of_256),*].len()] = [$(Self::$name),*];

            fn per_minute(self) -> f64 {
                [$($per_minute),*][self as usize]
            }

            fn of_256(self) -> u8 {
                [$($of_256),*][self as usize]
            }
        }
    };
}

// Three happen only where they are asked for. Judges read the clocks of other machines than those that were suspended;
// servers that lose their disks lose what was confirmed; and ZooKeeper never forgets a session.
faults! {
    /// A connection is cut; what is on its way is lost.
    Cut: 20.0, 170;
    /// A connection is cut; the client sees it at once, and its requests arrive, perhaps much later.
    CutHalf: 12.0, 170;
    /// All connections of a machine are cut.
    CutMachine: 6.0, 170;
    /// A connection is silent, in one direction or both.
    Silence: 8.0, 170;
    /// Everything takes up to 100 ms.
    Slow: 6.0, 128;
    /// A server refuses connections.
    Refuse: 4.0, 128;
    /// A server stands still.
    Pause: 4.0, 128;
    /// A server is stopped, and started later.
    Restart: 4.0, 100;
    /// A server loses its disk.
    Wipe: 1.0, 0;
    /// The servers of an ensemble do not hear each other.
    Partition: 4.0, 100;
    /// A follower lags.
    Lag: 6.0, 100;
    /// An operator ends a session.
    KillSession: 8.0, 50;
    /// An operator deletes a node.
    DeleteNode: 8.0, 50;
    /// An operator deletes a path and all below it.
    DeletePath: 3.0, 50;
    /// The processes of a machine end without a farewell.
    Crash: 3.0, 60;
    /// A machine stands still.
    Standstill: 4.0, 100;
    /// A machine stands still, and its server is cut off from the others right after it wakes, before it may have told
    /// them of the machine.
    WakesAlone: 4.0, 100;
    /// A machine was suspended: of its clocks, only one shows it.
    Suspension: 3.0, 0;
    /// A wall clock jumps.
    WallClock: 3.0, 60;
    /// Containers are reaped every few milliseconds.
    Reap: 0.0, 128;
    /// Tasks are polled late.
    Late: 0.0, 128;
    /// Futures are dropped at any poll.
    Drop: 0.0, 128;
    /// Each connection gets a new session.
    Forget: 0.0, 0;
    /// A server leaves out the reply to a create, and goes on answering its connection.
    OmitReply: 8.0, 60;
}

impl Fault {
    fn needs_ensemble(self) -> bool {
        matches!(self, Self::Partition | Self::Lag | Self::Wipe | Self::WakesAlone)
    }

    /// Whether it is an operator's act, after which some promises do not hold.
    pub fn is_operators(self) -> bool {
        matches!(self, Self::KillSession | Self::DeleteNode | Self::DeletePath)
    }

    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.extend(letter.to_lowercase());
        }
        name
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

/// One fault of a run.
#[derive(Clone, Debug)]
pub struct Event {
    pub at: Duration,
    pub fault: Fault,
    /// For how long.
    pub time: Duration,
    /// Decides what it meets.
    pub dice: u64,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub machines: usize,
    pub servers: usize,
    /// How long things go wrong.
    pub storm: Duration,
    pub session_timeout: Duration,
    /// The servers' unit of time. The longer it is, the later is the leader told of those who were heard, and the longer
    /// does it go on without the others.
    pub tick: Duration,
    pub reap_interval: Duration,
    pub late: Lateness,
    /// Of 256 futures, how many are dropped.
    pub dropped_of_256: u8,
    pub forgets: bool,
    pub version: MemoryVersion,
    /// In the order of their times.
    pub events: Vec<Event>,
}

/// What is the same for all seeds.
#[derive(Clone, Debug)]
pub struct Conditions {
    pub machines: usize,
    pub servers: usize,
    /// How long things go wrong.
    pub storm: Duration,
    /// What goes wrong in each run.
    pub with: Vec<Fault>,
    /// What goes wrong in none.
    pub without: Vec<Fault>,
    /// Of all servers; drawn if it is not given.
    pub version: Option<MemoryVersion>,
}

impl Default for Conditions {
    fn default() -> Self {
        let storm = Duration::from_secs(30);
        Self { machines: 3, servers: 1, storm, with: Vec::new(), without: Vec::new(), version: None }
    }
}

/// How often servers look for containers without children, where nothing goes wrong.
const REAP_INTERVAL: Duration = Duration::from_secs(60);

/// Draws the version of ZooKeeper: mostly the present one.
fn draw_version(seed: u64) -> MemoryVersion {
    let mut rng = Rng::with_seed(seed ^ 0x57a7);
    match rng.u8(..4) {
        0 if rng.bool() => MemoryVersion::V3_5,
        0 => MemoryVersion::V3_6,
        _ => MemoryVersion::V3_9,
    }
}

impl Plan {
    /// Draws a run from its seed.
    pub fn of_seed(seed: u64, conditions: &Conditions) -> Self {
        let Conditions { machines, servers, storm, ref with, ref without, version } = *conditions;
        let mut rng = Rng::with_seed(seed ^ 0x5eed);
        let short = rng.bool();
        let session_timeout = Duration::from_secs(if short { 4 } else { rng.u64(1..10) });
        let ticks = [40, 8, 4, 2][Rng::with_seed(seed ^ 0x71c5).usize(..4)];
        let mut plan = Self {
            seed,
            machines,
            servers,
            storm,
            session_timeout,
            tick: session_timeout / ticks,
            reap_interval: REAP_INTERVAL,
            late: Lateness::default(),
            dropped_of_256: 0,
            forgets: false,
            version: version.unwrap_or_else(|| draw_version(seed)),
            events: Vec::new(),
        };
        for fault in Fault::ALL {
            // The other faults of a seed stay the same without one.
            let mut rng = rng.fork();
            let is_drawn = rng.u8(..) < fault.of_256() && !without.contains(&fault);
            if (is_drawn || with.contains(&fault)) && (servers > 2 || !fault.needs_ensemble()) {
                plan.add(fault, &mut rng);
            }
        }
        plan.events.sort_by_key(|event| event.at);
        plan
    }

    fn add(&mut self, fault: Fault, rng: &mut Rng) {
        match fault {
            Fault::Reap => self.reap_interval = Duration::from_millis(rng.u64(1..50)),
            Fault::Late => {
                let most = 10_u64.pow(rng.u32(2..7)) * rng.u64(1..8);
                self.late = Lateness { of_256: rng.u8(1..=255), most: Duration::from_micros(most) };
            }
            Fault::Drop => self.dropped_of_256 = rng.u8(10..150),
            Fault::Forget => self.forgets = true,
            _ => {
                let mean = 60.0 / fault.per_minute();
                let mut at = 0.0;
                loop {
                    at += -mean * (1.0 - rng.f64()).ln();
                    if at >= self.storm.as_secs_f64() {
                        return;
                    }
                    // From short to one and a half session timeouts; a leader that is cut off may go on for longer.
                    let times = if fault == Fault::Partition { 3.0 } else { 1.5 };
                    let longest = self.session_timeout.mul_f64(times).as_micros() as f64;
                    let time = match fault {
                        Fault::Partition | Fault::WakesAlone => longest * rng.f64(),
                        _ => 1000.0 * (longest / 1000.0).powf(rng.f64()),
                    };
                    let time = Duration::from_micros(time as u64);
                    self.events.push(Event {
                        at: Duration::from_secs_f64(at),
                        fault,
                        time,
                        dice: rng.u64(..),
                    });
                }
            }
        }
    }

    /// Whether operators interfere in this run.
    pub fn is_operated(&self) -> bool {
        self.events.iter().any(|event| event.fault.is_operators())
    }

    /// Whether something of this kind goes wrong.
    pub fn has(&self, fault: Fault) -> bool {
        match fault {
            Fault::Reap => self.reap_interval != REAP_INTERVAL,
            Fault::Late => self.late != Lateness::default(),
            Fault::Drop => self.dropped_of_256 > 0,
            Fault::Forget => self.forgets,
            _ => self.events.iter().any(|event| event.fault == fault),
        }
    }

    /// Whether something of one of these kinds goes wrong.
    pub fn has_any(&self, faults: &[Fault]) -> bool {
        faults.iter().any(|fault| self.has(*fault))
    }

    /// Whether nothing delays anyone.
    pub fn is_punctual(&self) -> bool {
        !self.has_any(&[Fault::Late, Fault::Standstill, Fault::WakesAlone])
    }

    /// Whether servers answer soon, if they answer.
    pub fn is_prompt(&self) -> bool {
        use Fault::{Lag, OmitReply, Partition, Pause, Silence, Slow, Suspension};
        self.is_punctual() && !self.has_any(&[Lag, OmitReply, Partition, Pause, Silence, Slow, Suspension])
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> =
            Fault::ALL.into_iter().filter(|fault| self.has(*fault)).map(Fault::name).collect();
        let Self { seed, machines, servers, storm, session_timeout, tick, .. } = self;
        write!(
            f,
            "seed {seed}: {machines} machines, {servers} servers, {storm:?} of storm, session timeout "
        )?;
        let version = self.version;
        write!(
            f,
            "{session_timeout:?}, tick {tick:?}, {version:?}, {} faults: {}",
            self.events.len(),
            kinds.join(" ")
        )
    }
}
