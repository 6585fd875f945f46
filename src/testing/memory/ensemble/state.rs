//! The servers of an ensemble, and what happens to them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use super::agenda::Agenda;
use super::replica::Replica;
use super::truth::Observed;
use crate::testing::memory::connections::{ConnectionId, Wire};
use crate::testing::memory::database::{Database, Fate, Limits, Now};

/// The settings of an ensemble.
#[derive(Clone, Debug)]
pub(super) struct Behaviour {
    pub(super) limits: Limits,
    pub(super) latency: Range<Duration>,
    pub(super) election_time: Range<Duration>,
    /// After how long a silent server is given up.
    pub(super) sync_limit: Duration,
    pub(super) reap_interval: Duration,
    pub(super) longest_message: usize,
    /// The date at the start, in milliseconds since 1970.
    pub(super) wall_clock: i64,
}

/// What happens at a time.
#[derive(Debug)]
pub(super) enum Task {
    /// A server looks at its clock.
    Tick(usize),
    /// The leader looks for nodes that are overdue.
    Reap,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) behaviour: Behaviour,
    pub(super) replicas: Vec<Replica>,
    pub(super) agenda: Agenda<Task>,
    pub(super) random: Rng,
    /// The servers that hear each other.
    pub(super) groups: Vec<Vec<usize>>,
    /// The time since the start.
    pub(super) now: Duration,
    /// Until when the task that advances the time sleeps.
    pub(super) awaited: Duration,
    /// The last transaction of which the changes were noted.
    pub(super) noted: i64,
    pub(super) is_observed: bool,
    /// Changes that the observers have not been told.
    pub(super) observed: VecDeque<Observed>,
}

impl State {
    pub(super) fn new(servers: usize, seed: u64, behaviour: Behaviour) -> Self {
        let mut random = Rng::with_seed(seed);
        let replicas = (0..servers).map(|server| {
            let first = first_session(server, behaviour.wall_clock, random.u16(..));
            Replica::new(database(&behaviour, first))
        });
        let replicas = replicas.collect();
        let mut state = Self {
            behaviour,
            replicas,
            agenda: Agenda::default(),
            random,
            groups: vec![(0..servers).collect()],
            now: Duration::ZERO,
            awaited: Duration::MAX,
            noted: 0,
            is_observed: false,
            observed: VecDeque::new(),
        };
        for server in 0..servers {
            state.agenda.add(state.behaviour.limits.tick, Task::Tick(server));
        }
        state.agenda.add(state.behaviour.reap_interval, Task::Reap);
        state
    }

    /// Whether there is one server only, which numbers its transactions itself.
    pub(super) fn is_standalone(&self) -> bool {
        self.replicas.len() == 1
    }

    /// Does everything that is due by a time.
    pub(super) fn advance(&mut self, now: Duration) {
        while let Some((at, task)) = self.agenda.take_due(now) {
            self.now = at;
            self.perform(task);
        }
        self.now = now;
    }

    fn perform(&mut self, task: Task) {
        match task {
            Task::Tick(server) => {
                self.tick(server);
                self.agenda.add(self.now + self.behaviour.limits.tick, Task::Tick(server));
            }
            Task::Reap => {
                self.reap();
                self.agenda.add(self.now + self.behaviour.reap_interval, Task::Reap);
            }
        }
    }

    fn tick(&mut self, server: usize) {
        if self.replicas[server].is_active() {
            let now = self.now(server);
            self.replicas[server].database.end_expired_sessions(now);
            self.note(server, false);
        }
    }

    fn reap(&mut self) {
        if let Some(leader) = self.leader() {
            let now = self.now(leader);
            self.replicas[leader].database.reap(now);
            self.note(leader, false);
        }
    }

    /// Returns the time as a server sees it.
    pub(super) fn now(&self, server: usize) -> Now {
        let elapsed = i64::try_from(self.now.as_millis()).unwrap_or(i64::MAX);
        let ahead = i64::try_from(self.replicas[server].ahead.as_millis()).unwrap_or(i64::MAX);
        let wall = self.behaviour.wall_clock.saturating_add(elapsed).saturating_add(ahead);
        Now { elapsed: self.now, wall }
    }

    pub(super) fn leader(&self) -> Option<usize> {
        self.replicas[0].is_active().then_some(0)
    }

    /// Whether a server accepts clients.
    pub(super) fn is_open(&self, server: usize) -> bool {
        self.replicas[server].is_running
    }

    /// Returns the database of a server that has made all updates which are committed.
    pub(super) fn newest(&self) -> &Database {
        let databases = self.replicas.iter().map(|replica| &replica.database);
        databases.max_by_key(|database| database.zxid).expect("an ensemble has a server")
    }

    pub(super) fn cut_connections(&mut self, server: usize) {
        self.replicas[server].database.cut_all();
    }

    pub(super) fn set_paused(&mut self, server: usize, is_paused: bool) {
        self.replicas[server].is_paused = is_paused;
    }

    pub(super) fn partition(&mut self, groups: &[&[usize]]) {
        for group in groups {
            assert!(group.iter().all(|server| *server < self.replicas.len()), "no such server in {groups:?}");
        }
        self.groups = groups.iter().map(|group| group.to_vec()).collect();
    }

    pub(super) fn accept(&mut self, server: usize, peer: SocketAddr) -> Option<Wire> {
        self.is_open(server).then(|| self.replicas[server].database.accept(peer))
    }

    pub(super) fn receive(&mut self, server: usize, id: ConnectionId, message: &[u8]) -> Fate {
        let now = self.now(server);
        let fate = self.replicas[server].database.receive(id, message, now);
        self.note(server, false);
        fate
    }

    pub(super) fn disconnect(&mut self, server: usize, id: ConnectionId) {
        self.replicas[server].database.disconnect(id);
    }

    pub(super) fn stop(&mut self, server: usize) {
        let replica = &mut self.replicas[server];
        replica.is_running = false;
        replica.database.cut_all();
    }

    pub(super) fn start(&mut self, server: usize) {
        let replica = &mut self.replicas[server];
        if !replica.is_running {
            (replica.is_running, replica.is_paused) = (true, false);
            replica.database.sessions.renew(self.now);
        }
    }

    pub(super) fn wipe(&mut self, server: usize) {
        self.stop(server);
        let next_session = self.replicas[server].database.sessions.next_id();
        self.replicas[server].database = database(&self.behaviour, next_session);
        if self.is_standalone() {
            self.noted = 0;
        }
    }
}

fn database(behaviour: &Behaviour, first_session: i64) -> Database {
    let mut database = Database::new(behaviour.limits, first_session);
    database.changes = Some(Vec::new());
    database
}

/// Returns an id as that of a real server: its number, and then the time at which it was started.
fn first_session(server: usize, wall_clock: i64, random: u16) -> i64 {
    let number = server as i64 + 1;
    number << 56 | (wall_clock & 0xff_ffff_ffff) << 16 | i64::from(random)
}
