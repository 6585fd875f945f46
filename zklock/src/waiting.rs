//! What `zklock run` and `zklock hold` say while they wait for the lock.

use std::convert::Infallible;
use std::future::pending;
use std::io::IsTerminal;
use std::time::Duration;

use tokio::time::sleep;
use zk_recipes::{Client, Participant};

use crate::args::Wanted;
use crate::exit::Failure;
use crate::queue::{Queue, identity};
use crate::said::{Status, say};
use crate::table::count;
use crate::time;

/// A shorter wait is not worth a word.
const LONG: Duration = Duration::from_secs(2);
/// Between two looks at the queue.
const EVERY: Duration = Duration::from_secs(5);
/// The same for each participant, which costs a request: a crowd that waits must not load the servers.
const EACH: Duration = Duration::from_millis(100);

/// Tells what the lock is waited for, as long as this is polled: in one line that is updated, on a terminal, or in a line
/// for each change.
pub(crate) async fn tell(client: &Client, wanted: &Wanted, path: &str) -> Infallible {
    let is_terminal = std::io::stderr().is_terminal();
    if wanted.quiet || !(is_terminal || wanted.verbose) {
        return pending().await;
    }
    let mut status = Status::default();
    let mut said = None;
    let mut pause = LONG;
    loop {
        sleep(pause).await;
        pause = EVERY;
        // That the servers cannot be reached is told by others.
        let Ok((queue, session)) = read(client, path).await else { continue };
        pause = pause.max(EACH * u32::try_from(queue.participants.len()).unwrap_or(u32::MAX));
        let (holders, waiters): (Vec<_>, Vec<_>) =
            queue.participants.iter().partition(|participant| participant.is_holder());
        let ahead = waiters.iter().position(|waiter| waiter.session_id() == session);
        // What may be cut off comes last.
        let line = format!("waits for {path}: {}{}", before_us(ahead), held_by(&holders));
        if is_terminal {
            status.show(&line);
            continue;
        }
        let seen = (holders.first().map(|holder| holder.fencing_token()), holders.len(), ahead);
        if said.replace(seen) != Some(seen) {
            say(&line);
        }
    }
}

async fn read(client: &Client, path: &str) -> Result<(Queue, i64), Failure> {
    let queue = Queue::read(client, path).await?;
    Ok((queue, client.zookeeper().await?.session_id().0))
}

fn held_by(holders: &[&Participant]) -> String {
    let Some((first, others)) = holders.split_first() else { return "nobody holds it".into() };
    let (identity, age) = (identity(first), time::age(first.age()));
    match others.len() {
        0 => format!("held for {age} by {identity}"),
        others => format!("held by {}, for {age} by {identity}", others + 1),
    }
}

fn before_us(ahead: Option<usize>) -> String {
    match ahead {
        None => String::new(),
        Some(0) => "we are next; ".into(),
        Some(ahead) => format!("{} before us; ", count(ahead, "waiter")),
    }
}
