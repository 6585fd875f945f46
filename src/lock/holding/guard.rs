//! The guard of a held lock.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{join_all, pending, poll_fn, select_all};
use tokio::time::Instant;
use tracing::Instrument;

use super::held_node::HeldNode;
use super::hold::Share;
use super::state::{LockState, merged, worst};
use super::transaction::Transaction;
use crate::client::{Client, Presence, sleep_until};
use crate::error::{Error, LossReason, Result};
use crate::watch::Watch;

/// A held lock, or permits of a semaphore. The lock is released when its last guard is dropped or
/// [released](Self::release).
///
/// A guard is not tied to a task or a thread: you can move it and drop it anywhere, even outside the runtime. The lock
/// remains that of the [`Owner`](crate::Owner) that has acquired it. A leaked guard (`std::mem::forget`) holds the lock
/// until the session ends.
#[must_use = "if unused, the lock is released at once"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    held: Held,
    /// Declared after `held`, so that the lock is given back first.
    _presence: Option<Arc<Presence>>,
}

debug_by!(LockGuard, |it|
    node_path: it.node_path(), fencing_token: it.fencing_token(), hold_count: it.hold_count(),
    members: it.members().len()
);

enum Held {
    One(Share),
    /// The guards of a multi-lock's members; at least one.
    All(Members),
    /// Those of several permits.
    Permits(Members),
}

/// Guards that are dropped together.
struct Members(Vec<LockGuard>);

impl LockGuard {
    pub(crate) fn new(hold: Share, client: &Client) -> Self {
        Self { held: Held::One(hold), _presence: client.presence() }
    }

    /// Creates the guard of permits that were acquired together; at least one.
    pub(crate) fn of_permits(mut permits: Vec<Self>) -> Self {
        match permits.len() {
            1 => permits.swap_remove(0),
            _ => Self { held: Held::Permits(Members(permits)), _presence: None },
        }
    }

    /// Creates the guard of a multi-lock from the guards of its members.
    pub(crate) fn of_all(members: Vec<Self>) -> Self {
        Self { held: Held::All(Members(members)), _presence: None }
    }

    /// Returns a number that grows with every grant of the lock. Pass it to the resource that the lock protects,
    /// and have the resource reject any number smaller than the largest it has seen. The example `fencing` does
    /// this with SQLite.
    ///
    /// The token is the `czxid` of the holder's node: the id of the transaction that created it. Store it in 64
    /// bits. Guards of one hold share one token, as do permits that were acquired together, and a writer that
    /// downgrades to a reader keeps its token. Tokens of one ensemble are comparable across all paths and
    /// processes. Successive holders of a lock that [lingers](crate::LockOptions::linger) or has a
    /// [cohort](crate::LockOptions::cohort) may have the same token, and differ in their [turn](Self::turn). The
    /// token of a multi-lock is the largest of its members' tokens; protect each resource by the token of [its own
    /// member](Self::members).
    pub fn fencing_token(&self) -> i64 {
        self.nodes().map(|node| node.token()).max().unwrap_or_default()
    }

    /// Returns how often the lock was granted before by the same node, and so with the same
    /// [fencing token](Self::fencing_token). Zero unless the lock [lingers](crate::LockOptions::linger) or has a
    /// [cohort](crate::LockOptions::cohort).
    ///
    /// The pair of token and turn grows with every grant of the lock. For a multi-lock, look at its
    /// [members](Self::members).
    pub fn turn(&self) -> u64 {
        self.first_node().turn()
    }

    /// Returns the full path of the node by which the lock is held, including the namespace. For a multi-lock,
    /// this is the node of its first member.
    pub fn node_path(&self) -> &str {
        self.first_node().path()
    }

    /// Returns the guards of a multi-lock's members, in the order of their paths, or of each of [several
    /// permits](crate::Semaphore::many). Empty for any other lock.
    pub fn members(&self) -> &[Self] {
        match &self.held {
            Held::One(_) => &[],
            Held::All(members) | Held::Permits(members) => &members.0,
        }
    }

    /// Splits the guard of [several permits](crate::Semaphore::many) into a guard of each, which can be released one
    /// by one. Any other guard stays as it is.
    pub fn into_permits(self) -> Vec<Self> {
        match self.held {
            Held::One(_) | Held::All(_) => vec![self],
            Held::Permits(mut permits) => std::mem::take(&mut permits.0),
        }
    }

