//! Wakers of users, which may panic: as those of an executor that is gone.

use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use futures_util::FutureExt;

use crate::error::discard;

/// A waker of a user that does not panic.
struct Guard(Waker);

/// Awaits a future where a user polls it, with wakers that do not panic.
///
/// They are woken and dropped on threads that clients share, one after the other, and while something else is being
/// dropped. There a panic would end the thread, leave those behind it asleep, or abort the process.
pub(crate) fn guarded<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let mut future = Box::pin(future);
    // Does not keep it: the waker may own the future.
    let mut last = Weak::<Guard>::new();
    poll_fn(move |cx| {
        let guard = last.upgrade().filter(|guard| guard.0.will_wake(cx.waker())).unwrap_or_else(|| {
            let guard = Arc::new(Guard(cx.waker().clone()));
            last = Arc::downgrade(&guard);
            guard
        });
        future.as_mut().poll(&mut Context::from_waker(&guard.into()))
    })
}

/// Does what runs code of a user, which may panic.
pub(crate) fn contained(act: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(act)) {
        discard(panic);
    }
}

/// Work that costs other work nothing if it panics, as where a subscriber of `tracing` does.
pub(crate) fn alone(work: impl Future<Output = ()>) -> impl Future<Output = ()> {
    AssertUnwindSafe(work).catch_unwind().map(|ended| ended.unwrap_or_else(discard))
}

impl Wake for Guard {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        contained(|| self.0.wake_by_ref());
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let waker = mem::replace(&mut self.0, Waker::noop().clone());
        contained(|| drop(waker));
    }
}
