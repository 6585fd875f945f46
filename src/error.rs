//! The error type of the crate. Each message names the operation, the path and what to do next. The cause is in
//! `source` only, so that no one prints it twice.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, mem};

use tokio::task::JoinError;
use zookeeper_client as zk;

use crate::failure::Failure;
use crate::host_failure::{ConnectFailure, HostFailure};
use crate::lock::Owner;

/// The result of an operation of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation of this library failed.
///
/// [`Display`](fmt::Display) shows what failed and what to do about it, without the cause, which is in
/// [`source`](std::error::Error::source), as usual. So `anyhow` and others show each once. Without them, use [`report`]
/// for logs.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The path cannot name a ZooKeeper node. Nothing was sent.
    #[error("invalid path {path:?}: {reason}")]
    InvalidPath {
        /// The path as it was given, or its beginning and `…` if it is long.
        path: String,
        /// What is wrong with it, and what would be right.
        reason: &'static str,
    },

    /// An argument is invalid. Nothing was sent.
    #[error("invalid {argument}: {reason}")]
    InvalidArgument {
        /// Which argument.
        argument: &'static str,
        /// What is wrong with it, and what would be right.
        reason: String,
    },

    /// There was no connected session within the given time, or no reply that confirmed a place in the queue.
    #[error(
        "no answer from {} within {waited:?}; check that the servers run and can be reached{}",
        each(.hosts, .causes),
        if_encrypted(.hosts, .causes)
    )]
    NotConnected {
        /// The servers, as in the connect string.
        hosts: String,
        /// How long the call waited.
        waited: Duration,
        /// What is known about each server. Empty if the time was too short to find out, or if the session is
        /// adopted.
        causes: Vec<HostFailure>,
        /// The last failure to connect, if there was one that says more.
        source: Option<zk::Error>,
    },

    /// ZooKeeper refused an operation, or the retries allowed by the client's policy are exhausted.
    #[error("cannot {operation} {path}{}", way_out(.source))]
    ZooKeeper {
        /// The operation, as in "create".
        operation: &'static str,
        /// The full path of the node, namespace included.
        path: String,
        /// The error from ZooKeeper or from the connection to it.
        source: zk::Error,
    },

    /// The session of an adopted ZooKeeper client has ended. This library does not replace it.
    #[error("the adopted session has ended; create a new session and a new client on it")]
    SessionOver {
        /// How it ended.
        source: zk::Error,
    },

    /// The servers rejected the client's credentials.
    #[error(
        "cannot authenticate to {hosts}: the servers refused the credentials; check those given to the builder"
    )]
    AuthFailed {
        /// The servers, as in the connect string.
        hosts: String,
    },

    /// The owner would wait for itself, for ever. The place in the queue, if there was one, is given up.
    ///
    /// Either it already holds this lock in a way that rules out the grant: through another lock object, or as
    /// a reader that now wants to write. Then no retry would succeed. Nothing was sent, with one exception: a second read
    /// behind a writer of another owner, which itself waits for the first read.
    ///
    /// Or it would wait for other owners of this client that wait for what it holds. Then the others go on when it
    /// releases that, and it may start over. Only with
    /// [`LockOptions::detect_deadlocks`](crate::LockOptions::detect_deadlocks).
    #[error("cannot acquire {path}: {}", deadlock(.cycle))]
    WouldDeadlock {
        /// The full path of the lock.
        path: String,
        /// The owners that would wait for each other, the one of this call first, each for the next one and the last
        /// one for the first. Empty if the owner holds this lock itself.
        cycle: Vec<OwnerWaits>,
    },

    /// More permits of the semaphore are in use than this semaphore has: other processes use the same path with a
    /// higher number. Nothing was granted.
    #[error(
        "cannot acquire permits of {path}: {leases} are in use, but this semaphore has {permits}; configure the same \
         number everywhere, or use a SharedCount"
    )]
    PermitsDiffer {
        /// The full path of the semaphore.
        path: String,
        /// How many permits this semaphore has.
        permits: u32,
        /// How many permits are in use.
        leases: usize,
    },

    /// The node of a [`SharedCount`](crate::shared::SharedCount), also of one that limits a
    /// [`Semaphore`](crate::Semaphore), holds something else. It was left as it is.
    #[error(
        "cannot read the count at {path}: the node does not hold the four bytes of a count; use the path of a \
         SharedCount"
    )]
    NotACount {
        /// The full path of the node, namespace included.
        path: String,
    },

    /// The node of a [`DistributedAtomicLong`](crate::atomic::DistributedAtomicLong) holds something else. It was left as
    /// it is.
    #[error(
        "cannot read the number at {path}: the node holds {length} bytes, and a number has eight; use the path of a \
         DistributedAtomicLong, or set it with force_set"
    )]
    NotANumber {
        /// The full path of the node, namespace included.
        path: String,
        /// How many bytes it holds.
        length: usize,
    },

    /// The sum would not fit into an `i64`. The number was left as it is.
    #[error(
        "cannot add {delta} to the number at {path}: it is {value}, and the sum would not fit into 64 bits"
    )]
    Overflow {
        /// The full path of the node, namespace included.
        path: String,
        /// The number.
        value: i64,
        /// What was to be added.
        delta: i64,
    },

    /// The node for the record of a [`ScheduledJob`](crate::job::ScheduledJob) holds something else. It was left as it
    /// is.
    #[error(
        "cannot read the record of the job at {path}: the node holds something else; use another path for the job, or \
         delete the node"
    )]
    NotAJobRecord {
        /// The full path of the node, namespace included.
        path: String,
    },

    /// The node holds something else than an instance of a service, or one with another payload, or one that is too large;
    /// or this client may not read it.
    #[cfg(feature = "discovery")]
    #[error(
        "cannot read the instance of a service at {path}: {reason}; delete the node if it is no instance, or use the \
         payload and the permissions with which it was registered"
    )]
    NotAnInstance {
        /// The full path of the node, namespace included.
        path: String,
        /// What is wrong with its data.
        reason: String,
    },

    /// The servers do not accept a request of that size: they would close the connection, and with it the requests
    /// of all others. Nothing was sent.
    #[error(
        "cannot {operation} {path}: the request would be larger than the servers accept; use a shorter path, less \
         node data or a shorter ACL"
    )]
    RequestTooLarge {
        /// The operation, as in "create a node in".
        operation: &'static str,
        /// The full path, namespace included; for a multi-lock, of all its locks.
        path: String,
    },

    /// The path is used by another kind of recipe: a mutex at the path of a read/write lock, for instance, or a
    /// [`LeaderSelector`](crate::LeaderSelector), which is a mutex, at the path of a
    /// [`LeaderLatch`](crate::LeaderLatch). The two would not exclude each other. Nothing was granted.
    #[error(
        "cannot use {path} as a {expected}: {} a {found}; use a different path for one of them",
        use_of(.node)
    )]
    KindConflict {
        /// The full path of the lock or election.
        path: String,
        /// The full path of the node that shows the other kind; `None` if this client itself uses the path for
        /// both.
        node: Option<String>,
        /// What the caller tried to acquire: "mutex", "read/write lock", "leader latch" or "semaphore".
        expected: &'static str,
        /// What the path is already used as.
        found: &'static str,
    },

    /// A [`Cache`](crate::cache::Cache) would hold more than its options allow. It has ended.
    #[error(
        "cannot cache {path}: it has more than {max_nodes} nodes, or more than {max_bytes} bytes of data and paths; raise \
         max_nodes or max_bytes in the CacheOptions, or hold less of it by depth or filter"
    )]
    CacheTooLarge {
        /// The full path of the cache, namespace included.
        path: String,
        /// How many nodes it may hold.
        max_nodes: usize,
        /// How many bytes it may hold.
        max_bytes: usize,
    },

    /// The filter of a [`Cache`](crate::cache::Cache) has panicked. The cache has ended.
    #[error("cannot cache {path}: the filter in its CacheOptions panicked; mend it, and make a new cache")]
    CacheFilterPanicked {
        /// The full path of the cache, namespace included.
        path: String,
    },

    /// The servers are older than ZooKeeper 3.6, the first that has the watches of a
    /// [`Cache`](crate::cache::Cache).
    #[error("cannot cache {path}: the servers have no persistent watches; take ZooKeeper 3.6 or later")]
    WatchUnsupported {
        /// The full path of the cache, namespace included.
        path: String,
    },

    /// The servers refuse nodes with a time to live, as those of a
    /// [`PersistentTtlNode`](crate::nodes::PersistentTtlNode): they are older than ZooKeeper 3.5.3, or were started without
    /// `zookeeper.extendedTypesEnabled`.
    #[error(
        "cannot keep a node at {path}: the servers refuse nodes with a time to live; start each of them with \
         -Dzookeeper.extendedTypesEnabled=true (ZooKeeper 3.5.3 or later)"
    )]
    TtlUnsupported {
        /// The full path of the node, namespace included.
        path: String,
    },

    /// The lock path of an operator's call does not exist: it is misspelled, or the lock has been unused for so
    /// long that the servers have removed the path. A path that exists but has no holder is not an error.
    #[error(
        "cannot find the lock path {path}: it does not exist; check its spelling, the client's namespace and the chroot \
         of the connect string (the servers remove the path of a lock that has been unused for a while)"
    )]
    NoSuchPath {
        /// The full path, namespace included.
        path: String,
    },

    /// The node that was to be [kept](crate::nodes) belongs to someone else: to another session, or it is of another kind
    /// than asked for, or has other data, if it is that of a static instance of a service. It was left as it is.
    #[error(
        "cannot keep a node at {path}: {}; use another path, or wait until it is gone",
        whose(.session)
    )]
    NodeTaken {
        /// The full path of the node, namespace included.
        path: String,
        /// The session whose ephemeral node it is; `None` if it is no ephemeral node, or does not show whose it is, because
        /// this client may not read it.
        session: Option<i64>,
    },

    /// A member of a [double barrier](crate::barriers::DoubleBarrier) was lost before it left. The others do not wait for
    /// it.
    #[error(
        "the member {path} of a barrier was lost: {reason}; check what the others have done, and enter again"
    )]
    MemberLost {
        /// The full path of the member's node, namespace included.
        path: String,
        /// How it was lost.
        reason: LossReason,
    },

    /// The kept node was closed.
    #[error("the kept node {path} was closed; start a new one")]
    NodeClosed {
        /// The full path of the node, namespace included.
        path: String,
    },

    /// The lock was lost before this call.
    #[error("the lock {path} was lost: {reason}; acquire it again")]
    LockLost {
        /// The full path of the holder's node.
        path: String,
        /// How it was lost.
        reason: LossReason,
    },

    /// The waiter's node was deleted several times in a row, each time before it began to wait: an operator or
    /// another program deletes it.
    #[error(
        "cannot stay in the queue of {path}: the waiter's node was deleted several times in a row; find out what \
         deletes it, then acquire again"
    )]
    PlaceLost {
        /// The full path of the lock; for a multi-lock, of all its locks.
        path: String,
    },

    /// One operation of a [transaction](crate::Transaction) failed, so none of them was done.
    #[error("cannot {operation} {path}, operation {index} of the transaction{}", way_out(.source))]
    OperationFailed {
        /// The index of the operation, from 0, in the order in which they were added.
        index: usize,
        /// The operation, as in "create".
        operation: &'static str,
        /// The full path of its node.
        path: String,
        /// The error from ZooKeeper.
        source: zk::Error,
    },

    /// The reply to a [transaction](crate::Transaction) was lost. The transaction was done, was not done, or may
    /// still be done.
    #[error(
        "cannot tell whether the transaction of the lock {path} was done; read the nodes before you repeat it"
    )]
    OutcomeUnknown {
        /// The full path of the holder's node.
        path: String,
        /// The error of the connection.
        source: zk::Error,
    },

    /// The reply to a conditional write of a [shared value](crate::shared) was lost, and the node does not show
    /// whether the write was done. It was done once, was not done, or may still be done; it will not be repeated.
    #[error(
        "cannot tell whether this was done: {operation} {path}; read the value before you repeat the call"
    )]
    WriteOutcomeUnknown {
        /// The operation, as in "update the value at".
        operation: &'static str,
        /// The full path of the node, namespace included.
        path: String,
        /// The error of the connection.
        source: zk::Error,
    },

    /// Other clients changed the value between each read and the write that followed, until the time of the call was
    /// over. The call has changed nothing.
    #[error(
        "cannot {operation} {path} within {waited:?}: other clients changed it each time; allow more time, or have fewer \
         clients write to it"
    )]
    Contended {
        /// The operation, as in "update the value at".
        operation: &'static str,
        /// The full path of the node, namespace included.
        path: String,
        /// How long the call tried.
        waited: Duration,
    },

    /// The node of a value was deleted and created again between a read and the write that followed, and the new node
    /// had the same version. The write has replaced what the new node held.
    #[error(
        "could not {operation} {path} safely: the node was deleted and created again in that moment, and what the new \
         one held was overwritten; read the value and set it again"
    )]
    NodeReplaced {
        /// The operation, as in "update the value at".
        operation: &'static str,
        /// The full path of the node, namespace included.
        path: String,
    },

    /// An operation failed, and then undoing what it had already done failed as well: part of a multi-lock is not
    /// confirmed to be released. The clean-up continues in the background.
    #[error("{}; and then: {}", report(.first), all(.others))]
    Several {
        /// The first failure.
        first: Box<Error>,
        /// The failures that followed, at least one.
        others: Vec<Error>,
    },

    /// The work of a leader returned an error or panicked.
    #[error("the work of the leader {path} failed")]
    WorkFailed {
        /// The full path of the leader's node.
        path: String,
        /// The error or panic of the work.
        source: WorkError,
    },

    /// The work of a leader was dropped before it finished: the leadership ended, or the work did not end in time
    /// after it was asked to. If the leadership was lost in the last moment of the work, the work may be complete
    /// nevertheless.
    #[error(
        "the work of the leader {path} was stopped: {reason}; check whether it is complete, and repeat it if not"
    )]
    WorkStopped {
        /// The full path of the leader's node.
        path: String,
        /// How the leadership ended.
        reason: LossReason,
    },

    /// The latch or selector was closed.
    #[error("the candidate for {path} was closed; start a new one")]
    CandidateClosed {
        /// The full path of the election.
        path: String,
    },

    /// The client was closed.
    #[error("the client is closed; create a new one")]
    Closed,

    /// A method of [`blocking`](crate::blocking) was called in async code, where it would block a thread that runs
    /// tasks of a tokio runtime. Nothing was sent.
    #[cfg(feature = "blocking")]
    #[error(
        "cannot block this thread: it runs tasks of a tokio runtime; await the method of the async type, or call this \
         one within `tokio::task::spawn_blocking`"
    )]
    WithinRuntime,
}

