//! Numbers that a process draws in blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::blocks::Blocks;
use super::long::DistributedAtomicLong;
use super::replies::Replies;
use crate::error::{Error, Result};

/// How often a block is drawn again at once when the reply is lost. What became of the first does not matter: its
/// numbers are not used.
const LOST_BLOCKS: usize = 2;

/// Hands out numbers that no other process gets, drawn from a [`DistributedAtomicLong`] in blocks. For ids.
///
/// Numbers are handed out without a request, by all threads and tasks that share a clone of this. When half of a block
/// is used up, the next one is drawn in the background, so that usually no caller waits.
///
/// The numbers of one process rise. Those of several processes are not in the order of time, and there are gaps: what is
/// left of a block when the process ends is lost.
///
/// ```no_run
/// use zk_recipes::atomic::{CachedAtomicLong, DistributedAtomicLong};
///
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// let ids = DistributedAtomicLong::new(&client, "/ids/orders")?;
/// let ids = CachedAtomicLong::new(&ids, 1000)?;
/// println!("order {}", ids.next().await?);
/// # Ok(())
/// # }
/// ```
///
/// Sources: Curator's `CachedAtomicLong`, which is not safe for several threads, and draws when it has run out.
#[derive(Clone)]
#[must_use = "a source of numbers does nothing by itself"]
pub struct CachedAtomicLong {
    number: DistributedAtomicLong,
    size: u32,
    hand: Arc<Hand>,
}

debug_by!(CachedAtomicLong, |it| path: it.path(), block_size: it.size);

/// What all clones share.
#[derive(Debug)]
struct Hand(Mutex<State>);

#[derive(Debug)]
struct State {
    blocks: Blocks,
    /// Those who wait for the end of the draw under way, in the order of their arrival.
    waiting: BTreeMap<u64, oneshot::Sender<Drawn>>,
    next: u64,
}

/// The error of a draw that has failed.
type Drawn = Option<Error>;

/// What becomes of a call.
enum Step {
    Done(Result<i64>),
    /// It waits at this place until a draw has ended.
    Wait(u64, oneshot::Receiver<Drawn>),
}

/// The place of a call that waits, and may be cancelled.
struct Place<'a> {
    hand: &'a Hand,
    id: u64,
}

impl CachedAtomicLong {
    /// Creates a source of numbers that draws `block_size` of them at a time. Makes no request.
    ///
    /// Choose it so that a block lasts for some seconds.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: the size is zero.
    pub fn new(number: &DistributedAtomicLong, block_size: u32) -> Result<Self> {
        if block_size == 0 {
            let reason = "a block has at least one number".into();
            return Err(Error::InvalidArgument { argument: "block size", reason });
        }
        let state = State { blocks: Blocks::new(block_size), waiting: BTreeMap::new(), next: 0 };
        Ok(Self { number: number.clone(), size: block_size, hand: Arc::new(Hand(Mutex::new(state))) })
    }

    /// Returns the next number: the one that the counter had before this one was drawn, as
    /// [`fetch_add`](DistributedAtomicLong::fetch_add) does.
    ///
    /// Makes no request while there are numbers in hand.
    ///
    /// # Errors
    /// Same as [`fetch_add`](DistributedAtomicLong::fetch_add), if no number is in hand and no block can be drawn. The
    /// next call tries again.
    ///
    /// # Cancel safety
    /// No number is lost, except one that was already taken when the call was cancelled.
    pub async fn next(&self) -> Result<i64> {
        if self.number.client().has_ended() {
            return Err(Error::Closed);
        }
        self.number.client().unless_closed(self.take()).await
    }

    /// Returns the full path of the node, namespace included.
    pub fn path(&self) -> &str {
        self.number.path()
    }

    async fn take(&self) -> Result<i64> {
        let mut failed = None;
        loop {
            let (step, is_to_draw) = self.hand.0.lock().take(failed);
            if is_to_draw {
                self.draw_in_background();
            }
            let (id, drawn) = match step {
                Step::Done(taken) => return taken,
                Step::Wait(id, drawn) => (id, drawn),
            };
            let _place = Place { hand: &self.hand, id };
            // Each draw ends, and tells it.
            failed = drawn.await.unwrap_or_default();
        }
    }

    fn draw_in_background(&self) {
        let drawing = Drawing { hand: self.hand.clone(), is_over: false };
        let (number, size) = (self.number.detached(), self.size);
        self.number.client().spawn(async move {
            let drawn = draw(&number, size).await;
            drawing.end(drawn);
        });
    }
}

/// Draws a block, and returns its first number.
async fn draw(number: &DistributedAtomicLong, size: u32) -> Result<i64> {
    let mut lost = 0;
    loop {
        match number.fetch_add(size.into()).await {
            Err(Error::WriteOutcomeUnknown { .. }) if lost < LOST_BLOCKS => lost += 1,
            drawn => return drawn,
        }
    }
}

impl State {
    /// Takes a number, if there is one in hand, for a call that may know that a draw has `failed`. Returns whether
    /// another block must be drawn.
    fn take(&mut self, failed: Drawn) -> (Step, bool) {
        let taken = self.blocks.take();
        // A caller that is told of a failure does not try again.
        let is_to_draw = (taken.is_some() || failed.is_none()) && self.blocks.begin_to_draw();
        let step = match (taken, failed) {
            (Some(number), _) => Step::Done(Ok(number)),
            (None, Some(error)) => Step::Done(Err(error)),
            (None, None) => {
                let (sender, drawn) = oneshot::channel();
                self.next += 1;
                self.waiting.insert(self.next, sender);
                Step::Wait(self.next, drawn)
            }
        };
        (step, is_to_draw)
    }

    /// Records the end of a draw. Returns the replies to the waiters.
    fn drawn(&mut self, drawn: Result<i64>) -> Replies<Drawn> {
        let size = self.blocks.size();
        // The sum was checked when it was written.
        let block = drawn.as_ref().ok().map(|first| *first..first.saturating_add(size.into()));
        self.blocks.drawn(block);
        let error = drawn.err();
        let waiting = std::mem::take(&mut self.waiting).into_values();
        waiting.map(|call| (call, error.clone())).collect()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // Dropped when nothing is locked: it may have the last handle of a waker.
        let _call = self.hand.0.lock().waiting.remove(&self.id);
    }
}

/// A draw under way, which ends in any case.
struct Drawing {
    hand: Arc<Hand>,
    is_over: bool,
}

impl Drawing {
    fn end(mut self, drawn: Result<i64>) {
        self.is_over = true;
        self.show(drawn);
    }

    fn show(&self, drawn: Result<i64>) {
        let replies = self.hand.0.lock().drawn(drawn);
        replies.send();
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        if !self.is_over {
            // Its runtime has ended.
            self.show(Err(Error::Closed));
        }
    }
}
