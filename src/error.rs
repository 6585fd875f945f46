//! What can go wrong, with the operation, the path and the way out.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinError;
use zookeeper_client as zk;

use crate::failure::Failure;
use crate::host_failure::{ConnectFailure, HostFailure};

/// The result of an operation of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation of this library failed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The path cannot name a ZooKeeper node. Nothing was sent.
    #[error("invalid path {path:?}: {reason}")]
    InvalidPath {
        /// The path as it was given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// An argument makes no sense. Nothing was sent.
    #[error("invalid {argument}: {reason}")]
    InvalidArgument {
        /// Which argument.
        argument: &'static str,
        /// What is wrong with it, and what would be right.
        reason: String,
    },

    /// There was no connected session within the time given, or no answer on it by which a queue was entered.
    #[error(
        "no answer from {} within {waited:?}{}; check that the servers run and can be reached{}",
        each(.hosts, .causes),
        cause(.source),
        if_encrypted(.hosts, .causes)
    )]
    NotConnected {
        /// The servers, as in the connect string.
        hosts: String,
        /// How long it was waited for.
        waited: Duration,
        /// What was found out about each server; empty if the time was too short for that, or the session is adopted.
        causes: Vec<HostFailure>,
        /// The last failure to connect, if any was seen.
        source: Option<zk::Error>,
    },

    /// ZooKeeper refused an operation, or the retries under the client's policy are used up.
    #[error("cannot {operation} {path}: {source}{}", way_out(.source))]
    ZooKeeper {
        /// What was to be done, as in "create".
        operation: &'static str,
        /// The full path of the node, namespace included.
        path: String,
        /// What ZooKeeper, or the connection to it, answered.
        source: zk::Error,
    },

    /// The session of an adopted ZooKeeper client is over; this library does not make another one.
    #[error("the adopted session is over ({source}); make a new one and a new client on it")]
    SessionOver {
        /// How it ended.
        source: zk::Error,
    },

    /// The servers refused the client's identity.
    #[error("{hosts} refused the client's authentication; check the credentials given to the builder")]
    AuthFailed {
        /// The servers, as in the connect string.
        hosts: String,
    },

    /// The same owner holds this lock already, in a way that keeps it from being granted: through another lock
    /// object, or as a reader who wants to write. The wait would never end, and no try would succeed. Nothing was sent; but
    /// for a reader that is kept out by a writer of others who waits for it.
    #[error(
        "acquiring {path} would deadlock: the same owner holds it through another lock object, or for \
         reading; release that first, or share one lock object"
    )]
    WouldDeadlock {
        /// The full path of the lock.
        path: String,
    },

    /// More permits of a semaphore are out than its number of permits allows: other processes use the same path with
    /// more. Nothing was granted.
    #[error(
        "cannot acquire permits of {path}: {leases} are out, but this semaphore has {permits}; use the same number of \
         permits everywhere, or a SharedCount"
    )]
    PermitsDiffer {
        /// The full path of the semaphore.
        path: String,
        /// How many permits this semaphore has.
        permits: u32,
        /// How many permits are out.
        leases: usize,
    },

    /// The path is used by another kind of recipe: a mutex at the path of a read/write lock, for instance, or a
    /// [`LeaderSelector`](crate::LeaderSelector), which is a mutex, at that of a
    /// [`LeaderLatch`](crate::LeaderLatch). They would not exclude each other. Nothing was granted.
    #[error(
        "{path} cannot be used as a {expected}: {} as a {found}; use another path for one of them",
        use_of(.node)
    )]
    KindConflict {
        /// The full path of the lock or election.
        path: String,
        /// The full path of the node that shows the other kind; `None` if it is this client that uses the path for
        /// both.
        node: Option<String>,
        /// What was to be acquired: "mutex", "read/write lock", "leader latch" or "semaphore".
        expected: &'static str,
        /// What the path is used as already.
        found: &'static str,
    },

    /// An operator's call is for a path that does not exist: mistyped, or of a lock that nobody has used for a while, whose
    /// path the servers have removed. If nobody holds a lock whose path exists, that is no error.
    #[error(
        "there is no {path}, and so nobody to ask or to take a lock from; check its spelling, the client's namespace and \
         the chroot of its connect string: servers also remove the path of a lock that nobody has used for a while"
    )]
    NoSuchPath {
        /// The full path, namespace included.
        path: String,
    },

    /// The lock was lost before this call.
    #[error("the lock of {path} was lost: {reason}; acquire it again")]
    LockLost {
        /// The full path of the holder's node.
        path: String,
        /// How it was lost.
        reason: LossReason,
    },

    /// A waiter was put back to the end of the queue again and again, without ever getting to wait there: somebody
    /// deletes its nodes.
    #[error(
        "cannot stay in the queue of {path}: the waiter's node was deleted several times in a row; find out who \
         deletes it, then acquire again"
    )]
    PlaceLost {
        /// The full path of the lock; of a multi-lock, of all its locks.
        path: String,
    },

    /// One of the operations of a [transaction](crate::Transaction) could not be done, and so none of them was.
    #[error("cannot {operation} {path}, operation {index} of the transaction: {source}{}", way_out(.source))]
    OperationFailed {
        /// Which one, from 0, in the order in which they were added.
        index: usize,
        /// What was to be done, as in "create".
        operation: &'static str,
        /// The full path of its node.
        path: String,
        /// What ZooKeeper answered.
        source: zk::Error,
    },

    /// The answer to a [transaction](crate::Transaction) did not come: it was done, or not, or will be.
    #[error(
        "the transaction of the lock {path} may have been done or not: {source}; look before doing it again"
    )]
    OutcomeUnknown {
        /// The full path of the holder's node.
        path: String,
        /// What happened to the connection.
        source: zk::Error,
    },

    /// Something failed, and then undoing what had been done before it failed, too: a part of a multi-lock was
    /// not confirmed to be free. The background goes on trying.
    #[error("{first}; and then: {}", all(.others))]
    Several {
        /// What failed first.
        first: Box<Error>,
        /// What failed after it, at least one.
        others: Vec<Error>,
    },

    /// The work of a leader failed.
    #[error("the work of the leader {path} failed: {source}")]
    WorkFailed {
        /// The full path of the leader's node.
        path: String,
        /// What it says.
        source: WorkError,
    },

    /// The work of a leader was dropped before it was done: the leadership ended, or the work did not end in time when
    /// it was asked to. If the leadership was lost in the last moment of the work, it may be done nevertheless.
    #[error("the work of the leader {path} was stopped: {reason}; have it done again if it is not done")]
    WorkStopped {
        /// The full path of the leader's node.
        path: String,
        /// How the leadership ended.
        reason: LossReason,
    },

    /// The latch or selector was closed.
    #[error("the candidate for {path} is closed; start a new one")]
    CandidateClosed {
        /// The full path of the election.
        path: String,
    },

    /// The client was closed.
    #[error("the client is closed; make a new one")]
    Closed,

    /// A method of [`blocking`](crate::blocking) was called in async code, where it would block a thread on which a tokio
    /// runtime runs tasks. Nothing was sent.
    #[cfg(feature = "blocking")]
    #[error(
        "cannot block this thread, on which a tokio runtime runs tasks; await the method of the async type, or call \
         this one within `tokio::task::spawn_blocking`"
    )]
    WithinRuntime,
}

