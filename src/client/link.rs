//! Tells everybody how the session of a client fares.

use std::sync::Arc;

use tokio::sync::watch;
use zookeeper_client as zk;

use super::session::Session;
use super::state::ConnectionState;
use crate::host_failure::HostFailure;

/// What a client has of a session at this moment.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    /// No session, but one is being made.
    Connecting { failure: Option<zk::Error> },
    /// No session, because the servers refuse the client's authentication. It is tried on.
    Unauthenticated,
    /// A session, connected or not. A new connection is not writable before its server has caught up.
    Live { session: Arc<Session>, writable: bool },
    /// The session is over, and there will be no other.
    Over { source: zk::Error },
}

impl Status {
    /// Whether there is nothing to wait for: a session that takes writes, or that there will be none.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::Connecting { .. } => false,
            // The end of a connection shows in the session first.
            Self::Live { session, writable } => *writable && session.is_connected(),
            Self::Unauthenticated | Self::Over { .. } => true,
        }
    }
}

/// Tells everybody how the session fares.
#[derive(Debug)]
pub(crate) struct Link {
    pub(super) status: watch::Sender<Status>,
    state: watch::Sender<ConnectionState>,
    /// What is known about the servers while there is no connected session.
    pub(super) causes: watch::Sender<Vec<HostFailure>>,
}

impl Link {
    pub(crate) fn new() -> Self {
        let (status, _) = watch::channel(Status::Connecting { failure: None });
        let (state, _) = watch::channel(ConnectionState::Suspended);
        Self { status, state, causes: watch::Sender::default() }
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    pub(crate) fn state(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// A task that sees the status sees that state, or a later one.
    pub(super) fn publish(&self, state: ConnectionState, status: Status) {
        let mut before = state;
        let is_news = |last: &mut ConnectionState| {
            before = std::mem::replace(last, state);
            before != state
        };
        if self.state.send_if_modified(is_news) {
            tracing::info!(?before, now = ?state, "connection state changed");
        }
        self.status.send_replace(status);
    }
}
