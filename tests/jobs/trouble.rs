//! Jobs whose leaders die, are late, or find something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::fleet::*;
use crate::support::*;
use zk_recipes::job::{JobOptions, JobRun, JobState, RunOutcome, ScheduledJob, UnfinishedRun};
use zk_recipes::testing::{Fate, FaultProxy, ManualClock, Request, Traffic};
use zk_recipes::{Client, Error, LeaderOptions, LeaderState, LossReason, operate};
use zookeeper_client as zk;

/// At most once: it is left as it is, and shows as such.
#[tokio::test]
async fn a_run_whose_leader_dies_is_not_begun_again() {
    let server = empty_server().await;
    let (one, two) = (connect(&server).await, connect(&server).await);
    let (clock, log) = (ManualClock::new(noon()), Log::of_evicted());
    let (first, _end) = slow(&one, &clock, JobOptions::new(), 0, &log);
    waits(&first).await;
    let second = quick(&two, &clock, JobOptions::new(), 1, &log);
    clock.advance(PERIOD);
    runs(&first).await;
    server.kill_session(session_id(&one).await).await.unwrap();

    let record = waits(&second).await;
    let left = record.last_run.unwrap();
    assert_eq!((left.number, left.outcome, left.attempt), (1, RunOutcome::Unfinished, 1));
    assert_eq!((record.unfinished, record.next_run), (0, Some(due(2))));
    assert_eq!(left.fencing_token, log.begun()[0].token);
    clock.advance(PERIOD);
    let record = has_run(&second, 2).await;
    assert_eq!(record.unfinished, 1);
    assert_eq!(log.runs(), [(1, 1, 1), (2, 2, 1)]);
    assert_eq!(log.begun()[1].by, 1);
    assert_ne!(first.health().state, JobState::Running(record));
}

/// At least once, up to a bound.
#[tokio::test]
async fn a_run_whose_leader_dies_is_repeated_if_that_is_wanted() {
    let server = empty_server().await;
    let clients: [Client; 4] = connect_many(&server).await;
    let (clock, log) = (ManualClock::new(noon()), Log::of_evicted());
    let options = || JobOptions::new().unfinished_run(UnfinishedRun::Repeat(2));
    let start = |by: usize| slow(&clients[by], &clock, options(), by, &log);
    let mut jobs = vec![start(0)];
    waits(&jobs[0].0).await;
    // In the order in which they stand.
    let zookeeper = bystander(&server).await;
    for by in 1..4 {
        jobs.push(start(by));
        queue_of(&zookeeper, ELECTION, by + 1).await;
    }
    clock.advance(PERIOD);
    for by in 0..3 {
        let record = runs(&jobs[by].0).await;
        assert_eq!(record.last_run.map(|run| (run.number, run.attempt)), Some((1, by as u32 + 1)));
        // It stands no more when its session is over.
        jobs[by].0.interrupt_leadership();
        server.kill_session(session_id(&clients[by]).await).await.unwrap();
    }
    // Three times are enough.
    let record = waits(&jobs[3].0).await;
    assert_eq!(record.last_run.map(|run| (run.outcome, run.attempt)), Some((RunOutcome::Unfinished, 3)));
    clock.advance(PERIOD);
    runs(&jobs[3].0).await;
    jobs[3].1.send(Ok(())).unwrap();
    let record = has_run(&jobs[3].0, 2).await;
    assert_eq!(record.unfinished, 1);
    assert_eq!(log.runs(), [(1, 1, 1), (1, 1, 2), (1, 1, 3), (2, 2, 1)]);
    let begun = log.begun();
    assert!(begun.windows(2).all(|pair| pair[0].token < pair[1].token), "{begun:?}");
}

