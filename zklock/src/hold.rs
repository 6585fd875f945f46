//! `zklock hold`: a lock without a command.

use std::io::{ErrorKind, IsTerminal, Read};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use zk_recipes::Client;

use crate::args::{Connection, Hold};
use crate::exit::{Failure, print_while_read};
use crate::nested::Outer;
use crate::run::{Released, acquired, release, with_client};
use crate::signals::Signals;

pub(crate) async fn hold(connection: &Connection, args: &Hold) -> Result<ExitCode, Failure> {
    let what = format!("the lock {}", args.path);
    with_client(connection, args.wanted.timeout, &what, async |client, signals| {
        until_ended(client, args, connection.patience(), signals).await
    })
    .await
}

async fn until_ended(
    client: &Client,
    args: &Hold,
    patience: Duration,
    signals: &mut Signals,
) -> Result<ExitCode, Failure> {
    let path = &args.path;
    let outer = Outer::read();
    let mut ended = pin!(input_ended());
    let guard = tokio::select! {
        guard = acquired(client, &args.wanted, path, &outer, patience, signals) => guard?,
        () = &mut ended => {
            return Err(Failure::other(format!("the standard input ended before the lock {path} was free")));
        }
    };
    let unprinted = async {
        match print_while_read(format!("{} {}\n", guard.fencing_token(), guard.node_path())).await {
            Ok(_) => std::future::pending().await,
            Err(failure) => failure,
        }
    };
    let reason = tokio::select! {
        biased;
        failure = unprinted => return Err(failure),
        reason = guard.lost() => Some(reason),
        _ = signals.ending() => None,
        () = ended => None,
    };
    let lost = |reason| Failure::lost(format!("the lock {path} was lost: {reason}; others may hold it"));
    if let Some(reason) = reason {
        return Err(lost(reason));
    }
    match signals.unless_insisted(release(guard)).await {
        Some(Ok(())) => Ok(ExitCode::SUCCESS),
        Some(Err(Released::Lost(reason))) => Err(lost(reason)),
        Some(Err(Released::Unconfirmed(error))) => Err(error.into()),
        None => Err(Failure::unreachable(format!(
            "the lock {path} ends with its session: the servers do not answer"
        ))),
    }
}

/// Waits for the end of the standard input. One that is a terminal belongs to others, too.
async fn input_ended() {
    let input = std::io::stdin();
    if input.is_terminal() {
        std::future::pending().await
    }
    let read_all = move || {
        let mut input = input.lock();
        loop {
            match input.read(&mut [0; 1024]) {
                Ok(1..) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Another process may have set it not to block.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let _ = poll(&mut [PollFd::new(&input, PollFlags::IN)], None);
                }
                _ => return,
            }
        }
    };
    let _ = tokio::task::spawn_blocking(read_all).await;
}