/// What the work of a [`LeaderSelector`](crate::LeaderSelector) has failed with: its own error, or its panic.
#[derive(Clone)]
pub struct WorkError(Arc<dyn std::error::Error + Send + Sync>);

impl WorkError {
    pub(crate) fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(error.into().into())
    }

    /// Of work whose task did not end by itself.
    pub(crate) fn of_task(error: JoinError) -> Self {
        error.try_into_panic().map_or_else(|_| Self::new("its task was stopped"), Self::of_panic)
    }

    /// Of work that panicked with this.
    pub(crate) fn of_panic(panic: Box<dyn Any + Send>) -> Self {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
        Self::new(format!("it panicked: {}", message.unwrap_or("without a message")))
    }

    /// The error itself, to be downcast to what the work fails with.
    pub fn get_ref(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Debug for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for WorkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Two are the same if they are of one failure.
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
    /// Its session is over, or may be: the servers have not been heard of for too long.
    Expired,
    /// The connection was lost, or the servers silent, and its [`SuspectPolicy`](crate::SuspectPolicy) does not wait.
    Suspect,
    /// Its maximum hold time is over; see [`LockOptions::max_hold`](crate::LockOptions::max_hold).
    Deadline,
    /// Somebody has deleted its node.
    Deleted,
    /// It was a leadership, and was given up. See [`Leadership::resign`](crate::Leadership::resign).
    Resigned,
    /// The client was closed.
    Closed,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its session is over, or not known to be alive",
            Self::Suspect => "the servers did not answer, and it does not wait for them",
            Self::Deadline => "it was held for as long as it may be",
            Self::Deleted => "somebody has deleted its node",
            Self::Resigned => "it was given up",
            Self::Closed => "the client was closed",
        })
    }
}

