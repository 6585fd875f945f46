//! Checks the settings of a client, and starts it.

use std::sync::Arc;

use tokio::runtime::Handle;
use zookeeper_client as zk;

use super::super::core::{Core, Origin};
use super::super::dialer::Dialer;
use super::super::handle::Client;
use super::super::home::Home;
use super::super::supervisor::Source;
use super::super::{hosts, node_data, path, validity};
use super::ClientBuilder;
use crate::error::{Error, Result};

impl ClientBuilder {
    /// Connects to the servers of a connect string: `host[:port][,host[:port]…][/chroot]`.
    ///
    /// The default port is 2181. Write an IPv6 address in brackets, as in `[::1]:2181`. The chroot must exist. A
    /// host may have a scheme: `tcp://`, or `tcp+tls://` with [TLS options](crate::guide::operations#security).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] or [`Error::InvalidPath`] if a setting is invalid, before anything is sent;
    /// [`Error::NotConnected`] if there is no session within the connection timeout; [`Error::AuthFailed`] if the
    /// servers refuse the credentials.
    ///
    /// # Cancel safety
    /// No client is left behind.
    pub async fn connect(self, connect_string: &str) -> Result<Client> {
        let client = self.connect_lazily(connect_string)?;
        client.wait_connected().await?;
        Ok(client)
    }

    /// Returns a client immediately, and connects it in the background. Its first state is
    /// [`Suspended`](crate::ConnectionState::Suspended).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] or [`Error::InvalidPath`] if a setting is invalid.
    pub fn connect_lazily(self, connect_string: &str) -> Result<Client> {
        self.start_own(connect_string).map(Client::new)
    }

    /// Starts a client with sessions of its own.
    pub(in crate::client) fn start_own(self, connect_string: &str) -> Result<Arc<Core>> {
        let hosts = Arc::new(hosts::validate(connect_string, self.is_encrypted)?);
        self.validate_identity()?;
        let connector = self.connector.clone().with_session_timeout(self.session_timeout);
        let origin = Origin::Own { connect_string: connect_string.to_owned(), hosts: hosts.clone() };
        let home = match self.runtime.clone() {
            Some(runtime) => Home::of(runtime, self.wrapper.clone()),
            None => Home::shared()?,
        };
        let dialer = Dialer::new(connector, hosts, self.uses_sasl);
        self.start(origin, home, Source::Own(Box::new(dialer)))
    }

    /// Creates a client on a session that you own. The client does not replace the session when it expires, and
    /// [`Client::close`] does not end it. The settings of the session itself (timeout, authentication, encryption)
    /// are those that you gave it; they are ignored here. Call this on the runtime that the session was created on:
    /// the client runs there, too.
    ///
    /// A create whose reply is lost, and whose node is not found, may be carried out later. To remove the node then, this
    /// client keeps the session for two session timeouts and 45 s more, even if it is closed and yours is dropped.
    ///
    /// Servers other than ZooKeeper, and proxies that change session ids, may give your client another session when it
    /// reconnects, which `zookeeper-client` does not tell. This client finds out before it trusts the connection, and its
    /// session is over then, as after an expiry; your client goes on with its new session, but shows the id of the first
    /// one, so no other client can adopt it. Servers before 3.6 do not let it find out while it holds anything.
    ///
    /// Nothing tells when your client was last heard of before this. So the first answer to a request of this client counts
    /// as if the session had been established then.
    ///
    /// Adopt a session once at a time, and do not watch the nodes of the recipes yourself on it: `zookeeper-client` 0.11 can
    /// use freed memory if watches on the data and on the children of one node are dropped at the same time, which this
    /// client prevents for its own watches only.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] or [`Error::InvalidPath`] if a setting is invalid, or if called outside of a
    /// tokio runtime.
    pub fn from_zookeeper(self, zookeeper: zk::Client) -> Result<Client> {
        let origin =
            Origin::Adopted { session_id: zookeeper.session_id().0, chroot: zookeeper.path().to_owned() };
        let runtime = Handle::try_current().map_err(|_| Error::InvalidArgument {
            argument: "runtime",
            reason:
                "no tokio runtime is running here; call this on the runtime that the session was created on"
                    .into(),
        })?;
        self.start(origin, Home::of(runtime, None), Source::Adopted(zookeeper)).map(Client::new)
    }

    fn start(self, origin: Origin, home: Home, source: Source) -> Result<Arc<Core>> {
        self.validate(&source)?;
        if let Origin::Own { connect_string: hosts, .. } = &origin
            && self.is_authenticated
            && self.acls.is_open_by_default()
            && !self.is_for_watches
        {
            tracing::warn!(
                hosts,
                "this client authenticates, but its nodes are open to everyone: call `creator_only` or `acl` on its builder"
            );
        }
        Ok(Core::start(self, origin, home, source))
    }

    /// Only for a session of our own: an adopted one has the identities that its owner gave it.
    fn validate_identity(&self) -> Result<()> {
        if self.acls.default_names_creator() && !self.is_authenticated && !self.is_encrypted {
            let reason = "it restricts the nodes to the authenticated client, but this client does not authenticate; call `auth` or `sasl`";
            return Err(Error::InvalidArgument { argument: "ACL", reason: reason.into() });
        }
        Ok(())
    }

    fn validate(&self, source: &Source) -> Result<()> {
        let invalid =
            |argument, reason: &str| Err(Error::InvalidArgument { argument, reason: reason.into() });
        if self.session_timeout.as_millis() == 0 {
            return invalid("session timeout", "it is less than a millisecond; give several seconds");
        }
        if i32::try_from(self.session_timeout.as_millis()).is_err() {
            return invalid(
                "session timeout",
                "it exceeds 2^31 - 1 milliseconds, ZooKeeper's maximum; give several seconds",
            );
        }
        if self.connection_timeout.is_zero() {
            return invalid("connection timeout", "it must be greater than zero; give several seconds");
        }
        let session_timeout = match source {
            Source::Own(_) => self.session_timeout,
            Source::Adopted(zookeeper) => zookeeper.session_timeout(),
        };
        if self.terms.margin.is_some_and(|margin| margin > validity::longest_margin(session_timeout)) {
            return invalid(
                "validity margin",
                "it exceeds two thirds of the session timeout; give a smaller margin, or a longer session timeout",
            );
        }
        if let Some(identity) = &self.identity {
            node_data::validate("identity", identity)?;
        }
        if self.acls.default.as_ref().is_some_and(Vec::is_empty) {
            return invalid(
                "ACL",
                "it is empty, so no one could use the nodes; grant at least one permission",
            );
        }
        if !self.namespace.is_empty() {
            path::validate(&format!("/{}", self.namespace))?;
        }
        self.retry.validate()
    }
}
