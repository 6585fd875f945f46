//! How the traffic of a connection passes.

use std::time::Duration;

/// How traffic passes between a client and the server, separately for each direction.
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

/// How traffic passes in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) passes: bool,
    pub(super) delay: Duration,
    /// In bytes per second.
    pub(super) bandwidth: Option<u64>,
}

impl Traffic {
    /// Everything passes immediately.
    pub const fn pass() -> Self {
        let flow = Flow { passes: true, delay: Duration::ZERO, bandwidth: None };
        Self { to_server: flow, to_client: flow }
    }

    /// Nothing passes and nothing is closed, as if every packet were dropped: neither side receives anything from
    /// the other, not even that it has closed its socket. New connections are accepted, but nothing more.
    ///
    /// Withheld bytes are delivered when traffic passes again, as TCP would retransmit them.
    pub const fn black_hole() -> Self {
        Self { to_server: Self::black_hole_to_server().to_server, ..Self::black_hole_to_client() }
    }

    /// A [`black_hole`](Self::black_hole) for what the client sends. The client still receives.
    pub const fn black_hole_to_server() -> Self {
        let mut traffic = Self::pass();
        traffic.to_server.passes = false;
        traffic
    }

    /// A [`black_hole`](Self::black_hole) for what the server sends. The server still receives.
    pub const fn black_hole_to_client() -> Self {
        let mut traffic = Self::pass();
        traffic.to_client.passes = false;
        traffic
    }

    /// Sets the delay in each direction; a round trip takes twice as long. Any number of bytes can be in transit at
    /// once, and they stay in order.
    pub const fn delay(self, delay: Duration) -> Self {
        self.delay_to_server(delay).delay_to_client(delay)
    }

    /// Sets the delay on the way to the server.
    pub const fn delay_to_server(mut self, delay: Duration) -> Self {
        self.to_server.delay = delay;
        self
    }

    /// Sets the delay on the way to the client.
    pub const fn delay_to_client(mut self, delay: Duration) -> Self {
        self.to_client.delay = delay;
        self
    }

    /// Sets how many bytes pass per second, in each direction of each connection. A packet of ZooKeeper's protocol
    /// passes as a whole, at the time its last byte would.
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
}

impl Flow {
    /// Returns how long it takes to send this many bytes.
    pub(super) fn sending(&self, bytes: usize) -> Duration {
        match self.bandwidth {
            None => Duration::ZERO,
            Some(bandwidth) => Duration::from_secs_f64(bytes as f64 / bandwidth as f64),
        }
    }
}
