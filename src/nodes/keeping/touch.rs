//! The child whose rewriting keeps a node with a time to live. The servers count that time from the last write to a node,
//! and remove it only while it has no children. So no one who watches the node itself notices anything.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zookeeper_client as zk;

use crate::client::{Client, Session, Write, of_write};

/// How often a node is touched in its time to live. As in Curator.
const TOUCHES: u32 = 2;

/// The child of a kept node.
#[derive(Clone, Debug)]
pub(in crate::nodes) struct Touch {
    ttl: Duration,
    path: Arc<str>,
    /// When it was written to, as far as is known.
    last: Option<Instant>,
    due: Instant,
}

impl Touch {
    pub(in crate::nodes) fn new(ttl: Duration, path: Arc<str>) -> Self {
        Self { ttl, path, last: None, due: Instant::now() }
    }

    /// The size of a request that creates the child.
    pub(in crate::nodes) fn size(&self, client: &Client) -> usize {
        let (acl, data) = (client.acl_of(&self.path), client.node_data(client.identity()));
        of_write(&Write::CreateTtl { path: &self.path, data: &data, ttl: self.ttl, acl: &acl })
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    pub(super) fn is_due(&self) -> bool {
        self.due <= Instant::now()
    }

    /// Whether the node is sure to be kept at present.
    pub(super) fn lasts(&self) -> bool {
        self.last.is_some_and(|last| last.elapsed() < self.ttl)
    }

    /// The child was written to, by a request that was sent at that moment.
    pub(super) fn touched(&mut self, sent: Instant) {
        self.last = Some(sent);
        self.due = sent + self.ttl / TOUCHES;
    }

    /// The node may be another one, of which nothing is known.
    pub(super) fn lapses(&mut self) {
        self.last = None;
        self.due = Instant::now();
    }

    /// Creates the kept node and the child: both or none. Returns the transaction, if the servers tell it.
    pub(super) async fn create_both(
        &self,
        client: &Client,
        session: &Session,
        path: &str,
        data: &[u8],
    ) -> Result<Option<i64>, zk::Error> {
        let (acl, child_acl) = (client.acl_of(path), client.acl_of(&self.path));
        let child_data = client.node_data(client.identity());
        let node = Write::CreateTtl { path, data, ttl: self.ttl, acl: &acl };
        let child = Write::CreateTtl { path: &self.path, data: &child_data, ttl: self.ttl, acl: &child_acl };
        let results = session.commit(&[node, child]).await?;
        Ok(results.into_iter().find_map(|result| match result {
            zk::MultiWriteResult::Create { stat, .. } if !stat.is_invalid() => Some(stat.czxid),
            _ => None,
        }))
    }

    /// Writes to the child, which is created if it is missing.
    ///
    /// # Errors
    /// [`zk::Error::NoNode`]: so is the kept node.
    pub(super) async fn write(&self, client: &Client, session: &Session) -> Result<(), zk::Error> {
        let (acl, data) = (client.acl_of(&self.path), client.node_data(client.identity()));
        match session.set_data(&self.path, &data, None).await {
            Ok(_) => return Ok(()),
            Err(zk::Error::NoNode) => {}
            Err(error) => return Err(error),
        }
        let create = Write::CreateTtl { path: &self.path, data: &data, ttl: self.ttl, acl: &acl };
        match session.commit(&[create]).await.map_err(zk::Error::from) {
            // Someone else has made it meanwhile.
            Ok(_) | Err(zk::Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_keeps_the_node_for_its_time_to_live() {
        let ttl = Duration::from_secs(10);
        let mut touch = Touch::new(ttl, "/a/touch".into());
        assert!(touch.is_due() && !touch.lasts());
        touch.touched(Instant::now());
        assert!(!touch.is_due() && touch.lasts());
        advance(ttl / TOUCHES).await;
        assert!(touch.is_due() && touch.lasts());
        advance(ttl).await;
        assert!(touch.is_due() && !touch.lasts());
        touch.touched(Instant::now());
        touch.lapses();
        assert!(touch.is_due() && !touch.lasts(), "another node");
    }
}
