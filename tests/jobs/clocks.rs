//! Jobs whose clocks are wrong for a while, and that have missed much.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

use crate::fleet::*;
use crate::support::*;
use tokio::time::Instant;
use zk_recipes::Error;
use zk_recipes::job::{JobOptions, JobRun, JobState, MissedRuns, ScheduledJob};
use zk_recipes::testing::{Fate, FaultProxy, ManualClock, Request};

#[tokio::test]
async fn a_clock_that_was_ahead_for_a_moment_stops_no_job() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let job = quick(&client, &clock, JobOptions::new().missed_runs(MissedRuns::Skip), 0, &log);
    waits(&job).await;
    clock.advance(PERIOD);
    has_run(&job, 1).await;
    // The leader looks at it just then.
    clock.set(noon() + 100_000 * PERIOD);
    waits_for(&job, |record| record.next_run > Some(due(50_000))).await;
    clock.set(noon() + 2 * PERIOD);
    waits_for(&job, |record| record.next_run == Some(due(3))).await;
    clock.advance(PERIOD);
    has_run(&job, 2).await;
    assert_eq!(log.runs(), [(1, 1, 1), (2, 3, 1)]);
}

#[tokio::test]
async fn a_clock_beyond_the_end_of_the_calendar_stops_no_job() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let clock = ManualClock::new(noon());
    let skip = JobOptions::new().missed_runs(MissedRuns::Skip).clock(&clock);
    let work = |_| async { Ok::<(), Error>(()) };
    let job = ScheduledJob::by_cron(&client, PATH, "* * * * *", skip, work).unwrap();
    waits(&job).await;
    // The year 5001, which the schedule does not know.
    clock.set(SystemTime::UNIX_EPOCH + Duration::from_secs(3031 * 31_556_952));
    waits_for(&job, |record| record.next_run.is_none()).await;
    clock.set(noon());
    waits_for(&job, |record| record.next_run == Some(due(1))).await;
    clock.advance(PERIOD);
    has_run(&job, 1).await;
}

/// While the leader makes up for ten thousand runs, everything else goes on, and it does not look for them each time.
#[tokio::test]
async fn a_large_backlog_blocks_no_runtime() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let clock = ManualClock::new(noon());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let all = JobOptions::new().missed_runs(MissedRuns::RunAll(10_000)).clock(&clock);
    let job = ScheduledJob::by_cron(&client, PATH, "* * * * *", all, move |_: JobRun| {
        counted.fetch_add(1, SeqCst);
        async { Ok::<(), Error>(()) }
    })
    .unwrap();
    waits(&job).await;
    clock.advance(20_000 * PERIOD);
    let (mut longest, mut stalls, mut last) = (Duration::ZERO, Duration::ZERO, Instant::now());
    while count.load(SeqCst) < 30 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let stall = last.elapsed();
        (longest, stalls, last) = (longest.max(stall), stalls + stall, Instant::now());
    }
    assert!(longest < Duration::from_secs(2), "it stood still for {longest:?}");
    assert!(stalls < Duration::from_secs(8), "the first 30 runs took {stalls:?}");
}

/// The servers confirm the begin of a run late.
#[tokio::test]
async fn the_distance_of_two_runs_counts_from_the_work() {
    const AT_LEAST: Duration = Duration::from_secs(2);
    let server = empty_server().await;
    let proxy = FaultProxy::start(&server).await.unwrap();
    let (far, near) = (connect_through(&proxy).await, connect(&server).await);
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let options = || JobOptions::new().at_least_for(AT_LEAST);
    let (first, end) = slow(&far, &clock, options(), 0, &log);
    waits(&first).await;
    let second = quick(&near, &clock, options(), 1, &log);
    let held = proxy.intercept(Request::Multi, Fate::HoldReply);
    clock.advance(PERIOD);
    within(held.happened()).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    held.release();
    runs(&first).await;
    let begun = Instant::now();
    end.send(Ok(())).unwrap();
    has_run(&first, 1).await;
    clock.advance(PERIOD);
    first.close().await.unwrap();
    let mut state = second.watch_state();
    let is_run = |state: &JobState| matches!(state, JobState::Waiting(it) if it.last_run.as_ref().is_some_and(|run| run.number == 2));
    within(state.wait_for(is_run)).await.unwrap();
    let distance = begun.elapsed();
    assert!(distance >= AT_LEAST - Duration::from_millis(50), "{distance:?}");
}
