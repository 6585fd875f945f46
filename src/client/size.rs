//! How large a request may be.

use zookeeper_client::Acl;

use super::Client;
use super::write::Write;
use crate::error::{Error, Result};

/// What a server takes of one request, in bytes, unless it is configured otherwise (`jute.maxbuffer`). It hangs up on a
/// client that sends more, whose other requests fail with it.
const MAX_REQUEST: usize = 0xf_ffff;

/// What a server writes of a transaction besides its operations, and a client before them.
const ENVELOPE: usize = 128;
/// Of an operation, besides its path, its data and its ACL.
const OPERATION: usize = 40;
/// Of an entry of an ACL, besides its scheme and its id.
const ACL_ENTRY: usize = 12;

/// The part of a request that is an operation: at least what the client sends, and what the servers send each other for
/// it.
pub(crate) fn of_write(write: &Write<'_>) -> usize {
    OPERATION
        + match write {
            Write::Check { path, .. } | Write::Delete { path, .. } => path.len(),
            Write::SetData { path, data, .. } => path.len() + data.len(),
            Write::Create { path, data, acl, .. } => of_create(path.len(), data, acl),
        }
}

fn of_create(path: usize, data: &[u8], acl: &[Acl]) -> usize {
    let entries = acl.iter().map(|entry| ACL_ENTRY + entry.scheme().len() + entry.id().len());
    path + data.len() + entries.sum::<usize>()
}

/// Whether a request of these operations is one that the servers take.
pub(crate) fn fits(operations: impl IntoIterator<Item = usize>, chroot: &str) -> bool {
    let mut size = ENVELOPE;
    // Without a look at the rest when it is too much already: there may be any number.
    operations.into_iter().all(|operation| {
        size = size.saturating_add(operation).saturating_add(chroot.len());
        size <= MAX_REQUEST
    })
}

impl Client {
    /// # Errors
    /// [`Error::InvalidArgument`]: the servers would not take a request of these operations.
    pub(crate) fn ensure_fits(
        &self,
        argument: &'static str,
        operations: impl IntoIterator<Item = usize>,
    ) -> Result<()> {
        if fits(operations, self.chroot()) {
            return Ok(());
        }
        let reason = format!(
            "they take a request of more than {MAX_REQUEST} bytes, on which servers hang up; give fewer, or less data"
        );
        Err(Error::InvalidArgument { argument, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_for_the_whole_request() {
        let half = MAX_REQUEST / 2 - ENVELOPE;
        assert!(fits([half, half], ""));
        assert!(!fits([half, half], &"/chroot".repeat(ENVELOPE)));
        assert!(!fits([half, half, half], ""));
        assert!(!fits(std::iter::repeat(OPERATION), ""), "it ends");
        assert!(!fits([usize::MAX, usize::MAX], ""));
    }
}
