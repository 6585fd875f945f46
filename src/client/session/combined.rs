//! How writes are carried out that may share a transaction with others.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::oneshot;
use zookeeper_client as zk;

use super::super::connection::Connection;
use super::Session;
use super::combining::{Added, Alone, Outlet, Reply, Sharing, Waiting, Wish};
use crate::failure::Failure;

/// How a write is made.
pub(super) enum Way {
    /// By itself, on this connection. It is under way until `Alone` is dropped.
    Alone(Arc<Connection>, Option<Alone>),
    /// It waits for others. The sender is dropped when the connection ends.
    Waits(oneshot::Receiver<Reply>),
}

impl Session {
    /// Makes a write wait for others, if it is to share a transaction with them. `creates` tells what the wish is.
    ///
    /// # Errors
    /// Same as [`connected`](Self::connected).
    pub(super) fn combine(
        self: &Arc<Self>,
        sharing: Sharing,
        creates: bool,
        wish: impl FnOnce() -> Wish,
    ) -> Result<Way, zk::Error> {
        if sharing == Sharing::None {
            return Ok(Way::Alone(self.connected()?, None));
        }
        let connection = self.current()?;
        let Some(combining) = connection.server.combining() else {
            return Ok(Way::Alone(connection, None));
        };
        let outlet = || {
            let (session, connection) = (self.clone(), connection.clone());
            let chroot = connection.zookeeper.path().len();
            let carry_out = move |waiting| session.clone().carry_out(connection.clone(), waiting).boxed();
            Outlet { carry_out: Box::new(carry_out), chroot }
        };
        Ok(match combining.add(sharing, creates, wish, outlet)? {
            Added::Goes(alone) => Way::Alone(connection, Some(alone)),
            Added::Waits(told) => Way::Waits(told),
        })
    }

    /// Carries out writes in one transaction, or each by itself if there is but one. They are sent at the first poll. If
    /// one of them is refused, none was done, and the others may be the reason: they are sent again, each by itself.
    async fn carry_out(
        self: Arc<Self>,
        connection: Arc<Connection>,
        waiting: Vec<Waiting>,
    ) -> Vec<(oneshot::Sender<Reply>, Reply)> {
        if waiting.len() > 1 {
            let writes: Vec<_> = waiting.iter().map(|waiting| waiting.wish.to_write()).collect();
            let committing = self.commit_on(&connection.zookeeper, &writes);
            let replies = match self.in_order(&connection.server, committing).await {
                Ok(results) => Some(self.created_by(&connection, results).await),
                Err(error) => {
                    let error = zk::Error::from(error);
                    let is_refused = Failure::of(&error) == Failure::Refused;
                    (!is_refused).then(|| waiting.iter().map(|_| Err(error.clone())).collect())
                }
            };
            if let Some(replies) = replies {
                return waiting.into_iter().map(|waiting| waiting.reply).zip(replies).collect();
            }
        }
        let making = waiting.into_iter().map(|Waiting { wish, reply, .. }| {
            let (session, connection) = (self.clone(), connection.clone());
            async move {
                let made = match wish {
                    // Its caller looks for it already.
                    Wish::Create(_) if reply.is_closed() => Err(zk::Error::ConnectionLoss),
                    Wish::Create(node) => session.create_on(&connection, &node).await.map(Some),
                    Wish::Delete(path) => {
                        let deleting = session.send_delete_on(&connection, &path);
                        // Else a close would wait for the reply first.
                        drop(connection);
                        deleting.await.map(|()| None)
                    }
                };
                (reply, made)
            }
        });
        let making = join_all(making);
        drop(connection);
        making.await
    }

    /// Returns the replies to the writes of a transaction. Old servers do not tell when its nodes were created: all at once.
    async fn created_by(&self, connection: &Connection, results: Vec<zk::MultiWriteResult>) -> Vec<Reply> {
        let undated = results.iter().find_map(|result| match result {
            zk::MultiWriteResult::Create { path, stat } if stat.is_invalid() => Some(&**path),
            _ => None,
        });
        let read = match undated {
            Some(path) => self.stat_on(connection, path).await.ok().flatten(),
            None => None,
        };
        let created = results.into_iter().map(|result| match result {
            zk::MultiWriteResult::Create { path, stat } => Ok(Some(self.created(path, &stat, read.as_ref()))),
            _ => Ok(None),
        });
        created.collect()
    }
}
