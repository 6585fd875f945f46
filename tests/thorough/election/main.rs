//! Our candidates and Curator's stand for the same two leaderships, and whoever leads resigns, is closed, or has its
//! session or its process killed, or the server is killed, hundreds of times. Never may two lead; never may nobody lead
//! for long; and all must lead when it is over.
//!
//! Without the usual harness, since it starts itself as a process that is killed, and since its figures are to be
//! seen. `ELECTION_SECONDS` says how long the changes go on at least.
//!
//! The peers are those of the interoperation tests; without them our candidates are among themselves.

mod candidate;
#[path = "../chaos/clock.rs"]
mod clock;
mod figures;
mod group;
mod history;
#[path = "../../interop/installed.rs"]
mod installed;
mod ours;
mod report;
mod self_check;
mod stage;
#[path = "../../support/mod.rs"]
mod support;
mod told;
mod verdict;
mod witness;

use std::time::{Duration, Instant};

use crate::candidate::Origin;
use crate::group::Group;
use crate::history::{Deed, Library};
use crate::stage::{Recipe, Stage};
use crate::support::{ephemerals_below, eventually};
use crate::verdict::Case;

const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// For no longer may nobody lead, while there is a server.
const LONGEST_GAP: Duration = SESSION_TIMEOUT.saturating_add(Duration::from_secs(2));

const CHANGES: usize = 200;

/// So that each restart finds leaders of each library, in both groups.
const ROUNDS: [[Library; 2]; 4] = [
    [Library::Ours, Library::Curator],
    [Library::Curator, Library::Ours],
    [Library::Curator, Library::Curator],
    [Library::Ours, Library::Ours],
];

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments {
        [role, recipe, connect_string, path, name] if role == ours::CHILD => {
            runtime.block_on(ours::live_in_process(Recipe::parse(recipe), connect_string, path, name));
        }
        // Of a runner that wants to know what tests there are.
        arguments if arguments.iter().any(|argument| argument == "--list") => {}
        _ => runtime.block_on(async {
            told::judge_knows_right_from_wrong();
            let mut stage = Stage::set().await;
            self_check::detects_saboteurs(&stage).await;
            elect(&mut stage).await;
        }),
    }
}

async fn elect(stage: &mut Stage) {
    let seconds = std::env::var("ELECTION_SECONDS").map_or(0, |seconds| seconds.parse().expect("a number"));
    let begun = Instant::now();
    let mut origins = vec![Origin::Here, Origin::Child, Origin::Here, Origin::Child];
    origins.extend(stage.peers.iter().cloned());
    let mut groups = Recipe::ALL.map(|recipe| Group::start(stage, recipe, origins.clone()));
    for round in 0.. {
        let changed: usize = groups.iter().map(|group| group.history().look(|story| story.terms.len())).sum();
        if round >= 2 * ROUNDS.len() && changed > CHANGES + 20 && begun.elapsed().as_secs() >= seconds {
            break;
        }
        let [latches, selectors] = &mut groups;
        let [one, other] = ROUNDS[round % ROUNDS.len()];
        let server = &stage.server;
        tokio::join!(latches.change_leaders(one, server), selectors.change_leaders(other, server));
        // At first each time for longer than ours may believe to lead without a sign of the server.
        let shortest = if round < ROUNDS.len() { 0.75 } else { 0.0 };
        let pause = SESSION_TIMEOUT.mul_f64(shortest + 0.25 * fastrand::f64());
        stage.restart_server(&groups, pause).await;
    }
    for group in &mut groups {
        group.have_all_led(&stage.server).await;
    }
    let paths = groups.each_ref().map(|group| group.path().to_owned());
    let libraries = Library::ALL.map(|library| origins.iter().any(|origin| origin.library() == library));
    let mut changes = Vec::new();
    let mut verdicts = Vec::new();
    for (group, path) in groups.into_iter().zip(&paths) {
        let (story, witness) = group.end().await;
        eventually("no node is left", async || {
            ephemerals_below(&stage.bystander, path).await.is_empty().then_some(())
        })
        .await;
        let (downtimes, seen) = (&*stage.downtimes, &witness.seen());
        let verdict = Case { story: &story, seen, downtimes, longest_gap: LONGEST_GAP }.judge();
        figures::print(path, &verdict);
        changes.extend(verdict.changes.iter().map(|change| (change.deed, change.library)));
        verdicts.push(verdict);
    }
    eventually("no watch is left", async || (stage.server.watch_count().await.unwrap() == 0).then_some(()))
        .await;
    println!(
        "{} changes in {:.0} s; all led after the trouble, and neither a node nor a watch is left",
        changes.len(),
        begun.elapsed().as_secs_f64()
    );
    for (verdict, path) in verdicts.iter().zip(&paths) {
        verdict.assert_no_fault(path);
        assert!(
            verdict.seen * 4 >= verdict.terms * 3,
            "most nodes are seen: {} of {}",
            verdict.seen,
            verdict.terms
        );
    }
    assert!(changes.len() >= CHANGES, "{} changes", changes.len());
    for deed in Deed::CHANGES {
        for (library, is_here) in Library::ALL.into_iter().zip(libraries) {
            let is_done = changes.contains(&(deed, library));
            assert!(is_done || !is_here, "{deed:?} of a leader of {library:?} is not seen");
        }
    }
}
