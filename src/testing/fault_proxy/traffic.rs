//! How the traffic of a connection fares.

use std::time::Duration;

/// How the traffic of a connection fares between a client and the server, each direction by itself.
///
/// ```
/// use std::time::Duration;
/// use zk_recipes::testing::Traffic;
///
/// let far_away = Traffic::pass().delay(Duration::from_millis(40)).bandwidth(100_000); // a round trip takes 80 ms
/// let deaf = Traffic::black_hole_to_client().delay_to_server(Duration::from_millis(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it takes effect when it is set"]
pub struct Traffic {
    pub(super) to_server: Flow,
    pub(super) to_client: Flow,
}

/// How one direction fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) passes: bool,
    pub(super) delay: Duration,
    /// In bytes per second.
    pub(super) bandwidth: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

impl Traffic {
    /// Everything passes at once.
    pub const fn pass() -> Self {
        let flow = Flow { passes: true, delay: Duration::ZERO, bandwidth: None };
        Self { to_server: flow, to_client: flow }
    }

    /// Nothing passes and nothing is closed, as if every packet were dropped: neither side hears anything of the other,
    /// not even that it has closed its socket. A new connection is accepted, but that is all.
    ///
    /// What was held is delivered when the traffic passes again, as TCP would send it again.
    pub const fn black_hole() -> Self {
        Self { to_server: Self::black_hole_to_server().to_server, ..Self::black_hole_to_client() }
    }

    /// A [`black_hole`](Self::black_hole) for what the client sends: it still hears the server.
    pub const fn black_hole_to_server() -> Self {
        let mut traffic = Self::pass();
        traffic.to_server.passes = false;
        traffic
    }

    /// A [`black_hole`](Self::black_hole) for what the server sends: it still hears the client.
    pub const fn black_hole_to_client() -> Self {
        let mut traffic = Self::pass();
        traffic.to_client.passes = false;
        traffic
    }

    /// How long everything is on its way, in each direction: a round trip takes twice as long. Any number of bytes may
    /// be on their way at once, and they stay in order.
    pub const fn delay(self, delay: Duration) -> Self {
        self.delay_to_server(delay).delay_to_client(delay)
    }

    /// How long it is on its way to the server.
    pub const fn delay_to_server(mut self, delay: Duration) -> Self {
        self.to_server.delay = delay;
        self
    }

    /// How long it is on its way to the client.
    pub const fn delay_to_client(mut self, delay: Duration) -> Self {
        self.to_client.delay = delay;
        self
    }

    /// How many bytes pass per second, in each direction of each connection. A packet of ZooKeeper's protocol passes as a
    /// whole, when its last byte would.
    ///
    /// # Panics
    ///
    /// If it is 0: that would be a [`black_hole`](Self::black_hole).
    pub const fn bandwidth(mut self, bytes_per_second: u64) -> Self {
        assert!(bytes_per_second > 0, "a bandwidth of 0 bytes per second: use `Traffic::black_hole`");
        self.to_server.bandwidth = Some(bytes_per_second);
        self.to_client.bandwidth = Some(bytes_per_second);
        self
    }

    pub(super) fn flow(&self, direction: Direction) -> Flow {
        match direction {
            Direction::ToServer => self.to_server,
            Direction::ToClient => self.to_client,
        }
    }
}

impl Flow {
    /// How long it takes to send this many bytes.
    pub(super) fn sending(&self, bytes: usize) -> Duration {
        match self.bandwidth {
            None => Duration::ZERO,
            Some(bandwidth) => Duration::from_secs_f64(bytes as f64 / bandwidth as f64),
        }
    }
}
