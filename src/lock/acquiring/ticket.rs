//! A place in the queue of a lock.

use tokio::sync::watch;

use super::attempt::{self, Entry};
use super::reentrant::{Reentrant, Turn};
use crate::error::Result;
use crate::lock::holding::guard::LockGuard;
use crate::lock::owner::Owner;
use crate::queue::position_of;

/// A place in the queue of a lock. Dropping it leaves the queue.
///
/// It belongs to the owner that entered the queue, wherever it is awaited. While it is first and nobody awaits
/// it, nobody has the lock. If its node is deleted meanwhile, the next one has its turn, and the ticket goes to the end
/// of the queue when it is awaited.
///
/// ```no_run
/// # async fn example(mutex: zk_recipes::InterProcessMutex) -> zk_recipes::Result<()> {
/// let ticket = mutex.enqueue().await?;
/// println!("{} before us", ticket.position().await?);
/// let guard = ticket.acquired().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "if unused, the place in the queue is given up at once"]
pub struct Ticket {
    lock: Reentrant,
    entry: Box<Entry<Turn>>,
    positions: watch::Sender<usize>,
}

impl Ticket {
    pub(crate) async fn enter(lock: &Reentrant, owner: &Owner) -> Result<Self> {
        let mut entry = Box::new(lock.client().unless_closed(lock.enter(owner)).await?);
        let position = match &mut *entry {
            Entry::Queued(turn) => {
                turn.seat_mut().reserve();
                turn.seat().position()
            }
            Entry::Granted(_) => 0,
        };
        Ok(Self { lock: lock.clone(), entry, positions: watch::Sender::new(position) })
    }

    /// How many contenders are before this one, by a fresh look at the queue. Zero when it is its turn; of
    /// readers, also if it shares that with others.
    ///
    /// A place that was lost meanwhile counts as behind all others: there it goes when the ticket is awaited.
    ///
    /// # Errors
    /// [`Error::ZooKeeper`](crate::Error::ZooKeeper) and [`Error::NotConnected`](crate::Error::NotConnected)
    /// when the queue cannot be read; [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Cancel safety
    /// The place is kept.
    pub async fn position(&self) -> Result<usize> {
        let Entry::Queued(turn) = &*self.entry else { return Ok(0) };
        let queue = self.lock.client().unless_closed(self.lock.internals().contenders()).await?;
        let own = turn.seat().place().and_then(|place| place.node_name()).unwrap_or_default();
        Ok(position_of(own, &queue).unwrap_or(queue.len()))
    }

    /// Follows the position while [`acquired`](Self::acquired) is awaited. It is zero when that returns the lock. The first
    /// [`changed`](watch::Receiver::changed) is the present one.
    ///
    /// Each change in the queue then costs a request of this client, and of each other client that follows.
    /// The sender is gone when the wait is over; if it was given up or has failed, without a zero.
    ///
    /// ```no_run
    /// # async fn example(mutex: zk_recipes::InterProcessMutex) -> zk_recipes::Result<()> {
    /// let ticket = mutex.enqueue().await?;
    /// let mut position = ticket.watch_position();
    /// tokio::spawn(async move {
    ///     while position.changed().await.is_ok() {
    ///         println!("{} before us", *position.borrow_and_update());
    ///     }
    /// });
    /// let guard = ticket.acquired().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch_position(&self) -> watch::Receiver<usize> {
        let mut position = self.positions.subscribe();
        position.mark_changed();
        position
    }

    /// Waits for this contender's turn.
    ///
    /// If its owner holds the lock by then, it enters again, and the place is given up. The other way round, its owner
    /// waits for this place as well if it acquires the lock meanwhile.
    ///
    /// # Errors
    /// As [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Cancel safety
    /// The place is given up, and nothing stays in the queue. To wait with a bound and keep the place, pin
    /// the future and await a `&mut` to it.
    pub async fn acquired(self) -> Result<LockGuard> {
        let Self { lock, entry, positions } = self;
        let mut turn = match *entry {
            Entry::Granted(guard) => return guard.ensure_held().map(|()| guard),
            Entry::Queued(turn) => turn,
        };
        if positions.receiver_count() > 0
            && let Some(place) = turn.seat_mut().place_mut()
        {
            place.publish_position(positions.clone());
        }
        let acquire = async {
            if turn.enters_beside().await? {
                return attempt::granted(&mut turn).await;
            }
            // Whatever became of the place while nobody awaited it.
            turn.seat_mut().look().await?;
            attempt::granted(&mut turn).await
        };
        let guard = lock.client().unless_closed(acquire).await?;
        positions.send_if_modified(|last| std::mem::replace(last, 0) != 0);
        Ok(guard)
    }
}
