//! A candidate with a latch.

use tokio::sync::watch;

use super::{Candidate, LATCHES, millis};
use crate::recipes::prelude::*;

pub(super) struct Latch {
    world: World,
    client: Client,
    candidate: Candidate,
    latch: LeaderLatch,
    eligible: Option<watch::Sender<bool>>,
    /// So long as they are valid, no one else is to lead, even when the latch is closed.
    terms: Vec<Arc<Leadership>>,
}

impl Latch {
    pub(super) fn new(world: &World, client: &Client, candidate: Candidate) -> Self {
        let (latch, eligible) = Self::start(client, &candidate);
        Self { world: world.clone(), client: client.clone(), candidate, latch, eligible, terms: Vec::new() }
    }

    fn start(client: &Client, candidate: &Candidate) -> (LeaderLatch, Option<watch::Sender<bool>>) {
        let (options, eligible) = candidate.options();
        (LeaderLatch::start(client, candidate.path, options).expect("a valid path"), eligible)
    }

    pub(super) async fn stands(mut self) {
        while self.world.is_stormy() {
            self.acts().await;
        }
        self.in_calm().await;
    }

    fn leads(&mut self, leadership: &Leadership) {
        self.terms.retain(|term| term.is_valid());
        self.terms.push(self.candidate.leads(leadership));
    }

    async fn acts(&mut self) {
        let world = self.world.clone();
        match fastrand::u8(0..12) {
            0..=3 => self.leads_for_a_while().await,
            4 => {
                if let Some(leadership) = self.latch.leadership() {
                    self.leads(&leadership);
                }
                sleep(millis(0..300)).await;
            }
            5 => self.looks().await,
            6 => drop(world.chancy(self.latch.transfer(), Duration::from_secs(5)).await),
            7 => drop(world.chancy(self.latch.participants(), Duration::from_secs(5)).await),
            8 if chance(60) => self.starts_again().await,
            9 => {
                if let Some(eligible) = &self.eligible {
                    eligible.send_replace(fastrand::bool());
                }
                sleep(millis(0..500)).await;
            }
            _ => sleep(millis(0..300)).await,
        }
    }

    async fn leads_for_a_while(&mut self) {
        let (world, who) = (self.world.clone(), self.candidate.who.clone());
        let leadership = match world.chancy(self.latch.await_leadership(), millis(1..8000)).await {
            Some(Ok(leadership)) => leadership,
            Some(Err(Error::Closed)) | None => return,
            Some(Err(error)) => return violation(format!("{who} cannot stand: {error:?}")),
        };
        self.leads(&leadership);
        let time = Duration::from_micros(fastrand::u64(0..if chance(20) { 5_000_000 } else { 20_000 }));
        let done = world.chancy(leadership.run(sleep(time)), Duration::from_secs(60)).await;
        if !leadership.is_valid() {
            count("lost", 1);
            if let Some(Ok(())) = done {
                violation(format!("{who}: work under a leadership that is lost is Ok"));
            }
        }
        if chance(200) {
            drop(world.chancy(leadership.resign(), Duration::from_secs(30)).await);
        }
    }

    /// Looks at the state when it changes.
    async fn looks(&mut self) {
        let mut state = self.latch.watch_state();
        for _ in 0..2 {
            let Ok(Some(now)) = timeout(Duration::from_secs(2), state.changed()).await else { return };
            if let LeaderState::Leading(leadership) = &now
                && now.is_leading()
            {
                self.leads(leadership);
            }
        }
    }

    async fn starts_again(&mut self) {
        if fastrand::bool() {
            let mode = if fastrand::bool() { CloseMode::Silent } else { CloseMode::NotifyLeader };
            self.candidate.closes(&self.world, self.latch.close(mode)).await;
        }
        (self.latch, self.eligible) = Self::start(&self.client, &self.candidate);
    }

    /// All lead in turn.
    async fn in_calm(mut self) {
        self.world.calm().await;
        if let Some(eligible) = &self.eligible {
            self.candidate.stands_aside(eligible).await;
        }
        sleep(Duration::from_secs(30)).await;
        let who = self.candidate.who.clone();
        if !self.leads_once(Duration::from_secs(60)).await {
            let queue = self.world.servers().children(LATCHES);
            violation(format!(
                "{who} waits for ever for the leadership: {queue:?}, {:?}",
                self.latch.health()
            ));
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            self.leads_once(Duration::from_secs(5)).await;
            sleep(Duration::from_millis(20)).await;
        }
        match timeout(Duration::from_secs(30), self.latch.close(CloseMode::Silent)).await {
            Ok(Ok(())) => {}
            closed => violation(format!("{who}: in calm weather, close: {closed:?}")),
        }
    }

    /// Leads for a moment, if it is elected within this time.
    async fn leads_once(&mut self, longest: Duration) -> bool {
        let leadership = match timeout(longest, self.latch.await_leadership()).await {
            Ok(Ok(leadership)) => leadership,
            Ok(Err(error)) => {
                violation(format!("{}: in calm weather: {error:?}", self.candidate.who));
                return false;
            }
            Err(_) => return false,
        };
        self.leads(&leadership);
        sleep(Duration::from_millis(1)).await;
        match timeout(Duration::from_secs(30), leadership.resign()).await {
            Ok(Ok(())) => {}
            resigned => violation(format!("{}: in calm weather, resign: {resigned:?}", self.candidate.who)),
        }
        true
    }
}
