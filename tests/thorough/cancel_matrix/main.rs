//! Whoever goes away, at whichever step of whatever it does: nothing of it stays.
//!
//! Each lock, with each of its operations, at each request and each pending poll, for each way to go and each end of
//! the step. Where an operation differs from another one only in how it begins, the ways to go take turns, to save time;
//! with `CANCEL_MATRIX` in the environment they do not. It may name a part: `(Mutex, Wait`.

mod departure;
mod ending;
mod lane;
mod operation;
mod subject;
#[path = "../../support/mod.rs"]
mod support;
mod tally;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt, stream};

use self::departure::Departure;
use self::ending::{Ending, Life, Stage};
use self::lane::{End, Lane, Step};
use self::operation::Operation;
use self::subject::Kind;
use self::tally::Tally;

/// How many go on side by side, each with a server of its own.
const LANES: usize = 7;

/// What was found; a few tell as much as all.
const MAX_FAILURES: usize = 10;

#[derive(Default)]
struct Matrix {
    jobs: Mutex<Vec<(Kind, Operation)>>,
    tally: Tally,
    failures: Mutex<Vec<String>>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_stays_while_the_session_lives() {
    let start = Instant::now();
    let mut jobs: Vec<_> = Kind::ALL
        .into_iter()
        .flat_map(|kind| Operation::all_of(kind).into_iter().map(move |op| (kind, op)))
        .collect();
    if let Ok(only) = std::env::var("CANCEL_MATRIX") {
        jobs.retain(|job| format!("{job:?}").contains(&only));
    }
    let matrix = Arc::new(Matrix { jobs: Mutex::new(jobs), ..Matrix::default() });
    // In tasks of their own, so that what wakes one does not have the others polled.
    let lanes = join_all((0..LANES).map(|_| tokio::spawn(work(matrix.clone())))).await;
    lanes.into_iter().for_each(|lane| lane.unwrap());
    matrix.tally.print(&format!("cancel matrix, {:.0} s", start.elapsed().as_secs_f64()));
    let failures = matrix.failures.lock().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn work(matrix: Arc<Matrix>) {
    let is_full = std::env::var("CANCEL_MATRIX").is_ok();
    let mut lane = Lane::start().await;
    loop {
        let Some((kind, operation)) = matrix.jobs.lock().unwrap().pop() else { break };
        let plan = lane.plan(kind, operation).await;
        let mut turn = 0;
        for (step, ends) in plan.steps(operation) {
            for end in ends {
                turn += 1;
                for (index, departure) in Departure::ALL.into_iter().enumerate() {
                    if !is_full && operation.is_a_variant() && (index + turn) % Departure::ALL.len() != 0 {
                        continue;
                    }
                    // Polls are those of a future, whoever drops it.
                    if matches!(step, Step::Poll(_)) && departure != Departure::Dropped {
                        continue;
                    }
                    if matrix.failures.lock().unwrap().len() >= MAX_FAILURES {
                        return;
                    }
                    matrix.tally.count(
                        &format!("{kind:?}"),
                        operation.name(),
                        &format!("{departure:?}"),
                        &format!("{end:?}"),
                    );
                    let case = lane.case(kind, operation, plan, step, *end, departure);
                    if let Err(why) = outcome_of(case).await {
                        let case =
                            format!("{kind:?} {operation:?} {step:?} {end:?} {departure:?} of {plan:?}");
                        eprintln!("failed: {case}: {why}");
                        matrix.failures.lock().unwrap().push(format!("{case}: {why}"));
                        // That one may be spoiled.
                        lane = Lane::start().await;
                    }
                }
            }
        }
    }
    if let Err(why) = outcome_of(lane.end()).await {
        matrix.failures.lock().unwrap().push(format!("in the end: {why}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_stays_when_the_session_ends() {
    let start = Instant::now();
    let stage = Stage::start().await;
    let mut cases = Vec::new();
    for kind in Kind::ALL {
        let acquiring = (0..stage.requests_of(kind).await).map(Life::Acquiring);
        for life in [Life::Holding, Life::Waiting].into_iter().chain(acquiring) {
            for end in End::ALL {
                cases.push((kind, life, Ending::ShutDown, end));
                if !matches!(life, Life::Acquiring(1..)) {
                    let closed = Departure::ALL.map(Ending::Closed);
                    cases.extend(closed.map(|ending| (kind, life, ending, end)));
                }
            }
        }
    }
    let tally = Tally::default();
    let failures: Vec<String> = stream::iter(cases)
        .map(|(kind, life, ending, end)| {
            let (operation, departure) = match ending {
                Ending::Closed(departure) => ("close", format!("{departure:?}")),
                Ending::ShutDown => ("client's runtime", "ClientShutDown".to_owned()),
            };
            tally.count(&format!("{kind:?}"), operation, &departure, &format!("{end:?}"));
            let case = outcome_of(stage.case(kind, life, ending, end));
            async move { Some(format!("{kind:?} {life:?} {ending:?} {end:?}: {}", case.await.err()?)) }
        })
        .buffer_unordered(48)
        .filter_map(std::future::ready)
        .take(MAX_FAILURES)
        .collect()
        .await;
    tally.print(&format!("cancel matrix of ending sessions, {:.0} s", start.elapsed().as_secs_f64()));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    stage.end().await;
}

/// Or why it panicked.
async fn outcome_of(case: impl Future<Output = ()>) -> Result<(), String> {
    AssertUnwindSafe(case).catch_unwind().await.map_err(|panic| {
        let why = panic.downcast_ref::<String>().cloned();
        why.or(panic.downcast_ref::<&str>().map(|why| why.to_string())).unwrap_or_default()
    })
}
