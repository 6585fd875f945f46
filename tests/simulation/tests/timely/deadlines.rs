//! How long calls take.

use std::time::SystemTime;

use zk_recipes::job::{JobOptions, JobState, ScheduledJob};
use zk_recipes_simulation::network;

use super::prelude::*;

// CURATOR-559: the time of a multi-lock's acquire begins anew at each member.
#[history]
async fn one_deadline_bounds_all_members_of_a_multi_lock(stage: Stage) {
    const STEP: Duration = secs(1);
    const PATHS: [&str; 3] = ["/locks/a", "/locks/b", "/locks/c"];
    let [client, other] = stage.clients().await;
    let members = PATHS.map(|path| lock_at(&client, path));
    for lock in [MultiLock::of(members).unwrap(), MultiLock::new(&client, PATHS).unwrap()] {
        let held = join_all(PATHS.map(async |path| mutex_at(&other, path).acquire().await.unwrap()));
        let mut held = held.await.into_iter();
        let start = Instant::now();
        // One after the other becomes free, but not the last one.
        let freeing = stage.machines()[1].spawn(async move {
            for _ in 0..2 {
                sleep(STEP).await;
                held.next().unwrap().release().await.unwrap();
            }
            held.next().unwrap()
        });
        assert!(lock.try_acquire_for(3 * STEP).await.unwrap().is_none());
        let elapsed = start.elapsed();
        assert!(elapsed >= 3 * STEP && elapsed < 3 * STEP + A_MOMENT, "{elapsed:?}");
        freeing.await.unwrap().unwrap().release().await.unwrap();
    }
}

/// However long the time is, and by a hair too long for the clock.
#[history]
async fn the_longest_times_are_no_panic(stage: Stage) {
    let client = stage.client(0).await;
    let multi = MultiLock::of([lock_at(&client, "/locks/a"), lock_at(&client, "/locks/b")]).unwrap();
    let (mut fits, mut not) = (Duration::ZERO, Duration::MAX);
    while not - fits > Duration::from_nanos(1) {
        let middle = fits + (not - fits) / 2;
        *(if Instant::now().checked_add(middle).is_some() { &mut fits } else { &mut not }) = middle;
    }
    for time in [fits - ms(60), fits, not, Duration::MAX] {
        for lock in [lock_at(&client, PATH), Arc::new(multi.clone())] {
            assert!(within(lock.try_acquire_for(time)).await.unwrap().is_some(), "{time:?}");
        }
    }
}

const PERIOD: Duration = secs(60);

/// A job whose runs of even numbers fail, at the beginning of a period.
fn job(client: &Client) -> (ScheduledJob, ManualClock) {
    let clock = ManualClock::new(SystemTime::UNIX_EPOCH + 1_000_000 * PERIOD + PERIOD / 2);
    let options = JobOptions::new().clock(&clock);
    let job = ScheduledJob::every(client, "/jobs/a", PERIOD, options, |run| async move {
        if run.number() % 2 == 0 { Err("this one fails") } else { Ok(()) }
    });
    (job.unwrap(), clock)
}

/// Waits until so many runs are over, and it waits for the next one.
async fn has_run(job: &ScheduledJob, number: u64) {
    let mut state = job.watch_state();
    let has_run = |state: &JobState| match state {
        JobState::Waiting(record) => record.last_run.as_ref().map_or(0, |run| run.number) == number,
        _ => false,
    };
    within(state.wait_for(has_run)).await.unwrap();
}

/// Each failure of a job comes after runs that were done, so the pause after it does not grow.
#[history]
async fn failures_between_good_runs_do_not_add_up(stage: Stage) {
    let client = stage.client(0).await;
    let (job, clock) = job(&client);
    let mut leader = job.watch_leader();
    has_run(&job, 0).await;
    let mut first = None;
    for number in 1..=16 {
        clock.advance(PERIOD);
        if number % 2 == 0 {
            within(leader.wait_for(|state| matches!(state, LeaderState::Failed(_)))).await.unwrap();
            let failed = Instant::now();
            let since = job.health().leader.since;
            assert_ne!(first.replace(since), Some(since), "each is the first of its kind");
            within(leader.wait_for(LeaderState::is_leading)).await.unwrap();
            let pause = failed.elapsed();
            assert!(pause <= ms(200) + A_MOMENT, "{number}: {pause:?}");
        }
        has_run(&job, number).await;
    }
    job.close().await.unwrap();
}

#[history]
async fn to_read_the_record_of_a_job_takes_one_round_trip(stage: Stage) {
    const ONE_WAY: Duration = ms(300);
    let client = stage.client(0).await;
    let (job, _clock) = job(&client);
    has_run(&job, 0).await;
    let slow = ONE_WAY.as_micros() as u64;
    network::faults::slow(slow..=slow);
    let start = Instant::now();
    job.record().await.unwrap().unwrap();
    assert!(start.elapsed() < 2 * ONE_WAY + A_MOMENT, "{:?}", start.elapsed());
    network::faults::slow(network::USUAL);
    job.close().await.unwrap();
}
