//! Workers of our clients.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zk_recipes::{
    Client, CloseMode, Error, InterProcessLock, InterProcessMutex, LeaderLatch, LeaderOptions, LeaderState,
    Leadership, LockGuard, ReadWriteLock, Result,
};

use crate::clock;
use crate::contested::Contested;
use crate::history::{Proof, Section};
use crate::run::Run;
use crate::stage::Participant;
use crate::{LONGEST_HOLD, LONGEST_WAIT};

pub(crate) struct Worker {
    pub(crate) name: Arc<str>,
    pub(crate) participant: Arc<Participant>,
    pub(crate) contested: Contested,
    ways: Vec<(Way, bool)>,
}

/// A way in.
enum Way {
    Lock(Arc<dyn InterProcessLock>),
    Latch(Client, String),
}

/// What it has that is in.
enum Held {
    Lock(LockGuard),
    Latch(LeaderLatch, Leadership),
}

impl Worker {
    /// One that takes the lock at `path`, whatever it is recorded for.
    pub(crate) fn new(
        name: String,
        (participant, client): (&Arc<Participant>, &Client),
        contested: Contested,
        path: &str,
    ) -> Self {
        let ways = match contested {
            Contested::Mutex => vec![(Way::lock(InterProcessMutex::new(client, path).unwrap()), true)],
            Contested::ReadWrite => {
                let lock = ReadWriteLock::new(client, path).unwrap();
                vec![(Way::lock(lock.read().clone()), false), (Way::lock(lock.write().clone()), true)]
            }
            Contested::Leadership => vec![(Way::Latch(client.clone(), path.to_owned()), true)],
        };
        Self { name: name.into(), participant: participant.clone(), contested, ways }
    }

    /// Acquires and releases, until the run is over.
    pub(crate) async fn work(self, run: Arc<Run>) {
        while !run.is_over() {
            let asked = clock::now();
            let (way, exclusive) = &self.ways[fastrand::usize(..self.ways.len())];
            let Some(held) = self.acquire(way).await else { continue };
            if let Some(section) = self.stay(&held, *exclusive, asked, &run).await {
                run.history.record(section);
            }
            match timeout(LONGEST_WAIT, held.release()).await {
                Ok(Ok(()) | Err(Error::LockLost { .. })) => {}
                other => panic!("{}: the release ends with {other:?}", self.name),
            }
        }
    }

    /// Some do not wait for long, and leave the queue again.
    async fn acquire(&self, way: &Way) -> Option<Held> {
        let patience = (fastrand::u8(..10) == 0).then(|| Duration::from_millis(fastrand::u64(..100)));
        match timeout(LONGEST_WAIT, way.enter(patience)).await {
            // It was too short for an answer, so that it never was in the queue.
            Ok(Err(Error::NotConnected { .. })) if patience.is_some() => None,
            Ok(Ok(held)) => held,
            other => panic!("{}: the acquire ends with {:?}", self.name, other.map(|entered| entered.err())),
        }
    }

    /// Holds for a while, or for as long as it may if it is told to stay, and looks all the time whether the server
    /// agrees. `None` if the lock was lost before it could look.
    async fn stay(&self, held: &Held, exclusive: bool, asked: u64, run: &Run) -> Option<Section> {
        let mut section: Option<Section> = None;
        let entered = Instant::now();
        let hold = LONGEST_HOLD.mul_f64(fastrand::f64());
        loop {
            let look = clock::now();
            let node = run.bystander.check_stat(held.node_path()).await.unwrap();
            // Only now: so it was valid, too, when the server was asked.
            if !held.is_valid() {
                run.history.record_loss();
                return section;
            }
            let section = section.get_or_insert_with(|| Section {
                participant: self.participant.clone(),
                worker: self.name.clone(),
                contested: self.contested,
                exclusive,
                asked,
                from: look,
                believed_until: look,
                proof: None,
                without_node_at: None,
            });
            section.believed_until = look;
            match node {
                Some(node) => {
                    let token = held.fencing_token();
                    assert_eq!(token, node.czxid);
                    section.proof = Some(Proof { until: look, token, session: node.ephemeral_owner });
                }
                None => section.without_node_at = Some(clock::now()),
            }
            if entered.elapsed() >= hold && !self.participant.stays() {
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
        section
    }
}

impl Way {
    fn lock(lock: impl InterProcessLock + 'static) -> Self {
        Self::Lock(Arc::new(lock))
    }

    async fn enter(&self, patience: Option<Duration>) -> Result<Option<Held>> {
        match (self, patience) {
            (Self::Lock(lock), None) => lock.acquire().await.map(Held::Lock).map(Some),
            (Self::Lock(lock), Some(patience)) => Ok(lock.try_acquire_for(patience).await?.map(Held::Lock)),
            (Self::Latch(client, path), _) => {
                let latch = LeaderLatch::start(client, path, LeaderOptions::new())?;
                let mut state = latch.watch_state();
                let elected = state.wait_for(LeaderState::is_leading);
                match timeout(patience.unwrap_or(LONGEST_WAIT), elected).await {
                    Ok(Some(LeaderState::Leading(leadership))) => Ok(Some(Held::Latch(latch, leadership))),
                    Err(_) if patience.is_some() => latch.close(CloseMode::Silent).await.map(|()| None),
                    other => panic!("a latch waits in vain: {other:?}"),
                }
            }
        }
    }
}

impl Held {
    fn node_path(&self) -> &str {
        match self {
            Self::Lock(guard) => guard.node_path(),
            Self::Latch(_, leadership) => leadership.node_path(),
        }
    }

    fn is_valid(&self) -> bool {
        match self {
            Self::Lock(guard) => guard.is_valid(),
            Self::Latch(_, leadership) => leadership.is_valid(),
        }
    }

    fn fencing_token(&self) -> i64 {
        match self {
            Self::Lock(guard) => guard.fencing_token(),
            Self::Latch(_, leadership) => leadership.fencing_token(),
        }
    }

    async fn release(self) -> Result<()> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Latch(latch, _) => latch.close(CloseMode::Silent).await,
        }
    }
}