/// Asked to stop in the middle of a run: it has its time to end, and what does not end in time is unfinished.
#[tokio::test]
async fn a_run_has_the_grace_period_to_end() {
    let server = empty_server().await;
    let (one, two) = (connect(&server).await, connect(&server).await);
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let (patient, end) =
        slow(&one, &clock, JobOptions::new().leader(LeaderOptions::new().grace(BOUND)), 0, &log);
    waits(&patient).await;
    clock.advance(PERIOD);
    runs(&patient).await;
    let closing = tokio::spawn(async move { patient.close().await });
    let impatient = LeaderOptions::new().grace(std::time::Duration::from_millis(50));
    let (impatient, _end) = slow(&two, &clock, JobOptions::new().leader(impatient), 1, &log);
    end.send(Ok(())).unwrap();
    within(closing).await.unwrap().unwrap();

    let record = waits(&impatient).await;
    assert_eq!(record.last_run.map(|run| run.outcome), Some(RunOutcome::Done));
    clock.advance(PERIOD);
    runs(&impatient).await;
    within(two.close()).await;
    let job = quick(&one, &clock, JobOptions::new(), 2, &log);
    let record = waits(&job).await;
    assert_eq!(record.last_run.map(|run| (run.number, run.outcome)), Some((2, RunOutcome::Unfinished)));
    // What is dropped unused, or in the middle, leaves as well.
    drop(job);
    let zookeeper = bystander(&server).await;
    queue_of(&zookeeper, ELECTION, 0).await;
}

/// The servers refuse what a leader writes that has been followed by another one, whatever it believes.
#[tokio::test]
async fn a_stale_leader_records_nothing() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let (far, near) = (connect_through(&proxy).await, connect(&server).await);
    let (clock, log) = (ManualClock::new(noon()), Log::of_evicted());
    let options = JobOptions::new().unfinished_run(UnfinishedRun::Skip);
    let (stale, end) = slow(&far, &clock, options, 0, &log);
    waits(&stale).await;
    clock.advance(PERIOD);
    runs(&stale).await;
    let next = quick(&near, &clock, JobOptions::new(), 1, &log);
    let zookeeper = bystander(&server).await;
    queue_of(&zookeeper, ELECTION, 2).await;

    // It hears nothing any more, but is heard; and an operator evicts it.
    proxy.set_traffic(Traffic::black_hole_to_client());
    operate::force_release(&near, ELECTION).await.unwrap();
    waits(&next).await;
    proxy.take_requests();
    end.send(Ok(())).unwrap();
    eventually("it writes that it is done", || async {
        proxy.take_requests().contains(&Request::Multi).then_some(())
    })
    .await;
    clock.advance(PERIOD);
    let record = has_run(&next, 2).await;
    proxy.set_traffic(Traffic::pass());
    eventually("it knows", || async { (stale.health().state == JobState::Standby).then_some(()) }).await;
    let later = next.record().await.unwrap().unwrap();
    assert_eq!(later, record);
    assert_eq!(later.unfinished, 1, "the first run is not recorded as done");
    assert_eq!(log.runs(), [(1, 1, 1), (2, 2, 1)]);
}

/// Lost requests and replies, at each write of the record.
#[tokio::test]
async fn a_lost_reply_neither_repeats_nor_loses_a_run() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let options = JobOptions::new().unfinished_run(UnfinishedRun::Repeat(9));
    // Already when the record is created.
    let lost = proxy.intercept(Request::Multi, Fate::LoseReply);
    let (job, end) = slow(&client, &clock, options, 0, &log);
    waits(&job).await;
    within(lost.happened()).await;
    for (number, fate) in (1..).zip([Fate::LoseRequest, Fate::LoseReply, Fate::LoseRequest, Fate::LoseReply])
    {
        let lost = proxy.intercept(Request::Multi, fate);
        clock.advance(PERIOD);
        let running = runs(&job).await;
        within(lost.happened()).await;
        assert_eq!(running.last_run.map(|run| (run.number, run.attempt)), Some((number, 1)), "{fate:?}");
        let lost = proxy.intercept(Request::Multi, fate);
        end.send(Ok(())).unwrap();
        let record = has_run(&job, number).await;
        within(lost.happened()).await;
        let run = record.last_run.unwrap();
        assert_eq!((run.outcome, run.attempt), (RunOutcome::Done, 1), "{fate:?}");
    }
    assert_eq!(log.runs(), [(1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1)]);
}

