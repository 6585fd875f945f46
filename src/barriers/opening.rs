//! The transactions by which members are let in.

use zookeeper_client::{self as zk, CreateMode};

use super::entering::Progress;
use super::site::Site;
use crate::client::{Session, Write, of_write};
use crate::error::{Error, Result};

impl Site {
    /// Lets in all members, if those that were counted are still there: someone who is polled late has an old list. A stale
    /// `ready` of this version is replaced, since its creation identifies the round; not if someone has joined by it.
    pub(super) async fn open(
        &self,
        session: &Session,
        counted: &[&str],
        stale: Option<i32>,
    ) -> Result<Progress> {
        let mut counted: Vec<_> = counted.iter().map(|name| self.child(name)).collect();
        let (acl, data) = (self.client.acl_of(&self.ready), self.client.node_data(self.client.identity()));
        let opening = || {
            let delete = stale.map(|version| Write::Delete { path: &self.ready, version: Some(version) });
            // So that it has another version than the stale one, whose delete may come late.
            let write = Write::SetData { path: &self.ready, data: &data, version: None };
            let write = Some(write).filter(|_| stale == Some(0));
            delete.into_iter().chain([create(&self.ready, &data, &acl)]).chain(write)
        };
        loop {
            let checks = counted.iter().map(|path| Write::Check { path, version: None });
            let writes: Vec<_> = checks.chain(opening()).collect();
            if !self.client.fits(writes.iter().map(of_write)) {
                if counted.is_empty() {
                    let path = self.ready.to_string();
                    return Err(Error::RequestTooLarge { operation: "create", path });
                }
                // As many as a request has room for.
                counted.truncate(counted.len() / 2);
                continue;
            }
            match self.commit(session, &writes).await {
                // One that may not be read cannot be checked.
                Err(zk::MultiWriteError::OperationFailed { index, source: zk::Error::NoAuth })
                    if index < counted.len() =>
                {
                    counted.remove(index);
                }
                opened => return self.progress(opened.map_err(zk::Error::from)),
            }
        }
    }

    /// Joins the members that are in, if one of these still is. Writing `ready` shows that this member came before that.
    ///
    /// # Errors
    /// None of them may be read, besides other reasons.
    pub(super) async fn join(&self, session: &Session, others: &[&str]) -> Result<Progress> {
        let data = self.client.node_data(self.client.identity());
        let mut joined = Ok(());
        for other in others {
            let other = self.child(other);
            let check = Write::Check { path: &other, version: None };
            let joining = [check, Write::SetData { path: &self.ready, data: &data, version: None }];
            joined = self.commit(session, &joining).await.map_err(zk::Error::from);
            if joined != Err(zk::Error::NoAuth) {
                break;
            }
        }
        self.progress(joined)
    }

    /// Creates `ready` again, which was deleted while this member of the round is there: it may not have seen it. Returns
    /// false if the member may not be read, and so not be checked.
    pub(super) async fn reopen(&self, session: &Session, member: &str) -> Result<bool, zk::Error> {
        let (acl, data) = (self.client.acl_of(&self.ready), self.client.node_data(self.client.identity()));
        let member = self.child(member);
        let check = Write::Check { path: &member, version: None };
        match self.commit(session, &[check, create(&self.ready, &data, &acl)]).await.map_err(zk::Error::from)
        {
            // It has left, or someone was faster.
            Ok(()) | Err(zk::Error::NoNode | zk::Error::NodeExists) => Ok(true),
            Err(zk::Error::NoAuth) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn commit(&self, session: &Session, writes: &[Write<'_>]) -> Result<(), zk::MultiWriteError> {
        let committing = async { Ok(session.commit(writes).await.map(drop)) };
        self.client.attempt_one(session, committing).await?
    }

    fn progress(&self, committed: Result<(), zk::Error>) -> Result<Progress> {
        match committed {
            Ok(()) => Ok(Progress::In),
            // Someone has gone, or has been faster.
            Err(zk::Error::NoNode | zk::Error::NodeExists | zk::Error::BadVersion) => Ok(Progress::Again),
            Err(source) => Err(self.error("enter the barrier", source)),
        }
    }
}

fn create<'a>(ready: &'a str, data: &'a [u8], acl: &'a [zk::Acl]) -> Write<'a> {
    Write::Create { path: ready, data, mode: CreateMode::Persistent, acl }
}
