//! The requests and replies that the proxy has seen.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::request::Request;

const PING_XID: i32 = -2;
const NOTIFICATION_XID: i32 = -1;

#[derive(Default)]
pub(super) struct Log {
    requests: Mutex<Vec<Request>>,
    pings: AtomicUsize,
    replies: AtomicUsize,
}

impl Log {
    pub(super) fn request(&self, request: Request) {
        match request {
            Request::PING => _ = self.pings.fetch_add(1, Ordering::SeqCst),
            _ => self.requests.lock().push(request),
        }
    }

    pub(super) fn reply(&self, xid: i32) {
        if xid != PING_XID && xid != NOTIFICATION_XID {
            self.replies.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(super) fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.requests.lock())
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.lock().len()
    }

    pub(super) fn pings(&self) -> usize {
        self.pings.load(Ordering::SeqCst)
    }

    pub(super) fn replies(&self) -> usize {
        self.replies.load(Ordering::SeqCst)
    }
}
