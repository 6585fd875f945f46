//! Configures a client.

mod connect;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use zookeeper_client::{self as zk, Acl};

use super::acl::AclProvider;
use super::home::Wrapper;
use super::keep_alive::KeepAlive;
use super::retry::RetryPolicy;
use super::validity::Terms;
use crate::meters::Labels;

const DEFAULT_SESSION_TIMEOUT: Duration = Duration::from_secs(15);
const DEFAULT_CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
const DEFAULT_DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// Configures a [`Client`](crate::Client), and connects it.
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
    pub(super) session_timeout: Duration,
    pub(super) connection_timeout: Duration,
    pub(super) drop_timeout: Duration,
    runtime: Option<Handle>,
    wrapper: Option<Wrapper>,
    pub(super) terms: Terms,
    pub(super) namespace: String,
    pub(super) identity: Option<Vec<u8>>,
    pub(super) program: Option<String>,
    pub(super) compresses: bool,
    pub(super) acls: AclProvider,
    pub(super) retry: RetryPolicy,
    /// Whether credentials were given.
    is_authenticated: bool,
    uses_sasl: bool,
    /// Whether TLS options were given.
    is_encrypted: bool,
    pub(super) labels: Labels,
    /// Whether it makes the second session of a client.
    pub(super) is_for_watches: bool,
}

debug_by!(ClientBuilder, |it|
    namespace: it.namespace, identity: it.identity.as_deref().map(String::from_utf8_lossy),
    session_timeout: it.session_timeout, connection_timeout: it.connection_timeout,
    keep_alive: it.terms.keep_alive, compresses: it.compresses
);

impl ClientBuilder {
    pub(super) fn new() -> Self {
        Self {
            connector: zk::Client::connector(),
            session_timeout: DEFAULT_SESSION_TIMEOUT,
            connection_timeout: DEFAULT_CONNECTION_TIMEOUT,
            drop_timeout: DEFAULT_DROP_TIMEOUT,
            runtime: None,
            wrapper: None,
            terms: Terms::default(),
            namespace: String::new(),
            identity: None,
            program: None,
            compresses: false,
            acls: AclProvider::default(),
            retry: RetryPolicy::default(),
            is_authenticated: false,
            uses_sasl: false,
            is_encrypted: false,
            labels: Labels::default(),
            is_for_watches: false,
        }
    }

