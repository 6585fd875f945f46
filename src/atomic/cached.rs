//! Numbers that a process draws in blocks.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::blocks::Blocks;
use super::long::DistributedAtomicLong;
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
struct Hand {
    blocks: Mutex<Blocks>,
    /// Wakes those who wait for the end of the draw under way, in the order of their arrival.
    drawn: Notify,
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
        let blocks = Mutex::new(Blocks::new(block_size));
        let hand = Arc::new(Hand { blocks, drawn: Notify::new() });
        Ok(Self { number: number.clone(), size: block_size, hand })
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
        let mut has_waited = false;
        loop {
            // Before the look, so that it hears of each draw that ends after that.
            let drawn = self.hand.drawn.notified();
            let (taken, is_to_draw) = self.hand.blocks.lock().take_or_draw(has_waited);
            if is_to_draw {
                self.draw_in_background();
            }
            if let Some(taken) = taken {
                return taken;
            }
            // Each draw ends, and tells it.
            drawn.await;
            has_waited = true;
        }
    }

    fn draw_in_background(&self) {
        // What is told if the runtime of the client ends before the draw.
        let outcome = Err(Error::Closed);
        let drawing = Drawing { hand: self.hand.clone(), outcome };
        self.number.client().spawn(drawing.draw(self.number.detached(), self.size));
    }
}

/// A draw under way, whose end is told in any case.
struct Drawing {
    hand: Arc<Hand>,
    /// The first number of the block.
    outcome: Result<i64>,
}

impl Drawing {
    /// Draws a block.
    async fn draw(mut self, number: DistributedAtomicLong, size: u32) {
        let mut lost = 0;
        self.outcome = loop {
            match number.fetch_add(size.into()).await {
                Err(Error::WriteOutcomeUnknown { .. }) if lost < LOST_BLOCKS => lost += 1,
                drawn => break drawn,
            }
        };
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        self.hand.blocks.lock().drawn(self.outcome.clone());
        self.hand.drawn.notify_waiters();
    }
}
