//! One queue, live.

use serde_json::json;
use zk_recipes::Client;

use super::view::View;
use crate::exit::Failure;
use crate::json;
use crate::queue::{Queue, identity, printable, role, state};
use crate::table::count;
use crate::time;

/// How many participants are read for each interval that passes.
const FOR_EACH_INTERVAL: usize = 500;

pub(super) async fn read(client: &Client, path: &str) -> Result<View, Failure> {
    Ok(match Queue::find(client, path).await? {
        Some(queue) => view(&queue, true),
        // It may come yet.
        None => view(&Queue::none(path), false),
    })
}

fn view(queue: &Queue, exists: bool) -> View {
    let holders = queue.participants.iter().filter(|participant| participant.is_holder()).count();
    let waiters = queue.participants.len() - holders;
    let kind = queue.recipe.map(|recipe| recipe.name());
    let rows = queue.participants.iter().enumerate().map(|(index, participant)| {
        let asked = if participant.is_revoke_requested() { ", asked" } else { "" };
        vec![
            (index + 1).to_string(),
            format!("{}{asked}", state(participant)),
            role(participant).to_owned(),
            time::age(participant.age()),
            format!("{:#x}", participant.session_id()),
            identity(participant),
            printable(queue.name(participant)),
        ]
    });
    let participants =
        queue.participants.iter().map(|participant| json::participant(participant, queue.name(participant)));
    let free = if exists { "free" } else { "does not exist" };
    let states = queue.participants.iter().map(|participant| {
        format!("{} {} {}", participant.node_path(), state(participant), participant.is_revoke_requested())
    });
    let weight = 1 + queue.participants.len() / FOR_EACH_INTERVAL;
    View {
        title: format!(
            "{}: {}, {}, {}",
            printable(&queue.path),
            kind.unwrap_or(free),
            count(holders, "holder"),
            count(waiters, "waiter")
        ),
        head: &["PLACE", "STATE", "KIND", "AGE", "SESSION", "IDENTITY", "NODE"],
        rows: rows.collect(),
        note: None,
        failure: None,
        json: json!({
            "path": queue.path,
            "exists": exists,
            "kind": kind,
            "participants": participants.collect::<Vec<_>>(),
        }),
        state: states.chain([exists.to_string()]).collect(),
        weight: u32::try_from(weight).unwrap_or(u32::MAX),
    }
}
