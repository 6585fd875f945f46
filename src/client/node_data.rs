//! Checks the data of nodes before anything is sent.

use super::compression::decompressed;
use crate::error::{Error, Result};

/// The data that asks the holder to release the lock, written to the holder's node. Curator's `REVOKE_MESSAGE`.
pub(crate) const REVOKE_REQUEST: &[u8] = b"__REVOKE__";

/// Whether this node data, possibly compressed, asks its holder to release the lock.
pub(crate) fn is_revoke_request(data: &[u8]) -> bool {
    data == REVOKE_REQUEST || decompressed(data).is_some_and(|plain| plain == REVOKE_REQUEST)
}

/// Half of what a server accepts in one request: the path and the ACL need room, too.
const MAX_NODE_DATA: usize = 512 * 1024;

/// # Errors
/// [`Error::InvalidArgument`] if a node cannot be created with this data.
pub(crate) fn validate(argument: &'static str, data: &[u8]) -> Result<()> {
    let reason = if is_revoke_request(data) {
        "it is `__REVOKE__`, which asks a holder to release its lock; choose other data".into()
    } else if data.len() > MAX_NODE_DATA {
        format!("it has {} bytes; give at most {MAX_NODE_DATA} bytes", data.len())
    } else {
        return Ok(());
    };
    Err(Error::InvalidArgument { argument, reason })
}
