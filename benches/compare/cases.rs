//! What is measured, and what zk-recipes is to reach.

use std::time::Duration;

use crate::load::{Load, Locks, Operation};
use crate::options::{self, Effort, Options};

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) load: Load,
    pub(crate) goal: Option<Goal>,
    /// Of an acquire and a release.
    pub(crate) most_requests: Option<f64>,
    /// Measured on an ensemble as well.
    is_core: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// The median is at most this many times that of the same writes sent by hand.
    TimesFloor(f64),
    /// At least this many times the cycles per second of Curator.
    TimesCurator(f64),
    /// The median in nanoseconds.
    Nanoseconds(f64),
    /// Of a waiter.
    Bytes(f64),
    /// The median is at most this many times that with the shortest queue.
    TimesShortestQueue(f64),
}

/// As long as a short critical section.
const HOLD: Duration = Duration::from_millis(5);
/// Among which the waiters of a long queue are dealt out.
const QUEUE_SESSIONS: usize = 20;
const SHORTEST_QUEUE: usize = 10;
const LONGEST_QUEUE: usize = 5000;
const PARKED: usize = 5000;

/// Those that were asked for, in their order.
pub(crate) fn cases(options: &Options, servers: usize) -> Vec<Case> {
    let wanted = |case: &Case| {
        (servers == 1 || case.is_core || !options.only.is_empty())
            && (options.only.is_empty() || options.only.iter().any(|part| case.name.contains(part)))
    };
    all(&options.effort).into_iter().filter(wanted).collect()
}

pub(crate) fn names() -> impl Iterator<Item = String> {
    all(&options::QUICK).into_iter().map(|case| case.name)
}