#[tokio::test]
async fn a_restart_of_the_servers_costs_no_run() {
    let mut server = empty_server().await;
    let clients: [Client; 2] = connect_many(&server).await;
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let job = |by: usize| quick(&clients[by], &clock, JobOptions::new(), by, &log);
    let jobs = [job(0), job(1)];
    for number in 1..=3 {
        let leading = leader(&jobs).await;
        server.kill().await.unwrap();
        // It becomes due while there is no server.
        clock.advance(PERIOD);
        server.restart().await.unwrap();
        eventually("it is run", || async {
            let record = jobs[leading].record().await.ok()??;
            record.last_run.filter(|run| run.number == number && run.outcome == RunOutcome::Done)
        })
        .await;
        assert_eq!(log.runs().last(), Some(&(number, number as u32, 1)));
    }
    assert_eq!(log.runs().len(), 3);
}

#[tokio::test]
async fn data_of_others_is_left_alone() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.mkdir(PATH, &persistent).await.unwrap();
    zookeeper.create(RECORD, b"4711", &persistent).await.unwrap();
    let client = connect(&server).await;
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let job = quick(&client, &clock, JobOptions::new(), 0, &log);
    let foreign = Error::NotAJobRecord { path: RECORD.into() };
    let is_refused = |state: &LeaderState| match state {
        LeaderState::Failed(Error::WorkFailed { source, .. }) => source.to_string() == foreign.to_string(),
        _ => false,
    };
    let mut election = job.watch_leader();
    within(election.wait_for(is_refused)).await.unwrap();
    assert_eq!(job.record().await, Err(foreign.clone()));
    clock.advance(PERIOD);
    within(election.changed()).await.unwrap();
    within(election.wait_for(is_refused)).await.unwrap();
    let (data, stat) = zookeeper.get_data(RECORD).await.unwrap();
    assert_eq!((&*data, stat.version), (&b"4711"[..], 0));
    assert_eq!(log.runs(), []);

    // When it is gone, all is well.
    zookeeper.delete(RECORD, None).await.unwrap();
    waits(&job).await;
    clock.advance(PERIOD);
    has_run(&job, 1).await;
    assert_eq!(log.runs(), [(1, 2, 1)], "what was due before the record counts for nothing");
    // And in the middle of a term.
    zookeeper.set_data(RECORD, b"4712", None).await.unwrap();
    clock.advance(PERIOD);
    within(election.wait_for(is_refused)).await.unwrap();
    assert_eq!(zookeeper.get_data(RECORD).await.unwrap().0, b"4712");
    assert_eq!(log.runs().len(), 1);
}

/// The work hears of the loss as that of a selector does, and is dropped.
#[tokio::test]
async fn work_is_dropped_when_the_leadership_is_lost() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let clock = ManualClock::new(noon());
    let is_dropped = Arc::new(AtomicBool::new(false));
    let flag = is_dropped.clone();
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let job =
        ScheduledJob::every(&client, PATH, PERIOD, JobOptions::new().clock(&clock), move |run: JobRun| {
            let (told, dropped) = (told.clone(), Dropped(flag.clone()));
            async move {
                let _dropped = dropped;
                told.send(run.leadership().clone()).unwrap();
                std::future::pending::<Result<(), Error>>().await
            }
        })
        .unwrap();
    waits(&job).await;
    clock.advance(PERIOD);
    let leadership = within(tells.recv()).await.unwrap();
    assert!(leadership.is_valid() && !is_dropped.load(SeqCst));
    server.kill_session(session_id(&client).await).await.unwrap();
    assert_eq!(within(leadership.lost()).await, LossReason::Expired);
    eventually("it is dropped", || async { is_dropped.load(SeqCst).then_some(()) }).await;
}
