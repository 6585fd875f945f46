//! How requests are made: on which session, how long one attempt waits, and how often it is repeated.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::time::timeout;
use zookeeper_client as zk;

use super::handle::Client;
use super::link::Status;
use super::retry::Failures;
use super::session::Session;
use super::size;
use crate::error::{Error, Result};

impl Client {
    /// Waits until there is no connection.
    pub(crate) async fn disconnected(&self) {
        // The sender lives as long as the client.
        let _ = self.core.link.status().wait_for(|status| !status.is_connected()).await;
    }

    /// Whether there will be no session any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.core.link.status().borrow(), Status::Over { .. })
    }

    /// Returns a connected session that accepts writes, waiting for up to the connection timeout.
    pub(crate) async fn session(&self) -> Result<Arc<Session>> {
        let connection_timeout = self.core.settings.connection_timeout;
        let mut status = self.core.link.status();
        let settled = async {
            // The sender lives as long as the client.
            let settled = status.wait_for(Status::is_settled).await;
            settled.map_or(Status::Over { source: zk::Error::ClientClosed }, |status| status.clone())
        };
        let settled = timeout(connection_timeout, settled).await;
        if self.has_ended() {
            return Err(Error::Closed);
        }
        match settled {
            // If its connection has ended since, the next request reports that.
            Ok(Status::Live { session, .. }) => Ok(session),
            Ok(Status::Unauthenticated) => Err(Error::AuthFailed { hosts: self.core.origin.servers() }),
            Ok(Status::Over { source }) => Err(Error::SessionOver { source }),
            Ok(Status::Connecting { .. }) | Err(_) => Err(self.not_connected(connection_timeout)),
        }
    }

    /// Returns a connected session that accepts writes, waiting under the retry policy.
    pub(crate) async fn session_under_policy(&self) -> Result<Arc<Session>> {
        self.session_after(&mut Failures::default()).await
    }

    /// The same in the middle of an operation: its failures so far count as well.
    pub(crate) async fn session_after(&self, failures: &mut Failures) -> Result<Arc<Session>> {
        loop {
            match self.session().await {
                Ok(session) => return Ok(session),
                Err(error) => failures.pause_after(error, self.retry_policy()).await?,
            }
        }
    }

    /// Waits until requests can be made, for up to the connection timeout. Returns whether they can: one that is sent too
    /// early fails and reports why.
    pub(crate) async fn ready(&self, session: &Session) -> bool {
        timeout(self.core.settings.connection_timeout, session.ready()).await.is_ok()
    }

    /// Makes one attempt, in the sense of the retry policy, at a request on this session. Returns `None` if the
    /// session had no connection for the connection timeout; the request may have been sent, and carried out,
    /// nevertheless.
    ///
    /// # Cancel safety
    /// That of the request.
    pub(crate) fn attempt<T>(
        &self,
        session: &Session,
        asked: impl Future<Output = T>,
    ) -> impl Future<Output = Option<T>> {
        // Boxed: there can be many waiters, and each would keep the room of the future for as long as it waits.
        let asked = Box::pin(asked);
        async move {
            // What is asked may wait for a connection as well: not once more.
            let patience = match self.ready(session).await {
                true => self.core.settings.connection_timeout,
                false => Duration::ZERO,
            };
            let without_connection = pin!(session.without_connection(patience));
            // Not `tokio::select!`, which polls nothing when the task has used up its budget: the first poll sends
            // the request, and callers rely on that.
            match select(asked, without_connection).await {
                Either::Left((answer, _)) => Some(answer),
                Either::Right(((), _)) => None,
            }
        }
    }

    /// Makes one attempt at a single request.
    ///
    /// # Errors
    /// The error of the request, or `ConnectionLoss` if there was no connection.
    pub(crate) async fn attempt_one<T>(
        &self,
        session: &Session,
        request: impl Future<Output = Result<T, zk::Error>>,
    ) -> Result<T, zk::Error> {
        self.attempt(session, request).await.unwrap_or(Err(zk::Error::ConnectionLoss))
    }

    /// Waits until no session is available [under the retry policy](Self::session_under_policy), and returns the
    /// reason.
    pub(crate) async fn outage(&self) -> Error {
        let mut status = self.core.link.status();
        loop {
            // If the sender is gone, the next call reports that.
            let _ = status.wait_for(|status| !status.is_settled()).await;
            if let Err(error) = self.session_under_policy().await {
                return error;
            }
        }
    }

    /// Returns the error for having had no connected session for `waited`, with the causes known so far.
    pub(crate) fn not_connected(&self, waited: Duration) -> Error {
        let source = match &*self.core.link.status().borrow() {
            // The message says already that no server gave a session.
            Status::Connecting { failure } => {
                failure.clone().filter(|failure| *failure != zk::Error::NoHosts)
            }
            _ => None,
        };
        let causes = self.core.link.causes.borrow().clone();
        Error::NotConnected { hosts: self.core.origin.servers(), waited, causes, source }
    }

    /// Makes a request on the current session, and retries it under the retry policy if the connection fails. The
    /// request may be carried out twice.
    pub(crate) async fn request<T, F>(
        &self,
        operation: &'static str,
        path: &str,
        attempt: impl Fn(Arc<Session>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, zk::Error>>,
    {
        self.request_after(&mut Failures::default(), operation, path, attempt).await
    }

    /// The same after failures that count together with those of the request.
    pub(crate) async fn request_after<T, F>(
        &self,
        failures: &mut Failures,
        operation: &'static str,
        path: &str,
        attempt: impl Fn(Arc<Session>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, zk::Error>>,
    {
        loop {
            let outcome = match self.session().await {
                Ok(session) => {
                    let attempted = self.attempt_one(&session, attempt(session.clone())).await;
                    attempted.map_err(|source| Error::ZooKeeper { operation, path: path.to_owned(), source })
                }
                Err(error) => Err(error),
            };
            match outcome {
                Ok(value) => return Ok(value),
                Err(error) if error.ends_session() => {}
                Err(error) => failures.pause_after(error, self.retry_policy()).await?,
            }
        }
    }

    /// Whether a node exists at this full path. Sees everything that was done before the call.
    pub(crate) async fn exists(&self, path: &str) -> Result<bool> {
        let looking = self.request("look for", path, |session| async move {
            Ok(session.synced(path, session.stat(path)).await?.is_some())
        });
        self.unless_closed(looking).await
    }

    /// Whether the servers accept a request with operations of these sizes. They close the connection of a client
    /// that sends a larger one.
    pub(crate) fn fits(&self, operations: impl IntoIterator<Item = usize>) -> bool {
        size::fits(operations, self.core.origin.chroot())
    }

    /// # Errors
    /// [`Error::InvalidArgument`] if the servers would reject a request with these operations.
    pub(crate) fn ensure_fits(
        &self,
        argument: &'static str,
        operations: impl IntoIterator<Item = usize>,
    ) -> Result<()> {
        if self.fits(operations) {
            return Ok(());
        }
        let reason = format!(
            "they need a request of more than {} bytes, which the servers reject; give fewer of them, or less data",
            size::MAX_REQUEST
        );
        Err(Error::InvalidArgument { argument, reason })
    }
}
