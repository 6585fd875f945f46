//! The thread of a server, which accepts connections and looks at the clock.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::{self, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::connections::{ConnectionId, Wire};
use super::database::{Database, Fate, Now};
use super::serve::{self, Host};

/// The pause after a failed accept: the system is short of something, such as file descriptors.
const RECOVERY: Duration = Duration::from_millis(10);

/// What the handle and the thread share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    resumed: Notify,
    built: Instant,
    /// How often containers and times to live are looked at.
    pub(super) reap_interval: Duration,
    /// The length of the longest message.
    longest_message: usize,
}

#[derive(Debug)]
struct State {
    database: Database,
    is_paused: bool,
    is_running: bool,
}

/// A running server. Dropping it ends the thread and closes all connections.
#[derive(Debug)]
pub(super) struct Running {
    shared: Arc<Shared>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Shared {
    pub(super) fn new(database: Database, reap_interval: Duration, longest_message: usize) -> Self {
        let state = Mutex::new(State { database, is_paused: false, is_running: false });
        Self { state, resumed: Notify::new(), built: Instant::now(), reap_interval, longest_message }
    }

    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { elapsed: self.built.elapsed(), wall: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX) }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state.lock().is_paused
    }

    /// When this returns, no message is being served, and none will be.
    pub(super) fn set_paused(&self, is_paused: bool) {
        self.state.lock().is_paused = is_paused;
        self.resumed.notify_waiters();
    }

    /// Works on the database, whether or not the server is paused.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Database, Now) -> R) -> R {
        let mut state = self.state.lock();
        work(&mut state.database, self.now())
    }

    /// Works on the database as soon as the server is not paused.
    async fn served<R>(&self, work: impl FnOnce(&mut Database, Now) -> R) -> R {
        self.unpaused(|state| work(&mut state.database, self.now())).await
    }

    async fn unpaused<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        loop {
            let resumed = self.resumed.notified();
            {
                let mut state = self.state.lock();
                if !state.is_paused {
                    return work(&mut state);
                }
            }
            resumed.await;
        }
    }
}

impl Running {
    /// Starts a thread that serves the clients of a port. They can connect as soon as this returns.
    pub(super) fn start(shared: Arc<Shared>, listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let stop = CancellationToken::new();
        shared.set_paused(false);
        shared.with(|database, now| database.sessions.renew(now.elapsed));
        shared.state.lock().is_running = true;
        let (shared_there, stopped) = (shared.clone(), stop.clone());
        let serve = move || {
            runtime.block_on(stopped.run_until_cancelled(accept(shared_there, listener)));
        };
        let thread = thread::Builder::new().name("zk-memory-server".into()).spawn(serve)?;
        Ok(Self { shared, stop, thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // It has no more than a few messages to finish. A panic was printed by its thread.
            let _ = thread.join();
        }
        let mut state = self.shared.state.lock();
        state.is_running = false;
        state.database.cut_all();
    }
}

impl Host for Shared {
    fn longest_message(&self) -> usize {
        self.longest_message
    }

    async fn accept(&self, peer: SocketAddr) -> Option<Wire> {
        self.unpaused(|state| state.is_running.then(|| state.database.accept(peer))).await
    }

    async fn receive(&self, id: ConnectionId, message: &[u8]) -> Fate {
        self.served(|database, now| database.receive(id, message, now)).await
    }

    fn disconnect(&self, id: ConnectionId) {
        self.with(|database, _| database.disconnect(id));
    }

    async fn answer(&self, word: &str) -> Option<String> {
        self.served(|database, _| database.answer(word)).await
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    tokio::spawn(look_at_the_clock(shared.clone()));
    tokio::spawn(reap(shared.clone()));
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Replies are small, and clients wait for them.
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve::serve(shared.clone(), stream, peer));
            }
            Err(_) => time::sleep(RECOVERY).await,
        }
    }
}

async fn look_at_the_clock(shared: Arc<Shared>) {
    let tick = shared.with(|database, _| database.limits.tick);
    let mut ticks = time::interval(tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        shared.served(Database::end_expired_sessions).await;
    }
}

async fn reap(shared: Arc<Shared>) {
    loop {
        time::sleep(shared.reap_interval).await;
        shared.served(Database::reap).await;
    }
}
