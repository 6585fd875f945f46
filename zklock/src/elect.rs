//! `zklock elect`: a command while this process leads.

use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::oneshot;
use zk_recipes::{Client, LeaderLatch, LeaderObserver, LeaderOptions, Leadership, LossReason};

use crate::args::{Connection, Elect};
use crate::child::{self, Ended, Held, Running};
use crate::exit::Failure;
use crate::nested::Outer;
use crate::run::with_client;
use crate::said::{say, wait_until_written};
use crate::signals::{Signals, code_of};

/// What the leadership waits for beyond the grace of the command, which then gets killed.
const MARGIN: Duration = Duration::from_secs(5);

pub(crate) async fn elect(connection: &Connection, args: &Elect) -> Result<ExitCode, Failure> {
    let what = format!("the leadership {}", args.supervised.path);
    with_client(connection, None, &what, async |client, signals| lead(client, args, &what, signals).await)
        .await
}

async fn lead(client: &Client, args: &Elect, what: &str, signals: &mut Signals) -> Result<ExitCode, Failure> {
    let path = &args.supervised.path;
    // The node stays until the command has ended; it is killed before this grace is over.
    let options = LeaderOptions::new().grace(args.supervised.grace.saturating_add(MARGIN));
    let outer = Outer::read();
    if !outer.is_none() {
        let observer = LeaderObserver::new(client, path)?;
        // What may not be read can be waited for.
        if let Ok(participants) = signals.unless_told_to_end(what, observer.participants()).await? {
            outer.ensure_free(path, &participants, 1, false)?;
        }
    }
    let latch = LeaderLatch::start(client, path, options)?;
    loop {
        let leading = async {
            tokio::select! {
                leadership = latch.await_leadership() => leadership,
                never = outer.warn(path) => match never {},
            }
        };
        let leadership = signals.unless_told_to_end(what, leading).await??;
        // What the command writes comes after it.
        wait_until_written();
        if let Some(reason) = leadership.loss() {
            say(&format!("{what} was lost: {reason}; nothing was run; stands for election again"));
            continue;
        }
        let ended = term(client, args, &leadership, &outer, signals).await?;
        if ended.stopped.is_some() {
            if let Some(number) = ended.told_to_end {
                return Ok(code_of(number).into());
            }
            say(&format!("the command was stopped ({}); stands for election again", ended.status));
            continue;
        }
        if let Some(reason) = leadership.loss() {
            return Err(Failure::lost(format!(
                "{what} was lost before the command ended ({}): {reason}; another may have led meanwhile",
                ended.status
            )));
        }
        // Its end is that of the client, right after this.
        return Ok(child::code(ended.status).into());
    }
}

/// Runs the command for as long as the leadership lasts.
async fn term(
    client: &Client,
    args: &Elect,
    leadership: &Leadership,
    outer: &Outer,
    signals: &mut Signals,
) -> Result<Ended<()>, Failure> {
    let path = &args.supervised.path;
    let held = outer.and(client, leadership.node_path());
    let held = Held { path, token: leadership.fencing_token(), held };
    let running = Running::start(&args.supervised.command(), &held)?;
    let (running_until, ends) = oneshot::channel::<()>();
    // While this runs, a resignation waits. It is not the command itself, which must not be dropped but stopped.
    let work = leadership.run(ends);
    let announce = |(): &()| {
        let reason = leadership.loss().unwrap_or(LossReason::Resigned);
        say(&format!("the leadership {path} ends: {reason}; the command is told to end"));
    };
    let supervised = async {
        let stop = async {
            leadership.until_resigning(std::future::pending::<()>()).await;
        };
        let ended = running.supervise(signals, stop, args.supervised.grace, announce).await;
        drop(running_until);
        ended
    };
    tokio::join!(supervised, work).0
}
