//! `zklock kick`: takes a lock away.

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use zk_recipes::{Client, Participant, operate};

use crate::args::{Connection, Kick};
use crate::exit::{Failure, print};
use crate::queue::{Queue, identity, printable, state};
use crate::said::say;
use crate::time;

pub(crate) async fn kick(connection: &Connection, args: &Kick) -> Result<ExitCode, Failure> {
    if !args.yes && !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "there is no terminal to ask at whether to take the lock away: give --yes",
        ));
    }
    connection.with_client(async |client| carry_out(client, args).await).await
}

async fn carry_out(client: &Client, args: &Kick) -> Result<ExitCode, Failure> {
    let queue = Queue::read(client, &args.path).await?;
    let path = printable(&queue.path);
    let concerned: Vec<_> =
        queue.participants.iter().filter(|participant| concerns(args, &queue, participant)).collect();
    if concerned.is_empty() {
        if let Some(name) = &args.participant {
            return Err(Failure::absent(format!(
                "cannot find {name} in the queue of {path}: it may have left; `zklock show {path}` prints who is there"
            )));
        }
        print(&format!("{path}: nobody holds it\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes {
        confirm(&queue, &concerned)?;
    }
    // Those that were shown, and nobody who came later.
    for participant in concerned {
        let name = printable(queue.name(participant));
        let outcome = match operate::force_release_participant(client, participant).await? {
            true => "taken from",
            false => "left by itself:",
        };
        print(&format!("{path}: {outcome} {name}, {}\n", identity(participant)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn concerns(args: &Kick, queue: &Queue, participant: &Participant) -> bool {
    match args.participant.as_deref() {
        Some(name) => queue.name(participant) == name || participant.node_path() == name,
        None => participant.is_holder(),
    }
}

fn confirm(queue: &Queue, concerned: &[&Participant]) -> Result<(), Failure> {
    for participant in concerned {
        say(&format!(
            "{}: {} for {}, {}",
            printable(queue.name(participant)),
            state(participant),
            time::age(participant.age()),
            identity(participant),
        ));
    }
    say("take it away? If they still work, they may not notice at once. Type yes:");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    match read {
        Ok(_) if answer.trim() == "yes" => Ok(()),
        _ => Err(Failure::other("not confirmed: nothing was taken away")),
    }
}
