//! The network between the servers: it delays messages, and holds them back while servers do not hear each other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::log::{Entry, Origin, Proposal};
use super::replica::Role;
use super::state::{State, Task, draw};

/// What servers say to each other.
#[derive(Debug)]
pub(super) enum Message {
    // To the leader:
    Propose(Proposal),
    /// The entries up to this one are logged.
    Logged(i64),
    Sync(Origin),
    /// A client continues a session with this timeout.
    Resume {
        origin: Origin,
        session: i64,
        timeout: Duration,
    },
    /// The answer to a ping: the sessions that were heard of.
    Alive(Vec<i64>),

    // To a follower:
    Log(Arc<Entry>),
    Commit(i64),
    Synced(Origin),
    Resumed {
        origin: Origin,
        session: i64,
        timeout: Duration,
        is_known: bool,
    },
    /// The session has moved to another server.
    Moved(Origin),
    Ping,

    // To both:
    /// The connection of the two servers is closed.
    Bye,
}

impl Message {
    /// Whether it is behind the commits that were sent before it. Other messages overtake them.
    fn is_behind_commits(&self) -> bool {
        matches!(self, Self::Commit(_) | Self::Synced(_) | Self::Resumed { .. })
    }
}

/// A message of a leader to a follower, or the other way.
#[derive(Debug)]
pub(super) struct Envelope {
    from: usize,
    to: usize,
    /// The connection that it belongs to: it is lost with it.
    link: u64,
    message: Message,
}

/// The messages from one server to another: first those that are not behind commits.
#[derive(Debug, Default)]
struct Channel {
    /// When the last message arrives.
    last: [Duration; 2],
    held: [VecDeque<Envelope>; 2],
}

#[derive(Debug)]
pub(super) struct Network {
    /// The servers that hear each other.
    groups: Vec<Vec<usize>>,
    channels: BTreeMap<(usize, usize), Channel>,
    links: u64,
}

impl Network {
    pub(super) fn new(servers: usize) -> Self {
        Self { groups: vec![(0..servers).collect()], channels: BTreeMap::new(), links: 0 }
    }

    pub(super) fn connects(&self, one: usize, other: usize) -> bool {
        one == other || self.groups.iter().any(|group| group.contains(&one) && group.contains(&other))
    }

    /// Connects a follower to its leader.
    pub(super) fn link(&mut self, one: usize, other: usize) -> u64 {
        for pair in [(one, other), (other, one)] {
            if let Some(channel) = self.channels.get_mut(&pair) {
                *channel = Channel::default();
            }
        }
        self.links += 1;
        self.links
    }
}

impl State {
    pub(super) fn partition(&mut self, groups: &[&[usize]]) {
        for group in groups {
            assert!(group.iter().all(|server| *server < self.replicas.len()), "no such server in {groups:?}");
        }
        self.network.groups = groups.iter().map(|group| group.to_vec()).collect();
        self.release();
    }

    pub(super) fn send(&mut self, from: usize, to: usize, link: u64, message: Message) {
        let lane = usize::from(message.is_behind_commits());
        let latency = draw(&mut self.random, &self.behaviour.latency);
        let lag = if lane == 1 { self.replicas[to].lag } else { Duration::ZERO };
        let channel = self.network.channels.entry((from, to)).or_default();
        // Commits do not overtake the entries.
        let at = (self.now + latency + lag).max(channel.last[0]).max(channel.last[lane]);
        channel.last[lane] = at;
        self.agenda.add(at, Task::Deliver(Envelope { from, to, link, message }));
    }

    /// Sends a message to the leader of a server, which may be itself.
    pub(super) fn send_to_leader(&mut self, from: usize, message: Message) {
        match self.replicas[from].role {
            Role::Following { leader, link, .. } => self.send(from, leader, link, message),
            Role::Leading(_) => self.lead(from, from, message),
            Role::Looking { .. } => {}
        }
    }

    /// Hands a message to its receiver, unless it is to be held back.
    pub(super) fn deliver(&mut self, envelope: Envelope) {
        let (from, to) = (envelope.from, envelope.to);
        let can_hear = self.hears(to, from);
        let lane = usize::from(envelope.message.is_behind_commits());
        let channel = self.network.channels.entry((from, to)).or_default();
        if !can_hear || !channel.held[lane].is_empty() {
            channel.held[lane].push_back(envelope);
            return;
        }
        self.hand_over(envelope);
    }

    fn hears(&self, to: usize, from: usize) -> bool {
        !self.replicas[to].is_paused && self.network.connects(from, to)
    }

    /// Delivers what was held back for servers that hear each other again.
    pub(super) fn release(&mut self) {
        for pair in self.network.channels.keys().copied().collect::<Vec<_>>() {
            if !self.hears(pair.1, pair.0) {
                continue;
            }
            for lane in 0..2 {
                let take = |state: &mut Self| {
                    state.network.channels.get_mut(&pair).and_then(|channel| channel.held[lane].pop_front())
                };
                while let Some(envelope) = take(self) {
                    self.hand_over(envelope);
                }
            }
        }
    }

    fn hand_over(&mut self, Envelope { from, to, link, message }: Envelope) {
        match &mut self.replicas[to].role {
            Role::Following { leader, link: current, .. } if *leader == from && *current == link => {
                self.follow(to, message);
            }
            Role::Leading(leading) => {
                let follower = leading.followers.get_mut(&from).filter(|follower| follower.link == link);
                if let Some(follower) = follower {
                    follower.heard = self.now;
                    self.lead(to, from, message);
                }
            }
            _ => {}
        }
    }
}
