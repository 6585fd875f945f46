//! The writes of a lock without the lock: nothing is listed, watched or cleaned up.

use std::time::Duration;

use uuid::Uuid;
use zk_recipes::CreateMode;
use zk_recipes::zookeeper_client::{Acls, Client, CreateOptions, MultiWriteResult};

use super::library::{Kind, Library, members};
use crate::Result;

const OPTIONS: CreateOptions<'static> = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
/// As long as the data of the libraries' nodes, an address.
const DATA: &[u8] = b"127.0.0.1";

pub(crate) struct Floor;

pub(crate) struct Lock {
    client: Client,
    kind: Kind,
    path: String,
}

pub(crate) struct Held {
    client: Client,
    nodes: Vec<String>,
}

impl Lock {
    async fn create(&self) -> Result<String> {
        let prefix = node_prefix(&self.path);
        let (_, sequence) = self.client.create(&prefix, DATA, &OPTIONS).await?;
        Ok(format!("{prefix}{sequence}"))
    }

    async fn create_together(&self, parents: impl IntoIterator<Item = String>) -> Result<Vec<String>> {
        let mut writer = self.client.new_multi_writer();
        for parent in parents {
            writer.add_create(&node_prefix(&parent), DATA, &OPTIONS)?;
        }
        let results = writer.commit().await?.into_iter();
        Ok(results
            .filter_map(|result| match result {
                MultiWriteResult::Create { path, .. } => Some(path),
                _ => None,
            })
            .collect())
    }
}

/// As the libraries name their nodes.
fn node_prefix(path: &str) -> String {
    format!("{path}/_c_{}-lock-", Uuid::new_v4())
}

impl Library for Floor {
    type Session = Client;
    type Lock = Lock;
    type Held = Held;

    async fn connect(servers: &str) -> Result<Client> {
        Ok(Client::connector().with_session_timeout(Duration::from_secs(30)).connect(servers).await?)
    }

    fn lock(client: &Client, kind: Kind, path: &str) -> Result<Lock> {
        let path = match kind {
            // One write, without the one that makes the path.
            Kind::FreshMutex => path.rsplit_once('/').map_or(path, |(parent, _)| parent),
            _ => path,
        };
        Ok(Lock { client: client.clone(), kind, path: path.to_owned() })
    }

    async fn acquire(lock: &Lock) -> Result<Held> {
        let nodes = match lock.kind {
            Kind::Mutex | Kind::Lingering | Kind::FreshMutex => vec![lock.create().await?],
            Kind::Semaphore => lock.create_together([&lock.path, &lock.path].map(String::clone)).await?,
            Kind::Multi => lock.create_together(members(&lock.path)).await?,
        };
        Ok(Held { client: lock.client.clone(), nodes })
    }

    async fn release(Held { client, nodes }: Held) -> Result<()> {
        if let [node] = &nodes[..] {
            return Ok(client.delete(node, None).await?);
        }
        let mut writer = client.new_multi_writer();
        for node in &nodes {
            writer.add_delete(node, None)?;
        }
        writer.commit().await?;
        Ok(())
    }

    async fn close(client: Client) {
        drop(client);
    }
}