/// The failure of the work of a [`LeaderSelector`](crate::LeaderSelector): its own error, or its panic.
#[derive(Clone)]
pub struct WorkError(Arc<dyn std::error::Error + Send + Sync>);

impl WorkError {
    pub(crate) fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(error.into().into())
    }

    /// The failure of work whose task was aborted or panicked.
    pub(crate) fn of_task(error: JoinError) -> Self {
        error.try_into_panic().map_or_else(|_| Self::new("its task was stopped"), Self::of_panic)
    }

    /// The failure of work that panicked with this payload.
    pub(crate) fn of_panic(panic: Box<dyn Any + Send>) -> Self {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
        let error = Self::new(format!("it panicked: {}", message.unwrap_or("without a message")));
        discard(panic);
        error
    }

    /// Returns the error itself, so that it can be downcast to the error type of the work.
    pub fn get_ref(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Debug for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Guarded(&self.0), f)
    }
}

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Guarded(&self.0), f)
    }
}

/// Returns a text of an error and its causes, in one line, for logs. A cause that the text before it contains is left out.
///
/// ```
/// # fn log(error: &zk_recipes::Error) {
/// eprintln!("cannot ship the orders: {}", zk_recipes::report(error));
/// # }
/// ```
pub fn report<'a>(error: &'a (dyn std::error::Error + 'static)) -> impl fmt::Display + use<'a> {
    Guarded(Report(error))
}

struct Report<'a>(&'a (dyn std::error::Error + 'static));

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        f.write_str(&text)?;
        for cause in std::iter::successors(self.0.source(), |cause| cause.source()) {
            let before = std::mem::replace(&mut text, cause.to_string());
            if !before.contains(&text) {
                write!(f, ": {text}")?;
            }
        }
        Ok(())
    }
}

