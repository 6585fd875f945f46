//! Whether the task that serves an adopted session still runs, and how often the state of the session has changed.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::time::timeout;
use zookeeper_client as zk;

/// `zookeeper-client` serves a session in a task on the runtime that connected. When that runtime is shut down, the
/// task is dropped, and a watch that is polled afterwards, on another runtime or in a drop, panics; a process that
/// aborts on panics then ends. So watches are polled only through this type.
///
/// The task drops the sender of its states before the watches. That wakes the alarm, which waits until no watch is
/// being polled, and prevents further polls until the reason for the alarm is known.
pub(super) struct Serving {
    runtime: Handle,
    alarm: Arc<Alarm>,
    next: Mutex<Next>,
    state: zk::StateWatcher,
    /// How many changes of the state the alarm has reported.
    changes: AtomicU64,
}

struct Alarm {
    state: AtomicU8,
    /// Held for reading by those who poll a watch.
    polling: RwLock<()>,
}

/// How long the task that serves a session takes to end after the session has ended.
const FAREWELL: Duration = Duration::from_millis(100);

/// The alarm will ring before a watch panics.
const SET: u8 = 0;
/// The alarm rang, or was never set.
const RUNG: u8 = 1;
/// The alarm is being set.
const SETTING: u8 = 2;

/// The next change of the state of the session.
enum Next {
    Awaited(Pin<Box<dyn Future<Output = zk::StateWatcher> + Send>>),
    /// The runtime is shut down.
    Never,
}

impl Serving {
    /// Must be called on the runtime that serves the session.
    pub(super) fn new(state: zk::StateWatcher) -> Self {
        // The first call sets it.
        let alarm = Arc::new(Alarm { state: AtomicU8::new(RUNG), polling: RwLock::default() });
        let next = Mutex::new(Next::after(state.clone()));
        Self { runtime: Handle::current(), alarm, next, state, changes: AtomicU64::new(0) }
    }

    /// Spawns a task on the runtime that serves the session.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Polls a watch; `None` if that would panic.
    pub(super) fn while_it_lasts<T>(&self, poll: impl FnOnce() -> T) -> Option<T> {
        loop {
            {
                let _polling = self.alarm.polling.read();
                if self.alarm.state.load(SeqCst) == SET {
                    return Some(poll());
                }
            }
            if !self.set_alarm() {
                return None;
            }
        }
    }

    /// Returns how often the state of the session has changed. One atomic read suffices as long as the alarm has
    /// not rung.
    pub(super) fn changes(&self) -> u64 {
        if self.alarm.state.load(SeqCst) != SET {
            self.set_alarm();
        }
        self.changes.load(SeqCst)
    }

    /// Sets the alarm. Returns whether the session is still served.
    fn set_alarm(&self) -> bool {
        let mut next = self.next.lock();
        let waker = Waker::from(self.alarm.clone());
        let alarm = &self.alarm.state;
        while alarm.load(SeqCst) != SET {
            alarm.store(SETTING, SeqCst);
            while let Next::Awaited(change) = &mut *next {
                match change.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(state) => {
                        *next = Next::after(state);
                        self.changes.fetch_add(1, SeqCst);
                    }
                    Poll::Pending => break,
                }
            }
            if matches!(*next, Next::Never) || is_shut_down(&self.runtime) {
                *next = Next::Never;
                return false;
            }
            // Unless it has rung meanwhile.
            let _ = alarm.compare_exchange(SETTING, SET, SeqCst, SeqCst);
        }
        true
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let next = self.next.get_mut();
        if let Next::Awaited(change) = std::mem::replace(next, Next::Never) {
            // The future must not be dropped while the state changes: see `tell_states` in `adopted.rs`. After the
            // last state it never completes.
            let is_last = self.state.peek_state().is_terminated();
            self.runtime.spawn(async move {
                if is_last {
                    let _ = timeout(FAREWELL, change).await;
                } else {
                    change.await;
                }
            });
        }
    }
}

impl Next {
    fn after(mut state: zk::StateWatcher) -> Self {
        Self::Awaited(Box::pin(async move {
            state.changed().await;
            state
        }))
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.state.store(RUNG, SeqCst);
        drop(self.polling.write());
    }
}

/// Whether the shutdown of a runtime has begun. It rejects new tasks before it drops the first of the old ones.
pub(super) fn is_shut_down(runtime: &Handle) -> bool {
    let task = runtime.spawn(std::future::pending::<()>());
    let refused = task.is_finished();
    task.abort();
    refused
}