    /// Returns the number of guards on this hold. It is more than one after the owner has re-entered the lock.
    pub fn hold_count(&self) -> usize {
        self.first().count()
    }

    /// Returns whether the lock is still held, according to the clock and everything that this client knows. While
    /// it is, no one else can have been granted the lock, unless someone deleted its node by hand. Makes no
    /// request.
    ///
    /// The check reads the clock and does not depend on a notification, so it is right even as the first call
    /// after a pause of the process or a suspension of the machine. It does not say how long the lock stays held;
    /// see [`valid_until`](Self::valid_until).
    pub fn is_valid(&self) -> bool {
        self.loss().is_none()
    }

    /// Returns the time until which the lock is certainly held, even if nothing more is heard from the servers,
    /// provided that no one deletes its node by hand. Each sign of life from the servers moves it forward, several
    /// times per session timeout. It lies in the past once the lock is lost.
    ///
    /// Start nothing that takes effect after this time.
    ///
    /// tokio's clock stands still while the machine is suspended; the session's clock does not. Ask again after a
    /// suspension: an earlier result is too late by the length of the suspension.
    pub fn valid_until(&self) -> Instant {
        self.nodes().map(|node| node.valid_until()).min().unwrap_or_else(Instant::now)
    }

    /// Returns why the lock was lost, or `None` if it was not. A lost lock stays lost. Makes no request.
    pub fn loss(&self) -> Option<LossReason> {
        self.nodes().find_map(|node| node.loss())
    }

