//! One queue, live.

use serde_json::json;
use zk_recipes::Client;

use super::view::View;
use crate::exit::Failure;
use crate::json;
use crate::queue::{Queue, identity, printable, role};
use crate::show::{state_and_request, summary};
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
    let kind = queue.recipe.map(|recipe| recipe.name());
    let rows = queue.participants.iter().enumerate().map(|(index, participant)| {
        vec![
            (index + 1).to_string(),
            state_and_request(participant),
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
    let states = queue
        .participants
        .iter()
        .map(|participant| format!("{} {}", participant.node_path(), state_and_request(participant)));
    let weight = 1 + queue.participants.len() / FOR_EACH_INTERVAL;
    View {
        title: summary(queue, kind.unwrap_or(free)),
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
