//! The data of nodes: checked before anything is sent.

use super::compression::decompressed;
use crate::error::{Error, Result};

/// What asks a holder to give the lock back, as the data of its node. Curator's `REVOKE_MESSAGE`.
pub(crate) const REVOKE_REQUEST: &[u8] = b"__REVOKE__";

/// Whether this data of a node, perhaps compressed, asks its holder to give the lock back.
pub(crate) fn is_revoke_request(data: &[u8]) -> bool {
    data == REVOKE_REQUEST || decompressed(data).is_some_and(|plain| plain == REVOKE_REQUEST)
}

/// Half of what a server takes of one request; the path and the ACL need their room, too.
const MAX_NODE_DATA: usize = 512 * 1024;

/// # Errors
/// [`Error::InvalidArgument`]: a node cannot have this data from its creation on.
pub(crate) fn validate(argument: &'static str, data: &[u8]) -> Result<()> {
    let reason = if is_revoke_request(data) {
        "it is what asks a holder to give the lock back; choose another".into()
    } else if data.len() > MAX_NODE_DATA {
        format!("it has {} bytes; give at most {MAX_NODE_DATA}", data.len())
    } else {
        return Ok(());
    };
    Err(Error::InvalidArgument { argument, reason })
}
