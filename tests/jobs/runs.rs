//! What a job does if all goes well, and what probes see of it.

use super::*;

#[tokio::test]
async fn a_run_is_recorded() {
    let (server, client) = server_and_client().await;
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let job = quick(&client, &clock, JobOptions::new(), 0, &log);
    waits(&job).await;
    for number in 1..=3 {
        assert_eq!(log.runs().len(), number - 1);
        clock.advance(PERIOD);
        has_run(&job, number as u64).await;
    }
    assert_eq!(log.runs(), [(1, 1, 1), (2, 2, 1), (3, 3, 1)]);
    let record = job.record().await.unwrap().unwrap();
    let last = record.last_run.unwrap();
    assert_eq!((last.number, last.outcome, last.attempt), (3, RunOutcome::Done, 1));
    assert_eq!((last.scheduled_at, record.next_run), (due(3), Some(due(4))));
    assert_eq!((record.unfinished, record.since, &*record.schedule), (0, noon(), "every 60s"));
    assert!(last.begun_at.is_some() && last.took.is_some());
    job.close().await.unwrap();
    assert_eq!(job.health().leader.role, LeaderRole::Closed);
    let zookeeper = bystander(&server).await;
    assert_eq!(children(&zookeeper, PATH).await.len(), 2, "the election and the record");
    queue_of(&zookeeper, ELECTION, 0).await;
}

#[tokio::test]
async fn a_run_takes_two_requests() {
    let server = empty_server().await;
    let (proxy, client) = connect_by_proxy(&server).await;
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let job = quick(&client, &clock, JobOptions::new(), 0, &log);
    waits(&job).await;
    clock.advance(PERIOD);
    has_run(&job, 1).await;
    // The leader watches its node once.
    watches_with_holders(&server, 1).await;
    proxy.take_requests();
    for number in 2..=5 {
        clock.advance(PERIOD);
        has_run(&job, number).await;
    }
    let mut requests = proxy.take_requests();
    // What keeps the session is not for the job.
    requests.retain(|request| *request != Request::Confirm);
    assert_eq!(requests, [Request::Multi; 8]);
}

/// The next run is that of another process.
#[tokio::test]
async fn a_run_that_fails_or_panics_has_ended() {
    let (_server, [one, two]) = server_and_clients().await;
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let repeating = || JobOptions::new().unfinished_run(UnfinishedRun::Repeat(5));
    let noted = log.clone();
    let bad = ScheduledJob::every(&one, PATH, PERIOD, repeating().clock(&clock), move |run: JobRun| {
        let noted = noted.clone();
        let _busy = noted.begin(0, &run);
        if run.number() == 3 {
            panic!("before it returns a future");
        }
        async move {
            assert_ne!(run.number(), 2, "while it works");
            Err("the disk is full")
        }
    })
    .unwrap();
    let good = quick(&two, &clock, repeating(), 1, &log);
    let jobs = [bad, good];
    let messages = ["the disk is full", "it panicked: assertion", "it panicked: before it returns a future"];
    for (run, message) in (1..).zip(messages) {
        while leader(&jobs).await != 0 {
            jobs[1].interrupt_leadership();
            until("it stands down", || jobs[1].health().state == JobState::Standby).await;
        }
        let mut election = jobs[0].watch_leader();
        clock.advance(PERIOD);
        let failed = election.wait_for(|state| matches!(state, zk_recipes::LeaderState::Failed(_)));
        let failed = format!("{:?}", within(failed).await.unwrap());
        assert!(failed.contains(message), "{failed}");
        let record = jobs[0].record().await.unwrap().unwrap();
        let last = record.last_run.unwrap();
        assert_eq!((last.number, last.outcome, record.unfinished), (run, RunOutcome::Failed, 0));
        assert_eq!(leader(&jobs).await, 1, "after a failure another process leads");
    }
    clock.advance(PERIOD);
    has_run(&jobs[1], 4).await;
    assert_eq!(log.runs(), [(1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1)]);
}

#[tokio::test]
async fn who_is_not_eligible_runs_nothing() {
    let (_server, [one, two]) = server_and_clients().await;
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let eligible = tokio::sync::watch::Sender::new(true);
    let leader = LeaderOptions::new().eligible_while(eligible.subscribe());
    let first = quick(&one, &clock, JobOptions::new().leader(leader), 0, &log);
    waits(&first).await;
    let second = quick(&two, &clock, JobOptions::new(), 1, &log);
    eligible.send_replace(false);
    waits(&second).await;
    clock.advance(PERIOD);
    has_run(&second, 1).await;
    until("the first is not eligible", || first.health().leader.role == LeaderRole::Ineligible).await;
    assert_eq!(log.begun()[0].by, 1);
}

#[tokio::test]
async fn what_cannot_be_scheduled_is_refused() {
    let (_server, client) = server_and_client().await;
    let start = |path: &str, period, options| {
        ScheduledJob::every(&client, path, period, options, |_| async { Ok::<(), Error>(()) }).map(drop)
    };
    let refused = |outcome, name| match outcome {
        Err(Error::InvalidArgument { argument, .. }) => assert_eq!(argument, name),
        other => panic!("{other:?}"),
    };
    refused(start(PATH, Duration::ZERO, JobOptions::new()), "period");
    for most in [0, 10_001] {
        let missed = JobOptions::new().missed_runs(MissedRuns::RunAll(most));
        refused(start(PATH, PERIOD, missed), "missed_runs");
    }
    assert!(matches!(start("jobs", PERIOD, JobOptions::new()), Err(Error::InvalidPath { .. })));
    let cron = |expression: &str| {
        let work = |_| async { Ok::<(), Error>(()) };
        ScheduledJob::by_cron(&client, PATH, expression, JobOptions::new(), work).map(drop)
    };
    refused(cron("every day"), "expression");
}

/// What `match` borrows lives to its end, here on the only thread of the job.
#[test]
fn a_borrow_of_its_state_stops_no_job() {
    let (told, tells) = std::sync::mpsc::channel();
    // Not joined: it may never end.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = empty_server().await;
            let client = connect(&server).await;
            let (clock, log) = (ManualClock::new(noon()), Log::default());
            let job = quick(&client, &clock, JobOptions::new(), 0, &log);
            waits(&job).await;
            match &job.watch_state().get() {
                JobState::Waiting(_) => {
                    clock.advance(PERIOD);
                    until("it runs", || !log.begun().is_empty()).await;
                    job.close().await.unwrap();
                }
                other => panic!("{other:?}"),
            }
            told.send(()).unwrap();
        });
    });
    assert_eq!(tells.recv_timeout(BOUND), Ok(()), "the runtime stands still");
}

/// The task of the job has had no chance to notice, as after a pause of the process.
#[tokio::test]
async fn a_job_leads_only_while_its_candidate_does() {
    let (server, client) = server_and_client().await;
    let (clock, log) = (ManualClock::new(noon()), Log::of_evicted());
    let (job, _end) = slow(&client, &clock, JobOptions::new(), 0, &log);
    waits(&job).await;
    clock.advance(PERIOD);
    runs(&job).await;
    assert_eq!(job.health().leader.role, LeaderRole::Leader);
    assert!(matches!(job.health().state, JobState::Running(_)));
    server.kill_session(session_id(&client).await).await.unwrap();
    let begun = tokio::time::Instant::now();
    let health = loop {
        let health = job.health();
        if health.leader.role != LeaderRole::Leader {
            break health;
        }
        assert!(begun.elapsed() < BOUND, "it leads for ever");
        std::thread::sleep(ms(1));
    };
    assert_eq!(health.state, JobState::Standby, "{:?}", health.leader);
}
