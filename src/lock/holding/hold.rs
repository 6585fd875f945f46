//! One grant of a lock.

use std::sync::Arc;
use std::task::{Poll, ready};

use futures_util::FutureExt;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::held_node::HeldNode;
use super::owners::Owners;
use crate::client::Deletes;
use crate::error::Result;
use crate::lock::owner::Owner;
use crate::queue::{Grant, Kind};

/// One grant, shared by the guards of one owner. The guards are counted explicitly, because others may hold a
/// reference for a moment.
#[derive(Debug)]
pub(crate) struct Hold {
    owners: Arc<Owners>,
    /// Where it is in the owner map. Permits are not re-entrant, so each is registered under an owner of its own.
    pub(super) key: (Owner, Kind),
    pub(super) acquired_by: Owner,
    /// Its number among the claims of its client.
    pub(super) number: u64,
    node: Arc<HeldNode>,
    users: Mutex<Users>,
    /// Notified when a downgrade is over.
    downgraded: Notify,
}

/// What keeps a hold from being released.
#[derive(Debug)]
struct Users {
    guards: usize,
    /// In progress. They need the node; only a release waits for them.
    downgrades: usize,
    /// Whether the last guard is being released, and waits for them. Others must not begin.
    is_leaving: bool,
}

/// The share that a guard has in its hold. Returning the last one releases the hold.
#[derive(Debug)]
pub(crate) struct Share {
    pub(super) hold: Arc<Hold>,
    is_returned: bool,
}

/// Keeps the node of a writer in place while it becomes a reader.
#[derive(Debug)]
pub(crate) struct Downgrading {
    pub(in crate::lock) hold: Arc<Hold>,
}

impl Hold {
    /// Begins the hold of one guard, and returns its share.
    pub(super) fn begin(
        owners: Arc<Owners>,
        key: (Owner, Kind),
        acquired_by: Owner,
        number: u64,
        node: Arc<HeldNode>,
    ) -> Share {
        let users = Mutex::new(Users { guards: 1, downgrades: 0, is_leaving: false });
        let hold = Self { owners, key, acquired_by, number, node, users, downgraded: Notify::new() };
        Share { hold: Arc::new(hold), is_returned: false }
    }

    pub(in crate::lock) fn node(&self) -> &Arc<HeldNode> {
        &self.node
    }

    /// Returns a share for another guard; `None` if no guard is left.
    pub(in crate::lock) fn share(self: &Arc<Self>) -> Option<Share> {
        let mut users = self.users.lock();
        if users.guards == 0 {
            return None;
        }
        users.guards += 1;
        users.is_leaving = false;
        Some(Share { hold: self.clone(), is_returned: false })
    }

    /// Starts a downgrade; `None` if no guard is left, or the last one is being released.
    pub(in crate::lock) fn downgrading(self: &Arc<Self>) -> Option<Downgrading> {
        let mut users = self.users.lock();
        if users.guards == 0 || users.is_leaving {
            return None;
        }
        users.downgrades += 1;
        Some(Downgrading { hold: self.clone() })
    }

    /// Takes back the share of a guard; not yet if it is the last one and `waits` for a downgrade. Returns the node if the
    /// hold [ends](Self::end) by this.
    fn take_back(&self, waits: bool) -> Poll<Option<Grant>> {
        let mut users = self.users.lock();
        if waits && users.guards == 1 && users.downgrades > 0 {
            users.is_leaving = true;
            return Poll::Pending;
        }
        users.guards -= 1;
        let is_last = users.guards == 0 && users.downgrades == 0;
        drop(users);
        Poll::Ready(if is_last { self.end() } else { None })
    }

    /// Ends after the last share was returned. Unregisters first: an owner that acquires after the node is gone must not
    /// find this hold. Returns the node, to be deleted, unless it stays or the lock is lost.
    fn end(&self) -> Option<Grant> {
        self.owners.unregister(self);
        if self.node.stays() { None } else { self.node.take() }
    }
}

