//! What costs no request: `cargo bench -p zk-recipes-benches --bench local`.
//!
//! Entering again and looking at a hold, on a real one (`hold.rs`), and what a contender makes of what it is told
//! (`decide.rs`). The requests themselves are measured by the bench `compare`.

mod decide;
mod hold;
// The files of the library, as they are: nothing of it is public for the sake of a measurement.
#[allow(dead_code, unused_imports, unreachable_pub, reason = "the rest is for the library and its tests")]
#[path = "../../src/queue/pure/mod.rs"]
mod pure;

use std::time::Duration;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1500))
        .configure_from_args();
    decide::bench(&mut criterion);
    hold::bench(&mut criterion);
    criterion.final_summary();
}
