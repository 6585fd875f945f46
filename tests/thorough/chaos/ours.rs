//! Workers of our clients.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zk_recipes::{Client, Error, InterProcessLock, InterProcessMutex, LockGuard, ReadWriteLock};

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
    locks: Vec<(Arc<dyn InterProcessLock>, bool)>,
}

impl Worker {
    /// One that takes the lock at `path`, whatever it is recorded for.
    pub(crate) fn new(
        name: String,
        (participant, client): (&Arc<Participant>, &Client),
        contested: Contested,
        path: &str,
    ) -> Self {
        let locks: Vec<(Arc<dyn InterProcessLock>, bool)> = match contested {
            Contested::Mutex => vec![(Arc::new(InterProcessMutex::new(client, path).unwrap()), true)],
            Contested::ReadWrite => {
                let lock = ReadWriteLock::new(client, path).unwrap();
                vec![(Arc::new(lock.read().clone()), false), (Arc::new(lock.write().clone()), true)]
            }
        };
        Self { name: name.into(), participant: participant.clone(), contested, locks }
    }

    /// Acquires and releases, until the run is over.
    pub(crate) async fn work(self, run: Arc<Run>) {
        while !run.is_over() {
            let asked = clock::now();
            let (lock, exclusive) = &self.locks[fastrand::usize(..self.locks.len())];
            let Some(guard) = self.acquire(&**lock).await else { continue };
            if let Some(section) = self.stay(&guard, *exclusive, asked, &run).await {
                run.history.record(section);
            }
            match tokio::time::timeout(LONGEST_WAIT, guard.release()).await {
                Ok(Ok(()) | Err(Error::LockLost { .. })) => {}
                other => panic!("{}: the release ends with {other:?}", self.name),
            }
        }
    }

    /// Some do not wait for long, and leave the queue again.
    async fn acquire(&self, lock: &dyn InterProcessLock) -> Option<LockGuard> {
        if fastrand::u8(..10) == 0 {
            let patience = Duration::from_millis(fastrand::u64(..100));
            return match lock.try_acquire_for(patience).await {
                // It was too short for an answer, so that it never was in the queue.
                Err(Error::NotConnected { .. }) => None,
                tried => tried.unwrap_or_else(|error| panic!("{}: {error}", self.name)),
            };
        }
        match tokio::time::timeout(LONGEST_WAIT, lock.acquire()).await {
            Ok(Ok(guard)) => Some(guard),
            other => panic!("{}: the acquire ends with {other:?}", self.name),
        }
    }

    /// Holds for a while, or for as long as it may if it is told to stay, and looks all the time whether the server
    /// agrees. `None` if the lock was lost before it could look.
    async fn stay(&self, guard: &LockGuard, exclusive: bool, asked: u64, run: &Run) -> Option<Section> {
        let mut section: Option<Section> = None;
        let entered = Instant::now();
        let hold = LONGEST_HOLD.mul_f64(fastrand::f64());
        loop {
            let look = clock::now();
            let node = run.bystander.check_stat(guard.node_path()).await.unwrap();
            // Only now: so it was valid, too, when the server was asked.
            if !guard.is_valid() {
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
                    let token = guard.fencing_token();
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
