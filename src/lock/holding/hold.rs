//! One grant of a lock.

use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::books::Registration;
use super::held_node::HeldNode;
use crate::error::Result;

/// One grant. Shared by the guards of one owner, who are counted: others may look at it at any moment.
#[derive(Debug)]
pub(crate) struct Hold {
    registration: Registration,
    node: Arc<HeldNode>,
    users: Mutex<Users>,
    /// Told when a downgrade is over.
    downgraded: Notify,
}

/// Who keeps a hold from being released.
#[derive(Debug)]
struct Users {
    guards: usize,
    /// Under way. They need the node, and nobody waits for them but a release.
    downgrades: usize,
}

/// What a guard has of its hold. The last one releases it.
#[derive(Debug)]
pub(crate) struct Share {
    hold: Arc<Hold>,
    is_returned: bool,
}

/// Keeps the node of a writer there while it becomes a reader.
#[derive(Debug)]
pub(crate) struct Downgrading {
    hold: Arc<Hold>,
}

/// What is left to be done when a share is returned.
enum Left {
    Nothing,
    /// To release what was held, as the last one.
    Release,
    /// To wait for a downgrade, and then to return it again.
    Wait,
}

impl Hold {
    /// For one guard, which takes the [first share](Share::first).
    pub(super) fn new(registration: Registration, node: Arc<HeldNode>) -> Self {
        let users = Mutex::new(Users { guards: 1, downgrades: 0 });
        Self { registration, node, users, downgraded: Notify::new() }
    }

    pub(in crate::lock) fn node(&self) -> &HeldNode {
        &self.node
    }

    /// For another guard; `None` if there is none any more.
    pub(in crate::lock) fn share(self: &Arc<Self>) -> Option<Share> {
        let mut users = self.users();
        if users.guards == 0 {
            return None;
        }
        users.guards += 1;
        Some(Share { hold: self.clone(), is_returned: false })
    }

    /// For a downgrade; `None` if there is no guard any more.
    pub(in crate::lock) fn downgrading(self: &Arc<Self>) -> Option<Downgrading> {
        let mut users = self.users();
        if users.guards == 0 {
            return None;
        }
        users.downgrades += 1;
        Some(Downgrading { hold: self.clone() })
    }

    /// Takes back the share of a guard; one that is dropped does not wait.
    fn take_back(&self, is_dropped: bool) -> Left {
        let mut users = self.users();
        if users.guards == 1 && users.downgrades > 0 && !is_dropped {
            return Left::Wait;
        }
        users.guards -= 1;
        if users.guards == 0 && users.downgrades == 0 { Left::Release } else { Left::Nothing }
    }

    /// An owner that acquires again when the node is gone must not find the old hold.
    fn end(&self) {
        self.registration.end();
        drop(self.node.take());
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        // No code that can panic runs under this lock.
        self.users.lock()
    }
}

impl Share {
    /// That of the guard that a hold is made for.
    pub(super) fn first(hold: Arc<Hold>) -> Self {
        Self { hold, is_returned: false }
    }

    pub(crate) fn token(&self) -> i64 {
        self.hold.registration.token()
    }

    pub(crate) fn node(&self) -> &HeldNode {
        &self.hold.node
    }

    /// How many guards there are.
    pub(crate) fn count(&self) -> usize {
        self.hold.users().guards
    }

    /// Deletes the node as the last one, and waits for the confirmation.
    ///
    /// # Errors
    /// As [`HeldNode::release`].
    ///
    /// # Cancel safety
    /// The share is returned, and the node of the last one is deleted in any case.
    pub(crate) async fn release(mut self) -> Result<()> {
        let Self { hold, is_returned } = &mut self;
        loop {
            // From before the look on, so that none is missed.
            let downgraded = hold.downgraded.notified();
            let left = hold.take_back(false);
            *is_returned = !matches!(left, Left::Wait);
            match left {
                Left::Nothing => return Ok(()),
                Left::Wait => hold.node.client().unless_closed(downgraded.map(Ok)).await?,
                Left::Release => break,
            }
        }
        hold.registration.end();
        let released = hold.node.release().await;
        // Of what was lost by closing, a node may be left.
        drop(hold.node.take());
        released
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if !self.is_returned
            && let Left::Release = self.hold.take_back(true)
        {
            self.hold.end();
        }
    }
}

impl Downgrading {
    pub(in crate::lock) fn token(&self) -> i64 {
        self.hold.registration.token()
    }

    pub(in crate::lock) fn node(&self) -> &HeldNode {
        &self.hold.node
    }

    /// For a guard of the writer; `None` if there is none any more.
    pub(in crate::lock) fn share(&self) -> Option<Share> {
        self.hold.share()
    }
}

impl Drop for Downgrading {
    fn drop(&mut self) {
        let mut users = self.hold.users();
        users.downgrades -= 1;
        let is_last = users.guards == 0 && users.downgrades == 0;
        drop(users);
        if is_last {
            self.hold.end();
        }
        self.hold.downgraded.notify_waiters();
    }
}
