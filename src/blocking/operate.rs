//! For operators, without `async`: the blocking twin of [`crate::operate`].

use super::client::Client;
use super::wait::wait;
use crate::error::Result;
use crate::lock::Participant;
use crate::operate;

/// Asks the holder of the lock at `path` to give it back. The blocking version of [`operate::ask`].
///
/// # Errors
/// Same as the async function, and:
/// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
pub fn ask(client: &Client, path: &str) -> Result<Vec<Participant>> {
    wait(operate::ask(client.as_async(), path))
}

/// Asks one contender. The blocking version of [`operate::ask_participant`].
///
/// # Errors
/// Same as [`ask`].
pub fn ask_participant(client: &Client, participant: &Participant) -> Result<bool> {
    wait(operate::ask_participant(client.as_async(), participant))
}

/// Takes the lock at `path` away from its holder. The blocking version of [`operate::force_release`].
///
/// # Errors
/// Same as the async function, and:
/// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
pub fn force_release(client: &Client, path: &str) -> Result<Vec<Participant>> {
    wait(operate::force_release(client.as_async(), path))
}

/// Takes the lock, or the place in the queue, away from one contender. The blocking version of
/// [`operate::force_release_participant`].
///
/// # Errors
/// Same as [`force_release`].
pub fn force_release_participant(client: &Client, participant: &Participant) -> Result<bool> {
    wait(operate::force_release_participant(client.as_async(), participant))
}
