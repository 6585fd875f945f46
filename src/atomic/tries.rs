//! The tries of one call, which is promoted to a lock when it keeps failing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::options::Settings;
use super::promotion::{Place, Promotion};
use crate::error::Result;
use crate::lock::LockGuard;
use crate::shared::Contention;

/// After this many conflicts in a row, a call is promoted to the lock.
pub(super) const OPTIMISTIC_TRIES: u32 = 6;

/// Tries of one call. What it holds of the lock is released when this is dropped.
pub(super) struct Tries<'a> {
    settings: &'a Settings,
    contention: Contention<'a>,
    promoted: Option<Arc<LockGuard>>,
}

impl<'a> Tries<'a> {
    pub(super) fn new(settings: &'a Settings, operation: &'static str, path: &'a str) -> Self {
        Self { settings, contention: Contention::new(operation, path, settings.timeout), promoted: None }
    }

    /// Returns when this began, and how long it may take.
    pub(super) fn time(&self) -> (Instant, Duration) {
        self.contention.time()
    }

    /// Returns the lock to be promoted to, unless this was promoted already.
    pub(super) fn lock(&self) -> Option<&'a Promotion> {
        self.settings.lock.as_deref().filter(|_| self.promoted.is_none())
    }

    /// To be called after a conflict. Returns when it is time to try again.
    ///
    /// # Errors
    /// - [`Error::Contended`](crate::Error::Contended) when the time is over.
    /// - Those of an acquire.
    pub(super) async fn conflict(&mut self) -> Result<()> {
        self.contention.conflict().await?;
        self.promote_if_failing(Promotion::line_up).await
    }

    /// To be called after a try that has failed because of a conflict with another client, or of a call of this one. Only
    /// the former counts, and the [line](super::line) has paused for it.
    ///
    /// # Errors
    /// Same as [`conflict`](Self::conflict).
    pub(super) async fn mismatch(&mut self, is_conflict: bool) -> Result<()> {
        self.contention.check()?;
        if is_conflict {
            self.contention.count();
        }
        // Those that are written together fail together.
        self.promote_if_failing(Promotion::join).await
    }

    async fn promote_if_failing(&mut self, line_up: impl FnOnce(&Promotion) -> Place) -> Result<()> {
        match self.lock() {
            Some(lock) if self.contention.conflicts() >= OPTIMISTIC_TRIES => {
                self.promote(line_up(lock)).await
            }
            _ => Ok(()),
        }
    }

    /// Waits for the lock, and goes on holding it.
    ///
    /// # Errors
    /// - [`Error::Contended`](crate::Error::Contended) when the time is over.
    /// - Those of an acquire.
    pub(super) async fn promote(&mut self, place: Place) -> Result<()> {
        let held = timeout(self.contention.left(), place).await;
        self.promoted = Some(held.map_err(|_| self.contention.over())??);
        Ok(())
    }
}
