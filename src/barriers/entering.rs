//! The steps by which a member enters a double barrier.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{OptionFuture, join_all, join4, try_join_all};
use tokio::time::Instant;
use zookeeper_client::{self as zk, EventType};

use super::decision::{Admission, READY, admission, late_admission};
use super::member::{Member, remains};
use super::site::Site;
use super::tidying::GivesUp;
use crate::client::{CreateOutcome, Failures, Session, Watcher};
use crate::error::{Error, Result};
use crate::failure::Failure;

/// What has come of an attempt to enter.
pub(super) enum Progress {
    /// It is let in.
    In,
    /// It is to look again.
    Again,
    /// Its node is gone.
    Lost,
}

/// What a member sees once its node is there: `ready` and a watch on it, and the children of the barrier.
type Sight = (Option<zk::Stat>, Watcher, Vec<String>);

impl Site {
    pub(super) async fn let_in(&self) -> Result<Member> {
        /// How often in a row its node may be deleted by others.
        const MOST_LOSSES: u32 = 5;
        /// After this time, a deletion is not one of a series.
        const LONG_WAIT: Duration = Duration::from_secs(1);
        let mut failures = Failures::default();
        let (mut losses, mut since) = (0, Instant::now());
        // Dropped after the node of the member.
        let mut gives_up = GivesUp { site: self, sees_ready: false };
        let mut own: Option<Member> = None;
        loop {
            let session = self.client.session_after(&mut failures).await?;
            // That of an ended session is deleted by name.
            let mut member = match own.take().filter(|own| own.node.session().epoch() == session.epoch()) {
                Some(own) => own,
                None => Member::new(&self.client, &session, &self.path),
            };
            match self.come_and_wait(&session, &mut member, &mut gives_up).await {
                Ok(Progress::In) => {
                    gives_up.sees_ready = false;
                    return Ok(member);
                }
                Ok(Progress::Again) => {
                    failures.reset();
                    own = Some(member);
                }
                Ok(Progress::Lost) => {
                    member.forget();
                    failures.reset();
                    losses = if since.elapsed() > LONG_WAIT { 1 } else { losses + 1 };
                    since = Instant::now();
                    if losses == MOST_LOSSES {
                        return Err(Error::PlaceLost { path: self.path.to_string() });
                    }
                }
                Err(error) if error.ends_session() => {}
                Err(error) => {
                    failures.pause_after(error, self.client.retry_policy()).await?;
                    own = Some(member);
                }
            }
        }
    }

    /// Sees to the node of this member, and waits on this connection.
    async fn come_and_wait(
        &self,
        session: &Arc<Session>,
        member: &mut Member,
        gives_up: &mut GivesUp<'_>,
    ) -> Result<Progress> {
        // Not known before the reply.
        gives_up.sees_ready = true;
        let Some((ready, mut watcher, children)) = self.come(session, member).await? else {
            return Ok(Progress::Again);
        };
        gives_up.sees_ready = ready.is_some();
        let own = member.node.name().unwrap_or_default();
        // It is always known: the reply to a create tells it.
        let came = member.node.czxid().unwrap_or(i64::MAX);
        let dated;
        let opened = ready.as_ref().map(|ready| ready.mzxid);
        let admission = match admission(opened, &children, own, came, self.members) {
            Admission::Late(opened) => {
                dated = self.dated(session, children.iter()).await?;
                late_admission(opened, &dated, own, self.members)
            }
            admission => admission,
        };
        match admission {
            Admission::In => return Ok(Progress::In),
            Admission::Lost => return Ok(Progress::Lost),
            Admission::Enough(counted) => {
                return self.open(session, &counted, ready.map(|stale| stale.version)).await;
            }
            Admission::Join(others) => return self.join(session, &others).await,
            Admission::Hidden => {
                return Err(self.error("look for the members of the barrier", zk::Error::NoAuth));
            }
            // Of the latter, there is none left.
            Admission::Wait | Admission::Late(_) => {}
        }
        self.wait(session, member, &mut watcher).await
    }

