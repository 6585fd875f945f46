//! The settings of a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use zookeeper_client::{self as zk, Acl};

use super::acl::AclProvider;
use super::dialer::Dialer;
use super::home::Home;
use super::keep_alive::KeepAlive;
use super::retry::RetryPolicy;
use super::supervisor::Source;
use super::validity::{self, Terms};
use super::{Client, Config, Origin, hosts, node_data, path};
use crate::error::{Error, Result};

const DEFAULT_SESSION_TIMEOUT: Duration = Duration::from_secs(15);
const DEFAULT_CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
const DEFAULT_DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// The settings of a [`Client`], and the ways to make one.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::{Client, RetryPolicy};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::builder()
///     .session_timeout(Duration::from_secs(10))
///     .namespace("billing")
///     .identity("billing-7")
///     .auth("digest", "billing:secret")
///     .retry_policy(RetryPolicy::forever(Duration::from_secs(1)))
///     .connect("zk1:2181,zk2:2181,zk3:2181/apps")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    connector: zk::Connector,
    session_timeout: Duration,
    connection_timeout: Duration,
    drop_timeout: Duration,
    runtime: Option<Handle>,
    terms: Terms,
    namespace: String,
    identity: Option<Vec<u8>>,
    compresses: bool,
    acls: AclProvider,
    retry: RetryPolicy,
    /// Whether it was given credentials.
    is_authenticated: bool,
    /// Whether it was given TLS options.
    is_encrypted: bool,
}

impl ClientBuilder {
    pub(super) fn new() -> Self {
        Self {
            connector: zk::Client::connector(),
            session_timeout: DEFAULT_SESSION_TIMEOUT,
            connection_timeout: DEFAULT_CONNECTION_TIMEOUT,
            drop_timeout: DEFAULT_DROP_TIMEOUT,
            runtime: None,
            terms: Terms::default(),
            namespace: String::new(),
            identity: None,
            compresses: false,
            acls: AclProvider::default(),
            retry: RetryPolicy::default(),
            is_authenticated: false,
            is_encrypted: false,
        }
    }