    /// Sets how long the servers keep a session, and its locks, without hearing from the client. 15 s by default.
    ///
    /// The timeout is a proposal. The servers bound it to 2 to 20 of their ticks (4 s to 40 s with ZooKeeper's
    /// defaults). The locks of a process that dies are free after this time; a process that is cut off or paused
    /// for longer loses its locks.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Sets how long one attempt waits for a connected session. 15 s by default, as in Curator.
    ///
    /// It bounds [`connect`](Self::connect), and each attempt under the [retry policy](Self::retry_policy).
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.connection_timeout = timeout;
        self
    }

    /// Sets how long dropping the last handle may block its thread, waiting until the servers have ended the
    /// session. 500 ms by default; it mostly takes a few milliseconds. The drop does not wait if there is no
    /// connection. Zero disables the wait.
    ///
    /// The wait releases what is dropped at the end of a program. Without it, the process could be gone before the
    /// request is sent, and its locks would stay taken for the session timeout.
    /// [`Client::close`](crate::Client::close) waits without blocking.
    pub fn drop_timeout(mut self, timeout: Duration) -> Self {
        self.drop_timeout = timeout;
        self
    }

    /// Runs the client on this tokio runtime, rather than on the threads that all clients of the process share. The
    /// runtime needs I/O and timers enabled.
    ///
    /// Callers must then be on a tokio runtime as well. The given runtime has these effects:
    ///
    /// - The session is lost if the runtime cannot run it in time, for example because all of its threads are
    ///   blocked for longer than the session timeout.
    /// - The client is closed when the runtime is shut down.
    /// - A caller on another runtime that waits at that very moment may poll a timer of it, which panics. The panic is
    ///   caught, and the caller gets [`Error::Closed`](crate::Error::Closed). In a program with `panic = "abort"`, close the
    ///   client before you shut the runtime down.
    /// - A last handle that is dropped within the runtime does not wait for the [end of the
    ///   session](Self::drop_timeout).
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

    /// Passes each task of the client, and the work of its [leaders](crate::LeaderSelector), through a function before it is
    /// spawned on the [given runtime](Self::runtime).
    ///
    /// The function can give the task a span, or measure it; in a test it can poll the task late, as a busy machine does,
    /// or drop it, as the end of a process does. Without a given runtime, nothing is passed to it.
    pub fn wrap_tasks<W>(mut self, wrap: W) -> Self
    where
        W: Fn(Pin<Box<dyn Future<Output = ()> + Send>>) -> Pin<Box<dyn Future<Output = ()> + Send>>,
        W: Send + Sync + 'static,
    {
        self.wrapper = Some(Wrapper::new(wrap));
        self
    }

    /// Sets how much earlier than the servers a holder that has lost contact considers its lock lost. A third of
    /// the session timeout by default.
    ///
    /// The margin covers the delay with which the servers of an ensemble learn from each other, and clocks that run
    /// at different rates. Do not reduce it without need. The half tick for which followers may keep news to
    /// themselves is allowed for in any case. The maximum is two thirds of the session timeout, also when the
    /// servers grant less than you asked for. With the maximum, a holder may lose its lock when answers take longer
    /// than 9 % of the session timeout. See the [guide](crate::guide::losing_a_lock).
    pub fn validity_margin(mut self, margin: Duration) -> Self {
        self.terms.margin = Some(margin);
        self
    }

    /// Sets which replies of the servers keep a lock valid. The default is [`KeepAlive::Quorum`]: only what a
    /// majority of the servers has committed.
    pub fn keep_alive(mut self, keep_alive: KeepAlive) -> Self {
        self.terms.keep_alive = keep_alive;
        self
    }

    /// Prefixes all paths with `/namespace`, as Curator's namespaces do. The node is created when it is needed.
    ///
    /// Paths that you give to the library are relative to the namespace. Paths that the library reports, in guards,
    /// participants and errors, are full: they include the namespace, but not the chroot of the connect string.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets the data of this client's nodes, which identifies it to others as a holder or waiter.
    ///
    /// By default it is the local address that faces the servers, as in Curator, followed by the host name, the
    /// process id and the name of the program:
    ///
    /// ```text
    /// 10.1.2.3 host=web-3 pid=4711 program=billing
    /// ```
    ///
    /// [`Participant::address`](crate::Participant::address), `host`, `pid` and `program` parse it. Unknown parts
    /// are left out: the address of an adopted session, or one that cannot be found within a second. Names are cut
    /// after 64 characters; in them `%`, and every character that is not a letter, a digit or ASCII punctuation, is
    /// percent-encoded as in URLs. Every client that may read the nodes sees this data; set an identity of your own
    /// to disclose less.
    ///
    /// An identity that you set is written unchanged. It can have at most 512 KiB, and must not be `__REVOKE__`,
    /// the data by which a holder is asked to release its lock.
    pub fn identity(mut self, identity: impl Into<Vec<u8>>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets the name of the program in the default [identity](Self::identity), instead of that by which it was called.
    pub fn program_name(mut self, name: impl Into<String>) -> Self {
        self.program = Some(name.into());
        self
    }

    /// Compresses the data of this client's nodes with gzip, as Curator does after `enableCompression()`. Every
    /// client that shares a path with such a Curator client needs this: that client cannot read plain data, and its
    /// `acquire` fails behind a node that has some.
    ///
    /// Reading needs no setting, since this library understands both. Clients that write plain data (Curator
    /// without compression, and kazoo) cannot share a path at all with one that compresses.
    ///
    /// Source: Curator's `CuratorFrameworkFactory.Builder.enableCompression`.
    pub fn enable_compression(mut self) -> Self {
        self.compresses = true;
        self
    }

    /// Authenticates each session of this client. Call it once for each identity.
    ///
    /// This protects nothing by itself: the nodes stay open to everyone, and the client logs a warning. Restrict them
    /// with [`creator_only`](Self::creator_only) or [`acl`](Self::acl). Without
    /// [TLS](crate::guide::operations#security) the credentials are sent in the clear.
    pub fn auth(mut self, scheme: &str, credentials: impl AsRef<[u8]>) -> Self {
        self.is_authenticated = true;
        self.connector = self.connector.with_auth(scheme, credentials.as_ref());
        self
    }

    /// Sets the ACL of the nodes that this client creates, parents included. By default everyone has all
    /// permissions.
    ///
    /// Every contender of a lock needs permission to list the children of the lock path, and to create and delete
    /// nodes there. [`Acls`](crate::Acls) has lists for common cases, to be given with `to_vec`.
    pub fn acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.acls.default = Some(acl.into());
        self
    }

    /// Restricts the nodes that this client creates, parents included, to clients with the same authentication.
    /// Every identity given with [`auth`](Self::auth), `sasl` or a certificate gets all permissions; everyone else gets
    /// none.
    ///
    /// Everyone who takes part in a lock or an election must authenticate as the same user. Others cannot list the
    /// path, enter the queue or delete anything in it; their calls fail with an error that says that they lack a
    /// permission. With Curator, give the `CuratorFramework` the same credentials and an `ACLProvider` that returns
    /// `ZooDefs.Ids.CREATOR_ALL_ACL`. Nodes that already exist keep their ACL: if somebody else has created the path of a
    /// lock, everyone who may delete children there can take the lock away. This is warned of once for each path that
    /// everyone may create, delete or administer in; see [security](crate::guide::operations#security).
    ///
    /// This is [`acl`](Self::acl) with ZooKeeper's `CREATOR_ALL_ACL`, and replaces an ACL given there.
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

    /// Sets a function that returns the ACL for a full path. Where it returns `None`, the ACL of [`acl`](Self::acl)
    /// applies.
    ///
    /// The function is called wherever a node is created, also on the threads that all clients of the process
    /// share: it must neither block nor spawn. Do not capture this client in it, since that would keep the client
    /// open.
    pub fn acl_for_path(mut self, acl: impl Fn(&str) -> Option<Vec<Acl>> + Send + Sync + 'static) -> Self {
        self.acls.per_path = Some(Arc::new(acl));
        self
    }

    /// Sets what is retried, and how often, when the connection fails. See [`RetryPolicy`] for the default.
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Sets a function that returns the label of a lock in metrics, from its full path. The path by default, as is
    /// right for few locks. Let locks by key share a label: each label has time series of its own.
    ///
    /// The function is called for each lock object that is made. See the
    /// [guide](crate::guide::observing#metrics) for the metrics.
    ///
    /// ```no_run
    /// # async fn example() -> zk_recipes::Result<()> {
    /// // "/locks/orders/4711" counts as "/locks/orders".
    /// let builder = zk_recipes::Client::builder()
    ///     .metric_label(|path| path.rsplit_once('/').map_or(path, |(parent, _)| parent).to_owned());
    /// let client = builder.connect("zk1:2181,zk2:2181,zk3:2181").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "metrics")]
    pub fn metric_label(mut self, label_of: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.labels = Labels::new(label_of);
        self
    }

    /// Encrypts the connections to all servers. A host given as `tcp://host:port` is then rejected, so that nothing
    /// is sent in the clear.
    ///
    /// Each connection uses the certificates that are there when it is made. Replace those that would expire while the
    /// program runs; what is held stays held:
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::fs::read_to_string;
    /// use zk_recipes::Client;
    /// use zookeeper_client::{TlsCa, TlsCerts, TlsDynamicCerts, TlsIdentity, TlsOptions};
    ///
    /// fn certificates() -> Result<TlsCerts, Box<dyn std::error::Error>> {
    ///     let ca = TlsCa::from_pem(&read_to_string("ca.pem")?)?;
    ///     let own = TlsIdentity::from_pem(&read_to_string("client.pem")?, &read_to_string("client.key")?)?;
    ///     Ok(TlsCerts::builder().with_ca(ca).with_identity(own).build()?)
    /// }
    ///
    /// let current = TlsDynamicCerts::new(certificates()?);
    /// let options = TlsOptions::new().with_certs(current.clone());
    /// let client = Client::builder().tls(options).connect("zk1:2281,zk2:2281,zk3:2281").await?;
    /// // Once the files have been replaced:
    /// current.update(certificates()?);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(mut self, options: zk::TlsOptions) -> Self {
        self.connector = self.connector.with_tls(options);
        self.is_encrypted = true;
        self
    }

    /// Authenticates each connection with SASL. As with [`auth`](Self::auth), the nodes stay open to everyone
    /// unless an ACL restricts them.
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    pub fn sasl(mut self, options: impl Into<zk::SaslOptions>) -> Self {
        self.connector = self.connector.with_sasl(options);
        self.is_authenticated = true;
        self.uses_sasl = true;
        self
    }
}