impl Share {
    pub(crate) fn node(&self) -> &Arc<HeldNode> {
        &self.hold.node
    }

    /// The number of guards.
    pub(crate) fn count(&self) -> usize {
        self.hold.users.lock().guards
    }

    /// Returns the share. The last share deletes the node and waits for the confirmation.
    ///
    /// # Errors
    /// Same as [`LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Cancel safety
    /// The share is returned, and the last one's node deleted, in any case.
    pub(crate) async fn release(mut self) -> Result<()> {
        match self.give_back() {
            Poll::Ready(Ok(None)) => Ok(()),
            // Boxed, so that it does not burden the release of a guard that is not the last one.
            released => Box::pin(self.finish(released, &Deletes::default())).await,
        }
    }

    /// [Releases](Self::release) several shares. Nodes of one session are deleted in one transaction.
    ///
    /// # Cancel safety
    /// Same as [`release`](Self::release).
    pub(super) async fn release_all(mut shares: Vec<Self>) -> Vec<Result<()>> {
        let released: Vec<_> = shares.iter_mut().map(Self::give_back).collect();
        let nodes = released.iter().filter_map(|released| match released {
            Poll::Ready(Ok(Some(grant))) => Some(&grant.node),
            _ => None,
        });
        let deletes = &Deletes::send(nodes);
        join_all(shares.iter_mut().zip(released).map(|(share, released)| share.finish(released, deletes)))
            .await
    }

    /// Gives it back, unless it has to wait for a downgrade. Returns the node if the hold ends by this.
    ///
    /// # Errors
    /// The lock was lost. A hold that was lost by closing may still have a node, which is dropped.
    fn give_back(&mut self) -> Poll<Result<Option<Grant>>> {
        let held = self.hold.node.ensure_held();
        let grant = ready!(self.hold.take_back(true));
        self.is_returned = true;
        Poll::Ready(held.and_then(|()| match grant {
            // It was lost after the check.
            None if self.hold.node.is_released() => self.hold.node.ensure_held().map(|()| None),
            grant => Ok(grant),
        }))
    }

    /// Gives it back after downgrades.
    async fn outwait(&mut self) -> Result<Option<Grant>> {
        loop {
            // Registered before the check, so that no notification is missed.
            let hold = self.hold.clone();
            let downgraded = hold.downgraded.notified();
            if let Poll::Ready(released) = self.give_back() {
                return released;
            }
            hold.node.while_valid(downgraded.map(Ok)).await?;
        }
    }

    /// Deletes the node and waits for the confirmation, if the hold ends by this.
    async fn finish(&mut self, released: Poll<Result<Option<Grant>>>, deletes: &Deletes) -> Result<()> {
        let grant = match released {
            Poll::Ready(released) => released?,
            Poll::Pending => self.outwait().await?,
        };
        match grant {
            Some(grant) => {
                let transaction = deletes.of(&grant.node);
                let found = self.hold.node.remove(grant, transaction).await?;
                if found { Ok(()) } else { Err(self.hold.node.deleted()) }
            }
            None => Ok(()),
        }
    }

    /// Drops several shares. Nodes of one session are deleted in one transaction.
    pub(super) fn drop_all(shares: impl IntoIterator<Item = Self>) {
        Grant::drop_together(shares.into_iter().filter_map(|mut share| share.end()));
    }

    /// Returns the share without waiting for downgrades. Returns the node if the hold ends by this.
    fn end(&mut self) -> Option<Grant> {
        if std::mem::replace(&mut self.is_returned, true) {
            return None;
        }
        match self.hold.take_back(false) {
            Poll::Ready(grant) => grant,
            Poll::Pending => None,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl Drop for Downgrading {
    fn drop(&mut self) {
        let mut users = self.hold.users.lock();
        users.downgrades -= 1;
        let is_last = users.guards == 0 && users.downgrades == 0;
        drop(users);
        if is_last {
            drop(self.hold.end());
        }
        self.hold.downgraded.notify_waiters();
    }
}
