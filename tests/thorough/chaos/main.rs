//! All libraries on the same paths of locks and latches, while connections are cut, clients are cut off for longer than their sessions,
//! and sessions are killed. Nobody may be let in beside a valid guard of ours, all must be served when it is over, and
//! nothing may be left behind.
//!
//! Without the usual harness, since its figures are to be seen. `CHAOS_SECONDS` says how long the trouble lasts.
//!
//! The peers are those of the interoperation tests; without them our clients are among themselves.

mod aim;
mod clock;
mod contested;
mod figures;
mod history;
mod ours;
mod peers;
mod run;
mod self_check;
mod stage;
mod trouble;
mod verdict;
mod watchdog;

#[path = "../../interop/installed.rs"]
mod installed;
#[path = "../../interop/peer.rs"]
mod peer;
#[path = "../../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::aim::Locks;
use crate::contested::Contested;
use crate::run::Crew;
use crate::stage::{Participant, Stage};
use crate::support::{ephemerals_below, eventually};
use crate::trouble::Trouble;

const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

const LONGEST_HOLD: Duration = Duration::from_millis(5);

/// Whoever waits longer waits for ever.
const LONGEST_WAIT: Duration = Duration::from_secs(90);

/// How many workers of each client of ours, and of each peer, want what.
const WORKERS: [(Contested, usize, usize); 3] =
    [(Contested::Mutex, 3, 2), (Contested::ReadWrite, 2, 1), (Contested::Leadership, 1, 1)];

fn main() {
    // Of a runner that wants to know what tests there are.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let seconds =
        std::env::var("CHAOS_SECONDS").map_or(30, |seconds| seconds.parse().expect("a number of seconds"));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let stage = Stage::set().await;
        self_check::detects_saboteurs(&stage).await;
        compete(&stage, Duration::from_secs(seconds)).await;
        leave(stage).await;
    });
}

/// Lets all compete, in trouble and for a while after it, and judges what they did.
async fn compete(stage: &Stage, duration: Duration) {
    let mut crew = hire(stage).await;
    let run = crew.run.clone();
    let trouble = Trouble::new(stage.participants(), Locks::new(stage, run.clone()));
    let mut left_behind = 0;
    let working = async {
        let end = CancellationToken::new();
        let troubled = async {
            crew.work_for(duration).await;
            end.cancel();
        };
        tokio::join!(troubled, trouble.make(&end));
        let unserved = serve_all(&mut crew).await;
        crew.stop(LONGEST_WAIT).await;
        unserved
    };
    let unserved = tokio::select! {
        unserved = working => unserved,
        never = watchdog::look_after(stage, &run.history, &mut left_behind) => match never {},
    };

    eventually("our clients, still alive, leave no node behind", async || {
        watchdog::our_nodes(stage).await.is_empty().then_some(())
    })
    .await;
    for path in Contested::ALL.map(Contested::path) {
        left_behind += support::children(&stage.bystander, path).await.len();
    }
    let (sections, kills) = run.history.take();
    let verdict = verdict::judge(&sections, &kills);
    figures::print(&sections, &trouble.figures);
    figures::print_verdict(&verdict, left_behind, run.history.losses());
    assert!(unserved.is_empty(), "not served after the trouble: {unserved:?}");
    verdict.assert_no_fault_of_ours();
}

/// Lets them work until each was granted something, and answers who was not.
async fn serve_all(crew: &mut Crew) -> Vec<Arc<str>> {
    let start = clock::now();
    let mut unserved = crew.names.clone();
    for _ in 0..LONGEST_WAIT.as_secs() {
        crew.work_for(Duration::from_secs(1)).await;
        unserved.retain(|name| !crew.run.history.has_served(name, start));
        if unserved.is_empty() {
            break;
        }
    }
    unserved
}

/// Ends the peers and then our clients; nothing may be left of them.
async fn leave(stage: Stage) {
    let Stage { server, bystander, ours, peers } = stage;
    drop(peers);
    support::watches_of(&server, 0).await;
    support::within(join_all(ours.iter().map(|(_, client)| client.close()))).await;
    eventually("no node is left", async || {
        ephemerals_below(&bystander, "/chaos").await.is_empty().then_some(())
    })
    .await;
    println!("neither a node nor a watch is left, and all were served after the trouble");
}

/// The workers of all participants.
async fn hire(stage: &Stage) -> Crew {
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for (contested, our_workers, peers_workers) in WORKERS {
        let path = contested.path();
        let name = |participant: &str, number| format!("{participant}-{contested:?}-{number}");
        for (participant, client) in &stage.ours {
            for number in 0..our_workers {
                let name = name(&participant.name, number);
                ours.push(ours::Worker::new(name, (participant, client), contested, path));
            }
        }
        let able = |peer: &&Arc<Participant>| peer.library.has(contested);
        for peer in stage.peers.iter().filter(able) {
            for number in 0..peers_workers {
                peers.push(peers::Worker::new(name(&peer.name, number), peer, contested, path).await);
            }
        }
    }
    Crew::start(&stage.bystander, ours, peers)
}
