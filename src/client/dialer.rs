//! Connects to the servers of a client.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zookeeper_client as zk;

use super::clock::Moment;
use super::connection::{self, Service};
use super::handshakes::Handshakes;
use super::hosts::Hosts;
use super::signs::continues;

/// The bounds of the pause between one pass over the servers and the next, which lasts between half of the current
/// value and all of it. The value doubles up to a low bound, so that a server that comes back is found soon,
/// however long it was away.
const MIN_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(150);

/// The most that a silent server is waited for in the first pass of a reconnect.
const FIRST_PATIENCE: Duration = Duration::from_secs(2);

/// Makes the connections of a client.
pub(crate) struct Dialer {
    connector: zk::Connector,
    hosts: Arc<Hosts>,
    /// `None` without SASL.
    handshakes: Option<Handshakes>,
}

/// An established connection.
pub(super) struct Dialed {
    pub(super) zookeeper: zk::Client,
    pub(super) serving: Service,
    /// When the attempt began.
    pub(super) since: Moment,
}

impl Dialed {
    /// Whether the connection continues a session.
    pub(super) fn continues(&self, session: &zk::SessionInfo) -> bool {
        continues(session.id().0, self.zookeeper.session_id().0)
    }
}

/// How long to wait for a silent server before trying the next one. It grows with each pass that met a silent one: a
/// silent server does not cost the session that another server could keep, and a slow server gets its chance in a
/// later pass. Servers that refuse do not make it grow: one that has just started may answer the second connection
/// but not the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    now: Duration,
    most: Duration,
    pause: Duration,
    /// When the current pass began.
    begun: Instant,
}

impl Patience {
    /// For reconnecting a session.
    pub(super) fn growing(session_timeout: Duration) -> Self {
        let now = (session_timeout / 10).min(FIRST_PATIENCE);
        Self { now, most: session_timeout * 2 / 5, pause: MIN_PAUSE, begun: Instant::now() }
    }

    /// For creating a session: one that its server creates too late is left behind. Servers may grant more than the
    /// requested timeout.
    pub(super) fn most(session_timeout: Duration) -> Self {
        let most = (session_timeout * 2 / 5).max(Duration::from_secs(1));
        Self { now: most, most, pause: MIN_PAUSE, begun: Instant::now() }
    }

    pub(super) fn get(self) -> Duration {
        self.now
    }

    /// Waits before the next pass.
    pub(super) async fn pause(&mut self) {
        if self.begun.elapsed() >= self.now {
            self.now = (self.now * 2).min(self.most);
        }
        tokio::time::sleep(self.pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        self.begun = Instant::now();
    }
}

impl Dialer {
    pub(super) fn new(connector: zk::Connector, hosts: Arc<Hosts>, uses_sasl: bool) -> Self {
        Self { connector, hosts, handshakes: uses_sasl.then(Handshakes::default) }
    }

    pub(super) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Returns a connect string for each server, in random order.
    pub(super) fn round(&self) -> Vec<String> {
        let mut round = self.hosts.one_by_one();
        fastrand::shuffle(&mut round);
        round
    }

    /// Connects to one of the servers, for the given session or for a new one.
    ///
    /// # Errors
    /// Same as [`zk::Connector::connect`] and [`Handshakes::run`].
    pub(super) async fn dial(
        &self,
        host: &str,
        session: Option<&zk::SessionInfo>,
        patience: Patience,
    ) -> Result<Dialed, zk::Error> {
        let mut connector = self.connector.clone().with_fail_eagerly();
        if let Some(session) = session {
            connector = connector.with_session(session.clone());
        }
        let since = Moment::now();
        let (zookeeper, serving) = match &self.handshakes {
            None => {
                let connected = timeout(patience.get(), connection::connect(connector, host)).await;
                connected.unwrap_or(Err(zk::Error::NoHosts))?
            }
            Some(handshakes) => {
                let host = host.to_owned();
                let connecting = async move { connection::connect(connector, &host).await };
                handshakes.run(patience.get(), connecting).await?
            }
        };
        Ok(Dialed { zookeeper, serving, since })
    }
}
