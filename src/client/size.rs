//! The maximum size of a request.

use super::write::Write;

/// The largest request, in bytes, that a server accepts unless configured otherwise (`jute.maxbuffer`). It closes
/// the connection of a client that sends more, whose other requests then fail as well.
pub(super) const MAX_REQUEST: usize = 0xf_ffff;

/// What a server writes of a transaction besides its operations, and what a client writes ahead of them.
const ENVELOPE: usize = 128;
/// The size of an operation besides its path, its data and its ACL.
const OPERATION: usize = 40;
/// The size of an ACL entry besides its scheme and its id.
const ACL_ENTRY: usize = 12;

/// Returns the size of an operation within a request: at least what the client sends, and what the servers send
/// each other for it.
pub(crate) fn of_write(write: &Write<'_>) -> usize {
    OPERATION
        + match write {
            Write::Check { path, .. } | Write::Delete { path, .. } => path.len(),
            Write::SetData { path, data, .. } => path.len() + data.len(),
            Write::Create { path, data, acl, .. } | Write::CreateTtl { path, data, acl, .. } => {
                let entries = acl.iter().map(|entry| ACL_ENTRY + entry.scheme().len() + entry.id().len());
                path.len() + data.len() + entries.sum::<usize>()
            }
        }
}

/// Whether the servers accept a request with these operations.
pub(super) fn fits(operations: impl IntoIterator<Item = usize>, chroot: &str) -> bool {
    let mut size = ENVELOPE;
    // Stops as soon as it is too much: there may be any number of operations.
    operations.into_iter().all(|operation| {
        size = size.saturating_add(operation).saturating_add(chroot.len());
        size <= MAX_REQUEST
    })
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
