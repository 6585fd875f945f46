//! Follows the session of a client, and makes a new one when it has expired.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{self as zk, SessionState};

use super::clock::Moment;
use super::hosts::Hosts;
use super::pulse;
use super::session::Session;
use super::state::ConnectionState;
use super::validity::{Health, Terms, Validity};
use crate::host_failure::HostFailure;

/// Pauses between attempts to make a session.
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

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
            // The end of a session shows in the session first.
            Self::Live { session, writable } => *writable && !session.is_over() && session.is_caught_up(),
            Self::Unauthenticated | Self::Over { .. } => true,
        }
    }
}

/// Tells everybody how the session fares.
#[derive(Debug)]
pub(crate) struct Link {
    status: watch::Sender<Status>,
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

    fn publish(&self, state: ConnectionState, status: Status) {
        self.status.send_replace(status);
        let before = self.state.send_replace(state);
        if before != state {
            tracing::info!(?before, now = ?state, "connection state changed");
        }
    }
}

/// Where sessions come from.
pub(crate) enum Source {
    /// Made by us, and again after each expiry.
    Own { connector: Box<zk::Connector>, hosts: Arc<Hosts> },
    /// Made and ended by somebody else.
    Adopted(zk::Client),
}

/// Runs until `closed`, or until an adopted session is over. Cancels `closed` when it is dropped before, and `ended`
/// when the session is let go of.
pub(crate) async fn supervise(
    source: Source,
    terms: Terms,
    identity: Arc<OnceLock<Vec<u8>>>,
    link: Arc<Link>,
    closed: CancellationToken,
    ended: CancellationToken,
) {
    let _ended = ended.drop_guard();
    // When the runtime is shut down, this is dropped where it stands: nobody will make a session any more.
    let dropped = closed.clone().drop_guard();
    let by_closing = (ConnectionState::Closed, zk::Error::ClientClosed);
    let (state, source) = match source {
        Source::Own { connector, hosts } => {
            if identity.get().is_none() {
                let address = hosts.local_address().await;
                identity.get_or_init(|| address);
            }
            let hosts = hosts.to_string();
            let mut epoch = 0;
            loop {
                let connecting = connect(&connector, &hosts, &link);
                let Some((zookeeper, since)) = closed.run_until_cancelled(connecting).await else { break };
                epoch += 1;
                let validity = Validity::new(zookeeper.session_timeout(), terms, since, true);
                let session = Arc::new(Session::new(epoch, zookeeper, validity));
                let Some(ended) = closed.run_until_cancelled(follow(&session, &link)).await else {
                    end(&session).await;
                    break;
                };
                if ended != zk::Error::AuthFailed {
                    link.publish(ConnectionState::Lost, Status::Connecting { failure: None });
                    continue;
                }
                // Servers may give a session first and refuse a password by SASL then; the next one will fare no better.
                link.publish(ConnectionState::Lost, Status::Unauthenticated);
                if closed.run_until_cancelled(tokio::time::sleep(MAX_PAUSE)).await.is_none() {
                    break;
                }
            }
            by_closing
        }
        Source::Adopted(zookeeper) => {
            let validity = Validity::new(zookeeper.session_timeout(), terms, Moment::now(), false);
            let session = Arc::new(Session::new(1, zookeeper, validity));
            let over = closed.run_until_cancelled(follow(&session, &link)).await;
            over.map_or(by_closing, |source| (ConnectionState::Lost, source))
        }
    };
    link.publish(state, Status::Over { source });
    dropped.disarm();
}

/// Tries until there is a session. It was established after the time that comes with it.
async fn connect(connector: &zk::Connector, hosts: &str, link: &Link) -> (zk::Client, Moment) {
    let mut pause = MIN_PAUSE;
    loop {
        let since = Moment::now();
        // One pass over the servers per attempt: our own pauses are shorter than those of the connector,
        // so that a server that comes back is found soon.
        match connector.clone().with_fail_eagerly().connect(hosts).await {
            Ok(zookeeper) => return (zookeeper, since),
            Err(error) => {
                tracing::debug!(hosts, %error, "cannot connect yet");
                link.status.send_replace(match error {
                    zk::Error::AuthFailed => Status::Unauthenticated,
                    failure => Status::Connecting { failure: Some(failure) },
                });
            }
        }
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Follows a session until it is over; returns how it ended.
async fn follow(session: &Arc<Session>, link: &Link) -> zk::Error {
    let ended = tokio::select! {
        ended = publish_states(session, link) => ended,
        never = pulse::beat(session) => match never {},
    };
    session.validity().publish(Health::Lapsed);
    ended
}

/// Publishes the states of a session until it is over; returns how it ended.
async fn publish_states(session: &Arc<Session>, link: &Link) -> zk::Error {
    let mut states = session.states();
    let mut connected = match session.epoch() {
        1 => ConnectionState::Connected,
        _ => ConnectionState::Reconnected,
    };
    loop {
        let state = *states.borrow_and_update();
        if state == SessionState::SyncConnected && !session.is_caught_up() {
            link.publish(
                ConnectionState::Suspended,
                Status::Live { session: session.clone(), writable: false },
            );
            tokio::select! {
                Ok(()) = states.changed() => continue,
                () = session.catch_up() => session.validity().publish(session.health()),
            }
        }
        let public = match state {
            SessionState::SyncConnected => std::mem::replace(&mut connected, ConnectionState::Reconnected),
            SessionState::ConnectedReadOnly => ConnectionState::ReadOnly,
            SessionState::Disconnected => ConnectionState::Suspended,
            SessionState::Expired => return zk::Error::SessionExpired,
            SessionState::AuthFailed => return zk::Error::AuthFailed,
            SessionState::Closed => return zk::Error::ClientClosed,
        };
        link.publish(public, Status::Live { session: session.clone(), writable: public.is_writable() });
        if states.changed().await.is_err() {
            // Its runtime is shut down.
            return zk::Error::ClientClosed;
        }
    }
}

/// Lets go of a session, and waits for the server's confirmation if a server is there to give it.
async fn end(session: &Session) {
    let mut states = session.states();
    let state = *states.borrow_and_update();
    let connected = matches!(state, SessionState::SyncConnected | SessionState::ConnectedReadOnly);
    session.end();
    // Without a connection there is nobody to tell: the session expires by itself.
    if connected {
        let _ = states.changed().await;
    }
}
