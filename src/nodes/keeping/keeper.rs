//! The task that keeps a node.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use zookeeper_client::EventType;

use super::super::options::{NodeMode, PersistentNodeOptions};
use super::super::state::NodeState;
use super::decision::{self, IsSame, Known, Lifetime, Sight, Step};
use super::doubt::Doubt;
use super::paths::KeptPath;
use super::progress::{Progress, Publisher, Wanted};
use super::repairs;
use super::requests::{Found, is_refusal};
use super::sessions::OwnSessions;
use super::touch::Touch;
use crate::client::{Client, EphemeralNode, Failures, PAUSE, Session, Watcher};
use crate::error::{Error, Result, report};
use crate::watch::Watch;

/// How often a node is looked at while nothing is done about it.
const GLANCE: Duration = Duration::from_secs(1);
/// How often a node is looked at of which the servers may tell nothing, and a random part of it more.
const LOOK_AGAIN: Duration = Duration::from_secs(4);

/// Keeps a node until it is told to close.
#[derive(Debug)]
pub(in crate::nodes) struct Keeper {
    /// For background work.
    pub(super) client: Client,
    pub(super) lifetime: Lifetime,
    /// What keeps a node of [`Lifetime::Touched`].
    pub(super) touch: Option<Touch>,
    /// By which a persistent node is known for ours. Without it, each one at the path is.
    pub(super) is_same: Option<IsSame>,
    pub(super) creates_parents: bool,
    /// As it was given, in full.
    pub(super) given_path: Arc<str>,
    /// The path of the node; `None` for one that is still to be numbered.
    pub(super) path: Option<Arc<str>>,
    pub(super) wanted: watch::Receiver<Wanted>,
    pub(super) publisher: Publisher,
    pub(super) sessions: Arc<OwnSessions>,
    pub(super) closing: CancellationToken,
    /// The session to which the rest refers.
    pub(super) session: Option<Arc<Session>>,
    pub(super) known: Option<Known>,
    /// The data of ours that the node has, and with `is_same` those that it may have since a reply was lost.
    pub(super) ours: Vec<Arc<[u8]>>,
    /// Whether a write to the node that is known may have been done once, its reply lost.
    pub(super) is_write_lost: bool,
    /// The latest watch on the path. It is kept until there is another: to remove it could cost that one its place.
    pub(super) watch: Option<Watcher>,
    /// A numbered node whose create has an unknown outcome.
    pub(super) unnamed: Option<EphemeralNode>,
    /// Whether a create in this session was sent.
    pub(super) may_exist: bool,
    /// The creates with an unknown outcome; for [`Lifetime::Session`], those in this session.
    pub(super) doubt: Doubt,
    /// The latest node that was created here, or was kept before this was to be closed.
    pub(super) held: Option<i64>,
    /// Whether someone else's node was there at the latest look.
    pub(super) is_taken: bool,
    /// The node of an earlier session that the latest look has shown.
    pub(super) left_over: Option<i64>,
    /// The node that is known to be readable. The servers may tell nothing of one that is not.
    pub(super) readable: Option<i64>,
    is_to_be_read: bool,
}

impl Keeper {
    /// Starts a keeper in the background. With `touch`, the node lives as long as that is touched, whatever the mode.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: this client keeps a node at this path already.
    pub(in crate::nodes) fn start(
        client: &Client,
        path: &Arc<str>,
        options: &PersistentNodeOptions,
        touch: Option<Touch>,
        is_same: Option<IsSame>,
        wanted: watch::Receiver<Wanted>,
        closing: CancellationToken,
    ) -> Result<(watch::Receiver<Progress>, Watch<NodeState>)> {
        let is_numbered = options.mode == NodeMode::EphemeralSequential;
        let lifetime = match options.mode {
            _ if touch.is_some() => Lifetime::Touched,
            NodeMode::Persistent => Lifetime::Value,
            NodeMode::Ephemeral | NodeMode::EphemeralSequential => Lifetime::Session,
        };
        let claim = (!is_numbered).then(|| KeptPath::claim(client, path, &closing)).transpose()?;
        let keeper = Self {
            client: client.detached(),
            lifetime,
            touch,
            is_same,
            creates_parents: options.creates_parents,
            given_path: path.clone(),
            path: (!is_numbered).then(|| path.clone()),
            wanted,
            publisher: Publisher::new(client, path),
            sessions: client.extension(),
            closing,
            session: None,
            known: None,
            ours: Vec::new(),
            is_write_lost: false,
            watch: None,
            unnamed: None,
            may_exist: false,
            doubt: Doubt::default(),
            held: None,
            is_taken: false,
            left_over: None,
            readable: None,
            is_to_be_read: false,
        };
        let published = keeper.publisher.watch();
        // The end of a session takes an ephemeral node along. One that belongs to no session is deleted before that.
        let stay = (lifetime == Lifetime::Value).then(|| client.stay(Duration::ZERO));
        client.spawn(async move {
            keeper.run(claim).await;
            drop(stay);
        });
        Ok(published)
    }

