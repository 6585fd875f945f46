//! The two queues of a semaphore: the gate, and the leases behind it.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{OptionFuture, join, join3, join4};
use zookeeper_client as zk;

use super::admission::OnTheWay;
use super::caller::Caller;
use super::fixed_limit::FixedLimit;
use super::internals::LockInternals;
use super::prefetch::Prefetching;
use super::pure::connection::Connection;
use super::pure::local_queue::Moment;
use super::pure::name::{GATE_CHILD, Kind, LEASES, LEASES_CHILD, MUTEX};
use super::pure::permits::{self, Count};
use super::seat::Seat;
use super::shared_local_queue::{Guess, SharedLocalQueue};
use crate::client::{Client, CreateOutcome, EphemeralNode, Failures, Guard, NodeForm, Session, Watcher};
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::shared::SharedCount;

/// The number of permits.
#[derive(Debug)]
pub(crate) enum Limit {
    Fixed(Arc<FixedLimit>),
    Shared(SharedCount),
}

/// The two queues of a semaphore: Curator's `locks`, a gate that one contender passes at a time, and `leases`, with
/// one node for each permit in use.
#[derive(Debug)]
pub(crate) struct Leases {
    /// The full path of the semaphore.
    path: Arc<str>,
    gate: Arc<LockInternals>,
    leases: Arc<LockInternals>,
    limit: Limit,
}

/// A contender that has entered the queue at the gate.
#[derive(Debug)]
pub(super) struct Entered {
    /// The leases that were created along with it. To be kept only if the count proves that they are free. Dropped
    /// before the seat, so that the next contender at the gate does not count them.
    pub(super) leases: Vec<EphemeralNode>,
    pub(super) seat: Seat,
    /// The count that was made right behind the create, if its reply came.
    pub(super) count: Option<Count>,
    /// When they were created.
    pub(super) at: Option<Moment>,
}

/// Makes one attempt to delete nodes of this session that may have been created.
///
/// # Errors
/// Some of them may still exist.
pub(super) async fn undo(
    queue: &LockInternals,
    session: &Session,
    nodes: &mut [EphemeralNode],
) -> Result<()> {
    match queue.client().attempt_one(session, EphemeralNode::delete_together(nodes)).await {
        // They end with the session, or have.
        Err(error) if Failure::of(&error) == Failure::SessionOver => Ok(()),
        undone => undone.map_err(|source| queue.error("delete unneeded leases in", source)),
    }
}

impl Leases {
    /// # Errors
    /// [`Error::InvalidPath`].
    pub(crate) fn new(client: &Client, path: &str, limit: Limit) -> Result<Self> {
        let queue = |name: &str, names| LockInternals::of(client, &format!("{path}/{name}"), names);
        let path_of_all = client.full_path(path)?;
        Ok(Self {
            path: path_of_all,
            gate: queue(GATE_CHILD, &MUTEX)?,
            leases: queue(LEASES_CHILD, &LEASES)?,
            limit,
        })
    }

    pub(crate) fn client(&self) -> &Client {
        self.gate.client()
    }

