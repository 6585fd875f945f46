//! The parent process: makes the jobs, starts the workers, kills one, and gives the verdict.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use zk_recipes::{Client, InterProcessMutex, Participant};

use crate::crew::Crew;
use crate::progress::Progress;
use crate::record::{Attempt, Event, Record, Recorder};
use crate::screen::{BOLD, DIM, Screen};
use crate::{Result, connect, jobs, lock_path, proof, servers, summary, tamper, worker};

const JOBS: usize = 24;
const WORKERS: usize = 4;
/// How long the worker that got stuck is left alone before it is killed.
const MERCY: Duration = Duration::from_millis(250);
/// How often the record is looked at.
const TICK: Duration = Duration::from_millis(5);
/// When something must have gone wrong.
const LIMIT: Duration = Duration::from_secs(50);

/// Runs everything, and leaves nothing behind. Answers whether everything was proved.
pub(crate) async fn run() -> Result<bool> {
    let client = connect("coordinator").await?;
    let root = format!("/examples/job-coordinator-{:08x}", fastrand::u32(..));
    let mut crew = Crew::default();
    let outcome = tokio::select! {
        proved = coordinate(&client, &root, &mut crew) => proved,
        () = sleep(LIMIT) => Err(format!("the jobs are not done after {LIMIT:?}").into()),
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    let dismissed = crew.dismiss().await;
    let removed = jobs::remove(&client, &root).await;
    client.close().await;
    // What went wrong first is what counts.
    let proved = outcome?;
    dismissed.and(removed)?;
    Ok(proved)
}

async fn coordinate(client: &Client, root: &str, crew: &mut Crew) -> Result<bool> {
    let mut screen = Screen::new();
    let session = client.zookeeper().await?.session_timeout();
    let jobs = jobs::create(client, root, JOBS).await?;
    let workers: Vec<String> = (1..=WORKERS).map(|number| format!("worker-{number}")).collect();
    let mutex = InterProcessMutex::new(client, &lock_path(root))?;
    let mut record = Record::create(root.rsplit('/').next().unwrap_or(root))?;

    title(&mut screen, mutex.path(), session);
    line_up(&mutex, &workers, crew, root, &record, &mut screen).await?;
    let mut progress = Progress::new(&mut screen, JOBS);
    let history = follow(&mutex, crew, &mut record, &mut progress).await?;
    let hand_over = progress.hand_over();

    screen.line("");
    summary::table(&mut screen, &workers, &history);
    summary::hand_over(&mut screen, hand_over, session);
    screen.line("");
    let marks = jobs::marks(client, root).await?;
    let mut findings = proof::examine(&history, &jobs).to_vec();
    findings.push(proof::compare(&history, &jobs, &marks));
    findings.push(tamper::see_refused(&history, &jobs, &marks));
    Ok(summary::verdict(&mut screen, &findings))
}

fn title(screen: &mut Screen, lock: &str, session: Duration) {
    let title = screen.paint(BOLD, format_args!("{JOBS} jobs, {WORKERS} workers, one lock"));
    screen.line(format_args!("\n  {title}"));
    screen.line(screen.paint(DIM, format_args!("  {lock} on {}", servers::named_or_in_memory())));
    let (doomed, nth) = worker::STUCK;
    let session = format!("a process with a session of {} s", session.as_secs_f64());
    screen.line(
        screen.paint(DIM, format_args!("  a worker is {session}; {doomed} is killed in attempt {nth}")),
    );
}

/// Starts the workers, and holds the lock until all of them wait for it: nobody comes too late for its share.
async fn line_up(
    mutex: &InterProcessMutex,
    workers: &[String],
    crew: &mut Crew,
    root: &str,
    record: &Record,
    screen: &mut Screen,
) -> Result<()> {
    let guard = mutex.acquire().await?;
    for worker in workers {
        crew.hire(worker, root, record.path())?;
    }
    let queue = loop {
        let queue = mutex.participants().await?;
        if queue.len() > workers.len() {
            break queue;
        }
        crew.at_work().await?;
        let waiting = queue.len().saturating_sub(1);
        screen.progress(format_args!("  {waiting} of {} workers are in the queue", workers.len()));
        sleep(TICK).await;
    };
    let queue: Vec<String> = queue.iter().map(name).collect();
    screen.line(format_args!("  the queue, holder first: {}\n", screen.names(&queue)));
    guard.release().await?;
    Ok(())
}

/// Follows the record until the last worker has gone home, and kills the one that gets stuck.
async fn follow(
    mutex: &InterProcessMutex,
    crew: &mut Crew,
    record: &mut Record,
    progress: &mut Progress<'_>,
) -> Result<Vec<Event>> {
    let mut history = Vec::new();
    let mut stuck: Option<(Attempt, Instant)> = None;
    loop {
        // Asked before the record is read: what the last one wrote is then read, too.
        let at_work = crew.at_work().await?;
        for event in record.news()? {
            match &event {
                Event::Start { attempt, behind } => {
                    let waiting = waiting_behind(&attempt.worker, &mutex.participants().await?);
                    progress.started(attempt, *behind, waiting);
                    if is_stuck(attempt, &history) {
                        stuck = Some((attempt.clone(), Instant::now()));
                    }
                }
                Event::Finish(attempt) => progress.finished(attempt),
                Event::Killed(attempt) => {
                    progress.killed(attempt, waiting_behind(&attempt.worker, &mutex.participants().await?));
                }
                Event::Home { .. } => {}
            }
            history.push(event);
        }
        if at_work == 0 {
            return Ok(history);
        }
        if let Some((attempt, _)) = stuck.take_if(|(_, since)| since.elapsed() >= MERCY) {
            crew.kill(&attempt.worker).await?;
            // The worker is dead, so this is the end of its attempt. And it comes in time: the server keeps
            // the lock for the session of the dead, which expires a whole session timeout after it was last
            // heard of. Were we so slow that somebody else began before this line, the proof would say so.
            Recorder::open(record.path())?.append(&Event::Killed(attempt))?;
        }
        progress.draw();
        sleep(TICK).await;
    }
}

/// Whether this is the attempt in which a worker gets stuck.
fn is_stuck(attempt: &Attempt, history: &[Event]) -> bool {
    let of_worker = |event: &&Event| event.grant().is_some_and(|(worker, _)| worker == attempt.worker);
    worker::STUCK == (attempt.worker.as_str(), history.iter().filter(of_worker).count() + 1)
}

/// Who is in the queue behind a worker. It may have left by now: then all who are there.
fn waiting_behind(holder: &str, queue: &[Participant]) -> Vec<String> {
    let names: Vec<String> = queue.iter().map(name).collect();
    let holder = names.iter().position(|name| name == holder);
    names[holder.map_or(0, |place| place + 1)..].to_vec()
}

fn name(participant: &Participant) -> String {
    String::from_utf8_lossy(participant.identity().unwrap_or(b"somebody")).into_owned()
}
