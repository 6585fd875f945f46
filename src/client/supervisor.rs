//! Follows the session of a client, and creates a new one when it has expired.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use zookeeper_client::{self as zk, SessionState};

use super::clock::Moment;
use super::connection::{Connection, Server, Service};
use super::core::Core;
use super::dialer::{Dialed, Dialer, Patience};
use super::link::Status;
use super::process::Process;
use super::session::Session;
use super::state::ConnectionState;
use super::validity::{Health, Validity};
use super::{adopted, causes, keep_alive_task, serving};
use crate::waker::contained;

/// How long the requests of a closed client may continue; and how long callers wait for a session to be ended while
/// there is no connection.
const FAREWELL: Duration = Duration::from_millis(200);

/// After a connection that lasted for less than this, there is a pause before the next one.
const BRIEF: Duration = Duration::from_millis(25);
const BRIEF_PAUSE: Duration = Duration::from_millis(30);

/// How often all servers are asked to end a session that was given up.
const BURIALS: u32 = 3;

/// The pause between attempts to authenticate.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Where sessions come from.
pub(crate) enum Source {
    /// Sessions of our own, created again after each expiry.
    Own(Box<Dialer>),
    /// A session that another owner creates and ends.
    Adopted(zk::Client),
}

/// Runs until the client is closed, or an adopted session is over. Cancels `ended` when it has let the session go.
pub(super) async fn supervise(core: Arc<Core>, source: Source, process: Process) {
    let _ended = core.ended.clone().drop_guard();
    let mut ending = Ending { core: core.clone(), is_due: false };
    let Core { settings, link, closed, .. } = &*core;
    let by_closing = (ConnectionState::Closed, zk::Error::ClientClosed);
    let (state, source) = match source {
        Source::Own(dialer) => {
            let supervising = async {
                if core.identity.get().is_none() {
                    let address = dialer.hosts().local_address().await;
                    core.identity.get_or_init(|| Process { address, ..process }.to_data());
                }
                Supervisor { core: &core, dialer: &dialer }.run().await;
            };
            tokio::select! {
                () = supervising => {}
                never = causes::find(dialer.hosts(), settings.connection_timeout, link) => match never {}
            }
            by_closing
        }
        Source::Adopted(zookeeper) => {
            let id = zookeeper.session_id().0;
            let validity = Validity::new(zookeeper.session_timeout(), settings.terms, Moment::now(), false);
            let serving = Arc::new(serving::Serving::new(zookeeper.state_watcher()));
            let session = Arc::new(Session::new(1, id, validity).adopted(&serving));
            let following = follow(&session, async {
                tokio::select! {
                    source = adopted::follow(&session, &zookeeper, &serving, link) => source,
                    () = session.replaced() => zk::Error::SessionExpired,
                }
            });
            match closed.run_until_cancelled(following).await {
                Some(source) => (ConnectionState::Lost, source),
                None => {
                    let number = serving.changes();
                    session.leave(Connection::new(number, zookeeper, Server::Adopted(serving)));
                    by_closing
                }
            }
        }
    };
    ending.is_due = true;
    link.publish(state, Status::Over { source });
}

/// Closes the client if the supervisor ends without being told to, because its runtime is shut down or because of a
/// panic: then no further session will be created.
struct Ending {
    core: Arc<Core>,
    is_due: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.is_due {
            return;
        }
        self.core.closed.cancel();
        // A subscriber may panic, and a second panic would abort the process.
        contained(|| {
            if std::thread::panicking() {
                tracing::error!("the task that serves the client has panicked; the client is closed");
            }
            let over = Status::Over { source: zk::Error::ClientClosed };
            self.core.link.publish(ConnectionState::Closed, over);
        });
    }
}

/// Creates the sessions of a client, and their connections.
struct Supervisor<'a> {
    core: &'a Core,
    dialer: &'a Dialer,
}

/// How a session or a connection ended.
enum End {
    /// The client was closed, with or without a connection left.
    Closed { is_connected: bool },
    /// The client was closed, and the session has been ended.
    Ended,
    /// The connection was lost.
    Disconnected,
    /// The session was given up because no server could be reached for too long. The servers may still have it.
    GivenUp(zk::SessionInfo),
    /// A server gave another session instead. The servers may still have the old one.
    Replaced { old: zk::SessionInfo, new: Box<Dialed> },
    /// The session is over.
    Expired,
    /// The servers refused the authentication.
    AuthFailed,
}

