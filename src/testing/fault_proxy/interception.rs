//! The interception of single requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    pub(super) interception: Arc<Interception>,
    _over: DropGuard,
}

debug_by!(Intercepted, |it| request: it.interception.request, fate: it.interception.fate);

/// The state of an interception that the proxy uses.
#[derive(Debug)]
pub(super) struct Interception {
    /// The kind of the request; `None` stands for any but a ping.
    request: Option<Request>,
    /// How many such requests pass before.
    passing: AtomicUsize,
    pub(super) fate: Fate,
    pub(super) happened: CancellationToken,
    /// Cancelled or released.
    pub(super) over: CancellationToken,
}

impl Intercepted {
    pub(super) fn new(request: Option<Request>, passing: usize, fate: Fate) -> Self {
        let interception = Arc::new(Interception {
            request,
            passing: passing.into(),
            fate,
            happened: CancellationToken::new(),
            over: CancellationToken::new(),
        });
        Self { _over: interception.over.clone().drop_guard(), interception }
    }

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

impl Interception {
    /// Whether it is for this request. A request that it is not for, though of the kind, is counted.
    fn is_for(&self, request: Request) -> bool {
        let is_of_kind = match self.request {
            Some(kind) => kind.normal() == request,
            None => request != Request::PING,
        };
        is_of_kind
            && self
                .passing
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_err()
    }
}

/// Takes the interception for a request from those that wait for one, the oldest first.
pub(super) fn take(waiting: &mut Vec<Arc<Interception>>, request: Request) -> Option<Arc<Interception>> {
    waiting.retain(|interception| !interception.over.is_cancelled());
    // Each is checked, since each counts.
    let fitting: Vec<bool> = waiting.iter().map(|interception| interception.is_for(request)).collect();
    let index = fitting.iter().position(|fits| *fits)?;
    Some(waiting.remove(index))
}
