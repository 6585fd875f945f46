//! Participants as JSON.

use serde_json::{Value, json};
use zk_recipes::Participant;

use crate::queue::{role, state};
use crate::time::rfc3339;

/// One participant, with the path of its node below that of the queue.
pub(crate) fn participant(participant: &Participant, node: &str) -> Value {
    json!({
        "node": node,
        "node_path": participant.node_path(),
        "kind": role(participant),
        "state": state(participant),
        "is_asked": participant.is_revoke_requested(),
        // Numbers of 64 bits lose digits in some languages.
        "session": format!("{:#x}", participant.session_id()),
        "token": participant.fencing_token(),
        "since": rfc3339(participant.since()),
        "age_ms": u64::try_from(participant.age().as_millis()).unwrap_or(u64::MAX),
        "identity": participant.identity().map(String::from_utf8_lossy),
        "address": participant.address().map(|address| address.to_string()),
        "host": participant.host(),
        "pid": participant.pid(),
        "program": participant.program(),
    })
}

/// A document, on lines of its own.
pub(crate) fn document(value: &Value) -> String {
    format!("{value:#}\n")
}