    /// Waits until the lock is lost: the client's session has ended or may have ended, someone deleted the lock's
    /// node, or the maximum hold time elapsed.
    ///
    /// This returns before anyone else can be granted the lock, provided that this process is running and no one
    /// deleted the node.
    ///
    /// The first call sets a watch on the lock's node, which takes at most one request. Without a call, the watch
    /// is set once the lock has been held for a second.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        select_all(self.nodes().map(|node| Box::pin(node.lost()))).await.0
    }

    /// Follows the state of the lock. Like [`lost`](Self::lost), this sets a watch on the lock's node. After a pause of
    /// the process, it lags behind [`is_valid`](Self::is_valid) for a moment. Lost is final, but the watch ends only with the
    /// guards: stop following it there.
    ///
    /// ```no_run
    /// # async fn example(guard: zk_recipes::LockGuard) {
    /// let mut states = guard.watch_state();
    /// while let Some(state) = states.changed().await {
    ///     println!("{state:?}");
    ///     if state.is_lost() {
    ///         break;
    ///     }
    /// }
    /// # }
    /// ```
    pub fn watch_state(&self) -> Watch<LockState> {
        match &self.held {
            Held::One(share) => share.node().watch_state(),
            Held::All(_) | Held::Permits(_) => {
                merged(self.nodes().map(|node| (node.client(), node.watch_state())), worst)
            }
        }
    }

    /// Runs `work` while the lock is held. If the lock is lost, drops `work` at the point where it awaits, and
    /// returns.
    ///
    /// The lock is checked each time before `work` resumes and once more when it ends, so work that is woken after
    /// a pause of the process does not continue without the lock. A request that was already under way at that
    /// moment cannot be called back: see [`fencing_token`](Self::fencing_token) and
    /// [`transaction`](Self::transaction).
    ///
    /// ```no_run
    /// # async fn example(guard: zk_recipes::LockGuard) -> zk_recipes::Result<()> {
    /// # async fn step() {}
    /// guard
    ///     .run(async {
    ///         for _ in 0..100 {
    ///             step().await;
    ///         }
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`Error::LockLost`]: the lock was lost before `work` was done.
    /// - [`Error::Closed`]: the client was closed before `work` was done.
    ///
    /// # Cancel safety
    /// Cancelling drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        let work = work.instrument(self.span());
        run_while_held(work, self.lost(), || self.ensure_held()).await
    }

    /// Runs work that blocks its thread and so cannot be dropped; otherwise like [`run`](Self::run).
    #[cfg(feature = "blocking")]
    pub(crate) fn run_blocking<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        self.ensure_held()?;
        let done = self.span().in_scope(work);
        self.ensure_held().map(|()| done)
    }

    /// Returns the span of the hold: `hold`, at the level of debugging, a child of the span in which the lock was
    /// acquired. [`run`](Self::run) enters it by itself; elsewhere, use
    /// [`Instrument`](https://docs.rs/tracing/latest/tracing/trait.Instrument.html). The span is disabled after the
    /// release or a loss. For a multi-lock, this is the span of its first member. See the
    /// [guide](crate::guide::observing#spans-and-warnings).
    pub fn span(&self) -> tracing::Span {
        self.first_node().span()
    }

    /// Begins the spans of a new hold.
    pub(crate) fn begin_span(&self) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            self.nodes().for_each(|node| {
                node.begin_span(|| {
                    tracing::debug_span!(
                        "hold",
                        node = &**node.path(),
                        token = node.token(),
                        turn = node.turn()
                    )
                });
            });
        }
    }

    /// Begins the span of a term of leadership, in place of that of a hold.
    pub(crate) fn begin_leadership_span(&self, path: &str) {
        let (node, token) = (self.node_path(), self.fencing_token());
        self.first_node().begin_span(|| tracing::info_span!("leadership", path, node, token));
    }

    /// Starts a transaction of writes to ZooKeeper that are applied only while the lock is held, whatever this
    /// process believes. See [`Transaction`].
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self.nodes().collect())
    }

    /// Checks that the lock is not known to be lost.
    ///
    /// # Errors
    /// - [`Error::LockLost`]: the lock is known to be lost.
    /// - [`Error::Closed`]: the client is closed.
    pub(in crate::lock) fn ensure_held(&self) -> Result<()> {
        self.nodes().try_for_each(|node| node.ensure_held())
    }

    /// Returns the nodes by which the lock is held; at least one. A clone keeps none from being released.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Arc<HeldNode>> {
        let own = match &self.held {
            Held::One(share) => Some(share.node()),
            Held::All(_) | Held::Permits(_) => None,
        };
        own.into_iter().chain(self.members().iter().flat_map(Self::boxed_nodes))
    }

    // Boxed because a member may itself be a multi-lock.
    fn boxed_nodes(&self) -> Box<dyn Iterator<Item = &Arc<HeldNode>> + '_> {
        Box::new(self.nodes())
    }

    /// Returns the node by which the lock is held. For a multi-lock, this is the node of its first member.
    pub(crate) fn first_node(&self) -> &Arc<HeldNode> {
        self.first().node()
    }

    fn first(&self) -> &Share {
        match &self.held {
            Held::One(share) => share,
            Held::All(members) | Held::Permits(members) => members.0[0].first(),
        }
    }

    /// Returns how much longer the lock can be held, or `None` if it was acquired without
    /// [`max_hold`](crate::LockOptions::max_hold). Zero once that time has elapsed.
    pub fn remaining_hold(&self) -> Option<Duration> {
        self.nodes().filter_map(|node| node.remaining()).min()
    }

    /// Sets the remaining hold time to `max_hold`, counted from now, in place of what is left of
    /// [`LockOptions::max_hold`](crate::LockOptions::max_hold). This can also shorten it. A lock that is held
    /// without a limit stays without one. Makes no request.
    ///
    /// # Errors
    /// - [`Error::LockLost`]: the lock is lost.
    /// - [`Error::Closed`]: the client is closed.
    pub fn extend(&self, max_hold: Duration) -> Result<()> {
        self.nodes().try_for_each(|node| node.extend(max_hold))
    }

    /// Waits until another client asks for the lock, with [`operate::ask`](crate::operate::ask) or Curator's `Revoker`.
    /// A request for any member of a multi-lock counts. The holder decides whether to give the lock back.
    ///
    /// Requests that were made before this call count as well. Like [`lost`](Self::lost), this sets a watch on the
    /// lock's node.
    ///
    /// ```no_run
    /// # async fn example(guard: zk_recipes::LockGuard) -> zk_recipes::Result<()> {
    /// # async fn work() {}
    /// tokio::select! {
    ///     () = work() => {}
    ///     asked = guard.revoke_requested() => asked?,
    /// }
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Corresponds to Curator's `Revocable` and `Revoker`.
    ///
    /// # Errors
    /// - [`Error::LockLost`]: the lock is lost.
    /// - [`Error::ZooKeeper`]: the node cannot be read, for example because permission is missing.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn revoke_requested(&self) -> Result<()> {
        select_all(self.nodes().map(|node| Box::pin(node.revoke_requested()))).await.0
    }

    /// Gives the lock up while others can still see the guard, which is lost from now on; waits for the
    /// confirmation.
    ///
    /// # Errors
    /// Same as [`release`](Self::release).
    ///
    /// # Cancel safety
    /// Same as [`release`](Self::release).
    pub(crate) async fn resign(&self, reason: LossReason) -> Result<()> {
        let resigned = join_all(self.nodes().map(|node| node.resign(reason))).await;
        Error::all(resigned.into_iter().filter_map(Result::err).collect()).map_or(Ok(()), Err)
    }

    /// Removes the nodes of a lost lock in the background, if they still exist: nodes of an adopted session
    /// outlive the client.
    pub(crate) fn give_up(&self) {
        self.nodes().for_each(|node| drop(node.take()));
    }

    /// Releases the lock and waits for ZooKeeper's confirmation. A guard that is not the last one of its hold only
    /// decrements the count, without a request. The members of a multi-lock are released together,
    /// in one transaction if they are held by one client.
    ///
    /// The node of a lock that [lingers](crate::LockOptions::linger) may stay. Then this returns without a request, and
    /// others are let in when they come.
    ///
    /// Dropping a guard releases the lock as well: the request is sent immediately and retried in the background
    /// until it succeeds. Call `release` to know when others can acquire the lock, or that it had been lost
    /// before.
    ///
    /// # Errors
    /// - [`Error::LockLost`]: the lock was lost before the call, or its validity ended while the servers could not
    ///   be reached.
    /// - [`Error::ZooKeeper`]: the server refuses the request, or cannot be reached within the client's [retry
    ///   policy](crate::RetryPolicy); the release is then retried in the background.
    /// - [`Error::Closed`]: the client is closed.
    /// - [`Error::Several`]: several members of a multi-lock failed with one of these errors.
    ///
    /// # Cancel safety
    /// The lock is released in any case; if this call is cancelled, in the background.
    pub async fn release(self) -> Result<()> {
        match self.held {
            Held::One(share) => share.release().await,
            Held::All(mut members) | Held::Permits(mut members) => {
                Error::all(release_all(std::mem::take(&mut members.0)).await).map_or(Ok(()), Err)
            }
        }
    }
}

