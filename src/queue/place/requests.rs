//! The requests and waits by which a place carries out the actions of its contender.

use std::sync::Arc;

use futures_util::future::{OptionFuture, join, join3};
use zookeeper_client as zk;

use super::super::blocker::{BlockerWatch, cannot_watch};
use super::super::prefetch::Prefetching;
use super::super::pure::contender::{Event, WatchState};
use super::super::pure::local_queue::{Moment, Rank};
use super::super::pure::order::Queued;
use super::super::{front, position};
use super::{Place, Way};
use crate::client::{CreateOutcome, EphemeralNode, Session, Sharing, Watcher};
use crate::error::{Error, Result};

impl Place {
    /// Enters the queue on the current session: sends the create, and with it the requests that make the queue
    /// known, back to back.
    pub(super) async fn create(&mut self) -> Result<Event> {
        let internals = &self.internals;
        self.slot = None;
        self.blocker = None;
        let node = match &mut self.node {
            Some(unsent) if unsent.is_unsent() => unsent,
            _ => {
                let session = internals.client().session().await?;
                let form = self.form.clone();
                self.local = internals.local_queue(&session);
                self.node.insert(EphemeralNode::new(internals.client(), session, internals.path(), form))
            }
        };
        let session = node.session().clone();
        let forecast = self.forecast();
        if self.creates_queue(forecast) {
            return self.create_with_queue(forecast).await;
        }
        let Some(node) = &mut self.node else { return Ok(Event::Start) };
        let along = Prefetching::of(internals, &self.local);
        self.entry.sent(along.vacancy());
        // A list would send it at once; and one that is refused, for want of the queue, holds the others up.
        let is_likely = !along.lists() && internals.is_used();
        let sharing = if is_likely { Sharing::IfBusy } else { Sharing::None };
        // `join3` polls in this order, and the first poll sends: the list already shows our node.
        let create = async {
            self.caller.sends();
            node.create(sharing).await
        };
        let asked = join3(along.watch_parent(), create, along.list());
        let (watched, outcome, listed) = internals.client().attempt(&session, asked).await.unwrap_or((
            None,
            Ok(CreateOutcome::Unknown(zk::Error::ConnectionLoss)),
            None,
        ));
        match outcome.map_err(|source| internals.error("create a node in", source))? {
            CreateOutcome::ParentMissing | CreateOutcome::GuardMissing => {
                self.learn(forecast, true);
                Ok(Event::ParentMissing)
            }
            CreateOutcome::TooLarge => Err(internals.too_large("create a node in")),
            CreateOutcome::Unknown(source) => self.is_in_doubt("create a node in", source).await,
            CreateOutcome::Created => {
                self.learn(forecast, false);
                let (children, at) = along.learn(watched, listed);
                internals.ensure_no_semaphore(&session, children.as_deref().unwrap_or_default()).await?;
                if let Some(in_doubt) = self.date_own().await? {
                    return Ok(in_doubt);
                }
                Ok(self.created(children, at))
            }
        }
    }

    /// Waits before the search for our node, which may have been created.
    pub(super) async fn is_in_doubt(&mut self, operation: &'static str, source: zk::Error) -> Result<Event> {
        let error = self.internals.error(operation, source);
        self.failures.pause_after(error, self.internals.client().retry_policy()).await?;
        Ok(Event::CreateUnknown)
    }

    /// Our node was created by a request of that moment.
    pub(super) fn created(&mut self, children: Option<Vec<String>>, at: Moment) -> Event {
        match self.arrive(Some(at)) {
            Some((own, rank)) => Event::Created { own, rank, children, at },
            None => Event::Settled(None),
        }
    }

    /// Adds our node to the local queue, if it is known to exist.
    pub(super) fn arrive(&mut self, created: Option<Moment>) -> Option<(Queued, Rank)> {
        let own = self.internals.read(self.node_name()?)?;
        let rank = self.slot.insert(self.local.arrive(&own, created, &self.wake)).rank();
        self.has_made_parents = false;
        self.way = Way::Forecast;
        self.internals.exists_now();
        front::watch_over(&self.internals, &self.local, rank);
        self.caller.reached();
        self.internals.admission().arrived();
        Some((own, rank))
    }

    pub(super) async fn make_parents(&mut self) -> Result<Event> {
        if std::mem::replace(&mut self.has_made_parents, true) {
            // Something removes them as often as they are created.
            self.losses.pause(self.internals.path()).await?;
        }
        if !self.cannot_create_queue {
            // The next create makes them as well.
            self.way = Way::WithQueue;
            return Ok(Event::ParentsMade);
        }
        if let Some(node) = &self.node {
            let made = self.internals.client().attempt(node.session(), node.make_parents()).await;
            let made =
                made.unwrap_or_else(|| Err((self.internals.path().to_string(), zk::Error::ConnectionLoss)));
            made.map_err(|(path, source)| Error::ZooKeeper { operation: "create", path, source })?;
        }
        Ok(Event::ParentsMade)
    }

    pub(super) async fn settle(&mut self) -> Result<Event> {
        let Some(node) = &mut self.node else { return Ok(Event::Settled(None)) };
        let session = node.session().clone();
        let settled = self.internals.client().attempt_one(&session, node.settle()).await;
        settled.map_err(|source| self.internals.error("find a node in", source))?;
        Ok(Event::Settled(self.arrive(None)))
    }

    /// Lists the queue and, if `confirm` is set, has the session confirmed until a lock can be handed out on it.
    pub(super) async fn list(&self, confirm: bool) -> Result<Event> {
        self.ready().await;
        self.list_now(confirm).await
    }