impl Supervisor<'_> {
    async fn run(&self) {
        // The ends of the sessions that were left behind: only once there is a new session.
        let mut burials = FuturesUnordered::new();
        let mut next = None;
        for epoch in 1.. {
            let dialed = match next.take() {
                Some(dialed) => dialed,
                None => match self.core.closed.run_until_cancelled(self.establish()).await {
                    Some(dialed) => dialed,
                    None => break,
                },
            };
            let zookeeper = &dialed.zookeeper;
            let validity =
                Validity::new(zookeeper.session_timeout(), self.core.settings.terms, dialed.since, true);
            let session = Arc::new(Session::new(epoch, zookeeper.session_id().0, validity));
            let mut keeping = pin!(follow(&session, self.keep(&session, dialed)));
            let end = loop {
                tokio::select! {
                    end = &mut keeping => break end,
                    Some(()) = burials.next() => {}
                }
            };
            let mut status = Status::Connecting { failure: None };
            match end {
                End::Closed { .. } | End::Ended => break,
                // With SASL, servers may grant a session before they refuse the password; the next session would
                // fare no better.
                End::AuthFailed => status = Status::Unauthenticated,
                End::GivenUp(session) => burials.push(self.bury(session, BURIALS)),
                End::Replaced { old, new } => {
                    burials.push(self.bury(old, BURIALS));
                    next = Some(*new);
                }
                End::Expired | End::Disconnected => {}
            }
            let is_refused = matches!(status, Status::Unauthenticated);
            self.core.link.publish(ConnectionState::Lost, status);
            if is_refused && self.core.closed.run_until_cancelled(sleep(REFUSED_PAUSE)).await.is_none() {
                break;
            }
        }
        self.leave_after(burials.for_each(|()| ready(()))).await;
    }

    /// Retries until there is a session.
    async fn establish(&self) -> Dialed {
        let mut patience = Patience::most(self.core.settings.session_timeout);
        loop {
            for host in self.dialer.round() {
                match self.dialer.dial(&host, None, patience).await {
                    Ok(dialed) => return dialed,
                    Err(zk::Error::AuthFailed) => {
                        self.core.link.publish_status(Status::Unauthenticated);
                        sleep(REFUSED_PAUSE).await;
                    }
                    Err(error) => {
                        tracing::debug!(host, %error, "cannot connect yet");
                        self.core.link.publish_status(Status::Connecting { failure: Some(error) });
                    }
                }
            }
            patience.pause().await;
        }
    }

    /// Ends a session because the client is closed. Callers wait for that as long as they like, but without a
    /// connection only for a short time.
    async fn take_leave(&self, session: zk::SessionInfo, is_connected: bool) -> End {
        let burying = self.bury(session, u32::MAX);
        if is_connected {
            let _ = timeout(self.core.settings.session_timeout, burying).await;
        } else {
            self.leave_after(burying).await;
        }
        End::Ended
    }

    /// Waits for burials because the client is closed; callers only for a short time.
    async fn leave_after(&self, burials: impl Future<Output = ()>) {
        let mut burials = pin!(timeout(self.core.settings.session_timeout, burials));
        if timeout(FAREWELL, &mut burials).await.is_err() {
            let over = Status::Over { source: zk::Error::ClientClosed };
            self.core.link.publish(ConnectionState::Closed, over);
            self.core.ended.cancel();
            let _ = burials.await;
        }
    }

    /// Ends a session that was given up, if the servers still have it: other contenders, and this client, would
    /// wait for its nodes.
    ///
    /// This is done only once there is a new session, and for a limited number of rounds: a server that hears each
    /// attempt but cannot answer would keep the session alive for as long as the attempts continue.
    async fn bury(&self, session: zk::SessionInfo, rounds: u32) {
        let mut patience = Patience::growing(self.core.settings.session_timeout);
        for _ in 0..rounds {
            let round = self.dialer.round();
            let mut forgetful = 0;
            for host in &round {
                match self.dialer.dial(host, Some(&session), patience).await {
                    Ok(dialed) => {
                        let is_ours = dialed.continues(&session);
                        let Dialed { zookeeper, serving, .. } = dialed;
                        let state = zookeeper.state_watcher();
                        // The last handle: dropping it ends the session, which may be a new one.
                        drop(zookeeper);
                        let served = timeout(patience.get(), serving).await;
                        // Otherwise the connection was lost.
                        if is_ours && served.is_ok() && state.peek_state().is_terminated() {
                            return;
                        }
                        forgetful += usize::from(!is_ours);
                    }
                    Err(zk::Error::SessionExpired | zk::Error::AuthFailed) => return,
                    Err(error) => tracing::debug!(host, %error, "cannot end the session that was given up"),
                }
            }
            if forgetful == round.len() {
                // It ends by its timeout.
                return;
            }
            patience.pause().await;
        }
    }

    /// Keeps a session connected until it is over.
    async fn keep(&self, session: &Arc<Session>, first: Dialed) -> End {
        let info = first.zookeeper.session().clone();
        let mut state = match session.epoch() {
            1 => ConnectionState::Connected,
            _ => ConnectionState::Reconnected,
        };
        let mut dialed = first;
        let mut number = 0;
        loop {
            number += 1;
            let begun = Instant::now();
            let Dialed { zookeeper, serving, .. } = dialed;
            let server = Server::Own(serving.gate().clone());
            let connection = Arc::new(Connection::new(number, zookeeper, server));
            session.connect(connection.clone());
            self.core.link.publish(state, Status::Live { session: session.clone(), writable: true });
            state = ConnectionState::Reconnected;
            match self.serve(session, connection, serving).await {
                End::Disconnected => {}
                End::Closed { is_connected } => return self.take_leave(info, is_connected).await,
                end => return end,
            }
            session.disconnect();
            let status = Status::Live { session: session.clone(), writable: false };
            self.core.link.publish(ConnectionState::Suspended, status);
            let left = session.validity().given_up_at().since(Moment::now());
            let connecting = async {
                // Limits the rate of reconnects to a server that hangs up each time.
                if begun.elapsed() < BRIEF {
                    sleep(BRIEF_PAUSE.mul_f64(0.5 + fastrand::f64())).await;
                }
                self.reconnect(session, &info).await
            };
            dialed = match self.core.closed.run_until_cancelled(timeout(left, connecting)).await {
                None => return self.take_leave(info, false).await,
                Some(Err(_)) => return End::GivenUp(info),
                Some(Ok(Err(end))) => return end,
                Some(Ok(Ok(dialed))) => dialed,
            };
        }
    }

    /// Serves a connection until it or its session is over. Returns [`End::Closed`] if the client was closed but
    /// the session continues at the servers.
    async fn serve(&self, session: &Session, connection: Arc<Connection>, serving: Service) -> End {
        let gate = serving.gate().clone();
        // In a task of its own, which nothing else wakes.
        let mut served = Some(self.core.home.serve(serving));
        let ended = async {
            let reason = tokio::select! {
                () = gate.ended() => return,
                () = unanswered(session, Moment::now()) => "the server answers pings, but no requests",
                () = gate.given_up() => "the server has left out the reply to a request",
            };
            tracing::warn!(reason, "turning to another server");
            served = None;
            gate.ended().await;
        };
        if self.core.closed.run_until_cancelled(ended).await.is_none() {
            let state = connection.zookeeper.state_watcher();
            // With all handles dropped, the session ends as soon as the requests in progress are answered.
            session.end();
            let kept = Arc::downgrade(&connection);
            drop(connection);
            let mut ended = timeout(FAREWELL, gate.ended()).await;
            if ended.is_err() && kept.strong_count() == 0 {
                // Only the server can still delay the end.
                ended = timeout(self.core.settings.session_timeout, gate.ended()).await;
            }
            drop(served);
            let is_ended = ended.is_ok() && state.peek_state().is_terminated();
            // A caller may keep a request that is never polled again.
            return if is_ended { End::Ended } else { End::Closed { is_connected: ended.is_err() } };
        }
        match connection.state() {
            SessionState::Expired => End::Expired,
            SessionState::AuthFailed => End::AuthFailed,
            // No one closed it, so its runtime has ended first.
            _ => End::Disconnected,
        }
    }

    /// Retries until the session is connected again, to a server that shows everything that the client has been
    /// told.
    ///
    /// # Errors
    /// How the session ended.
    async fn reconnect(&self, session: &Session, info: &zk::SessionInfo) -> Result<Dialed, End> {
        let mut patience = Patience::growing(session.timeout());
        loop {
            for host in self.dialer.round() {
                let mut dialed = match self.dialer.dial(&host, Some(info), patience).await {
                    Ok(dialed) => dialed,
                    Err(zk::Error::SessionExpired) => return Err(End::Expired),
                    Err(zk::Error::AuthFailed) => return Err(End::AuthFailed),
                    Err(error) => {
                        tracing::debug!(host, %error, "cannot connect again yet");
                        continue;
                    }
                };
                // Before anything on it counts for the session.
                if !dialed.continues(info) {
                    return Err(End::Replaced { old: info.clone(), new: Box::new(dialed) });
                }
                session.validity().connected(dialed.zookeeper.session_timeout(), dialed.since);
                // A server that lags behind, or that is cut off from the others, would show an old state.
                let confirmed = timeout(patience.get(), session.confirm_on(&dialed.zookeeper));
                let is_confirmed = tokio::select! {
                    confirmed = confirmed => matches!(confirmed, Ok(Ok(()))),
                    () = &mut dialed.serving => false,
                };
                if is_confirmed {
                    return Ok(dialed);
                }
                match dialed.zookeeper.state() {
                    SessionState::Expired => return Err(End::Expired),
                    SessionState::AuthFailed => return Err(End::AuthFailed),
                    _ => tracing::debug!(host, "connected again, but lost it at once"),
                }
            }
            patience.pause().await;
        }
    }
}

/// Waits until no request has been answered for a session timeout, on a connection that has lasted since `begun`. The
/// [keep-alive](keep_alive_task) makes requests all the time. A server that answers pings would keep the connection, and
/// the session, although nothing can be done on it.
async fn unanswered(session: &Session, begun: Moment) {
    loop {
        let at = session.validity().unanswered_at(begun);
        if at <= Moment::now() {
            return;
        }
        sleep_until(at.instant()).await;
    }
}

/// Keeps a session confirmed while `kept` runs, and ends it afterwards.
async fn follow<T>(session: &Session, kept: impl Future<Output = T>) -> T {
    let ended = tokio::select! {
        ended = kept => ended,
        never = keep_alive_task::run(session) => match never {},
    };
    session.end();
    // Published after the end, so that those who are notified see it.
    session.validity().publish(Health::Over);
    ended
}
