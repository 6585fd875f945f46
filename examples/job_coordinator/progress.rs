//! Shows a run as it goes: a line per attempt, and below it the jobs done and who holds the lock.

use std::time::{Duration, Instant};

use crate::record::Attempt;
use crate::screen::{BOLD, DIM, GREEN, RED, Screen};

#[derive(Debug)]
pub(crate) struct Progress<'a> {
    screen: &'a mut Screen,
    jobs: usize,
    /// Who has done each of the jobs that are done.
    done_by: Vec<String>,
    begin: Instant,
    /// One, unless the lock fails.
    holders: Vec<Holder>,
    killed: Option<Killed>,
    hand_over: Option<Duration>,
}

#[derive(Debug)]
struct Killed {
    attempt: Attempt,
    at: Instant,
}

#[derive(Debug)]
struct Holder {
    attempt: Attempt,
    since: Instant,
    /// How many were before it when it entered the queue.
    behind: usize,
    /// Who was in the queue behind it when that was last looked at.
    waiting: Vec<String>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(screen: &'a mut Screen, jobs: usize) -> Self {
        let columns = "      time  holder    job        took        token  behind  waiting at the grant";
        screen.line(screen.paint(DIM, columns));
        let begin = Instant::now();
        Self { screen, jobs, done_by: Vec::new(), begin, holders: Vec::new(), killed: None, hand_over: None }
    }

    /// How long it took from the kill to the next grant.
    pub(crate) fn hand_over(&self) -> Option<Duration> {
        self.hand_over
    }

    pub(crate) fn started(&mut self, attempt: &Attempt, behind: usize, waiting: Vec<String>) {
        let now = Instant::now();
        if let Some(killed) = self.killed.take() {
            let took = now - killed.at;
            self.hand_over = Some(took);
            self.holders.retain(|holder| holder.attempt != killed.attempt);
            let news = format!("has the lock, {:.2} s after the kill", took.as_secs_f64());
            self.line(&attempt.worker, self.screen.paint(BOLD, news));
        }
        self.holders.push(Holder { attempt: attempt.clone(), since: now, behind, waiting });
    }

    pub(crate) fn finished(&mut self, attempt: &Attempt) {
        self.ended(attempt, self.screen.paint(GREEN, "✔"));
        self.holders.retain(|holder| holder.attempt != *attempt);
        self.done_by.push(attempt.worker.clone());
    }

    pub(crate) fn killed(&mut self, attempt: &Attempt, waiting: Vec<String>) {
        self.ended(attempt, self.screen.paint(RED, "✘"));
        if let Some(holder) = self.holders.last_mut() {
            holder.waiting = waiting;
        }
        self.killed = Some(Killed { attempt: attempt.clone(), at: Instant::now() });
        let news = "was killed; its session keeps the lock until it expires";
        self.line(&attempt.worker, self.screen.paint(RED, news));
    }

    /// Draws the progress line.
    pub(crate) fn draw(&mut self) {
        let bar: String = self.done_by.iter().map(|worker| self.screen.of_worker(worker, "█")).collect();
        let open = "░".repeat(self.jobs.saturating_sub(self.done_by.len()));
        let count = format!("{:>2}/{}", self.done_by.len(), self.jobs);
        let holder = self.holders.last().map(|Holder { attempt, waiting, .. }| {
            let worker = self.screen.of_worker(&attempt.worker, &attempt.worker);
            let deed = match &self.killed {
                Some(killed) => format!("is dead and holds, {:.1} s", killed.at.elapsed().as_secs_f64()),
                None => format!("holds, for {}", attempt.job),
            };
            format!("{worker} {deed}; {} wait", waiting.len())
        });
        self.screen.progress(format_args!("  {bar}{open} {count}  {}", holder.unwrap_or_default()));
    }

    fn ended(&mut self, attempt: &Attempt, mark: String) {
        let Some(holder) = self.holders.iter().find(|holder| holder.attempt == *attempt) else { return };
        let Attempt { worker, job, token } = attempt;
        let Holder { since, behind, waiting, .. } = holder;
        let took = since.elapsed().as_millis();
        let waiting = match waiting[..] {
            [] => self.screen.paint(DIM, "nobody"),
            _ => self.screen.names(waiting),
        };
        let text = format!("{job}  {mark} {took:>4} ms  {token:>11}  {behind:>6}  {waiting}");
        self.line(worker, text);
    }

    fn line(&mut self, worker: &str, text: String) {
        let time = format!("{:>8.3} s", self.begin.elapsed().as_secs_f64());
        let (time, worker) = (self.screen.paint(DIM, time), self.screen.of_worker(worker, worker));
        self.screen.line(format_args!("{time}  {worker}  {text}"));
    }
}