    async fn list_now(&self, confirm: bool) -> Result<Event> {
        let session = self.own_session()?;
        let at = self.local.moment();
        let list = self.internals.list(session);
        let listed = if !confirm {
            list.await
        } else {
            // Sent together, this costs no extra time.
            let (confirmed, listed) = join(session.become_worth_granting(), list).await;
            confirmed.and(listed)
        };
        let children = listed.map_err(|source| self.internals.error("list the children of", source))?;
        self.internals.ensure_no_semaphore(session, &children).await?;
        Ok(Event::Listed { children, at })
    }

    /// Watches the contender that is probably waited for next, and lists the queue.
    pub(super) async fn watch_and_list(&mut self, next: &str) -> Result<Event> {
        self.ready().await;
        let on = self.local.connection();
        let session = self.own_session()?.clone();
        let watch = BlockerWatch::set(self.internals.path(), &session, next, on);
        // `join` polls in this order, and the first poll sends. So the list shows the contender only if its end will be
        // told, and not if it is gone already.
        let (watched, listed) = join(watch, self.list_now(!self.is_valid())).await;
        // A failure shows in the watch that follows.
        self.blocker = watched.ok().and_then(|(_, watch)| watch);
        listed
    }

    pub(super) async fn date(&mut self, undated: &[Queued]) -> Result<Event> {
        self.ready().await;
        let dated = self.internals.dates_in(&self.local, undated.to_vec()).await;
        let event = dated.map(|created| Event::Dated { created, asked: undated.len() });
        event.map_err(|source| self.internals.error("date the contenders of", source))
    }

    /// Sets the requested watches, that on our own node first.
    pub(super) async fn watch(&mut self, own: bool, blocker: Option<&str>) -> Result<Event> {
        self.ready().await;
        let on = self.local.connection();
        let session = self.own_session()?.clone();
        let is_watched = self.blocker.as_mut().is_some_and(|watched| watched.tells_of(blocker, on));
        let blocker = blocker.filter(|_| !is_watched);
        if !is_watched {
            self.blocker = None;
        }
        let own_watch = self.node.as_mut().filter(|_| own).map(EphemeralNode::watch);
        let blocker_watch = blocker.map(|name| BlockerWatch::set(self.internals.path(), &session, name, on));
        // `join` polls in this order, and the first poll sends.
        let (own_watch, blocker_watch) =
            join(OptionFuture::from(own_watch), OptionFuture::from(blocker_watch)).await;
        let blocker = match blocker_watch {
            None => self.blocker.as_mut().map_or(WatchState::Unwatched, BlockerWatch::state),
            Some(watched) => {
                let (state, watch) = watched?;
                self.blocker = watch;
                state
            }
        };
        let own = match own_watch {
            Some(Err(zk::Error::NoAuth)) => WatchState::Unwatched,
            // It was set earlier and may have fired meanwhile; if not, it says nothing about this connection.
            None if self.own_watch_state() == WatchState::There => WatchState::Unwatched,
            None | Some(Ok(())) => self.own_watch_state(),
            Some(Err(zk::Error::NoNode)) => WatchState::Gone,
            Some(Err(source)) => return Err(cannot_watch(self.node_path().unwrap_or_default(), source)),
        };
        self.waits();
        Ok(Event::Watched { own, blocker, on })
    }

    /// Waits for a watch, or for the local queue.
    pub(super) async fn woken(&mut self) -> Event {
        let session = self.local.session();
        let name = self.node_name().filter(|_| self.positions.is_some()).map(str::to_owned);
        let following = name.as_deref().zip(self.positions.as_ref());
        // Boxed, because it is rare.
        let following = following
            .map(|(own, positions)| Box::pin(position::follow(&self.internals, &self.local, own, positions)));
        let own = self.node.as_mut().and_then(EphemeralNode::watcher).map(Watcher::changed);
        let queue = self.internals.path();
        let blocker = self.blocker.as_mut().map(|blocker| blocker.changed(queue, session));
        tokio::select! {
            Some(_) = OptionFuture::from(own) => {}
            Some(_) = OptionFuture::from(blocker) => {}
            () = self.wake.notified() => {}
            // In case no watch fires.
            () = session.ended() => {}
            Some(()) = OptionFuture::from(following) => {}
        }
        let blocker = self.blocker.as_mut().map_or(WatchState::Unwatched, BlockerWatch::state);
        let own = self.own_watch_state();
        // A watch that has fired must not wake us again, unless it reported the end of its node.
        if blocker != WatchState::There {
            self.blocker = None;
        }
        if let Some(node) =
            self.node.as_mut().filter(|_| !matches!(own, WatchState::There | WatchState::Gone))
        {
            drop(node.take_watch());
        }
        if self.local.session().is_over() { Event::SessionOver } else { Event::Woken { own, blocker } }
    }

    pub(super) async fn forget_node(&mut self) -> Result<()> {
        // By its own watch; or by that of the local queue, while the place was not polled.
        let is_seen_gone =
            self.own_watch_state() == WatchState::Gone || self.slot.is_some() && !self.is_in_local_queue();
        self.slot = None;
        self.blocker = None;
        if let Some(node) = self.node.take() {
            tracing::info!(node = node.path(), "own node is gone, queueing again");
            // If our node was seen to be gone, a node of that name is another contender's. If it was only missing
            // in a list, it is deleted: that costs less than waiting behind it, should it exist.
            if is_seen_gone {
                node.forget();
            }
        }
        self.losses.pause(self.internals.path()).await
    }

    /// Returns the session of our node, for a request that is only meaningful on that session.
    fn own_session(&self) -> Result<&Arc<Session>> {
        self.session().ok_or_else(|| self.internals.error("stay in the queue of", zk::Error::SessionExpired))
    }
}
