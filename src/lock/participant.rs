//! Who stands in a queue.

use std::fmt;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use zookeeper_client as zk;

use crate::error::Result;
use crate::queue::LockInternals;

/// A contender of a lock, of whatever process and library.
#[derive(Clone, PartialEq, Eq)]
pub struct Participant {
    node_path: String,
    identity: Option<Vec<u8>>,
    session_id: i64,
    since: SystemTime,
    is_holder: bool,
}

impl Participant {
    /// The full path of the contender's node, namespace included.
    pub fn node_path(&self) -> &str {
        &self.node_path
    }

    /// The data of its node, by which it says who it is: a local address by default, here and in Curator.
    /// `None` if this client has no right to read it.
    pub fn identity(&self) -> Option<&[u8]> {
        self.identity.as_deref()
    }

    /// The session that its node belongs to.
    pub fn session_id(&self) -> i64 {
        self.session_id
    }

    /// When it entered the queue, by the clock of the ensemble's leader, to the millisecond.
    pub fn since(&self) -> SystemTime {
        self.since
    }

    /// For how long it has been in the queue, as far as the clocks of the ensemble and of this machine agree.
    pub fn age(&self) -> Duration {
        self.since.elapsed().unwrap_or_default()
    }

    /// Whether it holds the lock.
    pub fn is_holder(&self) -> bool {
        self.is_holder
    }
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant")
            .field("node_path", &self.node_path)
            .field("identity", &self.identity().map(String::from_utf8_lossy))
            .field("session_id", &format_args!("{:#x}", self.session_id))
            .field("since", &self.since)
            .field("is_holder", &self.is_holder)
            .finish()
    }
}

/// The contenders of a queue, in order.
pub(crate) async fn of(internals: &LockInternals) -> Result<Vec<Participant>> {
    let names = internals.contenders().await?;
    let nodes = join_all(names.iter().map(|name| {
        let path = internals.child(name);
        async move { (node(internals, &path).await, path) }
    }))
    .await;
    let mut participants = Vec::with_capacity(nodes.len());
    for (node, node_path) in nodes {
        // A contender may have left since the queue was listed: then the next one has its position.
        let Some((identity, stat)) = node? else { continue };
        participants.push(Participant {
            node_path,
            identity,
            session_id: stat.ephemeral_owner,
            since: SystemTime::UNIX_EPOCH + Duration::from_millis(stat.ctime.unsigned_abs()),
            is_holder: internals.is_holder(participants.len()),
        });
    }
    Ok(participants)
}

type Node = (Option<Vec<u8>>, zk::Stat);

async fn node(internals: &LockInternals, path: &str) -> Result<Option<Node>> {
    internals
        .read("read the contenders of", |session| async move {
            match session.data(path).await {
                Ok((data, stat)) => Ok(Some((Some(data), stat))),
                Err(zk::Error::NoNode) => Ok(None),
                Err(zk::Error::NoAuth) => Ok(session.stat(path).await?.map(|stat| (None, stat))),
                Err(error) => Err(error),
            }
        })
        .await
}
