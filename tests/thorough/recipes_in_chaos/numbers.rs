//! Numbers that all draw from.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::atomic::{AtomicOptions, CachedAtomicLong, DistributedAtomicLong};
use zk_recipes::shared::SharedCount;
use zk_recipes::{Client, Error};

use crate::clock;
use crate::peer::Actor;
use crate::run::Run;
use crate::stage::{Library, Participant};
use crate::trouble::pause;

/// For how long a call tries while others are first.
const PATIENCE: Duration = Duration::from_secs(20);

const BLOCK: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Everybody adds one, and our clients also draw blocks.
    Mixed,
    /// The same without blocks, and whoever keeps failing lines up at a lock.
    Promoted,
    /// A [`SharedCount`].
    Count,
    /// Our clients only, without blocks, and some of them give up.
    Ours,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Mixed, Self::Promoted, Self::Count, Self::Ours];

    pub(crate) fn path(self, root: &str) -> String {
        format!("{root}/numbers/{self:?}")
    }
}

/// A try to draw a number. The times are of the shared clock.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    pub(crate) by: Arc<str>,
    pub(crate) library: Library,
    pub(crate) asked: u64,
    pub(crate) answered: u64,
    pub(crate) outcome: Outcome,
    /// Whether the number was drawn in this time, and not as a part of a block.
    pub(crate) is_single: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// This was the number before.
    Drawn(i64),
    /// It was told that nobody knows, or the caller did not wait for the answer.
    Unknown,
    /// Nothing was done.
    Refused,
}

/// All that was drawn of one number.
#[derive(Debug)]
pub(crate) struct Draws {
    pub(crate) kind: Kind,
    pub(crate) draws: Mutex<Vec<Draw>>,
}

impl Draws {
    pub(crate) fn of(kind: Kind) -> Arc<Self> {
        Arc::new(Self { kind, draws: Mutex::default() })
    }

    fn record(&self, draw: Draw, run: &Run) {
        if let Outcome::Drawn(_) = draw.outcome {
            run.succeeded(&draw.by);
        }
        self.draws.lock().unwrap().push(draw);
    }
}

/// Where one of our clients draws from.
pub(crate) enum Source {
    Long(DistributedAtomicLong),
    Count(SharedCount),
    Blocks(CachedAtomicLong),
}

impl Source {
    /// Those of one client for a kind of number.
    pub(crate) fn all_of(kind: Kind, client: &Client, root: &str) -> Vec<Self> {
        let path = kind.path(root);
        let options = AtomicOptions::new().timeout(PATIENCE);
        let long = |options| {
            let long = DistributedAtomicLong::new(client, &path).unwrap();
            long.with_options(&options).unwrap()
        };
        match kind {
            Kind::Mixed => {
                let long = long(options);
                let blocks = Self::Blocks(CachedAtomicLong::new(&long, BLOCK).unwrap());
                vec![Self::Long(long), blocks]
            }
            Kind::Promoted => {
                let long = long(options.promoted_to_lock(format!("{root}/numbers/lock")));
                vec![Self::Long(long.clone()), Self::Long(long)]
            }
            Kind::Count => {
                vec![Self::Count(SharedCount::new(client, &path, 0).unwrap().with_timeout(PATIENCE))]
            }
            Kind::Ours => {
                let long = long(options);
                vec![Self::Long(long.clone()), Self::Long(long)]
            }
        }
    }

    pub(crate) async fn next(&self) -> zk_recipes::Result<i64> {
        match self {
            Self::Long(long) => long.fetch_add(1).await,
            Self::Count(count) => {
                count.update(|count| count + 1).await.map(|now| i64::from(*now.value()) - 1)
            }
            Self::Blocks(blocks) => blocks.next().await,
        }
    }

    pub(crate) async fn draw(self, name: Arc<str>, draws: Arc<Draws>, run: Arc<Run>) {
        while !run.is_over() {
            let asked = clock::now();
            let gives_up = draws.kind == Kind::Ours && fastrand::u8(..8) == 0;
            let drawn = if gives_up {
                timeout(Duration::from_millis(fastrand::u64(..20)), self.next()).await
            } else {
                Ok(run.within(&name, self.next()).await)
            };
            let outcome = match drawn {
                Ok(Ok(number)) => Outcome::Drawn(number),
                Ok(Err(Error::WriteOutcomeUnknown { .. })) | Err(_) => Outcome::Unknown,
                Ok(Err(Error::Contended { .. } | Error::NotConnected { .. })) => Outcome::Refused,
                Ok(Err(error)) => panic!("{name}: {error}"),
            };
            let draw = Draw {
                by: name.clone(),
                library: Library::Ours,
                asked,
                answered: clock::now(),
                outcome,
                is_single: !matches!(self, Self::Blocks(_)),
            };
            draws.record(draw, &run);
            pause(0..20).await;
        }
    }
}

/// An actor of a peer that draws.
pub(crate) struct Theirs(Actor);

impl Theirs {
    pub(crate) async fn new(kind: Kind, peer: &Participant, name: &str, root: &str) -> Self {
        let path = kind.path(root);
        let open = match kind {
            Kind::Mixed | Kind::Ours => format!("atomic_long {path}"),
            Kind::Promoted => format!("atomic_long {path} lock={root}/numbers/lock"),
            Kind::Count => format!("count {path} seed=0"),
        };
        Self(peer.peer.as_ref().expect("it is a peer").open(name, &open).await)
    }

    pub(crate) async fn draw(mut self, name: Arc<str>, draws: Arc<Draws>, run: Arc<Run>) {
        while !run.is_over() {
            let asked = clock::now();
            let outcome = match draws.kind {
                Kind::Count => self.exchange().await,
                _ => self.0.try_call("add 1").await.ok().map(|sum| sum.parse::<i64>().unwrap() - 1),
            };
            let draw = Draw {
                by: name.clone(),
                library: Library::Curator,
                asked,
                answered: clock::now(),
                outcome: outcome.map_or(Outcome::Unknown, Outcome::Drawn),
                is_single: true,
            };
            draws.record(draw, &run);
            pause(0..20).await;
        }
    }

    /// If it is refused, it may have been done: Curator repeats a write whose reply was lost.
    async fn exchange(&mut self) -> Option<i64> {
        let seen: i64 = self.0.try_call("get").await.ok()?.parse().unwrap();
        let exchanged = self.0.try_call(&format!("exchange {seen} {}", seen + 1)).await;
        (exchanged.as_deref() == Ok("true")).then_some(seen)
    }
}
