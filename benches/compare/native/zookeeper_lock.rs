//! The lock of the crate `zookeeper-client`, under Curator's node names.

use std::time::Duration;

use zk_recipes::zookeeper_client::{Acls, Client, LockPrefix, OwnedLockClient};

use super::library::{Kind, Library, unsupported};
use crate::Result;

pub(crate) struct ZookeeperLock;

pub(crate) struct Lock {
    client: Client,
    path: String,
}

impl Library for ZookeeperLock {
    type Session = Client;
    type Lock = Lock;
    type Held = OwnedLockClient;

    async fn connect(servers: &str) -> Result<Client> {
        Ok(Client::connector().with_session_timeout(Duration::from_secs(30)).connect(servers).await?)
    }

    fn lock(client: &Client, kind: Kind, path: &str) -> Result<Lock> {
        match kind {
            Kind::Mutex => Ok(Lock { client: client.clone(), path: path.to_owned() }),
            kind => unsupported(kind),
        }
    }

    async fn acquire(Lock { client, path }: &Lock) -> Result<OwnedLockClient> {
        let prefix = LockPrefix::new_curator(path, "lock-")?;
        Ok(client.lock(prefix, b"", Acls::anyone_all()).await?.into_owned())
    }

    /// It can only be dropped, and deletes its node in the background.
    async fn release(held: OwnedLockClient) -> Result<()> {
        drop(held);
        Ok(())
    }

    async fn close(client: Client) {
        drop(client);
    }
}
