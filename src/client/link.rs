//! Publishes the state of a client's session.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use zookeeper_client as zk;

use super::clock::Moment;
use super::session::Session;
use super::state::ConnectionState;
use crate::host_failure::HostFailure;
use crate::meters::Connections;
use crate::watch::Watched;

/// The current state of a client's session.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    /// There is no session, but one is being created.
    Connecting { failure: Option<zk::Error> },
    /// There is no session, because the servers refuse the client's authentication. The client keeps trying.
    Unauthenticated,
    /// There is a session, connected or not. A new connection is not writable until its server has caught up.
    Live { session: Arc<Session>, writable: bool },
    /// The session is over, and there will be no other.
    Over { source: zk::Error },
}

impl Status {
    fn session_id(&self) -> Option<i64> {
        match self {
            Self::Live { session, .. } => Some(session.id()),
            _ => None,
        }
    }

    /// Whether there is a connection to make requests on.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self, Self::Live { session, .. } if session.is_connected())
    }

    /// Whether there is nothing to wait for: the session accepts writes, or there will be no session.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::Connecting { .. } => false,
            // The end of a connection shows in the session first.
            Self::Live { session, writable } => *writable && session.is_connected(),
            Self::Unauthenticated | Self::Over { .. } => true,
        }
    }
}

/// Publishes the state of the session and of the connection.
pub(crate) struct Link {
    /// The servers, for messages.
    servers: String,
    /// Whether it is that of a [second session](super::watching), whose states are those of the client, as a rule: they
    /// are logged once.
    is_second: bool,
    present: Mutex<Present>,
    status: Watched<Status>,
    state: Watched<ConnectionState>,
    connections: Connections,
    /// What is known about the servers while there is no connected session.
    pub(super) causes: watch::Sender<Vec<HostFailure>>,
}

/// The latest values, which the channels may not show yet.
#[derive(Debug)]
struct Present {
    state: ConnectionState,
    status: Status,
    /// Since when there has been no connection that accepts writes.
    disconnected_since: Option<Moment>,
}

impl Link {
    pub(super) fn new(servers: String, is_second: bool) -> Self {
        let (state, status) = (ConnectionState::Suspended, Status::Connecting { failure: None });
        let connections = Connections::default();
        connections.changed(state.name());
        Self {
            servers,
            is_second,
            connections,
            status: Watched::new(status.clone()),
            state: Watched::new(state),
            present: Mutex::new(Present { state, status, disconnected_since: Some(Moment::now()) }),
            causes: watch::Sender::default(),
        }
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.receiver()
    }

    /// Returns the latest state and status, which the channels may not show yet, and since when there has been no
    /// connection that accepts writes.
    pub(super) fn present(&self) -> (ConnectionState, Status, Option<Moment>) {
        let present = self.present.lock();
        (present.state, present.status.clone(), present.disconnected_since)
    }

    pub(crate) fn state(&self) -> &Watched<ConnectionState> {
        &self.state
    }

    pub(super) fn publish(&self, state: ConnectionState, status: Status) {
        let error = match &status {
            Status::Over { source } if state != ConnectionState::Closed => Some(source.clone()),
            _ => None,
        };
        let (before, id) = {
            let mut present = self.present.lock();
            // Of the session that begins, or of the one that was lost.
            let id = status.session_id().or(present.status.session_id());
            present.status = status;
            present.disconnected_since = match state.accepts_writes() {
                true => None,
                false => present.disconnected_since.or_else(|| Some(Moment::now())),
            };
            (std::mem::replace(&mut present.state, state), id)
        };
        if before != state {
            self.log(before, state, id, error);
            self.connections.changed(state.name());
        }
        // Before the status: a task that sees the status sees that state, or a later one.
        self.state.show_if(|shown| {
            let state = self.present.lock().state;
            Some((state != *shown, state))
        });
        self.show_status();
    }

    fn log(
        &self,
        before: ConnectionState,
        now: ConnectionState,
        session: Option<i64>,
        error: Option<zk::Error>,
    ) {
        let (servers, session) = (&*self.servers, session.map(|id| format!("{id:#x}")));
        if self.is_second {
            tracing::debug!(
                ?before,
                ?now,
                servers,
                session,
                "connection state of the session for caches changed"
            );
        } else if now == ConnectionState::Lost {
            let causes: Vec<String> = self.causes.borrow().iter().map(ToString::to_string).collect();
            let causes = Some(causes.join(", ")).filter(|causes| !causes.is_empty());
            let error = error.map(tracing::field::display);
            tracing::warn!(?before, ?now, servers, session, causes, error, "connection state changed");
        } else {
            tracing::info!(?before, ?now, servers, session, "connection state changed");
        }
    }

    /// Publishes a status while the state stays the same.
    pub(super) fn publish_status(&self, status: Status) {
        self.present.lock().status = status;
        self.show_status();
    }

    fn show_status(&self) {
        self.status.show_if(|_| Some((true, self.present.lock().status.clone())));
    }
}
