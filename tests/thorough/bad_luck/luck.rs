//! A scheduler of bad luck: it holds wake-ups back, hands them on in random order, and from a thread of its own, so that
//! the future continues on whichever worker thread is free.
//!
//! A reply that has arrived is then used late, up to a second after the library could have used it. Nothing that the
//! library is told may be believed for longer than it is true.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::tally::Tally;

/// How long a turn of the scheduler lasts at least.
const TURN: Duration = Duration::from_micros(50);

/// How late a future is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mood {
    /// At once, or a few turns later.
    Brisk,
    /// Mostly some milliseconds later.
    Slow,
    /// Sometimes so late that a session is half over.
    Asleep,
}

impl Mood {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        match rng.u8(..100) {
            0..80 => Self::Brisk,
            80..98 => Self::Slow,
            _ => Self::Asleep,
        }
    }

    fn of(value: u8) -> Self {
        [Self::Brisk, Self::Slow, Self::Asleep][usize::from(value)]
    }
}

enum Delay {
    None,
    Turns(u8),
    Time(Duration),
}

impl Delay {
    fn draw(mood: Mood, rng: &mut Rng) -> Self {
        let micros = |rng: &mut Rng, range| Self::Time(Duration::from_micros(rng.u64(range)));
        match (mood, rng.u8(..100)) {
            (Mood::Brisk, 0..70) | (Mood::Slow, 0..25) | (Mood::Asleep, 0..40) => Self::None,
            (Mood::Brisk, 70..98) | (Mood::Slow, 25..60) | (Mood::Asleep, 40..50) => {
                Self::Turns(rng.u8(1..10))
            }
            (Mood::Brisk, _) => micros(rng, 200..2_000),
            (Mood::Slow, _) => micros(rng, 300..8_000),
            (Mood::Asleep, 50..97) => micros(rng, 10_000..100_000),
            (Mood::Asleep, _) => micros(rng, 150_000..1_000_000),
        }
    }
}

#[derive(Debug, Default)]
struct Figures {
    /// Wake-ups that were held back.
    held: AtomicU64,
    /// Polls on another thread than the one before.
    moved: AtomicU64,
    /// Polls without a wake-up.
    needless: AtomicU64,
}

/// Holds wake-ups back. It lives as long as the process.
pub(crate) struct Scheduler {
    held: Mutex<Vec<HeldWake>>,
    arrived: Condvar,
    figures: Figures,
}

struct HeldWake {
    turns: u8,
    due: Instant,
    task: Arc<Luck>,
}

impl Scheduler {
    pub(crate) fn start(seed: u64) -> Arc<Self> {
        let scheduler =
            Arc::new(Self { held: Mutex::default(), arrived: Condvar::new(), figures: Figures::default() });
        let running = scheduler.clone();
        thread::spawn(move || running.run(Rng::with_seed(seed)));
        scheduler
    }

    pub(crate) fn report(&self, tally: &Tally) {
        let Figures { held, moved, needless } = &self.figures;
        tally.add("luck: wake-ups held back", held.load(SeqCst));
        tally.add("luck: polls on another thread", moved.load(SeqCst));
        tally.add("luck: polls without a wake-up", needless.load(SeqCst));
    }

    fn hold(&self, task: Arc<Luck>, turns: u8, time: Duration) {
        self.figures.held.fetch_add(1, SeqCst);
        self.held.lock().unwrap().push(HeldWake { turns, due: Instant::now() + time, task });
        self.arrived.notify_one();
    }

    fn run(&self, mut rng: Rng) {
        loop {
            let mut due = self.next_turn();
            rng.shuffle(&mut due);
            due.into_iter().for_each(|wake| wake.task.let_go());
            thread::sleep(TURN);
        }
    }

    /// Waits until there is something to do; returns what is due now.
    fn next_turn(&self) -> Vec<HeldWake> {
        let mut held = self.held.lock().unwrap();
        loop {
            let now = Instant::now();
            held.iter_mut().for_each(|wake| wake.turns = wake.turns.saturating_sub(1));
            let (due, rest): (Vec<_>, Vec<_>) =
                held.drain(..).partition(|wake| wake.turns == 0 && wake.due <= now);
            *held = rest;
            let in_turns = held.iter().any(|wake| wake.turns > 0);
            if !due.is_empty() || in_turns {
                return due;
            }
            let next = held.iter().map(|wake| wake.due).min();
            let pause = next.map_or(Duration::from_secs(1), |next| next.saturating_duration_since(now));
            held = self.arrived.wait_timeout(held, pause).unwrap().0;
        }
    }
}

/// The luck of one task: its waker, which may be late.
pub(crate) struct Luck {
    scheduler: Arc<Scheduler>,
    mood: AtomicU8,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    outside: Option<Waker>,
    /// It was woken, and the wake-up let through.
    is_due: bool,
    is_held: bool,
}

impl Luck {
    pub(crate) fn new(scheduler: &Arc<Scheduler>, rng: Rng) -> Arc<Self> {
        let state = State { rng, outside: None, is_due: true, is_held: false };
        Arc::new(Self {
            scheduler: scheduler.clone(),
            mood: AtomicU8::new(Mood::Brisk as u8),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn set_mood(&self, mood: Mood) {
        self.mood.store(mood as u8, SeqCst);
    }

    /// The future, polled as this luck has it.
    pub(crate) fn befall<F: Future + Send>(self: Arc<Self>, future: F) -> Late<F> {
        Late { future: Box::pin(future), luck: self, thread: None }
    }

    fn let_go(&self) {
        let mut state = self.state.lock().unwrap();
        (state.is_held, state.is_due) = (false, true);
        let outside = state.outside.clone();
        drop(state);
        outside.into_iter().for_each(Waker::wake);
    }

    /// Now and then it is polled although nothing has woken it.
    fn poll_needlessly(self: &Arc<Self>) {
        let mut state = self.state.lock().unwrap();
        if !state.is_held && !state.is_due && state.rng.u8(..) < 4 {
            state.is_held = true;
            drop(state);
            self.scheduler.figures.needless.fetch_add(1, SeqCst);
            self.scheduler.hold(self.clone(), 3, Duration::ZERO);
        }
    }
}

impl Wake for Luck {
    fn wake(self: Arc<Self>) {
        let mut state = self.state.lock().unwrap();
        if state.is_due || state.is_held {
            return;
        }
        match Delay::draw(Mood::of(self.mood.load(SeqCst)), &mut state.rng) {
            Delay::None => {
                drop(state);
                self.let_go();
            }
            delay => {
                state.is_held = true;
                drop(state);
                let (turns, time) = match delay {
                    Delay::Time(time) => (0, time),
                    Delay::Turns(turns) => (turns, Duration::ZERO),
                    Delay::None => unreachable!("handled above"),
                };
                let scheduler = self.scheduler.clone();
                scheduler.hold(self, turns, time);
            }
        }
    }
}

/// A future that is polled late.
pub(crate) struct Late<F> {
    future: Pin<Box<F>>,
    luck: Arc<Luck>,
    thread: Option<ThreadId>,
}

impl<F: Future> Future for Late<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        {
            let mut state = self.luck.state.lock().unwrap();
            state.outside = Some(cx.waker().clone());
            if !std::mem::take(&mut state.is_due) {
                return Poll::Pending;
            }
        }
        let here = thread::current().id();
        if self.thread.replace(here).is_some_and(|before| before != here) {
            self.luck.scheduler.figures.moved.fetch_add(1, SeqCst);
        }
        let waker = Waker::from(self.luck.clone());
        let polled = self.future.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            self.luck.poll_needlessly();
        }
        polled
    }
}
