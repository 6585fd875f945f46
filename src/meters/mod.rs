//! What is measured for the feature `metrics`. Without the feature, these types are empty and do nothing.
//!
//! The meters of a client's own work have no labels of the client: they count for the whole process.

#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod on;

#[cfg(not(feature = "metrics"))]
pub(crate) use self::off::*;
#[cfg(feature = "metrics")]
pub(crate) use self::on::*;

/// How a wait for a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted,
    /// Not available for as long as the caller would wait.
    Unavailable,
    Failed,
    /// The caller dropped it, or closed the candidate.
    Cancelled,
}

impl Outcome {
    /// Returns the outcome of an acquire.
    pub(crate) fn of<T, E>(acquired: &Result<Option<T>, E>) -> Self {
        match acquired {
            Ok(Some(_)) => Self::Granted,
            Ok(None) => Self::Unavailable,
            Err(_) => Self::Failed,
        }
    }

    /// Its name in metrics and spans.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A kind of request to the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Create,
    Delete,
    SetData,
    /// A transaction.
    Multi,
    /// The children of a node, or the nodes of a session.
    List,
    GetData,
    Exists,
    Sync,
    /// A persistent watch.
    Watch,
    /// Several reads.
    MultiRead,
}