    async fn run(mut self, claim: Option<Arc<KeptPath>>) {
        let over = self.client.closing();
        let turn = OptionFuture::from(claim.as_ref().map(|claim| claim.turn()));
        let Some(_turn) = over.run_until_cancelled(turn).await else {
            return self.publisher.ended(Err(Error::Closed));
        };
        let keeping = async {
            self.keep().await;
            self.remove().await
        };
        match over.run_until_cancelled(keeping).await {
            Some(outcome) => self.publisher.ended(outcome),
            None => {
                self.publisher.ended(Err(Error::Closed));
                self.outlive_client().await;
            }
        }
    }

    /// Keeps the node until it is to be closed.
    async fn keep(&mut self) {
        let mut failures = Failures::default();
        let mut last_repair: (Option<Instant>, Duration) = (None, Duration::ZERO);
        loop {
            let session = match self.next_session().await {
                None => return,
                Some(Ok(session)) => session,
                Some(Err(error)) => {
                    if !error.is_retryable() {
                        let generation = self.wanted.borrow_and_update().generation;
                        self.fails(generation, error.clone());
                    }
                    self.pause_after(error, &mut failures).await;
                    continue;
                }
            };
            // It is not interrupted: what it has begun would have to be found out. Its requests end with the connection.
            match self.settle(&session).await {
                Ok(is_settled) => {
                    failures.reset();
                    if !is_settled || self.rest(&session).await {
                        let (at, last) = last_repair;
                        let pause = repairs::pause(last, at.map(|at| at.elapsed()));
                        self.pause(sleep(pause)).await;
                        last_repair = (Some(Instant::now()), pause);
                    }
                }
                Err(error) if error.ends_session() => {}
                Err(error) => self.pause_after(error, &mut failures).await,
            }
        }
    }

    /// Waits for a session that accepts requests. Returns `None` if the node is to be closed.
    async fn next_session(&mut self) -> Option<Result<Arc<Session>>> {
        loop {
            let last = self.session.clone().filter(|_| self.publisher.is_present());
            let session = tokio::select! {
                biased;
                () = self.closing.cancelled() => return None,
                Some(()) = OptionFuture::from(last.as_ref().map(|last| last.ended())) => {
                    self.session_ended();
                    continue;
                }
                session = self.client.session() => session,
            };
            if let Ok(session) = &session {
                let is_same = self.session.as_ref().is_some_and(|last| last.epoch() == session.epoch());
                if !is_same {
                    self.session_ended();
                    self.sessions.began(session);
                    self.session = Some(session.clone());
                }
            }
            return Some(session);
        }
    }

    /// The session to which the node belonged is over.
    fn session_ended(&mut self) {
        self.session = None;
        self.watch = None;
        self.unnamed = None;
        if self.lifetime == Lifetime::Session {
            self.may_exist = false;
            self.doubt = Doubt::default();
            self.known = None;
            if self.publisher.is_present() {
                self.publisher.show(NodeState::Absent);
            }
        }
    }