    /// Waits for a sign that it is let in, or that it must look again.
    async fn wait(&self, session: &Session, member: &mut Member, ready: &mut Watcher) -> Result<Progress> {
        let node = &mut member.node;
        if !node.is_watched() {
            match self.client.attempt_one(session, node.watch()).await {
                Err(zk::Error::NoNode) => return Ok(Progress::Lost),
                watched => watched.map_err(|source| self.error("enter the barrier", source))?,
            }
        }
        let (event, is_own) = tokio::select! {
            biased;
            event = ready.changed() => (event, false),
            Some(event) = OptionFuture::from(node.watcher().map(Watcher::changed)) => (event, true),
            // The watches would report it only at the end of the session.
            () = self.client.disconnected() => (EventType::Session, false),
            () = session.ended() => (EventType::Session, false),
        };
        match event {
            EventType::NodeCreated if !is_own => return Ok(Progress::In),
            EventType::NodeDeleted if is_own => return Ok(Progress::Lost),
            _ => {}
        }
        // It is set again on the next connection, or after a write by someone else.
        drop(node.take_watch());
        Ok(Progress::Again)
    }

    /// Deletes earlier members of this client that may still exist, creates the node of this one unless it is there, looks
    /// whether the members are let in, and lists them, all in one round trip. Returns `None` if that has to be tried again.
    async fn come(&self, session: &Arc<Session>, member: &mut Member) -> Result<Option<Sight>> {
        let error = |source| self.error("enter the barrier", source);
        if !member.node.is_unsent() && member.node.name().is_none() {
            self.client.attempt_one(session, member.node.settle()).await.map_err(error)?;
        }
        let is_there = member.node.name().is_some();
        if !is_there && !member.node.is_unsent() {
            *member = Member::new(&self.client, session, &self.path);
        }
        let remains = remains(&self.client, &self.path);
        let tidying = join_all(remains.iter().map(|path| session.delete(path)));
        let coming = async {
            match is_there {
                true => Ok(CreateOutcome::Created),
                false => member.create().await,
            }
        };
        // Sent in this order.
        let all = join4(tidying, coming, session.watch_stat(&self.ready), session.list(&self.path));
        let Some((tidied, come, ready, children)) = self.client.attempt(session, all).await else {
            return Err(error(zk::Error::ConnectionLoss));
        };
        match come.map_err(error)? {
            CreateOutcome::Created => {}
            CreateOutcome::ParentMissing => {
                self.client.attempt_to_make_parents(session, &self.path).await?;
                *member = Member::new(&self.client, session, &self.path);
                return Ok(None);
            }
            CreateOutcome::TooLarge => {
                let path = self.path.to_string();
                return Err(Error::RequestTooLarge { operation: "create a node in", path });
            }
            CreateOutcome::GuardMissing => return Ok(None),
            CreateOutcome::Unknown(source) => return Err(error(source)),
        }
        // Those that may not be deleted count until their session ends.
        let is_passing = |source: &zk::Error| Failure::of(source).is_passing();
        if let Some(source) = tidied.into_iter().filter_map(Result::err).find(is_passing) {
            return Err(error(source));
        }
        let (ready, watcher) = ready.map_err(error)?;
        let children = match children {
            Ok(children) => children,
            // It was removed with everything in it.
            Err(zk::Error::NoNode) => Vec::new(),
            Err(source) if is_passing(&source) => return Err(error(source)),
            Err(source) => return Err(self.error("list the members of the barrier", source)),
        };
        Ok(Some((ready, watcher, children)))
    }

    /// Returns the members that are there, and the transactions that created them; `None` for those that may not be read.
    async fn dated(
        &self,
        session: &Session,
        children: impl Iterator<Item = &String>,
    ) -> Result<Vec<(String, Option<i64>)>> {
        /// How many nodes are looked at in one round trip.
        const AT_ONCE: usize = 100;
        let members: Vec<_> = children.filter(|name| *name != READY).collect();
        let mut dated = Vec::new();
        for members in members.chunks(AT_ONCE) {
            let looking = try_join_all(members.iter().map(|name| async move {
                match session.stat(&self.child(name)).await {
                    Ok(stat) => Ok(stat.map(|stat| ((*name).clone(), Some(stat.czxid)))),
                    Err(zk::Error::NoAuth) => Ok(Some(((*name).clone(), None))),
                    Err(error) => Err(error),
                }
            }));
            let looked = self.client.attempt_one(session, looking).await;
            let looked =
                looked.map_err(|source| self.error("look for the members of the barrier", source))?;
            dated.extend(looked.into_iter().flatten());
        }
        Ok(dated)
    }
}
