//! Jobs whose clocks are wrong for a while, and that have missed much.

use std::time::{Duration, SystemTime};

use super::*;

const HOUR: Duration = secs(3600);
const YEAR: Duration = secs(365 * 86_400);

/// More than a test takes, while its clocks stand still.
fn strict() -> JobOptions {
    JobOptions::new().clock_tolerance(HOUR)
}

async fn refuses(job: &ScheduledJob) -> ClockDifference {
    let mut state = job.watch_state();
    let state = within(state.wait_for(|state| matches!(state, JobState::WrongClock(_)))).await.unwrap();
    match &state {
        JobState::WrongClock(difference) => difference.clone(),
        other => panic!("{other:?}"),
    }
}

/// Also if it is the first of all.
#[tokio::test]
async fn a_leader_whose_clock_is_far_behind_lets_others_run_the_job() {
    let (_server, [one, two]) = server_and_clients().await;
    let log = Log::default();
    let wrong = ManualClock::new(SystemTime::UNIX_EPOCH + HOUR);
    let first = quick(&one, &wrong, strict(), 0, &log);
    let difference = refuses(&first).await;
    assert!(difference.by > YEAR && !difference.is_ahead, "{difference:?}");
    assert_eq!(difference.tolerance, HOUR);
    let mut election = first.watch_leader();
    let says_why = |state: &LeaderState| match state {
        LeaderState::Failed(Error::WorkFailed { source, .. }) => {
            source.to_string().contains("behind that of the servers")
        }
        _ => false,
    };
    within(election.wait_for(says_why)).await.unwrap();
    assert!(matches!(first.health().state, JobState::WrongClock(_)));

    let right = ManualClock::new(SystemTime::now() - 2 * PERIOD);
    let second = quick(&two, &right, strict(), 1, &log);
    let record = waits(&second).await;
    assert!(record.since + HOUR > right.now(), "the job starts in {:?}", record.since);
    // By the servers. Between that and the present a period may have begun.
    right.set(record.since);
    assert_eq!(log.begun(), [], "nothing is missed");
    for number in 1..=3 {
        right.advance(PERIOD);
        has_run(&second, number).await;
    }
    assert!(matches!(first.health().state, JobState::WrongClock(_)), "{:?}", first.health());

    // It is set right.
    wrong.set(right.now());
    second.close().await.unwrap();
    waits(&first).await;
    assert_eq!(first.health().leader.role, LeaderRole::Leader);
    wrong.advance(PERIOD);
    has_run(&first, 4).await;
}

#[tokio::test]
async fn a_leader_whose_clock_is_far_ahead_puts_nothing_into_the_future() {
    let (_server, [one, two]) = server_and_clients().await;
    let (log, now) = (Log::default(), SystemTime::now());
    let first = quick(&one, &ManualClock::new(now + YEAR), strict(), 0, &log);
    let difference = refuses(&first).await;
    assert!(difference.by > YEAR - HOUR && difference.is_ahead, "{difference:?}");
    let record = first.record().await.unwrap().unwrap();
    assert!(record.since < now + HOUR && record.next_run < Some(now + HOUR), "{record:?}");
    let right = ManualClock::new(record.since);
    let second = quick(&two, &right, strict(), 1, &log);
    waits(&second).await;
    right.advance(PERIOD);
    has_run(&second, 1).await;
    assert_eq!(log.begun()[0].by, 1);
}

/// Its clock may be right, and that of the servers behind.
#[tokio::test]
async fn a_leader_whose_clock_is_not_that_of_the_servers_does_not_mend_the_record() {
    let (_server, client) = server_and_client().await;
    let (log, clock) = (Log::default(), ManualClock::new(SystemTime::now() + YEAR));
    let first = quick(&client, &clock, JobOptions::new(), 0, &log);
    waits(&first).await;
    clock.advance(PERIOD);
    has_run(&first, 1).await;
    first.close().await.unwrap();
    let second = quick(&client, &clock, strict(), 1, &log);
    refuses(&second).await;
    let kept = second.record().await.unwrap().unwrap();
    assert_eq!(kept.last_run.map(|run| run.scheduled_at), Some(log.begun()[0].scheduled_at));
}

#[tokio::test]
async fn a_clock_beyond_the_end_of_the_calendar_stops_no_job() {
    let (_server, client) = server_and_client().await;
    let clock = ManualClock::new(noon());
    let skip = JobOptions::new().missed_runs(MissedRuns::Skip).clock(&clock);
    let work = |_| async { Ok::<(), Error>(()) };
    let job = ScheduledJob::by_cron(&client, PATH, "* * * * *", skip, work).unwrap();
    waits(&job).await;
    // The year 5001, which the schedule does not know. The first run is due, too.
    clock.set(SystemTime::UNIX_EPOCH + secs(3031 * 31_556_952));
    waits_for(&job, |record| record.next_run.is_none()).await;
    clock.set(noon());
    waits_for(&job, |record| record.next_run == Some(due(2))).await;
    clock.advance(2 * PERIOD);
    has_run(&job, 2).await;
}

/// For how long this thread was not idle: what else the machine does is not counted.
fn busy() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// While the leader makes up for ten thousand runs, everything else goes on, and it does not look for them each time.
#[tokio::test]
async fn a_large_backlog_blocks_no_runtime() {
    let (_server, client) = server_and_client().await;
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
    let begin = busy();
    until("there were 30 runs", || count.load(SeqCst) >= 30).await;
    let took = busy() - begin;
    assert!(took < secs(8), "the first 30 runs took {took:?}");
}

#[tokio::test]
async fn a_clock_that_is_set_in_the_middle_of_a_term_ends_it() {
    let (_server, client) = server_and_client().await;
    let (log, now) = (Log::default(), SystemTime::now());
    let clock = ManualClock::new(now);
    let job = quick(&client, &clock, strict(), 0, &log);
    for (number, wrong) in (1..).zip([now + YEAR, now - YEAR]) {
        waits(&job).await;
        clock.set(wrong);
        refuses(&job).await;
        assert_eq!(log.begun().len(), number - 1);
        clock.set(now + (number as u32 - 1) * PERIOD);
        waits(&job).await;
        clock.advance(PERIOD);
        has_run(&job, number as u64).await;
    }
}

/// As a leader leaves it that tolerates any clock.
#[tokio::test]
async fn a_record_from_the_future_is_mended() {
    let (_server, [one, two]) = server_and_clients().await;
    let (log, now) = (Log::default(), SystemTime::now());
    let wrong = ManualClock::new(now + YEAR);
    let first = quick(&one, &wrong, JobOptions::new(), 0, &log);
    waits(&first).await;
    wrong.advance(PERIOD);
    has_run(&first, 1).await;
    first.close().await.unwrap();
    let right = ManualClock::new(now);
    let second = quick(&two, &right, strict(), 1, &log);
    let record = waits(&second).await;
    assert!(record.next_run < Some(now + HOUR), "{record:?}");
    right.advance(2 * PERIOD);
    has_run(&second, 2).await;
    assert_eq!(log.begun().last().unwrap().by, 1);
}
