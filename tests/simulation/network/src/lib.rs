//! A network in memory, on tokio's clock, for one thread.
//!
//! What is sent arrives after a random time, in order, unless a [fault](crate::faults) comes between. The servers have
//! addresses; clients have machines, which are numbers.

pub mod faults;
mod pipe;
mod stream;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::pipe::Pipe;

pub use self::stream::{Listener, TcpStream, ToAddress};

/// How long something is on its way, in microseconds.
pub type Latency = RangeInclusive<u64>;

/// That of a good network.
pub const USUAL: Latency = 100..=400;

/// One connection.
#[derive(Clone, Debug)]
struct Link {
    machine: usize,
    address: String,
    /// To the server.
    requests: Pipe,
    /// To the client.
    replies: Pipe,
}

#[derive(Debug)]
struct Network {
    rng: Rng,
    latency: Latency,
    listeners: BTreeMap<String, mpsc::UnboundedSender<TcpStream>>,
    links: BTreeMap<u64, Link>,
    last_link: u64,
    /// The addresses that refuse connections.
    refused: BTreeSet<String>,
    /// When something was sent for the first time.
    start: Option<Instant>,
    /// Of all bytes and when they arrive.
    fingerprint: u64,
}

impl Network {
    fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            latency: USUAL,
            listeners: BTreeMap::new(),
            links: BTreeMap::new(),
            last_link: 0,
            refused: BTreeSet::new(),
            start: None,
            fingerprint: seed,
        }
    }

    fn delay(&mut self) -> Duration {
        Duration::from_micros(self.rng.u64(self.latency.clone()))
    }

    /// Notes what is sent, for the fingerprint.
    fn note(&mut self, link: u64, arrives: Instant, bytes: &[u8]) {
        let start = *self.start.get_or_insert(arrives);
        self.mix(link);
        self.mix(arrives.duration_since(start).as_nanos() as u64);
        for part in bytes.chunks(8) {
            self.mix(part.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)));
        }
    }

    fn mix(&mut self, value: u64) {
        self.fingerprint = (self.fingerprint.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

thread_local! {
    static NETWORK: RefCell<Network> = RefCell::new(Network::new(0));
    /// The machine whose task is polled.
    static MACHINE: Cell<usize> = const { Cell::new(0) };
}

/// Replaces the network of this thread by one without connections.
pub fn reset(seed: u64) {
    let old = NETWORK.replace(Network::new(seed));
    // Its streams look at the network when they are dropped.
    drop(old);
}

/// Returns a number that two runs share if they have sent the same bytes at the same times.
pub fn fingerprint() -> u64 {
    NETWORK.with_borrow(|network| network.fingerprint)
}

/// Says which machine connects from now on. Returns the one before.
pub fn set_machine(machine: usize) -> usize {
    MACHINE.replace(machine)
}
