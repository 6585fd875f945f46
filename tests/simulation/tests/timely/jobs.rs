//! Jobs whose leaders die, are late, or find something else.

#[path = "../../../jobs/fleet.rs"]
#[allow(dead_code, reason = "others use the rest")]
mod fleet;

use zk_recipes::job::{JobOptions, JobRun, JobState, RunOutcome, ScheduledJob, UnfinishedRun};

use self::fleet::PATH;
use self::fleet::*;
use super::prelude::*;

async fn ends_session(stage: &Stage, client: &Client) {
    let session = session_id(client).await;
    assert!(stage.servers().end_session(session));
}

/// How many stand.
fn candidates(stage: &Stage) -> usize {
    stage.servers().children(ELECTION).unwrap_or_default().len()
}

/// At most once: it is left as it is, and shows as such.
#[history]
async fn a_run_whose_leader_dies_is_not_begun_again(stage: Stage) {
    let [one, two] = stage.clients().await;
    let (clock, log) = (ManualClock::new(noon()), Log::of_evicted());
    let (first, _end) = slow(&one, &clock, JobOptions::new(), 0, &log);
    waits(&first).await;
    let second = quick(&two, &clock, JobOptions::new(), 1, &log);
    clock.advance(PERIOD);
    runs(&first).await;
    ends_session(&stage, &one).await;

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
#[history]
async fn a_run_whose_leader_dies_is_repeated_if_that_is_wanted(stage: Stage) {
    let (clock, log) = (ManualClock::new(noon()), Log::of_evicted());
    let (mut jobs, mut clients) = (Vec::new(), Vec::new());
    // In the order in which they stand.
    for by in 0..4 {
        let client = stage.client(by % stage.machines().len()).await;
        let options = JobOptions::new().unfinished_run(UnfinishedRun::Repeat(2));
        jobs.push(slow(&client, &clock, options, by, &log));
        clients.push(client);
        sleep(A_MOMENT).await;
        assert_eq!(candidates(&stage), by + 1);
    }
    waits(&jobs[0].0).await;
    clock.advance(PERIOD);
    for by in 0..3 {
        let record = runs(&jobs[by].0).await;
        assert_eq!(record.last_run.map(|run| (run.number, run.attempt)), Some((1, by as u32 + 1)));
        // It stands no more when its session is over.
        jobs[by].0.interrupt_leadership();
        ends_session(&stage, &clients[by]).await;
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
#[history]
async fn a_run_has_the_grace_period_to_end(stage: Stage) {
    const GRACE: Duration = ms(50);
    let [one, two] = stage.clients().await;
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let with_grace = |grace| JobOptions::new().leader(LeaderOptions::new().grace(grace));
    let (patient, end) = slow(&one, &clock, with_grace(BOUND), 0, &log);
    waits(&patient).await;
    clock.advance(PERIOD);
    runs(&patient).await;
    let closing = tokio::spawn(async move { patient.close().await });
    let (impatient, _end) = slow(&two, &clock, with_grace(GRACE), 1, &log);
    sleep(BOUND - A_MOMENT).await;
    assert!(!closing.is_finished());
    end.send(Ok(())).unwrap();
    within(closing).await.unwrap().unwrap();

    let record = waits(&impatient).await;
    assert_eq!(record.last_run.map(|run| run.outcome), Some(RunOutcome::Done));
    clock.advance(PERIOD);
    runs(&impatient).await;
    let start = Instant::now();
    two.close().await;
    assert!(start.elapsed() < GRACE + A_MOMENT, "{:?}", start.elapsed());
    let job = quick(&one, &clock, JobOptions::new(), 2, &log);
    let record = waits(&job).await;
    assert_eq!(record.last_run.map(|run| (run.number, run.outcome)), Some((2, RunOutcome::Unfinished)));
    // What is dropped unused, or in the middle, leaves as well.
    drop(job);
    sleep(A_MOMENT).await;
    assert_eq!(candidates(&stage), 0);
}

/// The servers refuse what a leader writes that has been followed by another one, whatever it believes.
#[history]
async fn a_stale_leader_records_nothing(stage: Stage) {
    let (proxy, far, near) = stage.far_and_near(|builder| builder.session_timeout(secs(10))).await;
    let (clock, log) = (ManualClock::new(noon()), Log::of_evicted());
    let options = JobOptions::new().unfinished_run(UnfinishedRun::Skip);
    let (stale, end) = slow(&far, &clock, options, 0, &log);
    waits(&stale).await;
    clock.advance(PERIOD);
    runs(&stale).await;
    let next = quick(&near, &clock, JobOptions::new(), 1, &log);
    sleep(A_MOMENT).await;
    assert_eq!(candidates(&stage), 2);

    // It hears nothing any more, but is heard; and an operator evicts it.
    proxy.set_traffic(Traffic::black_hole_to_client());
    operate::force_release(&near, ELECTION).await.unwrap();
    waits(&next).await;
    proxy.take_requests();
    end.send(Ok(())).unwrap();
    sleep(A_MOMENT).await;
    assert!(proxy.take_requests().contains(&Request::Multi), "it writes that it is done");
    clock.advance(PERIOD);
    let record = has_run(&next, 2).await;
    proxy.set_traffic(Traffic::pass());
    sleep(A_MOMENT).await;
    assert_eq!(stale.health().state, JobState::Standby, "it knows");
    let later = next.record().await.unwrap().unwrap();
    assert_eq!(later, record);
    assert_eq!(later.unfinished, 1, "the first run is not recorded as done");
    assert_eq!(log.runs(), [(1, 1, 1), (2, 2, 1)]);
}

/// Lost requests and replies, at each write of the record.
#[history]
async fn a_lost_reply_neither_repeats_nor_loses_a_run(stage: Stage) {
    let (proxy, client) = stage.far(plain).await;
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let options = JobOptions::new().unfinished_run(UnfinishedRun::Repeat(9));
    // Already when the record is created.
    let lost = proxy.intercept(Request::Multi, Fate::LoseReply);
    let (job, end) = slow(&client, &clock, options, 0, &log);
    waits(&job).await;
    within(lost.happened()).await;
    let fates = [Fate::LoseRequest, Fate::LoseReply, Fate::LoseRequest, Fate::LoseReply];
    for (number, fate) in (1..).zip(fates) {
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

#[history]
async fn a_restart_of_the_servers_costs_no_run(stage: Stage) {
    let clients = [stage.client(0).await, stage.client(1).await];
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let job = |by: usize| quick(&clients[by], &clock, JobOptions::new(), by, &log);
    let jobs = [job(0), job(1)];
    for number in 1..=3 {
        let leading = leader(&jobs).await;
        stage.servers().stop(0);
        // It becomes due while there is no server.
        clock.advance(PERIOD);
        sleep(ms(300)).await;
        stage.servers().start(0);
        until(|| log.begun().last().is_some_and(|run| run.number == number)).await;
        let record = jobs[leading].record().await.unwrap().unwrap();
        let last = record.last_run.unwrap();
        assert_eq!((last.number, last.outcome), (number, RunOutcome::Done));
        assert_eq!(log.runs().last(), Some(&(number, number as u32, 1)));
    }
    assert_eq!(log.runs().len(), 3);
    drop(jobs);
    sleep(secs(1)).await;
}

#[history]
async fn data_of_others_is_left_alone(stage: Stage) {
    let servers = stage.servers();
    for path in ["/jobs", PATH, RECORD] {
        assert!(servers.create(path, if path == RECORD { b"4711" } else { b"" }, false));
    }
    let client = stage.client(0).await;
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
    let node = servers.node(RECORD).unwrap();
    assert_eq!((&*node.data, node.version), (&b"4711"[..], 0));
    assert_eq!(log.runs(), []);

    // When it is gone, all is well.
    servers.delete(RECORD);
    waits(&job).await;
    clock.advance(PERIOD);
    has_run(&job, 1).await;
    assert_eq!(log.runs(), [(1, 2, 1)], "what was due before the record counts for nothing");
    // And in the middle of a term.
    servers.set_data(RECORD, b"4712");
    clock.advance(PERIOD);
    within(election.wait_for(is_refused)).await.unwrap();
    assert_eq!(servers.node(RECORD).unwrap().data, b"4712");
    assert_eq!(log.runs().len(), 1);
}

/// Before the one who has created it hears that it has.
#[history]
async fn what_an_operator_writes_to_a_new_record_stands(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let servers = stage.servers();
    let mut held = proxy.intercept(Request::Multi, Fate::HoldReply);
    let job = quick(&client, &clock, JobOptions::new(), 0, &log);
    within(held.happened()).await;
    while servers.node(RECORD).is_none() {
        let next = proxy.intercept(Request::Multi, Fate::HoldReply);
        std::mem::replace(&mut held, next).release();
        within(held.happened()).await;
    }
    let record = String::from_utf8(servers.node(RECORD).unwrap().data).unwrap();
    servers.set_data(RECORD, record.replace("unfinished 0", "unfinished 7").as_bytes());
    held.release();
    waits(&job).await;
    clock.advance(PERIOD);
    assert_eq!(has_run(&job, 1).await.unfinished, 7);
}

/// Notes that it was dropped, as work is that does not go on.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The work hears of the loss as that of a selector does, and is dropped.
#[history]
async fn work_is_dropped_when_the_leadership_is_lost(stage: Stage) {
    let client = stage.client(0).await;
    let clock = ManualClock::new(noon());
    let is_dropped = Arc::new(AtomicBool::new(false));
    let flag = is_dropped.clone();
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let options = JobOptions::new().clock(&clock);
    let job = ScheduledJob::every(&client, PATH, PERIOD, options, move |run: JobRun| {
        let (told, dropped) = (told.clone(), Dropped(flag.clone()));
        async move {
            let _dropped = dropped;
            told.send(run.leadership().clone()).unwrap();
            std::future::pending::<Result<(), Error>>().await
        }
    });
    let job = job.unwrap();
    waits(&job).await;
    clock.advance(PERIOD);
    let leadership = within(tells.recv()).await.unwrap();
    assert!(leadership.is_valid() && !is_dropped.load(SeqCst));
    ends_session(&stage, &client).await;
    assert_eq!(within(leadership.lost()).await, LossReason::Expired);
    sleep(A_MOMENT).await;
    assert!(is_dropped.load(SeqCst));
}

/// The servers confirm the begin of a run late, or the reply is lost and there is no connection for a while. Or an operator
/// has deleted the record, which is created by the begin of a run.
#[history((Fate::HoldReply, false), (Fate::LoseReply, false), (Fate::HoldReply, true))]
async fn the_distance_of_two_runs_counts_from_the_work(stage: Stage, fate: Fate, is_deleted: bool) {
    const AT_LEAST: Duration = secs(2);
    let (proxy, far, near) = stage.far_and_near(|builder| builder.session_timeout(secs(10))).await;
    let (clock, log) = (ManualClock::new(noon()), Log::default());
    let options = || JobOptions::new().at_least_for(AT_LEAST);
    let (first, end) = slow(&far, &clock, options(), 0, &log);
    waits(&first).await;
    let _second = quick(&near, &clock, options(), 1, &log);
    sleep(A_MOMENT).await;
    let mut held = proxy.intercept(Request::Multi, fate);
    proxy.refuse_connections(fate == Fate::LoseReply);
    if is_deleted {
        assert!(stage.servers().delete(RECORD));
        clock.advance(PERIOD);
        // The first one creates the record.
        within(held.happened()).await;
        let begin = proxy.intercept(Request::Multi, fate);
        std::mem::replace(&mut held, begin).release();
    } else {
        clock.advance(PERIOD);
    }
    within(held.happened()).await;
    sleep(AT_LEAST * 3 / 4).await;
    held.release();
    proxy.refuse_connections(false);
    let run = runs(&first).await.last_run.unwrap();
    assert_eq!(run.begun_at, None);
    let begun = Instant::now();
    end.send(Ok(())).unwrap();
    has_run(&first, run.number).await;
    clock.advance(PERIOD);
    first.close().await.unwrap();
    until(|| log.begun().len() == 2).await;
    let distance = begun.elapsed();
    assert!(distance >= AT_LEAST - A_MOMENT && distance < AT_LEAST + A_MOMENT, "{fate:?}: {distance:?}");
}

/// It leads once more, for too short a time to see the clock of the servers.
#[history]
async fn a_clock_that_is_wrong_is_shown_until_it_is_known_to_be_right(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let options = JobOptions::new().clock(&ManualClock::new(noon())).clock_tolerance(secs(1));
    let job =
        ScheduledJob::every(&client, PATH, secs(1), options, |_| async { Ok::<(), Error>(()) }).unwrap();
    let is_wrong = |state: &JobState| matches!(state, JobState::WrongClock(_));
    within(job.watch_state().wait_for(is_wrong)).await.unwrap();
    let held = proxy.intercept(Request::GetData, Fate::HoldReply);
    within(held.happened()).await;
    let LeaderState::Leading(leadership) = job.watch_leader().get() else { panic!("it leads") };
    stage.servers().delete(leadership.node_path());
    held.release();
    within(leadership.lost()).await;
    sleep(A_MOMENT).await;
    assert!(is_wrong(&job.health().state), "{:?}", job.health());
}

#[history]
async fn who_follows_a_job_learns_that_it_is_closed(stage: Stage) {
    let client = stage.client(0).await;
    let work = |_| async { Ok::<(), Error>(()) };
    let job = ScheduledJob::every(&client, PATH, secs(1), JobOptions::new(), work).unwrap();
    let mut state = job.watch_state();
    within(state.wait_for(|state| matches!(state, JobState::Waiting(_)))).await.unwrap();
    within(job.close()).await.unwrap();
    within(async { while state.changed().await.is_some() {} }).await;
}
