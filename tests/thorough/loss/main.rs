//! Holders in a process that is stopped know that they have lost their locks before they do anything: many times, with
//! the distances measured.
//!
//! Without the usual harness, since it starts itself as the process that is stopped, and since its figures are to be
//! seen. They stand in the guide. Other losses are in `tests/simulation/tests/timely/losses.rs`.

mod figures;
mod pause;
#[path = "../../support/mod.rs"]
mod support;

use std::time::Duration;

/// Long enough for a busy machine: a third of it is the margin that must not be used up by others' work.
const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments {
        [role, connect_string] if role == pause::CHILD => runtime.block_on(pause::hold(connect_string)),
        // Of a runner that wants to know what tests there are.
        arguments if arguments.iter().any(|argument| argument == "--list") => {}
        _ => runtime.block_on(pause::rounds()),
    }
}
