//! The steps by which a member leaves a double barrier.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::{join, join3};
use zookeeper_client::{self as zk, EventType};

use super::decision::members_in_order;
use super::member::{Member, writes_ready};
use super::round::Round;
use super::site::Site;
use crate::client::{Failures, Session, Watcher};
use crate::error::Result;
use crate::failure::if_exists;

/// A member on its way out. Dropping it leaves in the background.
pub(super) struct Leaving {
    site: Site,
    member: Option<Member>,
    round: Round,
    /// The members that may be of this round: those that were listed after the last one had joined. `None` if not known.
    candidates: Option<HashSet<String>>,
    is_tidy: bool,
}

impl Leaving {
    /// Prepares the leave of a member, whose round is known if it has looked since it has entered.
    pub(super) fn new(site: &Site, member: Member, round: Option<Round>) -> Self {
        let came = member.node.czxid().unwrap_or_default();
        let round = round.unwrap_or_else(|| Round::before(came));
        Self { site: site.detached(), member: Some(member), round, candidates: None, is_tidy: false }
    }

    /// Deletes the node of this member, and finds out which members are of the same round. Returns false if it was gone.
    pub(super) async fn leave(&mut self) -> Result<bool> {
        let Some(member) = self.member.take() else { return Ok(false) };
        let Site { client, path, ready, .. } = &self.site;
        let session = member.node.session().clone();
        let mut failures = Failures::default();
        while !client.ready(&session).await {
            let error = client.not_connected(client.connection_timeout());
            failures.pause_after(error, client.retry_policy()).await?;
        }
        if !self.round.is_known() {
            // After the delete, `ready` could be that of the next round.
            tokio::select! {
                seen = self.look_for_ready(&mut failures) => self.round = seen?.as_ref().map_or(self.round, Round::of),
                () = session.ended() => return Ok(false),
            }
            failures.reset();
        }
        // Looked at before the delete, while this member is part of the round.
        let (seen, children, left) =
            join3(session.stat(ready), session.list(path), member.remove(failures)).await;
        if !left? {
            return Ok(false);
        }
        self.candidates = children.ok().map(HashSet::from_iter);
        match seen {
            Ok(Some(ready)) => self.round = Round::of(&ready),
            // Someone has deleted it early.
            Ok(None) => {}
            Err(_) => {
                // All members may have left by now, and those of the next round have come.
                let seen = self.look_for_ready(&mut Failures::default()).await?;
                if let Some(ready) = seen.filter(|ready| self.round.may_go_on_with(ready)) {
                    self.round = Round::of(&ready);
                }
            }
        }
        Ok(true)
    }

    async fn look_for_ready(&self, failures: &mut Failures) -> Result<Option<zk::Stat>> {
        let Site { client, ready, .. } = &self.site;
        let look = |session: Arc<Session>| async move { session.stat(ready).await };
        client.request_after(failures, "look for", ready, look).await
    }

    /// Waits until no member of this round is left.
    pub(super) async fn others_have_left(&mut self) -> Result<()> {
        let client = self.site.client.clone();
        let mut failures = Failures::default();
        // Watches are dropped after the next ones have been set, so that none has to be set anew.
        let mut next = None;
        loop {
            let session = client.session_after(&mut failures).await?;
            match client.attempt_one(&session, self.watch_next(&session)).await {
                Ok(None) => return Ok(()),
                Ok(Some(watches)) => {
                    failures.reset();
                    let (member, ready) = next.insert(watches);
                    tokio::select! {
                        _ = member.changed() => {}
                        // Others join, or someone deletes `ready` early.
                        _ = ready.changed() => {}
                        // The watches would report it only at the end of the session.
                        () = client.disconnected() => {}
                    }
                }
                Err(source) => self.pause_after(source, &mut failures).await?,
            }
        }
    }

    /// Lists the members, and watches one of this round that has not left, and `ready`. Returns `None` if all have left.
    async fn watch_next(&mut self, session: &Session) -> Result<Option<(Watcher, Watcher)>, zk::Error> {
        let Site { path, ready, .. } = &self.site;
        loop {
            // In this order: a member that joined by the help of one that is not listed any more has written `ready`.
            let (children, ready) = join(session.list(path), session.watch_stat(ready)).await;
            let Some(children) = if_exists(children)? else { return Ok(None) };
            let (stat, ready) = ready?;
            if let Some(ready) = stat.as_ref().filter(|ready| self.round.is_of(ready)) {
                if Round::of(ready) == self.round {
                    // No one has joined since the last look, so this list has all that have.
                    self.candidates.get_or_insert_with(|| children.iter().cloned().collect());
                } else {
                    self.candidates = None;
                }
                self.round = Round::of(ready);
            }
            let (mut is_old, mut unchecked) = (false, None);
            let is_own = stat.as_ref().is_some_and(|ready| self.round.is_of(ready));
            for name in members_in_order(&children) {
                let is_let_in = is_own && !writes_ready(name);
                // It came later, and has not written `ready`: it waits for the next round.
                if !is_let_in && self.candidates.as_ref().is_some_and(|all| !all.contains(name)) {
                    continue;
                }
                let member = match session.watch_data(&self.site.child(name)).await {
                    Ok((_, member, watcher)) if is_let_in || self.round.includes(member.czxid) => {
                        // It was there when `ready` was looked at, so that belongs to its round.
                        let round = stat.as_ref().map_or(self.round, Round::of);
                        if std::mem::replace(&mut self.round, round) != round {
                            self.candidates = None;
                        }
                        watcher
                    }
                    // It waits for the next round.
                    Ok(_) => continue,
                    Err(zk::Error::NoNode) => {
                        is_old = true;
                        continue;
                    }
                    // The end of a node that may not be read is only seen in the list.
                    Err(zk::Error::NoAuth) => {
                        let (now, mut list) = session.watch_list(path).await?;
                        if !now.iter().any(|now| now == name) || list.seen() == Some(EventType::Session) {
                            is_old = true;
                            continue;
                        }
                        list
                    }
                    Err(error) => return Err(error),
                };
                if stat.is_some() {
                    return Ok(Some((member, ready)));
                }
                if self.site.reopen(session, name).await? {
                    (is_old, unchecked) = (true, None);
                    break;
                }
                // Others may be checked, and wait.
                unchecked.get_or_insert(member);
            }
            if let Some(member) = unchecked {
                return Ok(Some((member, ready)));
            }
            if !is_old {
                return Ok(None);
            }
        }
    }

    /// Deletes `ready`, unless there are members.
    pub(super) async fn tidy(&mut self) -> Result<()> {
        self.site.tidy().await?;
        self.is_tidy = true;
        Ok(())
    }

    async fn pause_after(&self, source: zk::Error, failures: &mut Failures) -> Result<()> {
        let error = self.site.error("leave the barrier", source);
        if error.ends_session() {
            return Ok(());
        }
        failures.pause_after(error, self.site.client.retry_policy()).await
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        // The delete of the node is sent first.
        drop(self.member.take());
        if !self.is_tidy {
            self.site.tidy_in_background();
        }
    }
}