    /// Has the node there with the newest data, or someone else's; the watch shows when that changes. Returns false if others
    /// have changed it each time that it was looked at.
    async fn settle(&mut self, session: &Arc<Session>) -> Result<bool> {
        /// More than it takes if no one interferes.
        const MOST_STEPS: usize = 16;
        self.left_over = None;
        let mut next = None;
        for _ in 0..MOST_STEPS {
            let wanted = self.wanted.borrow_and_update().clone();
            let is_to_be_read = std::mem::take(&mut self.is_to_be_read);
            let step = next.unwrap_or_else(|| {
                decision::first(self.known, self.is_taken, is_to_be_read, self.is_to_be_touched())
            });
            if matches!(step, Step::Compare | Step::Write { .. })
                && self.comes_too_late_for(self.known.map(|known| known.czxid))
            {
                self.known = None;
                return Ok(true);
            }
            let found = self.perform(session, step, &wanted).await.inspect_err(|error| {
                if is_refusal(error) {
                    self.fails(wanted.generation, error.clone());
                }
            })?;
            match found {
                // Before its data are written, so that a refused write does not keep it from being touched.
                Found::Next(_) | Found::Own { .. } if step != Step::Touch && self.is_to_be_touched() => {
                    next = Some(Step::Touch);
                }
                Found::Next(step) => next = Some(step),
                Found::Own { czxid } if self.comes_too_late_for(Some(czxid)) => {
                    self.known = None;
                    return Ok(true);
                }
                Found::Own { czxid } => {
                    self.held = Some(czxid);
                    let path = self.path().clone();
                    self.publisher.is_kept(&path, czxid, wanted.generation);
                    return Ok(true);
                }
                Found::Strangers { owner } => {
                    let session = owner.filter(|owner| *owner != 0);
                    let path = self.path().to_string();
                    self.fails(wanted.generation, Error::NodeTaken { path, session });
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether this persistent node is not to be taken over any more, since the value ends. Otherwise it would depend on
    /// chance whether a value that ends at once deletes what someone else has made.
    fn comes_too_late_for(&self, czxid: Option<i64>) -> bool {
        let takes_over = self.lifetime == Lifetime::Value && self.is_same.is_none();
        takes_over && self.closing.is_cancelled() && (czxid.is_none() || czxid != self.held)
    }

    fn is_to_be_touched(&self) -> bool {
        self.known.is_some() && self.touch.as_ref().is_some_and(Touch::is_due)
    }

    /// Waits until there is something to do. Returns whether others have changed the node.
    async fn rest(&mut self, session: &Session) -> bool {
        let is_told = !self.is_taken && self.readable.is_some_and(|czxid| self.publisher.shows(czxid));
        let due = self.touch.as_ref().filter(|_| !self.is_taken).map(Touch::due);
        let event = tokio::select! {
            biased;
            () = self.closing.cancelled() => return false,
            Some(event) = OptionFuture::from(self.watch.as_mut().map(Watcher::changed)) => event,
            () = sleep(LOOK_AGAIN.mul_f64(1.0 + fastrand::f64() / 2.0)), if !is_told => {
                self.is_to_be_read = true;
                return false;
            }
            Some(()) = OptionFuture::from(due.map(sleep_until)) => return false,
            () = session.ended() => return false,
            // The watch would report it only at the end of the session.
            () = self.client.disconnected() => return false,
            // The sender lives as long as the node is not to be closed.
            Ok(()) = self.wanted.changed() => return false,
        };
        let was_own = self.publisher.is_present();
        if event == EventType::NodeDeleted {
            self.known = None;
            if was_own {
                self.publisher.show(NodeState::Absent);
            }
        }
        // As soon as someone else's node is gone, it is our turn.
        match event {
            EventType::Session => false,
            EventType::NodeDeleted => was_own,
            _ => true,
        }
    }

    /// Reports an error that waiting alone is not likely to change.
    fn fails(&mut self, generation: u64, error: Error) {
        self.publisher.refuses(generation, error.clone());
        let state = match (&self.path, self.known) {
            // Only its data could not be written.
            (Some(path), Some(known)) if self.touch.as_ref().is_none_or(Touch::lasts) => {
                NodeState::Present { path: path.to_string(), czxid: known.czxid }
            }
            _ => NodeState::Blocked(error.clone()),
        };
        if self.publisher.show(state) {
            tracing::warn!(path = &*self.given_path, error = %report(&error), "cannot keep a node");
        } else {
            tracing::debug!(path = &*self.given_path, error = %report(&error), "still cannot keep a node");
        }
    }

    /// Pauses, longer with each consecutive failure. New data are tried at once.
    async fn pause_after(&mut self, error: Error, failures: &mut Failures) {
        self.pause(failures.pause_in_background(error)).await;
    }

    /// Pauses, and looks meanwhile whether what is shown is still right. Ends early if there is something to do.
    async fn pause(&mut self, pause: impl Future<Output = ()>) {
        let mut pause = pin!(pause);
        // One that is due already has failed.
        let due = self.touch.as_ref().map(Touch::due).filter(|due| *due > Instant::now());
        let touch_is_due = due.map(|due| sleep_until(due.max(Instant::now() + PAUSE)));
        let mut touch_is_due = pin!(OptionFuture::from(touch_is_due));
        let closing = self.closing.clone();
        loop {
            let session = self.session.clone();
            let is_present = self.publisher.is_present();
            let glance = async {
                let (Some(session), Some(path)) = (&session, &self.path) else { return pending().await };
                if !is_present && !self.is_taken {
                    return pending().await;
                }
                sleep(GLANCE).await;
                let looked = self.client.attempt_one(session, session.stat(path)).await;
                Sight::of(looked).ok()
            };
            let present = session.as_ref().filter(|_| is_present);
            let sight = tokio::select! {
                biased;
                () = closing.cancelled() => return,
                () = &mut pause => return,
                Some(()) = &mut touch_is_due => return,
                Some(()) = OptionFuture::from(present.map(|session| session.ended())) => return,
                Ok(()) = self.wanted.changed() => return,
                sight = glance => sight,
            };
            let is_gone = match sight {
                Some(Sight::Nothing) => true,
                Some(Sight::Node(seen)) => is_present && !self.publisher.shows(seen.czxid),
                Some(Sight::Hidden { .. }) | None => false,
            };
            if is_gone && self.is_taken {
                return;
            }
            if is_gone {
                self.known = None;
                self.publisher.show(NodeState::Absent);
            }
        }
    }

    /// The path of the node, or that which was given for one that is still to be numbered.
    pub(super) fn path(&self) -> &Arc<str> {
        self.path.as_ref().unwrap_or(&self.given_path)
    }
}