    /// The full path of the semaphore.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    pub(crate) fn gate(&self) -> &Arc<LockInternals> {
        &self.gate
    }

    pub(crate) fn leases(&self) -> &Arc<LockInternals> {
        &self.leases
    }

    pub(crate) fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Whether there is one permit, and never another.
    pub(super) fn has_one_permit(&self) -> bool {
        matches!(&self.limit, Limit::Fixed(limit) if limit.permits() == 1)
    }

    /// # Errors
    /// [`Error::InvalidArgument`] if the servers would reject a request that creates so many leases.
    pub(crate) fn ensure_fit(&self, wanted: u32, data: Option<Arc<[u8]>>) -> Result<()> {
        let gate = self.gate.form(Kind::Exclusive, None).size(self.client(), self.gate.path());
        let lease = self.leases.form(Kind::Shared, data).size(self.client(), self.leases.path());
        let leases = (0..wanted).map(|_| lease);
        self.client().ensure_fits("permits", leases.chain([gate]))
    }

    /// Enters the queue at the gate, and creates the leases in the same transaction if that is likely to succeed.
    ///
    /// # Cancel safety
    /// Nothing stays in any queue.
    pub(super) async fn enter(
        &self,
        form: NodeForm,
        lease: NodeForm,
        wanted: u32,
        caller: Caller,
        on_the_way: OnTheWay,
    ) -> Result<Entered> {
        let session = self.client().session_under_policy().await?;
        let own = self.leases.local_queue(&session).members();
        if let Some(guess) = self.gate.local_queue(&session).guess(wanted, own)
            && let Some(entered) =
                self.enter_with_leases(session, guess, &form, lease, wanted, &caller).await?
        {
            return Ok(entered);
        }
        let (seat, count) = self.enter_gate(form, caller, on_the_way).await?;
        Ok(Entered { leases: Vec::new(), seat, count, at: None })
    }

    /// Enters the queue at the gate, and creates the leases, in one transaction that fails if the gate is not as
    /// guessed. Returns `None` if nothing was created, or nothing of it is left.
    ///
    /// The leases are counted by a list that is sent behind it; or, if they are known to be of this session alone, by the
    /// numbers that they get.
    async fn enter_with_leases(
        &self,
        session: Arc<Session>,
        guess: Guess,
        form: &NodeForm,
        lease: NodeForm,
        wanted: u32,
        caller: &Caller,
    ) -> Result<Option<Entered>> {
        let client = self.client();
        let asked_on = Connection(session.connection());
        let node = |queue: &LockInternals, form: &NodeForm| {
            EphemeralNode::new(client, session.clone(), queue.path(), form.clone())
        };
        // The gate's comes last: they are given up in this order, and the next contender at the gate must not count
        // leases that were not kept.
        let mut nodes: Vec<_> = (0..wanted).map(|_| node(&self.leases, &lease)).collect();
        nodes.push(node(&self.gate, form));
        let guard = Some(Guard::LastHas(guess.number));
        let creating = EphemeralNode::create_together(client, nodes, &session, guard);
        let enter = async {
            let (mut nodes, created) = creating.await;
            let gate = match created {
                Ok(CreateOutcome::Created) => nodes.pop(),
                Ok(CreateOutcome::Unknown(source)) => {
                    let mut error = self.leases.error("create leases in", source);
                    let mut failures = Failures::default();
                    loop {
                        failures.pause_or(error, client.retry_policy()).await?;
                        match undo(&self.leases, &session, &mut nodes).await {
                            Ok(()) => return Ok(None),
                            Err(failed) if failed.is_retryable() => error = failed,
                            Err(refused) => return Err(refused),
                        }
                    }
                }
                // If it was not for the guess, the usual way shows what is wrong.
                Ok(_) | Err(_) => {
                    tracing::debug!(path = %self.path, "one more round trip, since others were at the gate");
                    self.gate.local_queue(&session).guessed_wrong();
                    None
                }
            };
            let Some(gate) = gate else { return Ok(None) };
            let entering = pin!(Seat::enter(&self.gate, gate, caller.clone(), Some(guess), None));
            // Dropped before that.
            let leases = nodes;
            let seat = entering.await?;
            if seat.is_granted() {
                // Only the servers are waited for.
                caller.takes();
            }
            Ok(Some((leases, seat)))
        };
        let local = self.leases.local_queue(&session);
        let along = Prefetching::of(&self.leases, &local);
        // `join4` polls in this order, and the first poll sends: the leases are counted when ours are among them.
        let asked = join4(along.watch_parent(), enter, along.list(), self.read_limit(&session, false));
        let (watched, entered, listed, limit) = asked.await;
        let Some((leases, seat)) = entered? else { return Ok(None) };
        let (listed, at) = along.learn(watched, listed);
        let counted = self.counted(&local, &leases, listed, at);
        let count = counted.zip(limit.ok()).map(|(leases, (limit, _))| Count {
            leases,
            limit,
            asked_on,
            synced: false,
        });
        Ok(Some(Entered { leases, seat, count, at: Some(at) }))
    }

    /// Returns how many leases there are, right after some of ours were created: by a list, or by their numbers. `None` if
    /// that is not known, or another recipe is there, which the next count finds.
    fn counted(
        &self,
        local: &SharedLocalQueue,
        ours: &[EphemeralNode],
        listed: Option<Vec<String>>,
        at: Moment,
    ) -> Option<usize> {
        let Some(children) = listed else {
            return self.are_all(local, ours).then(|| local.members() + ours.len());
        };
        self.leases.ensure_own_is_first(&children).ok()?;
        let queue = self.leases.among(children);
        let counted = queue.len();
        // Past the last number, they have no order that is known.
        if let Ok(queue) = queue.in_order()
            && let Some(first) = ours.first().and_then(EphemeralNode::name)
            && let Some(place) = queue.iter().position(|queued| queued.name == first)
        {
            local.with(|local, _| {
                local.look(&queue, place, at);
                local.entered(!queue[..place].iter().all(|before| local.has(before)));
            });
        }
        Some(counted)
    }

    /// Whether the number of the first of these leases of ours shows that there are no leases but those of this session. If
    /// not, the next try lists them.
    pub(super) fn are_all(&self, local: &SharedLocalQueue, ours: &[EphemeralNode]) -> bool {
        let first = ours.first().and_then(EphemeralNode::name).and_then(|name| self.leases.read(name));
        local.with(|local, now| {
            let are_all = first.is_some_and(|first| local.is_next(first.sequence, now));
            local.entered(!are_all);
            are_all
        })
    }

    /// Enters the queue at the gate. Returns the place, and the leases as counted right behind the create.
    async fn enter_gate(
        &self,
        form: NodeForm,
        caller: Caller,
        on_the_way: OnTheWay,
    ) -> Result<(Seat, Option<Count>)> {
        let session = self.client().session_under_policy().await?;
        let asked_on = Connection(session.connection());
        let is_new = !self.leases.is_used();
        // Sent in this order or not at all, so that the leases are counted when we are already in the queue.
        let enter = async {
            let node = EphemeralNode::new(self.client(), session.clone(), self.gate.path(), form);
            let seat = Seat::enter(&self.gate, node, caller.clone(), None, Some(on_the_way)).await?;
            if seat.is_granted() {
                // The gate is its own, so it waits for the servers only.
                caller.takes();
            }
            Ok(seat)
        };
        let look = async {
            match caller.has_sent() {
                true => self.look(&session, false).await.ok(),
                false => None,
            }
        };
        // Sent along with it, so it takes no time.
        let look_above = OptionFuture::from(is_new.then(|| self.ensure_no_other_recipe(&session)));
        let (seat, seen, above) = join3(enter, look, look_above).await;
        let count = |(leases, limit, _)| Count { leases, limit, asked_on, synced: false };
        let seat = seat?;
        above.transpose()?;
        Ok((seat, seen.map(count)))
    }

    /// Checks that the path, whose children the two queues are, is not used by another recipe.
    ///
    /// # Errors
    /// [`Error::KindConflict`] if a contender of another recipe is at the path.
    pub(super) async fn ensure_no_other_recipe(&self, session: &Session) -> Result<()> {
        // If it cannot be known, as without the right to list the path, it is not known.
        let children = session.list(&self.path).await.unwrap_or_default();
        let contender = children.iter().find_map(|name| match LEASES.read_any(name) {
            Some((Kind::Foreign(found), _)) => Some((name, found)),
            _ => None,
        });
        let Some((name, found)) = contender else { return Ok(()) };
        let (path, node) = (self.path.to_string(), Some(format!("{}/{name}", self.path)));
        Err(Error::KindConflict { path, node, expected: LEASES.recipe(), found })
    }

    /// Counts the leases and reads the limit. With `watch`, also returns watches on changes of both.
    pub(super) async fn look(
        &self,
        session: &Session,
        watch: bool,
    ) -> Result<(usize, permits::Limit, Vec<Watcher>)> {
        let (counted, limit) = join(self.count(session, watch), self.read_limit(session, watch)).await;
        let ((leases, leases_watcher), (limit, limit_watcher)) = (counted?, limit?);
        Ok((leases, limit, leases_watcher.into_iter().chain(limit_watcher).collect()))
    }

    async fn count(&self, session: &Session, watch: bool) -> Result<(usize, Option<Watcher>)> {
        let listed = if watch {
            session.watch_list(self.leases.path()).await.map(|(children, watcher)| (children, Some(watcher)))
        } else {
            session.list(self.leases.path()).await.map(|children| (children, None))
        };
        match listed {
            Ok((children, watcher)) => {
                self.leases.ensure_own_is_first(&children)?;
                Ok((self.leases.among(children).len(), watcher))
            }
            // Without any lease there is nothing to wait for except the limit.
            Err(zk::Error::NoNode) => Ok((0, None)),
            Err(source) => Err(self.cannot_count(source)),
        }
    }

    async fn read_limit(&self, session: &Session, watch: bool) -> Result<(permits::Limit, Option<Watcher>)> {
        let count = match &self.limit {
            Limit::Fixed(limit) => return Ok((permits::Limit::Fixed(limit.permits()), None)),
            Limit::Shared(count) => count,
        };
        let read = if watch {
            count.watch_on(session).await.map(|(limit, watcher)| (limit, Some(watcher)))
        } else {
            count.read(session).await.map(|limit| (limit, None))
        };
        let (limit, watcher) = read.map_err(|source| count.cannot_read(source))?;
        let limit = limit.ok_or_else(|| count.not_a_count())?;
        Ok((permits::Limit::Shared(limit), watcher))
    }

    pub(super) fn cannot_count(&self, source: zk::Error) -> Error {
        self.leases.error("count the leases of", source)
    }
}