/// Shows an error of the user, whose code may panic, on our threads.
struct Guarded<E>(E);

impl<E: fmt::Debug> fmt::Debug for Guarded<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        guarded(f, |f| self.0.fmt(f))
    }
}

impl<E: fmt::Display> fmt::Display for Guarded<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        guarded(f, |f| self.0.fmt(f))
    }
}

fn guarded(
    f: &mut fmt::Formatter<'_>,
    show: impl FnOnce(&mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    catch_unwind(AssertUnwindSafe(|| show(f))).unwrap_or_else(|panic| {
        discard(panic);
        f.write_str("an error that panics when it is displayed")
    })
}

/// Drops what a panic of the user has thrown, which may panic as well.
pub(crate) fn discard(panic: Box<dyn Any + Send>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // There may be no end to it.
        mem::forget(panic);
    }
}

impl std::error::Error for WorkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Two values are equal if they are clones of one failure.
impl PartialEq for WorkError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for WorkError {}

/// How a lock was lost.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// The session has expired, or may have: the servers have not answered for too long.
    Expired,
    /// The connection was lost or the servers stopped answering, and its [`SuspectPolicy`](crate::SuspectPolicy) is
    /// to give up at once.
    Suspect,
    /// Its maximum hold time elapsed. See [`LockOptions::max_hold`](crate::LockOptions::max_hold).
    Deadline,
    /// Its node was deleted by something other than its guards.
    Deleted,
    /// It was a leadership, and the leader resigned. See [`Leadership::resign`](crate::Leadership::resign).
    Resigned,
    /// The client was closed.
    Closed,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its session has expired, or may have",
            Self::Suspect => "the servers did not answer, and its suspect policy is to give up",
            Self::Deadline => "its maximum hold time elapsed",
            Self::Deleted => "its node was deleted",
            Self::Resigned => "the leader resigned",
            Self::Closed => "the client was closed",
        })
    }
}

