//! What watchers and probes see of a job, and do to it.

use tokio::time::Instant;

use super::*;

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
    let begun = Instant::now();
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