/// How long a wait for the next of several locks must last before those acquired so far are worth a watch each.
pub(in crate::lock) const BRIEF_WAIT: Duration = Duration::from_millis(100);

/// Waits until one of the locks is lost, and returns which. Sets a watch on their nodes only if this takes long enough to be
/// worth it.
pub(in crate::lock) async fn any_lost(guards: Vec<&LockGuard>) -> usize {
    sleep_until(Instant::now() + BRIEF_WAIT).await;
    if guards.is_empty() {
        return pending().await;
    }
    select_all(guards.into_iter().map(|guard| Box::pin(guard.lost()))).await.1
}

/// Runs work as long as a lock is held, which is checked at each poll. `lost` is when to check at the latest.
pub(super) async fn run_while_held<F: Future>(
    work: F,
    lost: impl Future,
    ensure_held: impl Fn() -> Result<()>,
) -> Result<F::Output> {
    let mut work = pin!(work);
    let mut lost = pin!(lost);
    poll_fn(|cx| {
        // Polled for its wake-up: the loss wakes this task.
        let _ = lost.as_mut().poll(cx);
        ensure_held()?;
        match work.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(ensure_held().map(|()| output)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Releases guards together, and returns the errors. Nodes of one session are deleted in one transaction.
///
/// # Cancel safety
/// The guards are released in any case.
pub(crate) async fn release_all(guards: Vec<LockGuard>) -> Vec<Error> {
    let (shares, _presences) = Members(guards).take_apart();
    let released = Share::release_all(shares).await;
    released.into_iter().filter_map(Result::err).collect()
}

impl Members {
    /// Takes the shares, the last one first, and what keeps the clients open until they are given back.
    fn take_apart(&mut self) -> (Vec<Share>, Vec<Arc<Presence>>) {
        let (mut shares, mut presences) = (Vec::new(), Vec::new());
        for LockGuard { held, _presence } in self.0.drain(..).rev() {
            match held {
                Held::One(share) => shares.push(share),
                Held::All(mut members) | Held::Permits(mut members) => {
                    let (inner, kept_open) = members.take_apart();
                    shares.extend(inner);
                    presences.extend(kept_open);
                }
            }
            presences.extend(_presence);
        }
        (shares, presences)
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        let (shares, _presences) = self.take_apart();
        Share::drop_all(shares);
    }
}
