//! What probes ask a client.

use std::time::Duration;

use tokio::time::Instant;

use super::handle::Client;
use super::link::Status;
use super::state::ConnectionState;

/// The state of a client at the moment, for probes. From [`Client::health`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientHealth {
    /// The state of the connection.
    pub connection: ConnectionState,
    /// Since when there has been no connection that accepts writes, without interruption. `None` if there is one.
    pub disconnected_since: Option<Instant>,
    /// For how long everything that this client holds is certain to stay held, even if nothing more is heard from the
    /// servers; zero if it may be lost already. `None` if the client holds nothing: then its session is confirmed too
    /// rarely to say.
    pub valid_for: Option<Duration>,
}

impl ClientHealth {
    /// Returns whether there is a connection that accepts writes.
    pub fn is_connected(&self) -> bool {
        self.disconnected_since.is_none()
    }
}

impl Client {
    /// Returns the state of the connection, since when there has been none, and for how long what the client holds is
    /// certain to stay held. Makes no request and does not wait, so it suits probes that are called often. See [health
    /// probes](crate::guide::operations#health).
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(client: zk_recipes::Client) {
    /// let health = client.health();
    /// let is_ready = health.is_connected();
    /// // Restart only what has been stuck for long: a restart does not help while the servers are down.
    /// let is_alive = health.disconnected_since.is_none_or(|since| since.elapsed() < Duration::from_secs(600));
    /// # }
    /// ```
    pub fn health(&self) -> ClientHealth {
        let (connection, status, disconnected_since) = self.core.link.present();
        let validity = match &status {
            Status::Live { session, .. } => Some(session.validity()).filter(|validity| validity.is_needed()),
            _ => None,
        };
        ClientHealth {
            connection,
            disconnected_since: disconnected_since.map(|since| since.instant()),
            valid_for: validity.map(|validity| validity.left()),
        }
    }
}
