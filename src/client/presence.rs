//! Closes a client when its user has dropped everything made from it.

use std::convert::Infallible;
use std::sync::{Arc, mpsc};

use super::core::{Core, Origin};

/// Keeps a client open. Everything that the user has shares one; background work has none.
pub(crate) struct Presence {
    pub(super) core: Arc<Core>,
}

impl Drop for Presence {
    /// Blocks until the servers have ended the session, since this may be the end of a process that has just
    /// released its locks.
    fn drop(&mut self) {
        let core = &self.core;
        // Without a connection there is no server to tell, at least for the moment.
        let is_connected = core.link.status().borrow().is_connected();
        core.begin_to_close();
        let is_of_another = matches!(core.origin, Origin::Adopted { .. });
        if !is_connected || is_of_another || core.home.is_here() {
            return;
        }
        let (at_the_end, end) = mpsc::channel::<Infallible>();
        let ending = core.clone();
        core.home.spawn(async move {
            ending.let_go().await;
            drop(at_the_end);
        });
        // Nothing is ever sent. The receive ends when the sender is dropped.
        let _ = end.recv_timeout(core.settings.drop_timeout);
    }
}
