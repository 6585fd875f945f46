//! What the tasks of a round share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::acts::Acts;
use crate::check::{self, Step};
use crate::claim::{Claim, Story, Write};
use crate::luck::Scheduler;
use crate::room::Room;
use crate::spec::{Holder, Op, Path, Ret};
use crate::stage::Bystander;
use crate::tally::Tally;

/// Below it are all locks.
pub(crate) const ROOT: &str = "/bad-luck";

/// Name, how many may share it, and whether it has a register.
const ROOMS: [(&str, usize, bool); 9] = [
    ("mutex-0", 1, true),
    ("mutex-1", 1, true),
    ("mutex-2", 1, true),
    ("read-write-0", usize::MAX, true),
    ("read-write-1", usize::MAX, true),
    ("semaphore-of-one", 1, true),
    ("semaphore-of-three", 3, false),
    ("semaphore-mutex", 1, true),
    ("latch", 1, true),
];

pub(crate) struct Run {
    pub(crate) rooms: Vec<Arc<Room>>,
    pub(crate) acts: Acts,
    pub(crate) tally: Arc<Tally>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) bystander: Mutex<Option<Arc<Bystander>>>,
    /// The trouble is over.
    is_calm: AtomicBool,
    next: AtomicU64,
    ended: Mutex<HashMap<String, Vec<Ended>>>,
    faults: Mutex<Vec<String>>,
    started: Instant,
    seed: u64,
}

/// For how long something is in fashion.
const FASHION: Duration = Duration::from_millis(250);

/// So often many come at once.
const RUSH: Duration = Duration::from_millis(16);

/// A hold that is over.
struct Ended {
    id: u64,
    holder: Holder,
    token: i64,
    node: String,
    session: i64,
    asked: u64,
    from: u64,
    story: Story,
}

impl Run {
    pub(crate) fn new(
        tally: &Arc<Tally>,
        scheduler: &Arc<Scheduler>,
        started: Instant,
        seed: u64,
    ) -> Arc<Self> {
        let room =
            |(name, capacity, has_register)| Room::new(&format!("{ROOT}/{name}"), capacity, has_register);
        Arc::new(Self {
            rooms: ROOMS.map(room).into(),
            acts: Acts::default(),
            tally: tally.clone(),
            scheduler: scheduler.clone(),
            bystander: Mutex::default(),
            is_calm: AtomicBool::new(false),
            next: AtomicU64::new(1),
            ended: Mutex::default(),
            faults: Mutex::default(),
            started,
            seed,
        })
    }

    pub(crate) fn registers(&self) -> impl Iterator<Item = &str> {
        self.rooms.iter().filter_map(|room| room.register.as_deref())
    }

    pub(crate) fn bystander(&self) -> Arc<Bystander> {
        self.bystander.lock().unwrap().clone().expect("there is one before the tasks begin")
    }

    /// A number that nothing else has.
    pub(crate) fn next(&self) -> u64 {
        self.next.fetch_add(1, SeqCst)
    }

    /// A number that is the same for all tasks of a client for a while, and how many of a hundred follow it: at times all
    /// of them, so that a client has a path for itself.
    pub(crate) fn fashion(&self, client: usize) -> (usize, u8) {
        let season = (self.started.elapsed().as_millis() / FASHION.as_millis()) as u64;
        let number = Rng::with_seed(self.seed ^ (season << 8) ^ client as u64).usize(..);
        (number, if season.is_multiple_of(2) { 100 } else { 50 })
    }

    /// Waits until others come, too.
    pub(crate) async fn rush(&self) {
        let rest = self.started.elapsed().as_nanos() % RUSH.as_nanos();
        tokio::time::sleep(RUSH - Duration::from_nanos(rest as u64)).await;
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.load(SeqCst)
    }

    pub(crate) fn calm(&self) {
        self.is_calm.store(true, SeqCst);
    }

    /// Where a node is held.
    pub(crate) fn room_of(&self, node: &str) -> &Arc<Room> {
        let (queue, _) = node.rsplit_once('/').expect("a node in a queue");
        let path = queue.strip_suffix("/leases").unwrap_or(queue);
        self.rooms.iter().find(|room| room.path == path).expect("a path of this run")
    }

    pub(crate) fn fault(&self, fault: String) {
        println!("after {:.1} s: {fault}", self.started.elapsed().as_secs_f64());
        self.faults.lock().unwrap().push(fault);
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap().clone()
    }

    pub(crate) fn record(&self, claim: &Claim) {
        let room = self.room_of(&claim.node).path.clone();
        let ended = Ended {
            id: claim.id,
            holder: Holder { owner: claim.owner, exclusive: claim.exclusive },
            token: claim.held.token(),
            node: claim.node.clone(),
            session: claim.session,
            asked: claim.asked,
            from: claim.from,
            story: std::mem::take(&mut claim.story.lock().unwrap()),
        };
        self.ended.lock().unwrap().entry(room).or_default().push(ended);
    }

    /// Checks the histories of all paths.
    pub(crate) fn check(&self) {
        for (path, ended) in std::mem::take(&mut *self.ended.lock().unwrap()) {
            let capacity = self.rooms.iter().find(|room| room.path == path).map_or(1, |room| room.capacity);
            let steps = ended.into_iter().flat_map(|ended| self.steps(ended)).collect();
            let checked = check::check(&path, Path::new(capacity), steps);
            self.tally.add("windows: checked", checked.windows);
            self.tally.add("windows: steps", checked.steps);
            self.tally.add("windows: ended without a read", checked.forgetful);
            checked.faults.into_iter().for_each(|fault| self.fault(fault));
        }
    }

    /// What a hold did, as far as it was valid.
    fn steps(&self, ended: Ended) -> Vec<Step> {
        let Ended { id: hold, holder, token, node, session, asked, from, story } = ended;
        let act = self.acts.on(&node, session).filter(|act| act.from <= story.valid_at);
        if act.is_some() {
            self.tally.count("excused: sections cut short");
        }
        let valid_at = act.map_or(story.valid_at, |act| act.from.min(story.valid_at));
        let writes = story.writes.iter();
        if let Some(act) = act.filter(|act| act.from < from) {
            // It is not known when it held, if it did. What it wrote, it wrote before its node was gone.
            let gone = act.until.unwrap_or(act.from);
            let overwrite = |write: &Write| Step {
                op: Op::Overwrite,
                from: write.from,
                until: Some(write.until.unwrap_or(gone).max(write.from)),
                ret: Ret::Done,
            };
            return writes.map(overwrite).collect();
        }
        let mut steps: Vec<_> = writes
            .map(|write| Step {
                op: Op::Write { hold, value: write.value },
                from: write.from,
                until: write.until,
                ret: Ret::Done,
            })
            .collect();
        steps.push(Step {
            op: Op::Acquire { hold, holder, token },
            from: asked,
            until: Some(from),
            ret: Ret::Done,
        });
        // Nobody sees when it is released but those who come next; and a write that is late needs the hold.
        let is_late = |write: &Write| write.until.is_none_or(|until| until > valid_at);
        let until = (!story.writes.iter().any(is_late)).then_some(valid_at);
        steps.push(Step { op: Op::Release { hold }, from: valid_at, until, ret: Ret::Done });
        steps.extend(story.reads.iter().filter(|read| read.until <= valid_at).map(|read| Step {
            op: Op::Read { hold },
            from: read.from,
            until: Some(read.until),
            ret: Ret::Value(read.value),
        }));
        steps
    }
}
