//! `zklock show`: one queue.

use std::process::ExitCode;

use serde_json::json;
use zk_recipes::Participant;

use crate::args::{Connection, Show};
use crate::exit::{Failure, print};
use crate::json;
use crate::queue::{Queue, identity, printable, role, state};
use crate::table::{count, table};
use crate::time;

pub(crate) async fn show(connection: &Connection, args: &Show) -> Result<ExitCode, Failure> {
    let queue = connection.with_client(async |client| Queue::read(client, &args.path).await).await?;
    print(&if args.json { as_json(&queue) } else { as_text(&queue) })?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(queue: &Queue) -> String {
    let entries = queue.participants.iter().enumerate().map(|(index, participant)| {
        let mut entry = json::participant(participant, queue.name(participant));
        entry["place"] = (index + 1).into();
        entry
    });
    json::document(&json!({
        "path": queue.path,
        "kind": queue.recipe.map(|recipe| recipe.name()),
        "participants": entries.collect::<Vec<_>>(),
    }))
}

fn as_text(queue: &Queue) -> String {
    let Some(recipe) = queue.recipe.filter(|_| !queue.participants.is_empty()) else {
        let others = match queue.others {
            0 => String::new(),
            others => format!(" (it has {} that are no participants)", count(others, "child node")),
        };
        return format!("{}: nobody holds it or waits{others}\n", printable(&queue.path));
    };
    let head = summary(queue, recipe.name());
    let rows = queue.participants.iter().enumerate().map(|(index, participant)| {
        [
            (index + 1).to_string(),
            state_and_request(participant),
            role(participant).to_owned(),
            time::age(participant.age()),
            time::rfc3339(participant.since()),
            format!("{:#x}", participant.session_id()),
            participant.fencing_token().to_string(),
            printable(queue.name(participant)),
            identity(participant),
        ]
    });
    let columns = ["PLACE", "STATE", "KIND", "AGE", "SINCE", "SESSION", "TOKEN", "NODE", "IDENTITY"];
    head + "\n" + &table(columns, &rows.collect::<Vec<_>>())
}

/// A queue in one line.
pub(crate) fn summary(queue: &Queue, kind: &str) -> String {
    let holders = queue.participants.iter().filter(|participant| participant.is_holder()).count();
    let waiters = queue.participants.len() - holders;
    let path = printable(&queue.path);
    format!("{path}: {kind}, {}, {}", count(holders, "holder"), count(waiters, "waiter"))
}

/// How far a participant has got, and whether it is asked to give the lock back.
pub(crate) fn state_and_request(participant: &Participant) -> String {
    let asked = if participant.is_revoke_requested() { ", asked" } else { "" };
    format!("{}{asked}", state(participant))
}
