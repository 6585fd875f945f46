//! Revocation, for threads: asking a holder for its lock, and taking it away.

use super::client::Client;
use super::wait::wait;
use crate::error::Result;
use crate::lock::Participant;

/// Asks holders to give a lock back. The blocking twin of [`Revoker`](crate::Revoker).
#[derive(Debug)]
#[non_exhaustive]
pub struct Revoker;

impl Revoker {
    /// Asks the holder of the lock at `path` to give it back. The blocking version of
    /// [`Revoker::request`](crate::Revoker::request).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn request(client: &Client, path: &str) -> Result<Vec<Participant>> {
        wait(crate::Revoker::request(&client.inner, path))
    }

    /// Asks one contender. The blocking version of [`Revoker::request_from`](crate::Revoker::request_from).
    ///
    /// # Errors
    /// Same as [`request`](Self::request).
    pub fn request_from(client: &Client, participant: &Participant) -> Result<bool> {
        wait(crate::Revoker::request_from(&client.inner, participant))
    }
}

/// Takes the lock at `path` away from its holder. The blocking version of
/// [`force_release`](crate::force_release()).
///
/// # Errors
/// Same as the async method, and:
/// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
pub fn force_release(client: &Client, path: &str) -> Result<Vec<Participant>> {
    wait(crate::force_release(&client.inner, path))
}

/// Takes the lock, or the place in the queue, away from one contender. The blocking version of
/// [`force_release_participant`](crate::force_release_participant()).
///
/// # Errors
/// Same as [`force_release`].
pub fn force_release_participant(client: &Client, participant: &Participant) -> Result<bool> {
    wait(crate::force_release_participant(&client.inner, participant))
}
