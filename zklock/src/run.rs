//! `zklock run`: a command under a lock.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::{
    Client, Error, InterProcessLock, InterProcessMutex, LockGuard, LossReason, ReadWriteLock, Semaphore,
};

use crate::args::{Connection, Run, Wanted};
use crate::child::{self, Held, Running};
use crate::exit::Failure;
use crate::nested::Outer;
use crate::queue::Queue;
use crate::said::{say, wait_until_written};
use crate::signals::Signals;
use crate::waiting;

pub(crate) async fn run(connection: &Connection, args: &Run) -> Result<ExitCode, Failure> {
    let what = format!("the lock {}", args.supervised.path);
    with_client(connection, args.wanted.timeout, &what, async |client, signals| {
        under_lock(client, args, connection.patience(), signals).await
    })
    .await
}

/// Does something with a client that waits for `what`, within the limit if there is one.
pub(crate) async fn with_client(
    connection: &Connection,
    limit: Option<Duration>,
    what: &str,
    work: impl AsyncFnOnce(&Client, &mut Signals) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    // First of all, so that no signal can end this process while it has a node.
    let mut signals = Signals::listen()?;
    connection.say_if_open()?;
    let client = match limit {
        // One limit for all: it counts from now.
        Some(limit) if !limit.is_zero() => connection.connect_lazily()?,
        _ => signals.unless_told_to_end(what, connection.connect()).await??,
    };
    let done = work(&client, &mut signals).await;
    // Signals are still caught: none of them leaves a node behind while the servers answer.
    signals.unless_insisted(client.close()).await;
    done
}

async fn under_lock(
    client: &Client,
    args: &Run,
    patience: Duration,
    signals: &mut Signals,
) -> Result<ExitCode, Failure> {
    let path = &args.supervised.path;
    let outer = Outer::read();
    let guard = acquired(client, &args.wanted, path, &outer, patience, signals).await?;
    // What the command writes comes after it.
    wait_until_written();
    if let Some(reason) = guard.loss() {
        return Err(Failure::lost(format!("the lock {path} was lost: {reason}; nothing was run")));
    }
    let held = Held { path, token: guard.fencing_token(), held: outer.and(client, guard.node_path()) };
    let running = Running::start(&args.supervised.command(), &held);
    let running = match running {
        Ok(running) => running,
        Err(failure) => {
            // The failure to run is the one to tell.
            let _ = guard.release().await;
            return Err(failure);
        }
    };
    let announce = |reason: &LossReason| {
        say(&format!("the lock {path} was lost: {reason}; the command is told to end"));
    };
    let ended = running.supervise(signals, guard.lost(), args.supervised.grace, announce).await?;
    let code = child::code(ended.status);
    if ended.stopped.is_some() {
        return Err(Failure::lost(format!("the command was stopped ({})", ended.status)));
    }
    match signals.unless_insisted(release(guard)).await {
        Some(Ok(())) => {}
        None => say(
            "the command has ended, but not the session, with which the lock ends: the servers do not answer",
        ),
        Some(Err(Released::Lost(reason))) => {
            return Err(Failure::lost(format!(
                "the lock {path} was lost before the command ended ({}): {reason}; others may have held it meanwhile",
                ended.status
            )));
        }
        Some(Err(Released::Unconfirmed(error))) => {
            say(&format!("the command has ended, but: {}", zk_recipes::report(&error)))
        }
    }
    Ok(code.into())
}

/// Waits for a lock as it is wanted.
pub(crate) async fn acquired(
    client: &Client,
    wanted: &Wanted,
    path: &str,
    outer: &Outer,
    patience: Duration,
    signals: &mut Signals,
) -> Result<LockGuard, Failure> {
    let lock = lock(client, wanted, path)?;
    let acquiring = async {
        // A wait with a limit ends by itself.
        if wanted.timeout.is_none()
            && !outer.is_none()
            // What may not be read can be waited for.
            && let Ok(Some(queue)) = Queue::find(client, path).await
        {
            let permits = wanted.permits.unwrap_or(1);
            outer.ensure_free(path, &queue.participants, permits, wanted.shared)?;
        }
        tokio::select! {
            biased;
            acquired = acquire(&*lock, wanted.timeout) => Ok(acquired?),
            never = outer.warn(path), if wanted.timeout.is_none() => match never {},
            never = waiting::tell(client, wanted, path) => match never {},
            // Where there is no limit of the user's.
            () = unreachable_for(client, patience), if wanted.timeout.is_none() => Err(Failure::unreachable(format!(
                "cannot acquire {path}: no server has been reached for {patience:?}; check that they run, and try again"
            ))),
        }
    };
    let acquired = signals.unless_told_to_end(&format!("the lock {path}"), acquiring).await??;
    acquired.ok_or_else(|| {
        let within = match wanted.timeout.unwrap_or_default() {
            Duration::ZERO => String::new(),
            limit => format!(" within {limit:?}"),
        };
        let outer = outer.held().map(|held| format!(" (an outer zklock holds {held})")).unwrap_or_default();
        Failure::new(
            wanted.conflict_exit_code,
            format!(
                "cannot acquire {path}{within}: others are before us; see who with `zklock show {path}`, or give a longer --timeout{outer}"
            ),
        )
    })
}

/// Waits until there has been no connection for this long.
async fn unreachable_for(client: &Client, patience: Duration) {
    let mut connection = client.watch_connection();
    loop {
        // The channel closes with the client, which is not closed yet.
        if connection.wait_for(|state| !state.is_connected()).await.is_none()
            || timeout(patience, connection.wait_for(|state| state.is_connected())).await.is_err()
        {
            return;
        }
    }
}

pub(crate) enum Released {
    /// While the command ran, as far as is known.
    Lost(LossReason),
    /// The command had ended before anything went wrong.
    Unconfirmed(Error),
}

pub(crate) async fn release(guard: LockGuard) -> Result<(), Released> {
    if let Some(reason) = guard.loss() {
        return Err(Released::Lost(reason));
    }
    guard.release().await.map_err(|error| match error {
        // The node had gone without a notice until then.
        Error::LockLost { reason: LossReason::Deleted, .. } => Released::Lost(LossReason::Deleted),
        error => Released::Unconfirmed(error),
    })
}

fn lock(client: &Client, wanted: &Wanted, path: &str) -> Result<Arc<dyn InterProcessLock>, Failure> {
    Ok(match wanted.permits {
        Some(permits) => Arc::new(Semaphore::new(client, path, permits)?),
        None if wanted.shared => Arc::new(ReadWriteLock::new(client, path)?.read().clone()),
        None if wanted.exclusive => Arc::new(ReadWriteLock::new(client, path)?.write().clone()),
        None => Arc::new(InterProcessMutex::new(client, path)?),
    })
}

async fn acquire(lock: &dyn InterProcessLock, limit: Option<Duration>) -> Result<Option<LockGuard>, Error> {
    match limit {
        None => lock.acquire().await.map(Some),
        Some(Duration::ZERO) => lock.try_acquire().await,
        Some(limit) => lock.try_acquire_for(limit).await,
    }
}
