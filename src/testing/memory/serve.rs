//! The thread of a server, and its tasks: they accept connections, read and write messages, and look at the clock.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{Notify, mpsc};
use tokio::time::{self, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::connections::{ConnectionId, Wire};
use super::database::{Database, Fate, Now};
use super::words;

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
    pub(super) longest_message: usize,
}

#[derive(Debug)]
struct State {
    database: Database,
    is_paused: bool,
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
        let state = Mutex::new(State { database, is_paused: false });
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
        loop {
            let resumed = self.resumed.notified();
            {
                let mut state = self.state.lock();
                if !state.is_paused {
                    return work(&mut state.database, self.now());
                }
            }
            resumed.await;
        }
    }
}

impl Running {
    /// Starts a thread that serves the clients of a port. They can connect as soon as this returns.
    pub(super) fn start(shared: Arc<Shared>, address: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let stop = CancellationToken::new();
        shared.set_paused(false);
        shared.with(|database, now| database.sessions.renew(now.elapsed));
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
        self.shared.with(|database, _| database.cut_all());
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    tokio::spawn(look_at_the_clock(shared.clone()));
    tokio::spawn(reap(shared.clone()));
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                tokio::spawn(serve(shared.clone(), stream, peer));
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

async fn serve(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    // Replies are small, and clients wait for them.
    let _ = stream.set_nodelay(true);
    let (source, mut sink) = stream.into_split();
    let mut source = BufReader::new(source);
    let mut first = [0; 4];
    if source.read_exact(&mut first).await.is_err() {
        return;
    }
    if let Some(word) = words::known(first) {
        let answer = shared.served(|database, _| database.answer(word)).await;
        let _ = sink.write_all(answer.unwrap_or_default().as_bytes()).await;
        return;
    }
    let Wire { id, outgoing, cut } = shared.served(|database, _| database.accept(peer)).await;
    let reading = async {
        let _ = read(&shared, id, source, first).await;
        shared.with(|database, _| database.disconnect(id));
        // What is left to be sent is sent.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = cut.cancelled() => {}
        () = write(outgoing, sink) => {}
        () = reading => {}
    }
    shared.with(|database, _| database.disconnect(id));
}

/// Serves messages until the connection is to be closed. `first` is the length of the first message.
async fn read(
    shared: &Shared,
    id: ConnectionId,
    mut source: BufReader<OwnedReadHalf>,
    first: [u8; 4],
) -> io::Result<()> {
    let mut length = first;
    loop {
        let length_of_message = usize::try_from(i32::from_be_bytes(length)).ok();
        let Some(length_of_message) = length_of_message.filter(|length| *length <= shared.longest_message)
        else {
            return Ok(());
        };
        let mut message = vec![0; length_of_message];
        source.read_exact(&mut message).await?;
        if shared.served(|database, now| database.receive(id, &message, now)).await == Fate::Close {
            return Ok(());
        }
        source.read_exact(&mut length).await?;
    }
}

async fn write(mut outgoing: mpsc::UnboundedReceiver<Vec<u8>>, mut sink: OwnedWriteHalf) {
    while let Some(mut messages) = outgoing.recv().await {
        while let Ok(more) = outgoing.try_recv() {
            messages.extend(more);
        }
        if sink.write_all(&messages).await.is_err() {
            return;
        }
    }
}
