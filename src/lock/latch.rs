//! How a latch is asked to resign: at its election. Its own node must not be written to, since a Curator latch behind it
//! would sleep through its end.

use crate::client::REVOKE_REQUEST;
use crate::queue::LATCH;

/// Returns the path of the election, if the node is that of a latch.
pub(crate) fn election_of_latch(node_path: &str) -> Option<&str> {
    let (election, name) = node_path.rsplit_once('/')?;
    LATCH.read(name).map(|_| election)
}

/// Returns the data of the election's path that asks the latch with this token to resign.
pub(crate) fn request_to_latch(token: i64) -> Vec<u8> {
    [REVOKE_REQUEST, format!(" {token}").as_bytes()].concat()
}
