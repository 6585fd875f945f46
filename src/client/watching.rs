//! The second session of a client, for persistent watches.

use super::core::{Core, Origin};
use super::handle::Client;
use crate::error::{Error, Result};

impl Client {
    /// Returns a handle on a session for persistent watches, which all callers share. It has the settings of this client,
    /// and is closed with it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the session of this client is adopted: where the servers are is not known.
    pub(crate) fn for_watches(&self) -> Result<Self> {
        let Core { settings, origin: Origin::Own { connect_string, .. }, watching, .. } = &*self.core else {
            let reason =
                "its session is adopted, and caches need a second one; connect another client for them";
            return Err(Error::InvalidArgument { argument: "client", reason: reason.into() });
        };
        let mut core = watching.lock();
        let core = match &*core {
            Some(core) => core,
            None => {
                let mut settings = settings.clone();
                settings.is_for_watches = true;
                let made = core.insert(settings.start_own(connect_string)?);
                let (closed, closes) = (self.core.closed.clone(), made.clone());
                self.spawn(async move {
                    closed.cancelled().await;
                    closes.begin_to_close();
                });
                made
            }
        };
        Ok(Self::of(core.clone()))
    }
}