    /// How long the servers keep a session, and its locks, without hearing from the client. 15 s by default.
    ///
    /// A proposal: the servers hold it within their own bounds, 2 to 20 of their ticks (4 s to 40 s with
    /// ZooKeeper's defaults). A lock of a process that dies is free after this time, and a process that is
    /// cut off or paused for longer loses its locks.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// How long one attempt waits for a connected session. 15 s by default, as in Curator.
    ///
    /// Bounds [`connect`](Self::connect), and each attempt under the [retry policy](Self::retry_policy).
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.connection_timeout = timeout;
        self
    }

    /// For how long the drop of the last handle waits, and blocks its thread, until the servers have ended the session.
    /// 500 ms by default, and mostly a few milliseconds; it does not wait when there is no connection. Zero for not
    /// waiting at all.
    ///
    /// What is dropped at the end of a program is given back for that: otherwise the process might be gone before it is
    /// sent, and its locks would stay taken for the session timeout. [`Client::close`] waits without blocking.
    pub fn drop_timeout(mut self, timeout: Duration) -> Self {
        self.drop_timeout = timeout;
        self
    }

    /// Has the client live on this tokio runtime, rather than on the threads that all clients of the process share. It
    /// needs I/O and timers enabled.
    ///
    /// Its callers must be on a tokio runtime as well. The session is lost when the runtime has no time for it, as when all
    /// of its threads are blocked for longer than the session timeout; when it is shut down, the client is closed; and a
    /// last handle that is dropped within it does not wait for the [end of the session](Self::drop_timeout).
    ///
    /// ```no_run
    /// use tokio::runtime::Handle;
    ///
    /// # async fn example() -> zk_recipes::Result<()> {
    /// let builder = zk_recipes::Client::builder().runtime(Handle::current());
    /// let client = builder.connect("zk1:2181,zk2:2181,zk3:2181").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// How much earlier than the servers a holder gives its lock up for lost, when it has lost contact. A third of
    /// the session timeout by default.
    ///
    /// It covers what the servers of an ensemble learn from each other with delay, and clocks that run at different
    /// speeds; take none away without need. What followers may keep to themselves for half a tick is allowed for in
    /// any case. At most two thirds of the session timeout; also of one that the servers
    /// grant for less than it was asked for. See the [guide](crate::guide).
    pub fn validity_margin(mut self, margin: Duration) -> Self {
        self.terms.margin = Some(margin);
        self
    }

    /// Which answers of the servers keep a lock valid. By default [`KeepAlive::Quorum`]: only what a majority of the
    /// servers has committed.
    pub fn keep_alive(mut self, keep_alive: KeepAlive) -> Self {
        self.terms.keep_alive = keep_alive;
        self
    }

    /// Prefixes all paths with `/namespace`, as Curator's namespaces do. It is made when it is needed.
    ///
    /// Paths given to the library are relative to it. Paths that the library reports, in guards,
    /// participants and errors, are full: namespace included, chroot of the connect string excluded.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The data of this client's nodes, by which others can tell who holds or waits.
    ///
    /// By default the local address that faces the servers, as Curator's default is, and then the host name, the process
    /// id and the name of the program:
    ///
    /// ```text
    /// 10.1.2.3 host=web-3 pid=4711 program=billing
    /// ```
    ///
    /// [`Participant::address`](crate::Participant::address), `host`, `pid` and `program` read it. What is not known is left
    /// out: the address of an adopted session, or one that cannot be found within a second. Names are cut after 64
    /// characters; in them `%`, and whatever is neither a letter, a digit nor ASCII punctuation, is percent-encoded as in
    /// URLs. Everyone who may read the nodes sees it: give an identity of your own to tell less.
    ///
    /// A given identity is written as it is. At most 512 KiB, and not `__REVOKE__`, by which holders are asked for their
    /// locks.
    pub fn identity(mut self, identity: impl Into<Vec<u8>>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Compresses the data of this client's nodes with gzip, as Curator does after `enableCompression()`. Needed by every
    /// client that shares a path with such a client of Curator: it cannot read plain data, and its `acquire` fails behind a
    /// node that has some.
    ///
    /// Reading needs no setting: this library understands both. Clients that write plain data, of Curator without
    /// compression and of kazoo, cannot share a path with one that compresses at all.
    ///
    /// Source: Curator's `CuratorFrameworkFactory.Builder.enableCompression`.
    pub fn enable_compression(mut self) -> Self {
        self.compresses = true;
        self
    }

    /// Authenticates each session of this client. May be called for several identities.
    ///
    /// By itself this protects nothing: the nodes stay open to everyone, and the client logs a warning. Restrict them
    /// with [`creator_only`](Self::creator_only) or [`acl`](Self::acl). Without [TLS](crate::guide#security) the
    /// credentials are sent in the clear.
    pub fn auth(mut self, scheme: &str, credentials: impl AsRef<[u8]>) -> Self {
        self.is_authenticated = true;
        self.connector = self.connector.with_auth(scheme, credentials.as_ref());
        self
    }

    /// The ACL of the nodes that this client creates, parents included. By default everybody may everything.
    ///
    /// Contenders of one lock must be allowed to list the children of the lock path, and to create and
    /// delete there.
    pub fn acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.acls.set_default(acl.into());
        self
    }

    /// Reserves the nodes that this client creates, parents included, for clients that are authenticated as it is: every
    /// permission, for every identity given with [`auth`](Self::auth), [`sasl`](Self::sasl) or a certificate.
    ///
    /// Everyone who takes part in a lock or an election must be authenticated as the same user. Others cannot list the
    /// path, enter the queue or delete anything in it; their calls fail with an error that says that they lack a
    /// permission. For Curator, give the `CuratorFramework` the same credentials and an `ACLProvider` that returns
    /// `ZooDefs.Ids.CREATOR_ALL_ACL`. Nodes that exist already keep the ACL that they have.
    ///
    /// The same as [`acl`](Self::acl) with ZooKeeper's `CREATOR_ALL_ACL`, and replaces what was given there.
    ///
    /// ```no_run
    /// # async fn example() -> zk_recipes::Result<()> {
    /// let client = zk_recipes::Client::builder()
    ///     .auth("digest", "billing:secret")
    ///     .creator_only()
    ///     .connect("zk1:2181,zk2:2181,zk3:2181")
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn creator_only(self) -> Self {
        self.acl(zk::Acls::creator_all().to_vec())
    }

    /// An ACL by full path; where it returns `None`, that of [`acl`](Self::acl) is used.
    ///
    /// It is called wherever a node is made, also on the threads that the clients of the process share: it must not block,
    /// and spawn nothing. Do not give it this client itself, which would keep itself open.
    pub fn acl_for_path(mut self, acl: impl Fn(&str) -> Option<Vec<Acl>> + Send + Sync + 'static) -> Self {
        self.acls.set_per_path(Arc::new(acl));
        self
    }

    /// What is tried again, and how often, when the connection fails. See [`RetryPolicy`] for the default.
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Encrypts the connections to all servers. A host that is given as `tcp://host:port` is then refused: nothing is sent
    /// in the clear.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, options: zk::TlsOptions) -> Self {
        self.connector = self.connector.with_tls(options);
        self.is_encrypted = true;
        self
    }

    /// Authenticates each connection by SASL. As with [`auth`](Self::auth), the nodes stay open to everyone unless an
    /// ACL restricts them.
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    pub fn sasl(mut self, options: impl Into<zk::SaslOptions>) -> Self {
        self.connector = self.connector.with_sasl(options);
        self.is_authenticated = true;
        self
    }

    /// Connects to the servers of a connect string: `host[:port][,host[:port]…][/chroot]`.
    ///
    /// The port is 2181 unless it is given. An IPv6 address is written in brackets, as in `[::1]:2181`. The chroot must
    /// exist. A host may have a scheme: `tcp://`, or `tcp+tls://` with [TLS options](crate::guide).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] or [`Error::InvalidPath`] for settings that make no sense, before anything
    /// is sent; [`Error::NotConnected`] when there is no session within the connection timeout;
    /// [`Error::AuthFailed`] when the servers refuse the credentials.
    ///
    /// # Cancel safety
    /// No client is left behind.
    pub async fn connect(self, connect_string: &str) -> Result<Client> {
        let client = self.connect_lazily(connect_string)?;
        client.wait_connected().await?;
        Ok(client)
    }

    /// Makes a client at once, and its session in the background. It starts
    /// [`Suspended`](crate::ConnectionState::Suspended).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] or [`Error::InvalidPath`] for settings that make no sense.
    pub fn connect_lazily(self, connect_string: &str) -> Result<Client> {
        let hosts = Arc::new(hosts::validate(connect_string, self.is_encrypted)?);
        self.validate_identity()?;
        let connector = self.connector.clone().with_session_timeout(self.session_timeout);
        let origin = Origin::Own { connect_string: connect_string.to_owned(), hosts: hosts.clone() };
        let session_timeout = self.session_timeout;
        let home = self.runtime.clone().map_or_else(Home::shared, |runtime| Ok(Home::of(runtime)))?;
        self.start(
            origin,
            home,
            Source::Own { dialer: Box::new(Dialer::new(connector, hosts)), session_timeout },
        )
    }

    /// Makes a client on a session that somebody else owns. It is not made again when it expires, and not
    /// ended by [`Client::close`]. The settings of the session itself, its timeout, authentication and
    /// encryption, are the owner's and are ignored here. Call it on the runtime that the session was made on: the client
    /// lives there, too.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] or [`Error::InvalidPath`] for settings that make no sense, or outside of a
    /// tokio runtime.
    pub fn from_zookeeper(self, zookeeper: zk::Client) -> Result<Client> {
        let origin = Origin::Adopted { chroot: zookeeper.path().to_owned() };
        let runtime = Handle::try_current().map_err(|_| Error::InvalidArgument {
            argument: "runtime",
            reason: "a session lives on a tokio runtime; call it within that".into(),
        })?;
        self.start(origin, Home::of(runtime), Source::Adopted(zookeeper))
    }

    fn start(self, origin: Origin, home: Home, source: Source) -> Result<Client> {
        self.validate(&source)?;
        if let Origin::Own { connect_string: hosts, .. } = &origin
            && self.is_authenticated
            && self.acls.is_open_by_default()
        {
            tracing::warn!(
                hosts,
                "this client authenticates, but its nodes are open to everyone: call `creator_only` or `acl` on its builder"
            );
        }
        let namespace = match self.namespace.as_str() {
            "" => String::new(),
            namespace => format!("/{namespace}"),
        };
        let config = Config {
            origin,
            namespace,
            acls: self.acls,
            retry: self.retry,
            connection_timeout: self.connection_timeout,
            drop_timeout: self.drop_timeout,
            terms: self.terms,
            compresses: self.compresses,
        };
        Ok(Client::start(config, home, self.identity, source))
    }

    /// Of a session of its own: that of somebody else has the identities that its owner gave it.
    fn validate_identity(&self) -> Result<()> {
        if self.acls.default_names_creator() && !self.is_authenticated && !self.is_encrypted {
            let reason = "it reserves the nodes for an authenticated client, and this one is not; call `auth` or `sasl`";
            return Err(Error::InvalidArgument { argument: "ACL", reason: reason.into() });
        }
        Ok(())
    }

    fn validate(&self, source: &Source) -> Result<()> {
        let invalid =
            |argument, reason: &str| Err(Error::InvalidArgument { argument, reason: reason.into() });
        if self.session_timeout.as_millis() == 0 {
            return invalid("session timeout", "it is below a millisecond; give one of some seconds");
        }
        if i32::try_from(self.session_timeout.as_millis()).is_err() {
            return invalid(
                "session timeout",
                "it is longer than ZooKeeper can count; give one of some seconds",
            );
        }
        if self.connection_timeout.is_zero() {
            return invalid("connection timeout", "it is zero; give one of some seconds");
        }
        let session_timeout = match source {
            Source::Own { .. } => self.session_timeout,
            Source::Adopted(zookeeper) => zookeeper.session_timeout(),
        };
        if self.terms.margin.is_some_and(|margin| margin > validity::longest_margin(session_timeout)) {
            return invalid(
                "validity margin",
                "it leaves less than a third of the session timeout; give less, or a longer session",
            );
        }
        if let Some(identity) = &self.identity {
            node_data::validate("identity", identity)?;
        }
        if self.acls.default_is_empty() {
            return invalid(
                "ACL",
                "it is empty, so that nobody could use the nodes; name at least one right",
            );
        }
        if !self.namespace.is_empty() {
            path::validate(&format!("/{}", self.namespace))?;
        }
        self.retry.validate()
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the connector: it would print passwords.
        f.debug_struct("ClientBuilder")
            .field("session_timeout", &self.session_timeout)
            .field("connection_timeout", &self.connection_timeout)
            .field("drop_timeout", &self.drop_timeout)
            .field("validity_margin", &self.terms.margin)
            .field("keep_alive", &self.terms.keep_alive)
            .field("namespace", &self.namespace)
            .field("compresses", &self.compresses)
            .field("identity", &self.identity.as_deref().map(String::from_utf8_lossy))
            .field("acls", &self.acls)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
