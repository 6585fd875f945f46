//! The queue's logic against every order of events: a small model of ZooKeeper, of what drives the contenders, and of
//! what goes wrong. What is checked are the library's own files.
//!
//! Without the usual harness, since its figures are to be seen, and since it builds itself once more, with the
//! conditions of the library [broken](mutants) one at a time.

mod answers;
mod checker;
mod client;
mod clock;
mod downgrade;
mod driver;
mod faults;
mod games;
mod grants;
mod holders;
mod idle;
mod lag;
mod line;
mod linger;
mod mutants;
mod play;
mod properties;
mod queue;
mod seen;
mod shared;
mod steps;
mod task;
mod workshop;
mod world;
mod zookeeper;

use std::process::ExitCode;
use std::sync::OnceLock;

/// Which condition is broken in this process.
static MUTANT: OnceLock<usize> = OnceLock::new();

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments {
        // Of a runner that wants to know what tests there are.
        _ if arguments.contains(&"--list") => ExitCode::SUCCESS,
        ["play-broken", mutant] => {
            let mutant = mutant.parse().expect("mutants have numbers");
            MUTANT.get_or_init(|| mutant);
            play::until_noticed(&mutants::MUTANTS[mutant])
        }
        // Those about locks that linger, or cohorts alone.
        [which @ ("lingering" | "cohorts")] => workshop::run(which),
        _ => workshop::run(""),
    }
}

/// The condition that is broken, if one is. Asked in the copies that [`mutants::with_mutants`] makes.
#[allow(dead_code)]
fn mutant() -> Option<usize> {
    MUTANT.get().copied()
}