impl Error {
    /// The first error, and those that came after it, as one.
    pub(crate) fn with(self, others: Vec<Self>) -> Self {
        if others.is_empty() { self } else { Self::Several { first: Box::new(self), others } }
    }

    /// Errors of things done side by side, as one; `None` without any.
    pub(crate) fn all(errors: Vec<Self>) -> Option<Self> {
        let mut errors = errors.into_iter();
        errors.next().map(|first| first.with(errors.collect()))
    }

    /// Whether the session that was asked is over.
    pub(crate) fn ends_session(&self) -> bool {
        matches!(self, Self::ZooKeeper { source, .. } if Failure::of(source) == Failure::SessionOver)
    }

    /// Whether the same call may succeed later: the servers could not be reached, or were too busy.
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

fn all(errors: &[Error]) -> String {
    let errors: Vec<String> = errors.iter().map(Error::to_string).collect();
    errors.join("; ")
}

fn each(hosts: &str, causes: &[HostFailure]) -> String {
    if causes.is_empty() {
        return hosts.to_owned();
    }
    let causes: Vec<String> = causes.iter().map(HostFailure::to_string).collect();
    causes.join(", ")
}

/// `zookeeper-client` tells nobody but its traces why a handshake has failed.
fn if_encrypted(hosts: &str, causes: &[HostFailure]) -> &'static str {
    let has_failed = |failure: &HostFailure| failure.cause == ConnectFailure::NoTlsSession;
    if hosts.contains("tcp+tls://") || causes.iter().any(has_failed) {
        ", that their certificates are of the given CA, in date and for these host names, and that they accept the \
         client's certificate; events of zookeeper_client at level DEBUG say why TLS failed"
    } else {
        ""
    }
}

fn cause(source: &Option<zk::Error>) -> String {
    // That no host gave a session is said already.
    let source = source.as_ref().filter(|source| **source != zk::Error::NoHosts);
    source.map(|error| format!(" ({error})")).unwrap_or_default()
}

fn use_of(node: &Option<String>) -> String {
    match node {
        Some(node) => format!("its child {node} shows that it is used"),
        None => "this client uses it".into(),
    }
}

fn way_out(source: &zk::Error) -> &'static str {
    match source {
        zk::Error::NoAuth => {
            "; the client's identities lack a right: authenticate with one that has it, or change the ACL"
        }
        zk::Error::InvalidAcl => "; check the ACL given to the builder, and that its scheme is authenticated",
        zk::Error::NoNode => "; a parent is missing: check that the chroot of the connect string exists",
        zk::Error::NoChildrenForEphemerals => "; a parent is ephemeral: choose another path",
        zk::Error::QuotaExceeded => "; raise the quota or remove nodes",
        zk::Error::NotReadOnly => "; the server is read-only until it rejoins a quorum",
        zk::Error::ConnectionLoss => "; the retry policy is exhausted, try again later",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_operation_path_and_way_out() {
        let error =
            Error::ZooKeeper { operation: "create", path: "/locks/a".into(), source: zk::Error::NoAuth };
        assert_eq!(
            error.to_string(),
            "cannot create /locks/a: not authorized; the client's identities lack a right: authenticate with \
             one that has it, or change the ACL"
        );
        let error = Error::NotConnected {
            hosts: "zk1:2181".into(),
            waited: Duration::from_secs(15),
            causes: Vec::new(),
            source: Some(zk::Error::NoHosts),
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
            source: Some(zk::Error::NoHosts),
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
        assert!(!Error::WouldDeadlock { path: "/locks/a".into() }.is_retryable());
    }

    #[test]
    fn an_error_can_cross_threads() {
        fn assert_bounds<T: std::error::Error + Send + Sync + 'static>() {}
        assert_bounds::<Error>();
    }
}
