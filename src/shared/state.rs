//! What watchers see of a shared value.

use std::fmt;

use super::version::Versioned;
use crate::cut::line;
use crate::error::Error;

/// What is known of a shared value at the moment. From [`SharedValue::watch_state`](super::SharedValue::watch_state) and
/// [`SharedCount::watch_state`](super::SharedCount::watch_state).
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq)]
pub enum SharedState<T> {
    /// The value, as the server of this client knows it. A later change is on its way; one that is made while this client
    /// is not permitted to read the node is noticed within two session timeouts.
    Known(Versioned<T>),
    /// The value may have changed unnoticed: there is no connection, or the value cannot be read. The watch keeps
    /// trying.
    Stale {
        /// The value that was known last; `None` if there was none.
        last: Option<Versioned<T>>,
        /// Why it cannot be read, if there was an error.
        error: Option<Error>,
    },
    /// The node does not exist.
    Missing,
}

impl<T> SharedState<T> {
    /// Returns the value if it is known to be current.
    pub fn current(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value.value()),
            Self::Stale { .. } | Self::Missing => None,
        }
    }

    /// Returns the value that was known last, current or not.
    pub fn last(&self) -> Option<&T> {
        match self {
            Self::Known(value) | Self::Stale { last: Some(value), .. } => Some(value.value()),
            Self::Stale { last: None, .. } | Self::Missing => None,
        }
    }

    /// What is known once there is no session. What is stale already may say why.
    pub(super) fn out_of_touch(self) -> Self
    where
        T: Clone,
    {
        if matches!(self, Self::Stale { .. }) { self } else { self.stale(None) }
    }

    /// What is known once changes can go unnoticed.
    pub(super) fn stale(&self, error: Option<Error>) -> Self
    where
        T: Clone,
    {
        let last = match self {
            Self::Known(value) => Some(value.clone()),
            Self::Stale { last, .. } => last.clone(),
            Self::Missing => None,
        };
        Self::Stale { last, error }
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedState<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, |f| match self {
            Self::Known(value) => f.debug_tuple("Known").field(value).finish(),
            Self::Stale { last, error } => {
                f.debug_struct("Stale").field("error", error).field("last", last).finish()
            }
            Self::Missing => f.write_str("Missing"),
        })
    }
}
