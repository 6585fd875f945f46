//! Connects to the servers of a client.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client as zk;

use super::clock::Moment;
use super::connection::{self, Service};
use super::hosts::Hosts;

/// Between one pass over the servers and the next: half of it at least. They double up to a bound, so that a server that
/// comes back is found soon, however long it was away.
const MIN_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(150);

/// Makes the connections of a client, and knows its servers.
pub(crate) struct Dialer {
    connector: zk::Connector,
    hosts: Arc<Hosts>,
}

/// A connection that is established.
pub(super) struct Dialed {
    pub(super) zookeeper: zk::Client,
    pub(super) serving: Service,
    /// Since when it was made.
    pub(super) since: Moment,
}

/// How long to wait for a silent server before the next one is tried. It grows from pass to pass: a silent server does not
/// cost the session that another could keep, and a slow server gets its chance in a later pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    now: Duration,
    most: Duration,
    pause: Duration,
}

impl Patience {
    /// To connect a session again.
    pub(super) fn growing(session_timeout: Duration) -> Self {
        Self { now: session_timeout / 10, most: session_timeout * 2 / 5, pause: MIN_PAUSE }
    }

    /// To make a session: one that its server makes too late is left behind. Servers may grant more than was asked for.
    pub(super) fn most(session_timeout: Duration) -> Self {
        let most = (session_timeout * 2 / 5).max(Duration::from_secs(1));
        Self { now: most, most, pause: MIN_PAUSE }
    }

    pub(super) fn get(self) -> Duration {
        self.now
    }

    /// Waits before the next pass.
    pub(super) async fn pause(&mut self) {
        tokio::time::sleep(self.pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        self.now = (self.now * 2).min(self.most);
    }
}

impl Dialer {
    pub(super) fn new(connector: zk::Connector, hosts: Arc<Hosts>) -> Self {
        Self { connector, hosts }
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

    /// Connects to one of the servers, for that session or for a new one.
    ///
    /// # Errors
    /// As [`zk::Connector::connect`].
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
        let connected = timeout(patience.get(), connection::connect(connector, host)).await;
        let (zookeeper, serving) = connected.unwrap_or(Err(zk::Error::NoHosts))?;
        Ok(Dialed { zookeeper, serving, since })
    }
}
