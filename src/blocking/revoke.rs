//! Asking a holder for its lock, and taking it away, for threads.

use super::client::Client;
use super::wait::wait;
use crate::error::Result;
use crate::lock::Participant;

/// Asks holders to give a lock back. See [`Revoker`](crate::Revoker).
#[derive(Debug)]
#[non_exhaustive]
pub struct Revoker;

impl Revoker {
    /// As [`Revoker::request`](crate::Revoker::request), and blocks the thread.
    ///
    /// # Errors
    /// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn request(client: &Client, path: &str) -> Result<Vec<Participant>> {
        wait(crate::Revoker::request(&client.inner, path))
    }

    /// As [`Revoker::request_from`](crate::Revoker::request_from), and blocks the thread.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub fn request_from(client: &Client, participant: &Participant) -> Result<bool> {
        wait(crate::Revoker::request_from(&client.inner, participant))
    }
}

/// As [`force_release`](crate::force_release()), and blocks the thread.
///
/// # Errors
/// As there, and [`Error::WithinRuntime`](crate::Error::WithinRuntime).
pub fn force_release(client: &Client, path: &str) -> Result<Vec<Participant>> {
    wait(crate::force_release(&client.inner, path))
}

/// As [`force_release_participant`](crate::force_release_participant()), and blocks the thread.
///
/// # Errors
/// As [`force_release`].
pub fn force_release_participant(client: &Client, participant: &Participant) -> Result<bool> {
    wait(crate::force_release_participant(&client.inner, participant))
}
