//! The requests that prove that a session is alive, and bring its server up to date.

use futures_util::future::join;
use tokio::time::sleep_until;
use zookeeper_client as zk;

use super::super::clock::Moment;
use super::super::signs::Probe;
use super::super::write::Write;
use super::{Session, lost};
use crate::meters::Request;

impl Session {
    /// Brings the server of this session up to date with what the leader knows; but that leader may have been
    /// replaced. [`confirm`](Self::confirm) brings it up to date with the ensemble.
    pub(crate) async fn sync(&self, path: &str) -> Result<(), zk::Error> {
        self.sync_on(&self.connected()?.zookeeper, path).await
    }

    /// Reads what includes every change that was made before the call, as far as [`sync`](Self::sync) goes.
    pub(crate) async fn synced<T>(
        &self,
        path: &str,
        read: impl Future<Output = Result<T, zk::Error>>,
    ) -> Result<T, zk::Error> {
        // Sent together: a server answers the requests of a session in order.
        let (synced, read) = join(self.sync(path), read).await;
        synced.and(read)
    }

    /// Reads what includes every change that was made before the call: behind a [confirmation](Self::confirm), and so no
    /// more than `sync` gives under [`KeepAlive::Leader`](super::super::KeepAlive::Leader).
    pub(crate) async fn confirmed<T>(
        &self,
        read: impl Future<Output = Result<T, zk::Error>>,
    ) -> Result<T, zk::Error> {
        let (confirmed, read) = join(self.confirm(), read).await;
        confirmed.and(read)
    }

    async fn sync_on(&self, zookeeper: &zk::Client, path: &str) -> Result<(), zk::Error> {
        self.requests.count(Request::Sync);
        let sent = Moment::now();
        zookeeper.sync(path).await.map_err(lost)?;
        self.answered(Probe::Sync.sign(self.validity.keep_alive()), sent);
        Ok(())
    }

    /// Proves that the session is alive, and brings its server up to date with everything done before: the servers
    /// commit a transaction that changes nothing. Under [`KeepAlive::Leader`](super::super::KeepAlive::Leader) it is a
    /// `sync`, which proves less.
    ///
    /// This needs no permission: a check that is rejected, because the chroot is missing or may not be read, is
    /// committed just as well. A server without a quorum does not answer, or rejects the whole request.
    ///
    /// # Errors
    /// Nothing is proven.
    pub(crate) async fn confirm(&self) -> Result<(), zk::Error> {
        let connection = self.connected()?;
        self.confirm_on(&connection.zookeeper).await
    }

    /// [Confirms](Self::confirm) the session on a connection that may not be the current one yet.
    pub(in crate::client) async fn confirm_on(&self, zookeeper: &zk::Client) -> Result<(), zk::Error> {
        match Probe::of(self.validity.keep_alive()) {
            Probe::Sync => self.sync_on(zookeeper, "/").await,
            Probe::Check => {
                match self.commit_on(zookeeper, &[Write::Check { path: "/", version: None }]).await {
                    Ok(_) | Err(zk::MultiWriteError::OperationFailed { .. }) => Ok(()),
                    Err(zk::MultiWriteError::RequestFailed { source }) => Err(source),
                }
            }
        }
    }

    /// Whether a lock can be handed out on the session right now. If not, it can after
    /// [`become_worth_granting`](Self::become_worth_granting).
    pub(crate) fn is_worth_granting(&self) -> bool {
        self.is_connected() && self.validity.confirm_at(0).is_none()
    }

    /// [Confirms](Self::confirm) the session until a lock can be handed out on it: mostly once, and after a silence of
    /// its connection three times within little more than a quarter of the timeout.
    ///
    /// # Errors
    /// Nothing is proven.
    pub(crate) async fn become_worth_granting(&self) -> Result<(), zk::Error> {
        let mut confirmations = 0;
        let mut was_silent = false;
        while let Some(at) = self.validity.confirm_at(confirmations) {
            // The first poll sends: callers rely on the order of what they send along.
            if confirmations > 0 && Moment::now() < at {
                // Timers can be early by that clock, and it counts.
                while Moment::now() < at {
                    sleep_until(at.instant()).await;
                }
                // What others have sent until then may be enough. If not, it is confirmed now: what they send may put off the
                // best time again and again.
                if self.validity.confirm_at(confirmations).is_none() {
                    break;
                }
            }
            let sent = Moment::now();
            self.confirm().await?;
            confirmations += 1;
            // The leader stood still meanwhile: what was confirmed before counts for less. Once only, for slow connections.
            if !was_silent && Moment::now().since(sent) > self.timeout() / 4 {
                (confirmations, was_silent) = (1, true);
            }
        }
        Ok(())
    }
}