/// An owner that waits for a lock, as part of a deadlock. See [`Error::WouldDeadlock`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerWaits {
    /// Who waits.
    pub owner: Owner,
    /// The full path of the lock that it waits for.
    pub path: String,
}

impl Error {
    /// Combines this error with those that followed it.
    pub(crate) fn with(self, others: Vec<Self>) -> Self {
        if others.is_empty() { self } else { Self::Several { first: Box::new(self), others } }
    }

    /// Combines the errors of concurrent operations; `None` if there are none.
    pub(crate) fn all(errors: Vec<Self>) -> Option<Self> {
        let mut errors = errors.into_iter();
        errors.next().map(|first| first.with(errors.collect()))
    }

    /// Whether the error means that the session has ended.
    pub(crate) fn ends_session(&self) -> bool {
        matches!(self, Self::ZooKeeper { source, .. } if Failure::of(source) == Failure::SessionOver)
    }

    /// Returns whether the same call may succeed later: the servers could not be reached, or were too busy. Not for
    /// [`LockLost`](Self::LockLost): acquire the lock again.
    ///
    /// ```
    /// use zk_recipes::Error;
    ///
    /// assert!(!Error::Closed.is_retryable());
    /// ```
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NotConnected { .. } => true,
            Self::ZooKeeper { source, .. } => Failure::of(source).is_passing(),
            Self::Several { first, .. } => first.is_retryable(),
            _ => false,
        }
    }
}

