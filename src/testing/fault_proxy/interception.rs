//! The interception of single requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::request::Request;

/// What happens to an intercepted request. See [`FaultProxy::intercept`](super::FaultProxy::intercept).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The request does not reach the server: the connection is cut instead.
    LoseRequest,
    /// The server receives the request and replies, but the client does not get the reply: the connection is cut
    /// instead.
    LoseReply,
    /// The server receives the request and replies, but the proxy holds back the reply, and everything that follows
    /// it to the client on that connection, until the [`Intercepted`] is [released](Intercepted::release).
    HoldReply,
    /// The server receives the request and replies, but the client does not get the reply. The connection stays, and
    /// later requests are answered, as by a ZooKeeper that takes another request's outcome for that of this one.
    OmitReply,
}

/// A pending or completed interception of a request. See [`FaultProxy::intercept`](super::FaultProxy::intercept).
///
/// Dropping this cancels the interception if it has not happened yet, and releases what it holds back.
#[must_use = "an interception is called off when this is dropped"]
pub struct Intercepted {
    interception: Arc<Interception>,
    _over: DropGuard,
}

debug_by!(Intercepted, |it| which: it.interception.which, fate: it.interception.fate);

/// The state of an interception that the proxy uses.
#[derive(Debug)]
pub(super) struct Interception {
    which: Which,
    pub(super) fate: Fate,
    pub(super) happened: CancellationToken,
    /// Cancelled or released.
    pub(super) over: CancellationToken,
}

/// Selects the request.
#[derive(Debug)]
pub(super) enum Which {
    /// The next request of a kind.
    Next(Request),
    /// The request that comes after this many others.
    After(AtomicUsize),
}

/// The interceptions that wait for their request, oldest first.
#[derive(Default)]
pub(super) struct Interceptions(Mutex<Vec<Arc<Interception>>>);

impl Intercepted {
    /// Waits until the interception has happened: for a lost request or reply, the connection is cut; a reply that is
    /// held or omitted has come. Returns immediately afterwards. Cancel safe. Never returns if the proxy is dropped
    /// before that.
    pub async fn happened(&self) {
        self.interception.happened.cancelled().await;
    }

    /// Cancels the interception if it has not happened yet, and releases what it holds back. Equivalent to dropping
    /// it.
    pub fn release(self) {}
}

impl Which {
    /// Whether this is the request. Pings are not counted.
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

    /// Takes the interception for this request. No other request gets it, unless it is given back.
    pub(super) fn take(&self, request: Request) -> Option<Arc<Interception>> {
        let mut waiting = self.0.lock();
        waiting.retain(|interception| !interception.over.is_cancelled());
        // Each is checked, since each counts.
        let fitting: Vec<bool> = waiting.iter().map(|interception| interception.which.is(request)).collect();
        let index = fitting.iter().position(|fits| *fits)?;
        Some(waiting.remove(index))
    }

    /// Makes an interception wait for another request, if its connection ended before it had happened.
    pub(super) fn give_back(&self, interception: Arc<Interception>) {
        if !interception.happened.is_cancelled() {
            self.0.lock().insert(0, interception);
        }
    }
}
