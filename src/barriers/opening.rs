//! The transactions by which members are let in.

use zookeeper_client::{self as zk, CreateMode};

use super::entering::Progress;
use super::site::Site;
use crate::client::{Session, Write, of_write};
use crate::error::Result;

impl Site {
    /// Lets in all members, if those that were counted are still there: someone who is polled late has an old list. A stale
    /// `ready` is replaced, since its creation identifies the round.
    pub(super) async fn open(&self, session: &Session, counted: &[&str], is_stale: bool) -> Result<Progress> {
        let counted: Vec<_> = counted.iter().map(|name| self.child(name)).collect();
        let (acl, data) = (self.client.acl_of(&self.ready), self.client.node_data(self.client.identity()));
        let checks = || counted.iter().map(|path| Write::Check { path, version: None });
        let opening = || {
            let stale = is_stale.then_some(Write::Delete { path: &self.ready, version: None });
            let mode = CreateMode::Persistent;
            stale.into_iter().chain([Write::Create { path: &self.ready, data: &data, mode, acl: &acl }])
        };
        if self.client.fits(checks().chain(opening()).map(|write| of_write(&write))) {
            let writes: Vec<_> = checks().chain(opening()).collect();
            match self.commit(session, &writes).await {
                // Some members may not be read, and so not be checked.
                Err(zk::Error::NoAuth) => {}
                opened => return self.progress(opened),
            }
        }
        let writes: Vec<_> = opening().collect();
        self.progress(self.commit(session, &writes).await)
    }

    /// Joins the members that are in, if this one of them still is. Writing `ready` shows that this member came before that.
    pub(super) async fn join(&self, session: &Session, other: &str) -> Result<Progress> {
        let (other, data) = (self.child(other), self.client.node_data(self.client.identity()));
        let check = Write::Check { path: &other, version: None };
        let joining = [check, Write::SetData { path: &self.ready, data: &data, version: None }];
        self.progress(self.commit(session, &joining).await)
    }

    async fn commit(&self, session: &Session, writes: &[Write<'_>]) -> Result<(), zk::Error> {
        let committing = async { session.commit(writes).await.map(drop).map_err(zk::Error::from) };
        self.client.attempt_one(session, committing).await
    }

    fn progress(&self, committed: Result<(), zk::Error>) -> Result<Progress> {
        match committed {
            Ok(()) => Ok(Progress::In),
            // Someone has gone, or has been faster.
            Err(zk::Error::NoNode | zk::Error::NodeExists) => Ok(Progress::Again),
            Err(source) => Err(self.error("enter the barrier", source)),
        }
    }
}
