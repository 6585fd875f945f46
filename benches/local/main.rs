//! What costs no request: `cargo bench -p zk-recipes-benches --bench local`.
//!
//! Entering again and looking at a hold, on a real one (`hold.rs`), and what a contender makes of what it is told
//! (`decide.rs`). The requests themselves are measured by the bench `compare`.

mod decide;
mod hold;
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