fn all(effort: &Effort) -> Vec<Case> {
    let timed = |name: &str, title: &str, operation, goal| {
        let load = Load::Timed { operation, iterations: effort.iterations };
        Case::new(name, title, load, Some(goal))
    };
    let contend = |name: &str, title: &str, sessions, tasks: usize, locks, goal| {
        // The queue of so many moves slowly with some; a round is to take it round several times.
        let turns = if tasks > 1 && locks == Locks::Shared { 3 } else { 1 };
        let (time, patience) = (effort.contention_time * turns, Duration::ZERO);
        let load = Load::Contend { sessions, tasks, locks, time, patience };
        Case::new(name, title, load, Some(Goal::TimesCurator(goal)))
    };
    // Each waits for less time than the queue of all would take.
    let impatient = |tasks: usize, millis: u64| {
        let (time, patience) = (effort.contention_time, Duration::from_millis(millis));
        let load = Load::Contend { sessions: 1, tasks, locks: Locks::Shared, time, patience };
        let title = format!("{tasks} tasks of one client on one lock that give up after {millis} ms");
        Case::new(&format!("impatient-{tasks}"), &title, load, Some(Goal::TimesCurator(30.0)))
    };
    let mut cases = vec![
        timed(
            "acquire",
            "Acquire a free mutex, path used before",
            Operation::Acquire,
            Goal::TimesFloor(1.05),
        )
        .core()
        .requests(2.0),
        timed(
            "new-path",
            "Acquire a free mutex, first time on its path",
            Operation::AcquireNew,
            Goal::TimesFloor(1.45),
        ),
        timed(
            "fresh-path",
            "Acquire a mutex whose path does not exist",
            Operation::AcquireFresh,
            Goal::TimesFloor(1.25),
        ),
        timed("cycle", "Acquire and release a free mutex", Operation::Cycle, Goal::TimesFloor(1.05))
            .core()
            .requests(2.0),
        timed(
            "semaphore-mutex",
            "Acquire a free semaphore mutex",
            Operation::Semaphore,
            Goal::TimesFloor(1.1),
        )
        .core(),
        timed(
            "semaphore-cycle",
            "Acquire and release a free semaphore mutex",
            Operation::SemaphoreCycle,
            Goal::TimesCurator(2.2),
        )
        .core(),
        timed(
            "multi-lock",
            "Acquire a multi-lock of 3 free mutexes",
            Operation::Multi,
            Goal::TimesFloor(1.3),
        )
        .core(),
        timed(
            "multi-lock-release",
            "Release a multi-lock of 3 mutexes",
            Operation::MultiRelease,
            Goal::TimesFloor(1.2),
        )
        .core(),
        contend("sessions-8", "8 sessions on one lock", 8, 1, Locks::Shared, 1.6).core(),
        contend("sessions-32", "32 sessions on one lock", 32, 1, Locks::Shared, 1.6).core(),
        contend("tasks-one-lock", "64 tasks of one client on one lock", 1, 64, Locks::Shared, 30.0).core(),
        contend("tasks-own-locks", "64 tasks of one client on 64 locks", 1, 64, Locks::Own, 2.0),
        contend("sessions-own-locks", "64 sessions of one process on 64 locks", 64, 1, Locks::Own, 2.0),
        contend(
            "fresh-keys",
            "64 tasks of one client, each time on a path that does not exist",
            1,
            64,
            Locks::Fresh,
            4.0,
        ),
        impatient(64, 20),
        impatient(256, 20),
        timed(
            "re-entrant",
            "Acquire and release again what is held",
            Operation::Reenter,
            Goal::Nanoseconds(200.0),
        ),
        timed(
            "linger",
            "Acquire and release a mutex that lingers",
            Operation::Linger,
            Goal::Nanoseconds(1000.0),
        ),
    ];
    let count = |name: &str, title: &str, sessions, tasks, goal: Option<f64>| {
        let load = Load::Count { sessions, tasks, time: effort.contention_time };
        Case::new(name, title, load, goal.map(Goal::TimesCurator))
    };
    cases.extend([
        count("counter-1", "Increment a number alone", 1, 1, None),
        count("counter-2", "2 clients increment a number", 2, 1, Some(2.0)),
        count("counter-8", "8 clients increment a number", 8, 1, Some(2.0)),
        count("counter-32", "32 clients increment a number", 32, 1, Some(2.0)),
        count("counter-tasks", "64 tasks of one client increment a number", 1, 64, Some(20.0)),
    ]);
    let memory = Load::Park { waiters: PARKED };
    cases.push(Case::new("memory", "Memory of one parked waiter", memory, Some(Goal::Bytes(8192.0))));
    for waiters in [SHORTEST_QUEUE, 100, 1000, LONGEST_QUEUE] {
        let load = Load::HandOver {
            sessions: QUEUE_SESSIONS.min(waiters),
            waiters,
            hand_overs: effort.hand_overs,
            hold: HOLD,
        };
        let goal = (waiters == LONGEST_QUEUE).then_some(Goal::TimesShortestQueue(2.0));
        let title = format!("Hand-over with {waiters} waiters");
        cases.push(Case::new(&format!("hand-over-{waiters}"), &title, load, goal));
        if waiters == SHORTEST_QUEUE {
            // Beside the mutex with as many in the queue.
            let load = Load::Succession { candidates: waiters, successions: effort.hand_overs, term: HOLD };
            let title = format!("Leaders that resign, one of {waiters} after the other");
            cases.push(Case::new("leader", &title, load, Some(Goal::TimesShortestQueue(1.25))));
        }
    }
    cases
}

impl Case {
    fn new(name: &str, title: &str, load: Load, goal: Option<Goal>) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            load,
            goal,
            most_requests: None,
            is_core: false,
        }
    }

    fn core(mut self) -> Self {
        self.is_core = true;
        self
    }

    fn requests(mut self, most: f64) -> Self {
        self.most_requests = Some(most);
        self
    }

    /// Whether it is one of the shortest queue, by which the longer ones are judged.
    pub(crate) fn is_shortest_queue(&self) -> bool {
        matches!(self.load, Load::HandOver { waiters: SHORTEST_QUEUE, .. })
    }
}
