//! ZooKeeper: one server or an ensemble, which wait for the disk as by default.

use std::time::Duration;

use zk_recipes::CreateMode;
use zk_recipes::testing::{TestingCluster, TestingServer};
use zk_recipes::zookeeper_client::{Acls, Client, CreateOptions, Error};

use crate::Result;
use crate::load::{Load, Locks, Operation};
use crate::meter::Packets;
use crate::peers;

const DIRECTORY: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const CONTAINER: CreateOptions<'static> = CreateMode::Container.with_acls(Acls::anyone_all());
/// ZooKeeper's default, as are the two properties.
const TICK: Duration = Duration::from_secs(2);
const DEFAULTS: [(&str, &str); 2] = [("forceSync", "yes"), ("preAllocSize", "65536")];
/// Of nodes in one transaction.
const BATCH: usize = 500;

pub(crate) struct ZooKeeper {
    servers: Servers,
    version: String,
    /// That makes nodes for the participants.
    client: Client,
}

enum Servers {
    One(TestingServer),
    Ensemble(TestingCluster),
}

impl ZooKeeper {
    /// On the jars of `install-peers`, or else on those that the module `testing` finds.
    pub(crate) async fn start(servers: usize) -> Result<Self> {
        let class_path = peers::class_path();
        macro_rules! start {
            ($builder:expr) => {{
                let mut builder = $builder.tick_time(TICK);
                for (key, value) in DEFAULTS {
                    builder = builder.property(key, value);
                }
                if let Some(class_path) = class_path {
                    builder = builder.class_path(class_path);
                }
                builder.start().await?
            }};
        }
        let servers = match servers {
            1 => Servers::One(start!(TestingServer::builder())),
            size => Servers::Ensemble(start!(TestingCluster::builder(size))),
        };
        let srvr = servers.all()[0].four_letter_word("srvr").await?;
        let version =
            srvr.split(['-', ' ', ',']).find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
        let version = version.unwrap_or("of an unknown version").to_owned();
        let connector = Client::connector().with_session_timeout(Duration::from_secs(30));
        let client = connector.connect(&servers.connect_string()).await?;
        Ok(Self { servers, version, client })
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn connect_string(&self) -> String {
        self.servers.connect_string()
    }

    pub(crate) fn process_ids(&self) -> Vec<u32> {
        self.servers.all().iter().filter_map(TestingServer::pid).collect()
    }

    pub(crate) async fn packets(&self) -> Result<Packets> {
        let mut packets = Packets::default();
        for server in self.servers.all() {
            let mntr = server.four_letter_word("mntr").await?;
            let number = |name: &str| -> Result<f64> {
                let line = mntr.lines().find_map(|line| line.strip_prefix(name));
                Ok(line.ok_or_else(|| format!("mntr has no {name}"))?.trim().parse()?)
            };
            packets.received += number("zk_packets_received\t")?;
            packets.sent += number("zk_packets_sent\t")?;
        }
        Ok(packets)
    }

    /// Makes the node at the path of a load, and those below that are to be there.
    pub(crate) async fn prepare(&self, path: &str, load: Load, rounds: usize) -> Result<()> {
        self.client.mkdir(path, &DIRECTORY).await?;
        match load {
            Load::Timed { operation: Operation::Multi | Operation::MultiRelease, .. } => {
                self.create(path, ["a", "b", "c"].into_iter().map(str::to_owned), &DIRECTORY).await
            }
            // As what Curator and zk-recipes make when it is missing.
            Load::Timed { operation: Operation::AcquireNew, iterations } => {
                self.create(path, (0..rounds * iterations).map(|number| number.to_string()), &CONTAINER).await
            }
            Load::Contend { sessions, tasks, locks: Locks::Own, .. } => {
                self.create(path, (0..sessions * tasks).map(|lock| lock.to_string()), &DIRECTORY).await
            }
            _ => Ok(()),
        }
    }

    async fn create(
        &self,
        path: &str,
        names: impl Iterator<Item = String>,
        options: &CreateOptions<'_>,
    ) -> Result<()> {
        let names: Vec<String> = names.collect();
        for batch in names.chunks(BATCH) {
            let mut writer = self.client.new_multi_writer();
            for name in batch {
                writer.add_create(&format!("{path}/{name}"), b"", options)?;
            }
            writer.commit().await?;
        }
        Ok(())
    }

    /// How many contend at a path.
    pub(crate) async fn queue_length(&self, path: &str) -> Result<usize> {
        match self.client.check_stat(path).await {
            Ok(stat) => Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0))),
            Err(Error::NoNode) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

impl Servers {
    fn all(&self) -> &[TestingServer] {
        match self {
            Self::One(server) => std::slice::from_ref(server),
            Self::Ensemble(cluster) => cluster.servers(),
        }
    }

    fn connect_string(&self) -> String {
        match self {
            Self::One(server) => server.connect_string(),
            Self::Ensemble(cluster) => cluster.connect_string(),
        }
    }
}

impl std::fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZooKeeper").field("version", &self.version).finish_non_exhaustive()
    }
}
