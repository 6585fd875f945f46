//! Follows the session of a client, and makes a new one when it has expired.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use zookeeper_client::{self as zk, SessionState};

use super::adopted;
use super::clock::Moment;
use super::connection::{Connection, Server, Service};
use super::dialer::{Dialed, Dialer, Patience};
use super::link::{Link, Status};
use super::process::Process;
use super::pulse;
use super::serving;
use super::session::Session;
use super::state::ConnectionState;
use super::validity::{Health, Terms, Validity};

/// For which the requests of a closed client may go on; and in which those who wait for the end of a session without a
/// connection hope for another one.
const FAREWELL: Duration = Duration::from_millis(200);

/// A connection that was over sooner is not followed by the next one at once.
const BRIEF: Duration = Duration::from_millis(25);
const BRIEF_PAUSE: Duration = Duration::from_millis(30);

/// How often all servers are asked to end a session that was given up.
const BURIALS: u32 = 3;

/// Between attempts to authenticate.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Where sessions come from.
pub(crate) enum Source {
    /// Made by us, and again after each expiry.
    Own { dialer: Box<Dialer>, session_timeout: Duration },
    /// Made and ended by somebody else.
    Adopted(zk::Client),
}

/// Runs until `closed`, or until an adopted session is over. Cancels `ended` when the session is let go of.
pub(crate) async fn supervise(
    source: Source,
    terms: Terms,
    identity: Arc<OnceLock<Vec<u8>>>,
    link: Arc<Link>,
    closed: CancellationToken,
    ended: CancellationToken,
) {
    let _ended = ended.clone().drop_guard();
    let mut ending = Ending { link: link.clone(), closed: closed.clone(), is_due: false };
    let by_closing = (ConnectionState::Closed, zk::Error::ClientClosed);
    let (state, source) = match source {
        Source::Own { dialer, session_timeout } => {
            if identity.get().is_none() {
                let address = dialer.hosts().local_address().await;
                identity.get_or_init(|| Process::here(address).to_data());
            }
            let supervisor = Supervisor { dialer, session_timeout, terms, link: link.clone(), closed, ended };
            supervisor.run().await;
            by_closing
        }
        Source::Adopted(zookeeper) => {
            let id = zookeeper.session_id().0;
            let validity = Validity::new(zookeeper.session_timeout(), terms, Moment::now(), false);
            let session = Arc::new(Session::new(1, id, validity));
            let serving = Arc::new(serving::Serving::new(zookeeper.state_watcher()));
            let following = follow(&session, adopted::follow(&session, &zookeeper, &serving, &link));
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

/// Closes the client if nobody will make a session any more, though it was not closed: because its runtime is shut down, or
/// because of a panic.
struct Ending {
    link: Arc<Link>,
    closed: CancellationToken,
    is_due: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.is_due {
            return;
        }
        self.closed.cancel();
        if std::thread::panicking() {
            tracing::error!("the task that serves the client has panicked; the client is closed");
        }
        let over = Status::Over { source: zk::Error::ClientClosed };
        // A second panic would end the process.
        let _ = catch_unwind(AssertUnwindSafe(|| self.link.publish(ConnectionState::Closed, over)));
    }
}

/// Makes the sessions of a client, and their connections.
struct Supervisor {
    dialer: Box<Dialer>,
    /// That is asked for.
    session_timeout: Duration,
    terms: Terms,
    link: Arc<Link>,
    closed: CancellationToken,
    /// Cancelled when nobody is to wait any more.
    ended: CancellationToken,
}

/// What became of a session or a connection.
enum End {
    /// The client was closed.
    Closed,
    /// The client was closed, and the session was ended for that.
    Ended,
    /// The connection is lost.
    Disconnected,
    /// The session was given up, since no server could be reached for so long. The servers may have it still.
    GivenUp(zk::SessionInfo),
    /// The session is over.
    Expired,
    /// The servers refuse the authentication.
    AuthFailed,
}

impl Supervisor {
    async fn run(&self) {
        let mut left_behind = None;
        for epoch in 1.. {
            let Some(dialed) = self.closed.run_until_cancelled(self.establish()).await else { return };
            let zookeeper = &dialed.zookeeper;
            let validity = Validity::new(zookeeper.session_timeout(), self.terms, dialed.since, true);
            let session = Arc::new(Session::new(epoch, zookeeper.session_id().0, validity));
            let mut keeping = pin!(follow(&session, self.keep(&session, dialed)));
            let burying = left_behind.take().map(|session| self.bury(session, BURIALS));
            let end = tokio::select! {
                end = &mut keeping => end,
                Some(()) = OptionFuture::from(burying) => keeping.await,
            };
            let mut status = Status::Connecting { failure: None };
            match end {
                End::Closed | End::Ended => return,
                // Servers may give a session first and refuse a password by SASL then; the next one will fare no better.
                End::AuthFailed => status = Status::Unauthenticated,
                End::GivenUp(session) => left_behind = Some(session),
                End::Expired | End::Disconnected => {}
            }
            let is_refused = matches!(status, Status::Unauthenticated);
            self.link.publish(ConnectionState::Lost, status);
            if is_refused && self.closed.run_until_cancelled(sleep(REFUSED_PAUSE)).await.is_none() {
                return;
            }
        }
    }

    /// Tries until there is a session.
    async fn establish(&self) -> Dialed {
        let mut patience = Patience::most(self.session_timeout);
        loop {
            for host in self.dialer.round() {
                match self.dialer.dial(&host, None, patience).await {
                    Ok(dialed) => return dialed,
                    Err(zk::Error::AuthFailed) => {
                        self.link.publish_status(Status::Unauthenticated);
                        sleep(REFUSED_PAUSE).await;
                    }
                    Err(error) => self.failed(&host, error),
                }
            }
            patience.pause().await;
        }
    }

    fn failed(&self, host: &str, error: zk::Error) {
        tracing::debug!(host, %error, "cannot connect yet");
        self.link.publish_status(Status::Connecting { failure: Some(error) });
    }

    /// Ends a session when the client is closed. Those who wait for that do so for as long as they like; without a connection
    /// not for long.
    async fn take_leave(&self, session: zk::SessionInfo, is_connected: bool) -> End {
        let mut burying = pin!(timeout(self.session_timeout, self.bury(session, u32::MAX)));
        if !is_connected {
            if timeout(FAREWELL, &mut burying).await.is_ok() {
                return End::Ended;
            }
            let over = Status::Over { source: zk::Error::ClientClosed };
            self.link.publish(ConnectionState::Closed, over);
            self.ended.cancel();
        }
        let _ = burying.await;
        End::Ended
    }

    /// Ends a session that was given up, if the servers still have it: what is left of it, others and we would wait for.
    ///
    /// Only when there is a new one, and not for long: a server that hears each attempt, and is not heard, would keep the
    /// session for as long as they go on.
    async fn bury(&self, session: zk::SessionInfo, rounds: u32) {
        let mut patience = Patience::growing(self.session_timeout);
        for _ in 0..rounds {
            for host in self.dialer.round() {
                match self.dialer.dial(&host, Some(&session), patience).await {
                    Ok(Dialed { zookeeper, serving, .. }) => {
                        let state = zookeeper.state_watcher();
                        // The last handle: the session is ended.
                        drop(zookeeper);
                        let served = timeout(patience.get(), serving).await;
                        // Otherwise the connection was lost.
                        if served.is_ok() && state.peek_state().is_terminated() {
                            return;
                        }
                    }
                    Err(zk::Error::SessionExpired | zk::Error::AuthFailed) => return,
                    Err(error) => tracing::debug!(host, %error, "cannot end the session that was given up"),
                }
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
            self.link.publish(state, Status::Live { session: session.clone(), writable: true });
            state = ConnectionState::Reconnected;
            match self.serve(session, connection, serving).await {
                End::Disconnected => {}
                // Somebody may keep a request that is never polled again.
                End::Closed => return self.take_leave(info, true).await,
                end => return end,
            }
            session.disconnect();
            let status = Status::Live { session: session.clone(), writable: false };
            self.link.publish(ConnectionState::Suspended, status);
            let left = session.validity().given_up_at().since(Moment::now());
            let connecting = async {
                // A server that hangs up each time is not asked as fast as it can be.
                if begun.elapsed() < BRIEF {
                    sleep(BRIEF_PAUSE.mul_f64(0.5 + fastrand::f64())).await;
                }
                self.reconnect(session, &info).await
            };
            dialed = match self.closed.run_until_cancelled(timeout(left, connecting)).await {
                None => return self.take_leave(info, false).await,
                Some(Err(_)) => return End::GivenUp(info),
                Some(Ok(Err(end))) => return end,
                Some(Ok(Ok(dialed))) => dialed,
            };
        }
    }

    /// Serves a connection until it, or its session, is over; [`End::Closed`] if the session goes on at the servers, though
    /// the client was closed.
    async fn serve(&self, session: &Session, connection: Arc<Connection>, serving: Service) -> End {
        let gate = serving.gate().clone();
        // In a task of its own, which is woken by nothing else.
        let served = self.link.home().serve(serving);
        if self.closed.run_until_cancelled(gate.ended()).await.is_none() {
            let state = connection.zookeeper().state_watcher();
            // The handles are dropped, so that the session is ended: when the requests under way are answered.
            session.end();
            let kept = Arc::downgrade(&connection);
            drop(connection);
            let mut ended = timeout(FAREWELL, gate.ended()).await;
            if ended.is_err() && kept.strong_count() == 0 {
                // Nobody keeps it from being ended but the server.
                ended = timeout(self.session_timeout, gate.ended()).await;
            }
            drop(served);
            let is_ended = ended.is_ok() && state.peek_state().is_terminated();
            return if is_ended { End::Ended } else { End::Closed };
        }
        match connection.state() {
            SessionState::Expired => End::Expired,
            SessionState::AuthFailed => End::AuthFailed,
            // Nobody has closed it; so it was overtaken by the end of its runtime.
            _ => End::Disconnected,
        }
    }

    /// Tries until the session is connected again, to a server that shows all that the client has heard of.
    ///
    /// # Errors
    /// That the session is over.
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
                session.validity().renegotiated(dialed.zookeeper.session_timeout(), dialed.since);
                // A server that lags behind, or that the others have left, would show the past.
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

/// Keeps a session confirmed for as long as it is kept by somebody, and ends it then.
async fn follow<T>(session: &Session, kept: impl Future<Output = T>) -> T {
    let ended = tokio::select! {
        ended = kept => ended,
        never = pulse::beat(session) => match never {},
    };
    session.end();
    // After that, so that those who hear of it see it.
    session.validity().publish(Health::Over);
    ended
}