fn deadlock(cycle: &[OwnerWaits]) -> String {
    let [first, others @ ..] = cycle else {
        return "the same owner already holds it, through another lock object or for reading, so that waiting would \
                deadlock; release that guard first, or share one lock object"
            .into();
    };
    let others =
        others.iter().map(|wait| format!("{}, who waits for {}, held or awaited by ", wait.owner, wait.path));
    format!(
        "waiting would deadlock: {0} waits for {1}, held or awaited by {2}{0}; release what this owner holds and start \
         over, acquire the locks in the same order everywhere, or together as a `MultiLock`",
        first.owner,
        first.path,
        others.collect::<String>()
    )
}

fn all(errors: &[Error]) -> String {
    let errors: Vec<String> = errors.iter().map(|error| report(error).to_string()).collect();
    errors.join("; ")
}

fn each(hosts: &str, causes: &[HostFailure]) -> String {
    if causes.is_empty() {
        return hosts.to_owned();
    }
    let causes: Vec<String> = causes.iter().map(HostFailure::to_string).collect();
    causes.join(", ")
}

/// `zookeeper-client` reports the reason of a failed TLS handshake only in its traces.
fn if_encrypted(hosts: &str, causes: &[HostFailure]) -> &'static str {
    let has_failed = |failure: &HostFailure| failure.cause == ConnectFailure::NoTlsSession;
    if hosts.contains("tcp+tls://") || causes.iter().any(has_failed) {
        ", that their certificates are signed by the given CA, valid now and issued for these host names, and that they \
         accept the client's certificate; the DEBUG events of zookeeper_client say why TLS failed"
    } else {
        ""
    }
}

