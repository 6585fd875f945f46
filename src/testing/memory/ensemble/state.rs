//! The servers of an ensemble, and what happens to them.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use super::agenda::Agenda;
use super::log::Log;
use super::network::{Envelope, Network};
use super::replica::{Leading, Replica, Role};
use super::truth::Observed;
use crate::testing::memory::database::Database;
use crate::testing::memory::sessions;
use crate::testing::memory::settings::MemorySettings;

/// The settings that only an ensemble has.
#[derive(Clone, Debug)]
pub(super) struct Behaviour {
    pub(super) latency: Range<Duration>,
    pub(super) election_time: Range<Duration>,
    /// After how many ticks a silent server is given up.
    pub(super) sync_limit: u32,
    /// The date at the start, since 1970.
    pub(super) wall_clock: Duration,
}

/// What happens at a time.
#[derive(Debug)]
pub(super) enum Task {
    /// A server looks at its clock.
    Tick(usize),
    /// It does so belatedly, since it was paused.
    Overdue(usize),
    /// The leader looks for nodes that are overdue.
    Reap,
    Deliver(Envelope),
    /// A server has looked for a leader for long enough.
    Elect {
        server: usize,
        term: u64,
    },
}

#[derive(Debug)]
pub(in super::super) struct State {
    pub(in super::super) settings: MemorySettings,
    pub(super) behaviour: Behaviour,
    pub(in super::super) replicas: Vec<Replica>,
    /// What a server knew that had lost its disk, if no other knew it.
    pub(super) remains: Option<Database>,
    pub(super) network: Network,
    pub(super) agenda: Agenda,
    pub(super) random: Rng,
    /// The time since the start.
    pub(super) now: Duration,
    /// Until when the task that advances the time sleeps.
    pub(super) awaited: Duration,
    /// How often servers have begun to look for a leader.
    pub(super) terms: u64,
    /// How many requests were sent to a leader.
    pub(super) tickets: u64,
    /// The last transaction of which the changes were noted.
    pub(super) noted: i64,
    pub(super) is_observed: bool,
    /// Changes that the observers have not been told.
    pub(super) observed: VecDeque<Observed>,
}

impl State {
    pub(super) fn new(servers: usize, seed: u64, settings: MemorySettings, behaviour: Behaviour) -> Self {
        let mut random = Rng::with_seed(seed);
        let replicas = (0..servers).map(|server| {
            let first = sessions::first_id(
                server as i64 + 1,
                behaviour.wall_clock.as_millis() as i64,
                random.u16(..),
            );
            Replica::new(Database::new(&settings, first))
        });
        let replicas = replicas.collect();
        let (tick, reap_interval) = (settings.common.tick_time, settings.reap_interval);
        let mut state = Self {
            settings,
            behaviour,
            replicas,
            remains: None,
            network: Network::new(servers),
            agenda: Agenda::default(),
            random,
            now: Duration::ZERO,
            awaited: Duration::MAX,
            terms: 0,
            tickets: 0,
            noted: 0,
            is_observed: false,
            observed: VecDeque::new(),
        };
        state.agenda.add(reap_interval, Task::Reap);
        if state.is_standalone() {
            state.agenda.add(tick, Task::Tick(0));
            return state;
        }
        for server in 0..servers {
            let first = tick.mul_f64(state.random.f64() / 2.0);
            state.agenda.add(first, Task::Tick(server));
        }
        let leader = state.random.usize(..servers);
        state.elect(leader, &(0..servers).collect::<Vec<_>>());
        state
    }

    /// Whether there is one server only, which always leads.
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
                // Servers of an ensemble talk every half tick.
                let tick = self.settings.common.tick_time;
                let interval = if self.is_standalone() { tick } else { tick / 2 };
                self.agenda.add(self.now + interval, Task::Tick(server));
                self.tick(server);
            }
            Task::Overdue(server) => self.tick(server),
            Task::Reap => {
                self.agenda.add(self.now + self.settings.reap_interval, Task::Reap);
                self.reap();
            }
            Task::Deliver(envelope) => self.deliver(envelope),
            Task::Elect { server, term } => self.vote(server, term),
        }
    }

    fn tick(&mut self, server: usize) {
        let replica = &mut self.replicas[server];
        replica.is_overdue = replica.is_paused;
        if !replica.is_active() {
            return;
        }
        match replica.role {
            Role::Leading(_) => self.tick_as_leader(server),
            Role::Following { .. } => self.tick_as_follower(server),
            Role::Looking { .. } => {}
        }
    }

    /// Returns the date by the clock of a server, in milliseconds since 1970.
    pub(super) fn date(&self, server: usize) -> i64 {
        let wall =
            self.behaviour.wall_clock.saturating_add(self.now).saturating_add(self.replicas[server].ahead);
        i64::try_from(wall.as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns after how long a silent server is given up.
    pub(super) fn sync_limit(&self) -> Duration {
        self.settings.common.tick_time * self.behaviour.sync_limit
    }

    pub(super) fn leader(&self) -> Option<usize> {
        let leads = |server: &usize| {
            let replica = &self.replicas[*server];
            replica.is_active() && matches!(replica.role, Role::Leading(_))
        };
        (0..self.replicas.len()).filter(leads).max_by_key(|server| self.replicas[*server].epoch)
    }

    /// Whether a server accepts clients.
    pub(super) fn is_open(&self, server: usize) -> bool {
        let replica = &self.replicas[server];
        replica.is_running && !matches!(replica.role, Role::Looking { .. })
    }

    /// Returns the database of a server that has made all updates which are committed.
    pub(super) fn newest(&self) -> &Database {
        let databases = self.replicas.iter().map(|replica| &replica.database);
        let newest = databases.chain(&self.remains).max_by_key(|database| database.zxid);
        newest.expect("an ensemble has a server")
    }

    pub(super) fn set_paused(&mut self, server: usize, is_paused: bool) {
        let replica = &mut self.replicas[server];
        replica.is_paused = is_paused;
        if !is_paused && replica.is_overdue {
            // Its threads go on one after the other.
            let late = self.settings.common.tick_time.mul_f64(self.random.f64() / 50.0);
            self.agenda.add(self.now + late, Task::Overdue(server));
        }
        self.release();
    }

    pub(in super::super) fn stop(&mut self, server: usize) {
        let replica = &mut self.replicas[server];
        if !replica.is_running {
            return;
        }
        replica.is_running = false;
        if self.is_standalone() {
            self.replicas[server].database.cut_all();
        } else {
            self.look(server);
        }
    }

    pub(super) fn start(&mut self, server: usize) {
        let replica = &mut self.replicas[server];
        if replica.is_running {
            return;
        }
        (replica.is_running, replica.is_paused) = (true, false);
        if self.is_standalone() {
            self.replicas[server].database.sessions.renew(self.now);
        } else {
            self.look(server);
        }
    }

    pub(super) fn wipe(&mut self, server: usize) {
        self.stop(server);
        let is_standalone = self.is_standalone();
        let replica = &mut self.replicas[server];
        let next_session = replica.database.sessions.next_id();
        let lost = std::mem::replace(&mut replica.database, Database::new(&self.settings, next_session));
        (replica.log, replica.epoch) = (Log::default(), 0);
        if is_standalone {
            replica.role = Role::Leading(Leading::default());
            self.noted = 0;
        } else if lost.zxid > self.newest().zxid {
            // Others may not have heard of its last commits.
            self.remains = Some(lost);
        }
    }
}

/// Draws a time from a range.
pub(super) fn draw(random: &mut Rng, range: &Range<Duration>) -> Duration {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(random.u64(nanos(range.start)..nanos(range.end)))
}
