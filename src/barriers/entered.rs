//! A member of a double barrier that has entered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use zookeeper_client::{self as zk, EventType};

use super::leaving::Leaving;
use super::member::Member;
use super::round::Round;
use super::site::Site;
use crate::client::{Client, Session, Watcher};
use crate::error::{Error, LossReason, Result};
use crate::waker::guarded;

/// A member that has entered a [`DoubleBarrier`](super::DoubleBarrier). Dropping it leaves in the background, without
/// waiting for the others.
#[must_use = "if unused, the barrier is left at once"]
pub struct Entered {
    site: Site,
    /// `None` once it leaves.
    member: Option<Member>,
    node_path: String,
    /// Set by a look right after it has entered.
    round: Arc<OnceLock<Round>>,
    loss: watch::Receiver<Option<LossReason>>,
    /// Whether the end of the node is no loss.
    leaves: Arc<AtomicBool>,
}

debug_by!(Entered, |it| node_path: it.node_path(), loss: it.loss());

impl Entered {
    pub(super) fn new(site: &Site, mut member: Member) -> Self {
        let (sender, loss) = watch::channel(None);
        let leaves = Arc::new(AtomicBool::new(false));
        let round = Arc::new(OnceLock::new());
        let (client, ready, known) = (site.client.detached(), site.ready.clone(), round.clone());
        let came = member.node.czxid().unwrap_or(i64::MAX);
        let node = &mut member.node;
        let (session, path) = (node.session().clone(), node.path());
        let watcher = node.take_watch().map(|watch| watch.watcher);
        let (node_path, is_leaving) = (path.clone(), leaves.clone());
        site.client.spawn(async move {
            if let Ok(Some(ready)) = session.stat(&ready).await
                && Round::of(&ready).includes(came)
            {
                let _ = known.set(Round::of(&ready));
            }
            let reason = lost(&client, &session, &path, watcher).await;
            if !is_leaving.load(Ordering::SeqCst) {
                tracing::warn!(node = path, %reason, "a member of a barrier is lost");
                sender.send_replace(Some(reason));
            }
        });
        Self { site: site.clone(), member: Some(member), node_path, round, loss, leaves }
    }

    /// Waits until this member is lost, and returns how: its session has ended, or its node was deleted. The others do not
    /// wait for it any more. Use it beside the work: `tokio::select!` ends that.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        let mut loss = self.loss.clone();
        match guarded(loss.wait_for(Option::is_some)).await {
            Ok(loss) => loss.unwrap_or(LossReason::Closed),
            // The client has ended, with its runtime.
            Err(_) => LossReason::Closed,
        }
    }

    /// Returns how this member was lost; `None` while it is in the barrier, as far as this client knows. Makes no request.
    pub fn loss(&self) -> Option<LossReason> {
        *self.loss.borrow()
    }

    /// Returns the full path of the node of this member, namespace included.
    pub fn node_path(&self) -> &str {
        &self.node_path
    }

    /// Leaves the barrier, and waits until all members of this round have left. The node of this member is deleted at once.
    ///
    /// The wait outlasts lost connections and ended sessions. It does not include those who wait for the next round.
    ///
    /// # Errors
    /// - [`Error::MemberLost`]: this member was lost before; the others may have left earlier. It does not wait for them.
    /// - [`Error::ZooKeeper`]: the servers refuse.
    /// - [`Error::NotConnected`]: the servers cannot be reached under the retry policy.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// This member leaves in the background, without waiting for the others.
    pub async fn leave(mut self) -> Result<()> {
        self.try_to_leave().await
    }

    /// Leaves as [`leave`](Self::leave) does, but waits for the others for at most `within`. Returns whether all have left.
    ///
    /// # Errors
    /// Same as [`leave`](Self::leave).
    ///
    /// # Cancel safety
    /// Same as [`leave`](Self::leave).
    pub async fn leave_within(mut self, within: Duration) -> Result<bool> {
        let client = self.site.client.clone();
        let left = client.within(within, self.try_to_leave()).await.transpose()?;
        Ok(left.is_some())
    }

    async fn try_to_leave(&mut self) -> Result<()> {
        let lost = |reason| Error::MemberLost { path: self.node_path.clone(), reason };
        if let Some(reason) = self.loss() {
            return Err(lost(reason));
        }
        let Some(member) = self.member.take() else { return Ok(()) };
        self.leaves.store(true, Ordering::SeqCst);
        let client = self.site.client.clone();
        let session = member.node.session().clone();
        let mut leaving = Leaving::new(&self.site, member, self.round.get().copied());
        let left = async {
            if !leaving.leave().await? {
                let reason = if session.is_over() { LossReason::Expired } else { LossReason::Deleted };
                return Err(lost(reason));
            }
            leaving.others_have_left().await?;
            leaving.tidy().await
        };
        client.unless_closed(left).await
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some(member) = self.member.take() else { return };
        self.leaves.store(true, Ordering::SeqCst);
        drop(Leaving::new(&self.site, member, None));
    }
}

/// Waits until the node is gone, and returns why.
async fn lost(client: &Client, session: &Session, path: &str, watcher: Option<Watcher>) -> LossReason {
    let mut watcher = watcher;
    let is_gone = async {
        loop {
            let mut watching = match watcher.take() {
                Some(watcher) => watcher,
                None => match session.watch_data_patiently(path).await {
                    Ok((_, _, watcher)) => watcher,
                    Err(zk::Error::NoNode) => return,
                    // It may not be watched, or the session is over.
                    Err(_) => std::future::pending().await,
                },
            };
            tokio::select! {
                event = watching.changed() => if event == EventType::NodeDeleted { return },
                () = client.disconnected() => {}
            }
        }
    };
    tokio::select! {
        biased;
        () = session.ended() => match client.is_closed() {
            true => LossReason::Closed,
            false => LossReason::Expired,
        },
        () = is_gone => LossReason::Deleted,
    }
}
