//! The parent process: starts the workers, lets one leader after the other come to harm, and gives the verdict.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};
use zk_recipes::{Client, LeaderObserver};

use crate::crew::Crew;
use crate::network::Network;
use crate::record::{Event, Line, Record, Recorder, Tick, What};
use crate::{PERIOD, Result, connect, election, figures, proof, servers, tamper, ticks};

/// How often the record is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How many ticks are done between one harm and the next.
const STEADY: usize = 8;
/// When something must have gone wrong: in one step, in all of them, and with the removal of what was made.
const STEP_LIMIT: Duration = Duration::from_secs(25);
const LIMIT: Duration = Duration::from_secs(90);
const REMOVAL_LIMIT: Duration = Duration::from_secs(20);

/// Runs everything, and leaves nothing behind. Answers whether all went well.
pub(crate) async fn run() -> Result<bool> {
    let client = connect("parent", &servers()).await?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let directory = tempfile::tempdir()?;
    let root = format!("/examples/scheduled-job-{:08x}", fastrand::u32(..));
    let (network, how) = Network::choose().await;
    let mut crew = Crew::new(network);
    let outcome = tokio::select! {
        told = tell(&client, &root, &mut crew, directory.path(), &how) => told,
        () = sleep(LIMIT) => Err(format!("it is not over after {LIMIT:?}").into()),
        _ = interrupt.recv() => Err("interrupted".into()),
        _ = terminate.recv() => Err("terminated".into()),
        _ = hang_up.recv() => Err("hung up".into()),
    };
    let dismissed = crew.dismiss().await;
    let removed = timeout(REMOVAL_LIMIT, ticks::remove(&client, &root)).await;
    client.close().await;
    let closed = directory.close();
    // What went wrong first is what counts.
    let all_went_well = outcome?;
    dismissed?;
    removed.map_err(|_| "the servers do not answer: something may be left there")??;
    closed?;
    Ok(all_went_well)
}

async fn tell(client: &Client, root: &str, crew: &mut Crew, directory: &Path, how: &str) -> Result<bool> {
    ticks::create(client, root).await?;
    let record = Record::create(directory.join("record"))?;
    println!(
        "A job that is due each {PERIOD:?}, and three workers of whom one is to do it, on {}",
        servers::named_or_in_memory()
    );
    println!("To watch the election from another terminal:");
    println!("  ZK_CONNECT={} cargo run --example leader_watch {}", servers(), election(root));
    println!("Between workers and servers: {how}");

    let recorder = Recorder::open(record.path())?;
    let observer = LeaderObserver::new(client, &election(root))?;
    let lines = Vec::new();
    let mut story = Story { observer, root, crew, record, recorder, lines, shown: 0, began: Instant::now() };
    for _ in 0..3 {
        story.hire().await?;
    }
    let session = story.crew.worker("A")?.session;
    println!("The servers keep the session of a worker who is not heard of for {session:?}\n");

    story.steady(None).await?;
    story.resigned().await?;
    story.killed().await?;
    story.paused().await?;
    story.cut_off().await?;
    story.note(What::End, "nobody")?;
    story.crew.dismiss().await?;
    story.look()?;

    let record = story.lines;
    let ticks = ticks::all(client, root).await?;
    println!();
    figures::print(&record, session);
    let mut findings = proof::examine(&record, session).to_vec();
    findings.push(proof::compare(&record, &ticks));
    findings.push(tamper::see_refused(&record, &ticks, session));
    Ok(figures::verdict(&findings))
}

struct Story<'a> {
    observer: LeaderObserver,
    root: &'a str,
    crew: &'a mut Crew,
    record: Record,
    recorder: Recorder,
    /// The record as far as it was read.
    lines: Vec<Line>,
    /// The number of the last tick that was shown.
    shown: u64,
    began: Instant,
}