fn whose(session: &Option<i64>) -> String {
    match session {
        Some(session) => format!("the session {session:#x} has one there"),
        None => "there is one that belongs to no session, or may not be read".into(),
    }
}

fn use_of(node: &Option<String>) -> String {
    match node {
        Some(node) => format!("its child {node} belongs to"),
        None => "this client already uses it as".into(),
    }
}

fn way_out(source: &zk::Error) -> &'static str {
    match source {
        zk::Error::NoAuth => {
            ": the client's identities lack a permission; authenticate with one that has it, or change the ACL"
        }
        zk::Error::InvalidAcl => "; check the ACL given to the builder, and that its scheme is authenticated",
        zk::Error::NoNode => ": a parent is missing; check that the chroot of the connect string exists",
        zk::Error::NoChildrenForEphemerals => ": a parent is ephemeral; choose another path",
        zk::Error::QuotaExceeded => "; raise the quota or remove nodes",
        zk::Error::NotReadOnly => ": the server is read-only until it rejoins a quorum; try again later",
        zk::Error::ConnectionLoss => ": the retry policy is exhausted; try again later",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! one_of_each {
        ($($(#[$cfg:meta])* $variant:ident { $($fields:tt)* })*) => {
            /// Does not compile if a variant is missing.
            fn one_of_each() -> Vec<Error> {
                let _ = |error: &Error| match error {
                    $($(#[$cfg])* Error::$variant { .. } => {})*
                };
                vec![$($(#[$cfg])* Error::$variant { $($fields)* }),*]
            }
        };
    }

    one_of_each! {
        InvalidPath { path: path(), reason: "it is empty" }
        InvalidArgument { argument: "connect string", reason: "it is empty".into() }
        NotConnected {
            hosts: "zk1:2181".into(),
            waited: Duration::from_secs(5),
            causes: vec![HostFailure { host: "zk1:2181".into(), cause: ConnectFailure::Refused }],
            source: Some(zk::Error::Timeout)
        }
        ZooKeeper { operation: "create", path: path(), source: zk::Error::NoAuth }
        SessionOver { source: zk::Error::SessionExpired }
        AuthFailed { hosts: "zk1:2181".into() }
        WouldDeadlock { path: path(), cycle: Vec::new() }
        PermitsDiffer { path: path(), permits: 2, leases: 3 }
        NotACount { path: path() }
        NotANumber { path: path(), length: 3 }
        Overflow { path: path(), value: 1, delta: i64::MAX }
        NotAJobRecord { path: path() }
        #[cfg(feature = "discovery")]
        NotAnInstance { path: path(), reason: "it is empty".into() }
        RequestTooLarge { operation: "create a node in", path: path() }
        KindConflict { path: path(), node: None, expected: "mutex", found: "semaphore" }
        CacheTooLarge { path: path(), max_nodes: 1, max_bytes: 2 }
        CacheFilterPanicked { path: path() }
        WatchUnsupported { path: path() }
        TtlUnsupported { path: path() }
        NoSuchPath { path: path() }
        NodeTaken { path: path(), session: Some(1) }
        MemberLost { path: path(), reason: LossReason::Deleted }
        NodeClosed { path: path() }
        LockLost { path: path(), reason: LossReason::Suspect }
        PlaceLost { path: path() }
        OperationFailed { index: 1, operation: "create", path: path(), source: zk::Error::BadVersion }
        OutcomeUnknown { path: path(), source: zk::Error::ConnectionLoss }
        WriteOutcomeUnknown { operation: "update the value at", path: path(), source: zk::Error::ConnectionLoss }
        Contended { operation: "update the value at", path: path(), waited: Duration::from_secs(5) }
        NodeReplaced { operation: "update the value at", path: path() }
        Several {
            first: Box::new(Error::ZooKeeper { operation: "delete", path: path(), source: zk::Error::NoAuth }),
            others: vec![Error::ZooKeeper { operation: "create", path: path(), source: zk::Error::NotEmpty }]
        }
        WorkFailed { path: path(), source: WorkError::new("it has a bug") }
        WorkStopped { path: path(), reason: LossReason::Resigned }
        CandidateClosed { path: path() }
        Closed {}
        #[cfg(feature = "blocking")]
        WithinRuntime {}
    }

    fn path() -> String {
        "/locks/a".into()
    }

    #[test]
    fn messages_are_one_sentence_without_its_full_stop() {
        for error in one_of_each() {
            let shown = error.to_string();
            let has_gap = shown.contains("  ") || shown.contains(['\n', '\t']);
            let is_part =
                shown.starts_with(char::is_lowercase) && !shown.ends_with(['.', ';', ':', ' ', ',']);
            assert!(!has_gap && is_part, "{shown:?}");
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        use std::error::Error as _;

        let mut causes = 0;
        for error in one_of_each() {
            let reported = report(&error).to_string();
            assert!(reported.starts_with(&error.to_string()), "{reported}");
            let Some(cause) = error.source() else {
                assert_eq!(reported, error.to_string());
                continue;
            };
            assert!(!error.to_string().contains(&cause.to_string()), "{error}");
            assert_eq!(reported, format!("{error}: {cause}"));
            causes += 1;
        }
        assert_eq!(causes, 7);
        // The causes of its parts are in no chain.
        let several = one_of_each().into_iter().find(|error| matches!(error, Error::Several { .. })).unwrap();
        for cause in ["not authorized", "node has not empty children"] {
            assert_eq!(several.to_string().matches(cause).count(), 1, "{several}");
        }
    }

    /// As those of `zookeeper-client` do.
    #[test]
    fn errors_that_repeat_their_cause_are_reported_without_it() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot connect: {source}")]
        struct Repeats {
            source: zk::Error,
        }
        let source = WorkError::new(Repeats { source: zk::Error::Timeout });
        let error = Error::WorkFailed { path: path(), source };
        assert_eq!(
            report(&error).to_string(),
            "the work of the leader /locks/a failed: cannot connect: timeout"
        );
    }

    /// Also when it is logged, on a thread of ours.
    #[test]
    fn the_failure_of_work_panics_nowhere() {
        struct Bomb;
        impl fmt::Debug for Bomb {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                panic!("when it is displayed")
            }
        }
        impl fmt::Display for Bomb {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                std::panic::panic_any(Dropped)
            }
        }
        impl std::error::Error for Bomb {}
        struct Dropped;
        impl Drop for Dropped {
            fn drop(&mut self) {
                panic!("when it is dropped")
            }
        }
        let error = Error::WorkFailed { path: "/leaders/a".into(), source: WorkError::new(Bomb) };
        for shown in [report(&error).to_string(), format!("{error:?}")] {
            assert!(shown.contains("an error that panics when it is displayed"), "{shown}");
        }
        let error = WorkError::of_panic(Box::new(Dropped));
        assert_eq!(error.to_string(), "it panicked: without a message");
    }

    #[test]
    fn messages_name_operation_path_and_way_out() {
        let error =
            Error::ZooKeeper { operation: "create", path: "/locks/a".into(), source: zk::Error::NoAuth };
        assert_eq!(
            error.to_string(),
            "cannot create /locks/a: the client's identities lack a permission; authenticate with one that has it, or \
             change the ACL"
        );
        let error = Error::NotConnected {
            hosts: "zk1:2181".into(),
            waited: Duration::from_secs(15),
            causes: Vec::new(),
            source: None,
        };
        assert_eq!(
            error.to_string(),
            "no answer from zk1:2181 within 15s; check that the servers run and can be reached"
        );
        let error = Error::NotConnected {
            hosts: "zk1,zk2:2182/chroot".into(),
            waited: Duration::from_secs(5),
            causes: vec![
                HostFailure { host: "zk1:2181".into(), cause: ConnectFailure::Refused },
                HostFailure { host: "zk2:2182".into(), cause: ConnectFailure::NameNotFound },
            ],
            source: None,
        };
        assert_eq!(
            error.to_string(),
            "no answer from zk1:2181 (connection refused), zk2:2182 (name not found) within 5s; check that the \
             servers run and can be reached"
        );
    }

    #[test]
    fn only_passing_trouble_is_retryable() {
        let zookeeper =
            |source| Error::ZooKeeper { operation: "create", path: "/locks/a".into(), source }.is_retryable();
        assert!(zookeeper(zk::Error::ConnectionLoss));
        assert!(!zookeeper(zk::Error::NoAuth));
        assert!(!Error::WouldDeadlock { path: "/locks/a".into(), cycle: Vec::new() }.is_retryable());
    }

    #[test]
    fn a_deadlock_names_who_waits_for_whom() {
        let [one, two] = [Owner::new(), Owner::new()];
        let waits = |owner: &Owner, path: &str| OwnerWaits { owner: owner.clone(), path: path.into() };
        let cycle = vec![waits(&one, "/locks/b"), waits(&two, "/locks/a")];
        let error = Error::WouldDeadlock { path: "/locks/b".into(), cycle };
        assert_eq!(
            error.to_string(),
            format!(
                "cannot acquire /locks/b: waiting would deadlock: {one} waits for /locks/b, held or awaited by {two}, who \
                 waits for /locks/a, held or awaited by {one}; release what this owner holds and start over, acquire the \
                 locks in the same order everywhere, or together as a `MultiLock`"
            )
        );
    }

    #[test]
    fn an_error_can_cross_threads() {
        fn assert_bounds<T: std::error::Error + Send + Sync + 'static>() {}
        assert_bounds::<Error>();
    }
}
