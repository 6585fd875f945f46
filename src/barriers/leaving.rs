//! The steps by which a member leaves a double barrier.

use futures_util::future::{join, join3};
use zookeeper_client::{self as zk, EventType};

use super::decision::{is_admitted, members_in_order};
use super::member::Member;
use super::site::Site;
use crate::client::{Failures, Session, Watcher};
use crate::error::Result;

/// A member on its way out. Dropping it leaves in the background.
pub(super) struct Leaving {
    site: Site,
    member: Option<Member>,
    round: Round,
    is_tidy: bool,
}

/// The round that the member belongs to.
struct Round {
    /// The czxid of `ready`; `None` if someone has deleted it early.
    ready: Option<i64>,
    /// The transaction that has written `ready` last. The members of this round have come before it.
    opened: i64,
    /// If someone has deleted `ready` early, the members that were there beside this one.
    beside: Vec<String>,
}

/// What is to happen before it looks again.
struct Next {
    /// A member of this round leaves.
    member: Watcher,
    /// Others join, or someone deletes `ready` early.
    ready: Watcher,
}

impl Round {
    fn of(ready: &zk::Stat) -> Self {
        Self { ready: Some(ready.czxid), opened: ready.mzxid, beside: Vec::new() }
    }

    fn includes(&self, name: &str, came: i64) -> bool {
        is_admitted(came, self.opened) || self.beside.iter().any(|beside| beside == name)
    }
}

impl Leaving {
    pub(super) fn new(site: &Site, member: Member) -> Self {
        let round = Round { ready: None, opened: i64::MIN, beside: Vec::new() };
        Self { site: site.detached(), member: Some(member), round, is_tidy: false }
    }

    /// Deletes the node of this member, and finds out which members are of the same round. Returns false if it was gone.
    pub(super) async fn leave(&mut self) -> Result<bool> {
        let Some(member) = self.member.take() else { return Ok(false) };
        let Site { client, path, ready, .. } = &self.site;
        let session = member.node.session().clone();
        let came = member.node.czxid().unwrap_or_default();
        client.ready(&session).await;
        // Looked at before the delete, while this member is part of the round.
        let (seen, children, left) = join3(session.stat(ready), session.list(path), member.remove()).await;
        if !left? {
            return Ok(false);
        }
        self.round = match (seen, children) {
            (Ok(Some(ready)), _) => Round::of(&ready),
            (Ok(None), Ok(children)) => Round { ready: None, opened: i64::MIN, beside: children },
            _ => {
                let looking =
                    client.request("look for", ready, |session| async move { session.stat(ready).await });
                // If it is gone by now, all members may have left, and those of the next round have come.
                let gone = Round { ready: None, opened: came, beside: Vec::new() };
                looking.await?.as_ref().map_or(gone, Round::of)
            }
        };
        Ok(true)
    }

    /// Waits until no member of this round is left.
    pub(super) async fn others_have_left(&mut self) -> Result<()> {
        let client = self.site.client.clone();
        let mut failures = Failures::default();
        // Watches are dropped after the next ones have been set, so that none has to be set anew.
        let mut next = None;
        loop {
            let session = client.session_under_policy().await?;
            match client.attempt_one(&session, self.watch_next(&session)).await {
                Ok(None) => return Ok(()),
                Ok(Some(watches)) => {
                    failures.reset();
                    let Next { member, ready } = next.insert(watches);
                    tokio::select! {
                        _ = member.changed() => {}
                        _ = ready.changed() => {}
                        // The watches would report it only at the end of the session.
                        () = client.disconnected() => {}
                    }
                }
                Err(source) => self.pause_after(source, &mut failures).await?,
            }
        }
    }

    /// Lists the members, and watches one of this round that has not left. Returns `None` if all have left.
    async fn watch_next(&mut self, session: &Session) -> Result<Option<Next>, zk::Error> {
        let Site { path, ready, .. } = &self.site;
        loop {
            // In this order: whoever has joined by the help of a member that is not listed any more, has written `ready`.
            let (children, ready) = join(session.list(path), session.watch_stat(ready)).await;
            let children = match children {
                Err(zk::Error::NoNode) => return Ok(None),
                children => children?,
            };
            let (stat, ready) = ready?;
            if let Some(ready) = stat.as_ref().filter(|stat| self.round.ready == Some(stat.czxid)) {
                // Others may have joined.
                self.round.opened = ready.mzxid;
            }
            let mut is_old = false;
            for name in members_in_order(&children) {
                let member = match session.watch_data(&self.site.child(name)).await {
                    Ok((_, stat, member)) if self.round.includes(name, stat.czxid) => member,
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
                if stat.is_some() || !self.site.reopen(session, name).await? {
                    return Ok(Some(Next { member, ready }));
                }
                if let Some(ready) = session.stat(&self.site.ready).await? {
                    self.round = Round::of(&ready);
                }
                is_old = true;
                break;
            }
            if !is_old {
                return Ok(None);
            }
        }
    }

    /// Deletes `ready`, unless there are members.
    pub(super) async fn tidy(&mut self) -> Result<()> {
        tidy(&self.site).await?;
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
            let site = self.site.clone();
            self.site.client.finish(async move { tidy(&site).await });
        }
    }
}

/// Deletes `ready`, unless there are members. Members of the next round may come at any time: whoever lets them in writes to
/// `ready`, so it has another version then.
async fn tidy(site: &Site) -> Result<()> {
    let Site { client, path, ready, .. } = site;
    let tidying = client.request("delete", ready, |session| async move {
        let (seen, children) = join(session.stat(ready), session.list(path)).await;
        let children = match children {
            Err(zk::Error::NoNode) => return Ok(()),
            children => children?,
        };
        match seen? {
            Some(seen) if members_in_order(&children).next().is_none() => {
                match session.delete_version(ready, seen.version).await {
                    Err(zk::Error::NoNode | zk::Error::BadVersion) => Ok(()),
                    deleted => deleted,
                }
            }
            _ => Ok(()),
        }
    });
    tidying.await
}