impl Story<'_> {
    async fn resigned(&mut self) -> Result<()> {
        let old = self.leader()?;
        self.note(What::Resigns, &old.worker)?;
        self.crew.worker(&old.worker)?.resign().await?;
        self.say(format_args!("{} is asked to resign", old.worker));
        self.succeeded(&old).await
    }

    async fn killed(&mut self) -> Result<()> {
        let old = self.leader()?;
        self.crew.kill(&old.worker).await?;
        self.note(What::Killed, &old.worker)?;
        self.say(format_args!("{} is killed", old.worker));
        self.succeeded(&old).await?;
        self.hire().await
    }

    /// Stops a leader in the middle of a tick.
    async fn paused(&mut self) -> Result<()> {
        let old = self.leader()?;
        let begun = self.lines.len();
        let begins = |line: &Line| matches!(&line.event, Event::Begins(tick) if tick.token == old.token);
        self.until("a tick", |lines| lines[begun..].iter().any(begins).then_some(())).await?;
        self.crew.worker(&old.worker)?.signal(Signal::STOP)?;
        self.note(What::Paused, &old.worker)?;
        self.say(format_args!("{} is paused", old.worker));
        self.succeeded(&old).await?;

        self.note(What::Continued, &old.worker)?;
        self.crew.worker(&old.worker)?.signal(Signal::CONT)?;
        self.say(format_args!("{} is continued", old.worker));
        self.stands_again(&old).await
    }

    async fn cut_off(&mut self) -> Result<()> {
        let old = self.leader()?;
        self.crew.worker(&old.worker)?.cable.cut().await?;
        self.note(What::Cut, &old.worker)?;
        self.say(format_args!("{} is cut off from the servers", old.worker));
        self.succeeded(&old).await?;

        self.note(What::Mended, &old.worker)?;
        self.crew.worker(&old.worker)?.cable.mend().await?;
        self.say(format_args!("{} is connected again", old.worker));
        self.stands_again(&old).await
    }

    /// Waits until another one leads and has done some ticks.
    async fn succeeded(&mut self, old: &Tick) -> Result<()> {
        self.steady(Some(old)).await
    }

    /// Waits until somebody who has led stands for election anew, and gives it time to do something wrong.
    async fn stands_again(&mut self, old: &Tick) -> Result<()> {
        let since = Instant::now();
        self.stands(&old.worker, old.token).await?;
        self.say(format_args!("  {} stands again, {:.1?} later", old.worker, since.elapsed()));
        self.steady(None).await
    }

    /// Waits for some ticks of one leader, behind another one if there was one, and shows them.
    async fn steady(&mut self, old: Option<&Tick>) -> Result<()> {
        let (behind, from) = (old.map_or(0, |old| old.token), self.lines.len());
        let first = self
            .until("a tick of a new leader", |lines| {
                let done = lines[from..].iter().filter_map(|line| line.event.done());
                done.into_iter().find(|tick| tick.token > behind).cloned()
            })
            .await?;
        match old {
            Some(old) => {
                let (missed, gap) = figures::gap(&self.lines, old, &first);
                let gap = gap.as_millis();
                let who = &first.worker;
                self.say(format_args!(
                    "  {who} leads, token {}: {missed} ticks missed, {gap} ms",
                    first.token
                ));
            }
            None if self.shown == 0 => {
                self.say(format_args!("{} leads, token {}", first.worker, first.token));
            }
            None => {}
        }
        let from = self.lines.len();
        self.until("ticks", |lines| {
            let done = lines[from..].iter().filter_map(|line| line.event.done());
            (done.count() >= STEADY).then_some(())
        })
        .await?;
        self.shown = figures::strip(&self.lines, self.shown);
        Ok(())
    }

    async fn hire(&mut self) -> Result<()> {
        let worker = self.crew.hire(self.root, self.record.path()).await?;
        let name = worker.name.clone();
        self.stands(&name, 0).await?;
        self.say(format_args!("{name} stands for election"));
        Ok(())
    }

    /// Waits until that worker is in the queue with a token greater than that.
    async fn stands(&mut self, name: &str, behind: i64) -> Result<()> {
        let queued = async {
            loop {
                let queue = self.observer.participants().await?;
                if let Some(it) = queue.iter().find(|it| it.fencing_token() > behind && it.id() == name) {
                    return Ok::<_, zk_recipes::Error>(it.fencing_token());
                }
                sleep(LOOK).await;
            }
        };
        let queued = timeout(STEP_LIMIT, queued).await;
        let token =
            queued.map_err(|_| format!("{name} does not stand for election after {STEP_LIMIT:?}"))??;
        self.recorder.append(Event::Stands { worker: name.into(), token })
    }

    /// Follows the record until something is there.
    async fn until<T>(&mut self, what: &str, find: impl Fn(&[Line]) -> Option<T>) -> Result<T> {
        let since = Instant::now();
        loop {
            self.look()?;
            if let Some(found) = find(&self.lines) {
                return Ok(found);
            }
            self.crew.ensure_at_work()?;
            if since.elapsed() > STEP_LIMIT {
                return Err(format!("{what}: not within {STEP_LIMIT:?}").into());
            }
            sleep(LOOK).await;
        }
    }

    fn look(&mut self) -> Result<()> {
        self.lines.extend(self.record.news()?);
        Ok(())
    }

    /// The last one that has done a tick.
    fn leader(&mut self) -> Result<Tick> {
        self.look()?;
        let last = self.lines.iter().rev().find_map(|line| line.event.done());
        last.cloned().ok_or_else(|| "nobody leads".into())
    }

    fn note(&self, what: What, worker: &str) -> Result<()> {
        self.recorder.append(Event::Told { what, worker: worker.into() })
    }

    fn say(&self, what: std::fmt::Arguments<'_>) {
        println!("{:5.1} s  {what}", self.began.elapsed().as_secs_f64());
    }
}
