//! What can go wrong, with the operation, the path and the way out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinError;
use zookeeper_client as zk;

use crate::failure::Failure;

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

    /// There was no connected session within the connection timeout.
    #[error(
        "no session with {hosts} within {waited:?}{}; check that the servers run and can be reached",
        cause(.source)
    )]
    NotConnected {
        /// The servers, as in the connect string.
        hosts: String,
        /// How long it was waited for.
        waited: Duration,
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
    /// object, or as a reader who wants to write. The wait would never end.
    #[error(
        "waiting for {path} would deadlock: the same owner holds it through another lock object, or for \
         reading; release that first, or share one lock object"
    )]
    WouldDeadlock {
        /// The full path of the lock.
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

    /// The latch or selector was closed.
    #[error("the candidate for {path} is closed; start a new one")]
    CandidateClosed {
        /// The full path of the election.
        path: String,
    },

    /// The client was closed.
    #[error("the client is closed; make a new one")]
    Closed,
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
        let Ok(panic) = error.try_into_panic() else { return Self::new("its task was stopped") };
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

fn cause(source: &Option<zk::Error>) -> String {
    source.as_ref().map(|error| format!(" ({error})")).unwrap_or_default()
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
            source: Some(zk::Error::NoHosts),
        };
        assert_eq!(
            error.to_string(),
            "no session with zk1:2181 within 15s (no available hosts); check that the servers run and can be \
             reached"
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
