//! A place in the queue of a lock.

use std::fmt::Debug;

use async_trait::async_trait;
use tokio::sync::watch;

use super::attempt::{Acquirable, Contending, Entry, granted};
use crate::error::Result;
use crate::lock::holding::guard::LockGuard;
use crate::lock::owner::Owner;
use crate::queue::Caller;

/// A place in the queue of a lock. Dropping it leaves the queue.
///
/// A ticket belongs to the owner that entered the queue, whichever task awaits it. While it is first in the queue
/// and not awaited, no one holds the lock. If its node is deleted meanwhile, the next waiter gets its turn, and
/// the ticket moves to the end of the queue when it is awaited.
///
/// A ticket for permits that are free has the permits, awaited or not. So has a ticket for a
/// [`MultiLock`](crate::MultiLock) the locks that come before the one for which it waits. A ticket for a multi-lock
/// [of existing locks](crate::MultiLock::of) is a place in the queue of the first one; it enters the other queues
/// when it is awaited.
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
    waiter: Box<dyn Waiter>,
    positions: watch::Sender<usize>,
}

/// What a ticket stands for.
#[async_trait]
pub(crate) trait Waiter: Debug + Send + Sync {
    /// Reads the queue and returns the number of contenders ahead.
    async fn position(&self) -> Result<usize>;

    /// Waits for its turn. Publishes positions if anyone listens.
    async fn acquired(self: Box<Self>, positions: &watch::Sender<usize>) -> Result<LockGuard>;
}

impl Ticket {
    /// Enters the queues of a lock for an owner.
    ///
    /// # Cancel safety
    /// If cancelled, nothing is left in the queues.
    pub(crate) async fn enter<L: Acquirable>(lock: &L, owner: &Owner) -> Result<Self> {
        let entry = match lock.enter_again(owner)? {
            Some(again) => Entry::Granted(again),
            None => lock.client().unless_closed(lock.enter(owner, Caller::asking())).await?,
        };
        let mut entered = Box::new(Entered { lock: lock.clone(), owner: owner.clone(), entry });
        let position = entered.reserve();
        Ok(Self::of(entered, position))
    }

    pub(crate) fn of(waiter: Box<dyn Waiter>, position: usize) -> Self {
        Self { waiter, positions: watch::Sender::new(position) }
    }

    /// Returns the number of contenders ahead as far as it is known without asking.
    pub(crate) fn last_position(&self) -> usize {
        *self.positions.borrow()
    }

    /// The same ticket, whose position is followed at another one.
    pub(crate) fn followed_by(self, positions: &watch::Sender<usize>) -> Self {
        Self { positions: positions.clone(), ..self }
    }

    /// Reads the queue and returns the number of contenders ahead of this one. Zero if it is this one's turn,
    /// which readers may share with others.
    ///
    /// A place that was lost meanwhile counts as being behind all others: that is where the ticket goes when it is
    /// awaited. For a semaphore, only waiters are counted, so zero means that this one gets the next permits. For a
    /// multi-lock, the position is that in the queue in which it waits.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`](crate::Error::ZooKeeper): the queue cannot be read.
    /// - [`Error::NotConnected`](crate::Error::NotConnected): the servers cannot be reached.
    /// - [`Error::Closed`](crate::Error::Closed): the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: the place is kept.
    pub async fn position(&self) -> Result<usize> {
        self.waiter.position().await
    }

    /// Returns a receiver that follows the position while [`acquired`](Self::acquired) is awaited. The position is
    /// zero once that returns the lock. The first [`changed`](watch::Receiver::changed) yields the present
    /// position.
    ///
    /// From then on, each change in the queue costs a request of this client, and of every other client that
    /// follows its position. The channel closes when the wait ends; if the wait was given up or failed, without
    /// showing a zero. The position of a multi-lock may grow again, when it goes on to the next queue.
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
        let Self { waiter, positions } = self;
        let guard = waiter.acquired(&positions).await?;
        positions.send_if_modified(|last| std::mem::replace(last, 0) != 0);
        Ok(guard)
    }
}

/// An owner that has entered the queues of a lock.
#[derive(Debug)]
struct Entered<L: Acquirable> {
    lock: L,
    owner: Owner,
    entry: Entry<L::Waiter>,
}

impl<L: Acquirable> Entered<L> {
    /// Prepares for a time in which nobody polls it, and returns the position.
    fn reserve(&mut self) -> usize {
        match &mut self.entry {
            Entry::Granted(_) => 0,
            Entry::Queued(waiter) => {
                waiter.reserve();
                waiter.position()
            }
        }
    }
}

#[async_trait]
impl<L: Acquirable> Waiter for Entered<L> {
    async fn position(&self) -> Result<usize> {
        match &self.entry {
            Entry::Granted(_) => Ok(0),
            Entry::Queued(waiter) => self.lock.client().unless_closed(waiter.read_position()).await,
        }
    }

    async fn acquired(self: Box<Self>, positions: &watch::Sender<usize>) -> Result<LockGuard> {
        let Self { lock, owner, entry } = *self;
        let mut waiter = match entry {
            Entry::Granted(guard) => return guard.ensure_held().map(|()| guard),
            Entry::Queued(waiter) => waiter,
        };
        let is_followed = positions.receiver_count() > 0;
        if is_followed {
            waiter.publish_position(positions.clone());
        }
        let acquire = async {
            match waiter.resume().await? {
                Some(guard) if guard.loss().is_none() => return Ok(guard),
                None => return granted(&mut waiter).await,
                // It was lost before anybody awaited it.
                Some(_lost) => {}
            }
            if let Some(again) = lock.enter_again(&owner)? {
                return Ok(again);
            }
            match lock.enter(&owner, Caller::patient()).await? {
                Entry::Granted(guard) => Ok(guard),
                Entry::Queued(mut waiter) => {
                    if is_followed {
                        waiter.publish_position(positions.clone());
                    }
                    granted(&mut waiter).await
                }
            }
        };
        lock.client().unless_closed(acquire).await
    }
}
