//! A place in the queue of a lock.

use tracing::{Instrument, Span};

use super::acquirable::{Acquirable, Entry};
use super::attempt;
use super::observed::Observed;
use super::reentrant::{Reentrant, Turn};
use crate::error::Result;
use crate::lock::holding::claims::Claim;
use crate::lock::holding::guard::LockGuard;
use crate::queue::Caller;
use crate::watch::{Watch, Watched};

/// A place in the queue of a lock. Dropping it leaves the queue.
///
/// A ticket belongs to the owner that entered the queue, whichever task awaits it. While it is first in the queue
/// and not awaited, no one holds the lock. If its node is deleted meanwhile, the next waiter gets its turn, and
/// the ticket moves to the end of the queue when it is awaited.
///
/// Until it is granted, a ticket is ahead of its own owner as of everyone else: a `try_acquire` of that owner returns
/// `None`, and an `acquire` waits until the ticket is awaited or dropped.
///
/// ```no_run
/// # async fn example(mutex: zk_recipes::InterProcessMutex) -> zk_recipes::Result<()> {
/// let ticket = mutex.enqueue().await?;
/// println!("{} before us", ticket.position().await?);
/// let guard = ticket.acquired().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "if unused, the place in the queue is given up at once"]
pub struct Ticket {
    lock: Reentrant,
    entry: Box<Entry<Turn>>,
    positions: Watched<usize>,
    /// `None` if the owner held the lock already.
    observed: Option<Box<Observed>>,
}

debug_by!(Ticket, |it| path: it.lock.path());

impl Ticket {
    pub(crate) async fn enter(lock: &Reentrant) -> Result<Self> {
        let owner = &lock.owner();
        let (entry, mut observed) = match lock.enter_again(owner)? {
            Some(again) => (Entry::Granted(again), None),
            None => {
                let observed = Box::new(Observed::begin(lock, owner));
                let entering = async {
                    let mut entry = lock.enter_queue(owner, Caller::asking()).await?;
                    if let Entry::Queued(turn) = &mut entry {
                        turn.seat_mut().locate().await?;
                    }
                    Ok(entry)
                };
                let entering = entering.instrument(observed.span().clone());
                match lock.client().unless_closed(entering).await {
                    Ok(entry) => (entry, Some(observed)),
                    Err(error) => {
                        observed.failed(&error);
                        return Err(error);
                    }
                }
            }
        };
        let mut entry = Box::new(entry);
        let position = match &mut *entry {
            Entry::Queued(turn) => {
                turn.seat_mut().reserve();
                turn.seat().position()
            }
            Entry::Granted(_) => 0,
        };
        if let Some(observed) = observed.as_mut().filter(|_| position > 0) {
            observed.is_behind_others();
        }
        Ok(Self { lock: lock.clone(), entry, positions: Watched::new(position), observed })
    }

    /// Reads the queue and returns the number of contenders ahead of this one. Zero if it is this one's turn,
    /// which readers may share with others.
    ///
    /// A place that was lost meanwhile counts as being behind all others: that is where the ticket goes when it is
    /// awaited.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the queue cannot be read.
    /// - [`Error::NotConnected`](crate::Error::NotConnected): the servers cannot be reached.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: the place is kept.
    pub async fn position(&self) -> Result<usize> {
        let Entry::Queued(turn) = &*self.entry else { return Ok(0) };
        self.lock.client().unless_closed(turn.seat().read_position()).await
    }

    /// Follows the position while [`acquired`](Self::acquired) is awaited. The position is zero once that returns the
    /// lock.
    ///
    /// From then on, each change in the queue costs a request of this client, and of every other client that
    /// follows its position. The [`Watch`] ends when the wait does; if the wait was given up or failed, without
    /// a zero.
    ///
    /// ```no_run
    /// # async fn example(mutex: zk_recipes::InterProcessMutex) -> zk_recipes::Result<()> {
    /// let ticket = mutex.enqueue().await?;
    /// let mut positions = ticket.watch_position();
    /// tokio::spawn(async move {
    ///     while let Some(position) = positions.changed().await {
    ///         println!("{position} before us");
    ///     }
    /// });
    /// let guard = ticket.acquired().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch_position(&self) -> Watch<usize> {
        self.positions.watch()
    }

    /// Waits for this contender's turn, and returns the lock.
    ///
    /// If the owner already holds the lock by then, this re-enters it and gives the place up. Conversely, an acquire
    /// that the owner makes meanwhile waits for this place as well.
    ///
    /// # Errors
    /// Same as [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Cancel safety
    /// If cancelled, the place is given up, and nothing is left in the queue. To wait with a bound and keep the
    /// place, pin the future and await a `&mut` to it.
    pub async fn acquired(self) -> Result<LockGuard> {
        let Self { lock, entry, positions, observed } = self;
        let span = observed.as_ref().map_or_else(Span::none, |observed| observed.span().clone());
        let mut turn = match *entry {
            Entry::Granted(guard) => {
                guard.ensure_held()?;
                if let Some(observed) = observed {
                    observed.granted(&guard);
                }
                return Ok(guard);
            }
            Entry::Queued(turn) => turn,
        };
        if positions.is_watched() {
            turn.seat_mut().publish_position(positions.clone());
        }
        let owner = turn.owner().clone();
        let mut claim = Claim::new(lock.client(), &owner, false);
        let acquire = async {
            if turn.enters_beside().await? {
                return attempt::granted(&mut turn, Some(&mut claim)).await;
            }
            // The place may have been lost while the ticket was not awaited.
            turn.seat_mut().look().await?;
            let guard = attempt::granted(&mut turn, Some(&mut claim)).await?;
            guard.ensure_held()?;
            Ok(guard)
        };
        let acquired = lock.client().unless_closed(acquire.instrument(span)).await;
        if let Some(observed) = observed {
            match &acquired {
                Ok(guard) => observed.granted(guard),
                Err(error) => observed.failed(error),
            }
        }
        let guard = acquired?;
        positions.show(0);
        Ok(guard)
    }
}
