//! A candidate with a selector.

use std::io;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};

use tokio::sync::watch;

use super::{Candidate, SELECTORS, millis};
use crate::recipes::prelude::*;

pub(super) struct Selector {
    world: World,
    client: Client,
    candidate: Candidate,
    selector: LeaderSelector,
    eligible: Option<watch::Sender<bool>>,
    works: Works,
    terms: Vec<Arc<Leadership>>,
}

/// The work of a selector.
#[derive(Clone)]
struct Works {
    is_busy: Arc<AtomicBool>,
    is_calm: Arc<AtomicBool>,
    begun: Arc<AtomicU64>,
    /// How often it may begin.
    left: Arc<AtomicI64>,
    ineligible_since: Arc<Mutex<Option<Instant>>>,
}

impl Selector {
    pub(super) fn new(world: &World, client: &Client, candidate: Candidate) -> Self {
        let (selector, eligible, works) = Self::start(client, &candidate);
        let (world, client) = (world.clone(), client.clone());
        Self { world, client, candidate, selector, eligible, works, terms: Vec::new() }
    }

    fn start(client: &Client, candidate: &Candidate) -> (LeaderSelector, Option<watch::Sender<bool>>, Works) {
        let (options, eligible) = candidate.options();
        let is_once = chance(60);
        let left = Arc::new(AtomicI64::new(if is_once { 1 } else { i64::MAX }));
        let works = Works {
            is_busy: Arc::default(),
            is_calm: Arc::default(),
            begun: Arc::default(),
            left,
            ineligible_since: Arc::default(),
        };
        let (here, todo) = (candidate.clone(), works.clone());
        let work = move |leadership| todo.clone().work(here.clone(), leadership);
        let path = candidate.path;
        let selector = match is_once {
            true => LeaderSelector::start_once(client, path, options, work),
            false => LeaderSelector::start(client, path, options, work),
        };
        (selector.expect("a valid path"), eligible, works)
    }

    pub(super) async fn stands(mut self) {
        while self.world.is_stormy() {
            self.acts().await;
        }
        self.in_calm().await;
    }

    async fn acts(&mut self) {
        match fastrand::u8(0..12) {
            0 => self.selector.interrupt_leadership(),
            1 => drop(self.world.chancy(self.selector.transfer(), Duration::from_secs(5)).await),
            2 if chance(60) => self.starts_again().await,
            3 => {
                if let Some(eligible) = &self.eligible {
                    let is_eligible = fastrand::bool();
                    eligible.send_replace(is_eligible);
                    let since = (!is_eligible).then(Instant::now);
                    *self.works.ineligible_since.lock().expect("one thread") = since;
                    sleep(millis(0..8_000)).await;
                }
            }
            4 => {
                if let Some(leadership) = self.selector.leadership() {
                    self.terms.retain(|term| term.is_valid());
                    self.terms.push(self.candidate.leads(&leadership));
                }
            }
            5 => self.stands_once_more(),
            _ => sleep(millis(0..500)).await,
        }
    }

    fn stands_once_more(&self) {
        if self.selector.requeue() {
            self.works.left.fetch_add(1, SeqCst);
        }
    }

    async fn starts_again(&mut self) {
        if fastrand::bool() {
            self.candidate.closes(&self.world, self.selector.close()).await;
        }
        (self.selector, self.eligible, self.works) = Self::start(&self.client, &self.candidate);
    }

    /// All work in turn.
    async fn in_calm(self) {
        let Self { world, candidate, selector, eligible, works, .. } = &self;
        world.calm().await;
        if let Some(eligible) = eligible {
            candidate.stands_aside(eligible).await;
            *works.ineligible_since.lock().expect("one thread") = None;
        }
        works.is_calm.store(true, SeqCst);
        sleep(Duration::from_secs(40)).await;
        let before = works.begun.load(SeqCst);
        for _ in 0..30 {
            self.stands_once_more();
            sleep(Duration::from_secs(1)).await;
        }
        if works.begun.load(SeqCst) == before {
            let (queue, health) = (world.servers().children(SELECTORS), selector.health());
            violation(format!(
                "{} has not worked for 30 s in calm weather: {queue:?}, {health:?}",
                candidate.who
            ));
        }
        sleep(Duration::from_secs(5)).await;
        match timeout(Duration::from_secs(30), selector.close()).await {
            Ok(Ok(()) | Err(Error::WorkStopped { .. } | Error::WorkFailed { .. })) => {}
            closed => violation(format!("{}: in calm weather, close: {closed:?}", candidate.who)),
        }
    }
}

impl Works {
    async fn work(self, candidate: Candidate, leadership: Leadership) -> io::Result<()> {
        let who = &candidate.who;
        let _busy = Busy::begin(&self.is_busy, who);
        self.begun.fetch_add(1, SeqCst);
        if self.left.fetch_sub(1, SeqCst) <= 0 {
            violation(format!("{who} works more often than it is told to"));
        }
        let since = *self.ineligible_since.lock().expect("one thread");
        // It may have been elected before, while its last work went on.
        if let Some(since) =
            since.filter(|since| candidate.is_punctual && since.elapsed() > Duration::from_secs(5))
        {
            violation(format!(
                "{who} begins to work {:?} after it was not eligible any more",
                since.elapsed()
            ));
        }
        let term = candidate.leads(&leadership);
        let is_long = chance(20) && !self.is_calm.load(SeqCst);
        for _ in 0..fastrand::u32(0..6) {
            if term.is_resigning() {
                break;
            }
            sleep(Duration::from_micros(fastrand::u64(0..if is_long { 2_000_000 } else { 5_000 }))).await;
            if !term.is_valid() {
                violation(format!("{who} works under a leadership that is lost: {:?}", term.loss()));
            }
            candidate.expect_alone(&term);
        }
        if chance(10) {
            // Without a message.
            resume_unwind(Box::new("as it is meant to"));
        }
        if chance(20) { Err(io::Error::other("as it is meant to")) } else { Ok(()) }
    }
}

/// While it lives, the work is being done.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn begin(is_busy: &Arc<AtomicBool>, who: &str) -> Self {
        if is_busy.swap(true, SeqCst) {
            violation(format!("{who} works beside itself"));
        }
        Self(is_busy.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}
