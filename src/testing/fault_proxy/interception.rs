//! What befalls single requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::request::Request;

/// What befalls a request, see [`FaultProxy::intercept`](super::FaultProxy::intercept).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It does not reach the server: the connection is cut instead.
    LoseRequest,
    /// The server gets it and replies, but the client does not get the reply: the connection is cut instead.
    LoseReply,
    /// The server gets it and replies, but the reply, and everything that follows to that client on that connection, is
    /// held back until the [`Intercepted`] is [released](Intercepted::release).
    HoldReply,
}

/// A request that is, or is going to be, intercepted, see [`FaultProxy::intercept`](super::FaultProxy::intercept).
///
/// Dropped, it is called off if it has not happened yet, and what it holds back is released.
#[derive(Debug)]
#[must_use = "an interception is called off when this is dropped"]
pub struct Intercepted {
    interception: Arc<Interception>,
    _over: DropGuard,
}

/// What the proxy knows of it.
#[derive(Debug)]
pub(super) struct Interception {
    which: Which,
    pub(super) fate: Fate,
    pub(super) happened: CancellationToken,
    /// Called off, or released.
    pub(super) over: CancellationToken,
}

/// Which request it is for.
#[derive(Debug)]
pub(super) enum Which {
    /// The next one of a kind.
    Next(Request),
    /// The one before which this many come.
    After(AtomicUsize),
}

/// Those that wait for their request, the oldest first.
#[derive(Default)]
pub(super) struct Interceptions(Mutex<Vec<Arc<Interception>>>);

impl Intercepted {
    /// Waits until it has happened: a lost connection is cut, a reply to hold is with the proxy. Returns at once
    /// afterwards. Cancel safe. Never returns when the proxy is dropped before.
    pub async fn happened(&self) {
        self.interception.happened.cancelled().await;
    }

    /// Calls it off if it has not happened yet, and lets go what it holds back. The same as dropping it.
    pub fn release(self) {}
}

impl Which {
    /// Whether it is this request. A ping counts for none.
    fn is(&self, request: Request) -> bool {
        match self {
            Self::Next(kind) => kind.normal() == request,
            Self::After(_) if request == Request::PING => false,
            Self::After(before) => {
                before.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err()
            }
        }
    }
}

impl Interceptions {
    pub(super) fn add(&self, which: Which, fate: Fate) -> Intercepted {
        let interception = Arc::new(Interception {
            which,
            fate,
            happened: CancellationToken::new(),
            over: CancellationToken::new(),
        });
        self.0.lock().push(interception.clone());
        Intercepted { _over: interception.over.clone().drop_guard(), interception }
    }

    /// The one for this request: no other request gets it, unless it is given back.
    pub(super) fn take(&self, request: Request) -> Option<Arc<Interception>> {
        let mut waiting = self.0.lock();
        waiting.retain(|interception| !interception.over.is_cancelled());
        // Each has its look, since each counts.
        let fitting: Vec<bool> = waiting.iter().map(|interception| interception.which.is(request)).collect();
        let index = fitting.iter().position(|fits| *fits)?;
        Some(waiting.remove(index))
    }

    /// Waits for another request, as the connection of the first ended before it had happened.
    pub(super) fn give_back(&self, interception: Arc<Interception>) {
        if !interception.happened.is_cancelled() {
            self.0.lock().insert(0, interception);
        }
    }
}
