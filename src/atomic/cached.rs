//! Numbers that a process draws in blocks.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::blocks::Blocks;
use super::long::DistributedAtomicLong;
use crate::error::{Error, Result};

/// How often a block is drawn again at once when the reply is lost. Nobody needs to know what became of the first: its
/// numbers are not used.
const LOST_BLOCKS: usize = 2;

/// Hands out numbers that no other process gets, drawn from a [`DistributedAtomicLong`] in blocks. For ids.
///
/// Numbers are handed out without a request, by all threads and tasks that share a clone of this. When half of a block
/// is used up, the next one is drawn in the background, so that usually nobody waits.
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
#[derive(Clone, Debug)]
#[must_use = "a source of numbers does nothing by itself"]
pub struct CachedAtomicLong {
    number: DistributedAtomicLong,
    size: u32,
    hand: Arc<Hand>,
}

/// What all clones share.
#[derive(Debug)]
struct Hand {
    blocks: Mutex<Blocks>,
    draws: watch::Sender<Draw>,
}

/// The last draw.
#[derive(Debug, Default)]
struct Draw {
    error: Option<Error>,
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
        let hand =
            Hand { blocks: Mutex::new(Blocks::new(block_size)), draws: watch::Sender::new(Draw::default()) };
        Ok(Self { number: number.clone(), size: block_size, hand: Arc::new(hand) })
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
            let (taken, is_to_draw, mut draws) = {
                let mut blocks = self.hand.blocks.lock();
                let taken = blocks.take();
                // Whoever is told of a failure does not try again.
                let is_to_draw = (taken.is_some() || failed.is_none()) && blocks.begin_to_draw();
                // Subscribed before the draw can end.
                (taken, is_to_draw, self.hand.draws.subscribe())
            };
            if is_to_draw {
                self.draw_in_background();
            }
            match (taken, failed) {
                (Some(number), _) => return Ok(number),
                (None, Some(error)) => return Err(error),
                (None, None) => {}
            }
            // The sender is ours.
            let _ = draws.changed().await;
            failed = draws.borrow().error.clone();
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
        let mut blocks = self.hand.blocks.lock();
        let size = blocks.size();
        // The sum was checked when it was written.
        let block = drawn.as_ref().ok().map(|first| *first..first.saturating_add(size.into()));
        blocks.drawn(block);
        self.hand.draws.send_replace(Draw { error: drawn.err() });
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
