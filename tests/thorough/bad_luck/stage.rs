//! The servers of a round, the clients that compete on them, and somebody who is not disturbed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use zk_recipes::testing::{FaultProxy, TestingCluster, TestingServer, Traffic};
use zk_recipes::{Client, RetryPolicy};
use zookeeper_client as zk;

use crate::SESSION_TIMEOUT;
use crate::run::ROOT;
use crate::support::{BOUND, builder, ephemerals_below, eventually, nodes_below};

pub(crate) const CLIENTS: usize = 4;

/// What compares itself with a pause of the servers' own.
const BYSTANDERS_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) enum Servers {
    One(Box<TestingServer>),
    Three(TestingCluster),
}

impl Servers {
    pub(crate) async fn start(three: bool) -> Self {
        if three {
            // A server that is cut off does not keep the others' connection attempts for long.
            let builder =
                TestingCluster::builder(3).isolatable().system_property("zookeeper.cnxTimeout", "300");
            return Self::Three(builder.start().await.unwrap());
        }
        Self::One(Box::new(TestingServer::start().await.unwrap()))
    }

    pub(crate) fn all(&self) -> &[TestingServer] {
        match self {
            Self::One(server) => std::slice::from_ref(server),
            Self::Three(cluster) => cluster.servers(),
        }
    }

    fn connect_string(&self) -> String {
        self.all().iter().map(TestingServer::connect_string).collect::<Vec<_>>().join(",")
    }

    /// Waits until there is a leader, where there are several.
    pub(crate) async fn recover(&mut self) {
        match self {
            Self::One(server) if !server.is_running() => server.restart().await.unwrap(),
            Self::One(_) => {}
            Self::Three(cluster) => {
                for index in 0..3 {
                    if !cluster.servers()[index].is_running() {
                        cluster.restart(index).await.unwrap();
                    }
                }
                // After a leader was cut off, they may take more than one patience to agree on the next.
                for _ in 0..4 {
                    if cluster.leader().await.is_ok() {
                        return;
                    }
                }
                panic!("the servers do not agree on a leader");
            }
        }
    }
}

/// A client, and its ways to the servers.
pub(crate) struct Member {
    pub(crate) number: usize,
    pub(crate) client: Client,
    /// One to each server.
    pub(crate) proxies: Vec<FaultProxy>,
    /// Whether those of its tasks that are inside stay there, until they have lost the lock.
    stays: AtomicBool,
    last_session: AtomicI64,
    weather: std::sync::Mutex<Weather>,
}

/// How the traffic of a client fares.
#[derive(Default)]
struct Weather {
    delay: Duration,
    silence: Option<Traffic>,
}

impl Member {
    async fn start(servers: &Servers, number: usize) -> Arc<Self> {
        let proxies =
            join_all(servers.all().iter().map(|server| FaultProxy::start(server.connect_string()))).await;
        let proxies: Vec<_> = proxies.into_iter().map(Result::unwrap).collect();
        let hosts: Vec<_> = proxies.iter().map(FaultProxy::connect_string).collect();
        let client = builder()
            .session_timeout(SESSION_TIMEOUT)
            .identity(format!("client-{number}"))
            .retry_policy(RetryPolicy::forever(Duration::from_millis(20)))
            .connect(&hosts.join(","))
            .await
            .unwrap();
        Arc::new(Self {
            number,
            client,
            proxies,
            stays: AtomicBool::new(false),
            last_session: AtomicI64::new(0),
            weather: Default::default(),
        })
    }

    /// The present session, or the last one that was known.
    pub(crate) fn session(&self) -> i64 {
        if let Some(session) = self.live_session() {
            self.last_session.store(session, SeqCst);
        }
        self.last_session.load(SeqCst)
    }

    /// The present session, if it is connected.
    pub(crate) fn live_session(&self) -> Option<i64> {
        let zookeeper = self.client.zookeeper().now_or_never();
        zookeeper.and_then(Result::ok).map(|zookeeper| zookeeper.session_id().0)
    }

    /// How long everything is on its way from now on.
    pub(crate) fn set_delay(&self, delay: Duration) {
        let mut weather = self.weather.lock().unwrap();
        weather.delay = delay;
        self.apply(&weather);
    }

    /// Nothing passes any more, or all of it again.
    pub(crate) fn set_silence(&self, silence: Option<Traffic>) {
        let mut weather = self.weather.lock().unwrap();
        weather.silence = silence;
        self.apply(&weather);
    }

    fn apply(&self, weather: &Weather) {
        let traffic = weather.silence.unwrap_or_else(|| Traffic::pass().delay(weather.delay));
        self.proxies.iter().for_each(|proxy| proxy.set_traffic(traffic));
    }

    pub(crate) fn cut(&self) {
        self.proxies.iter().for_each(FaultProxy::cut);
    }

    pub(crate) fn refuse_connections(&self, refuse: bool) {
        self.proxies.iter().for_each(|proxy| proxy.refuse_connections(refuse).unwrap());
    }

    pub(crate) fn stays(&self) -> bool {
        self.stays.load(SeqCst)
    }

    pub(crate) fn set_stays(&self, stays: bool) {
        self.stays.store(stays, SeqCst);
    }
}

/// The parent of the registers, which nobody but the bystander writes.
const REGISTERS: &str = "/registers";

/// Looks at nodes, directly at the servers.
pub(crate) struct Bystander {
    connect_string: String,
    has_several: bool,
    zookeeper: Mutex<zk::Client>,
    /// The latest confirmed version of [`REGISTERS`].
    confirmed: AtomicI32,
    has_seen_the_past: AtomicBool,
}

impl Bystander {
    async fn connect(connect_string: &str) -> zk::Client {
        let connector = zk::Client::connector().with_session_timeout(BYSTANDERS_TIMEOUT);
        eventually("a bystander is connected", async || connector.clone().connect(connect_string).await.ok())
            .await
    }

    async fn start(servers: &Servers) -> Self {
        let connect_string = servers.connect_string();
        let zookeeper = Mutex::new(Self::connect(&connect_string).await);
        let has_several = servers.all().len() > 1;
        let (confirmed, has_seen_the_past) = Default::default();
        Self { connect_string, has_several, zookeeper, confirmed, has_seen_the_past }
    }

    /// A session that lives.
    pub(crate) async fn zookeeper(&self) -> zk::Client {
        let mut zookeeper = self.zookeeper.lock().await;
        if zookeeper.state().is_terminated() {
            *zookeeper = Self::connect(&self.connect_string).await;
        }
        zookeeper.clone()
    }

    /// Reads a register as it is now. `None` if the servers do not answer.
    ///
    /// Of several servers, one that is cut off may read the past, and even answer a `sync` by itself; so a write is
    /// committed before, which only a majority does.
    pub(crate) async fn read(&self, register: &str) -> Option<u64> {
        let reading = async {
            let zookeeper = self.zookeeper().await;
            if self.has_several {
                self.write(&zookeeper).await?;
            }
            number(zookeeper.get_data(register).await.ok()?.0)
        };
        timeout(SESSION_TIMEOUT, reading).await.ok().flatten()
    }

    /// Each version is greater than all that were confirmed before it was asked for, unless the servers have lost some.
    async fn write(&self, zookeeper: &zk::Client) -> Option<()> {
        let confirmed = self.confirmed.load(SeqCst);
        let version = zookeeper.set_data(REGISTERS, b"", None).await.ok()?.version;
        self.confirmed.fetch_max(version, SeqCst);
        if version <= confirmed {
            println!("version {version} of {REGISTERS} comes after {confirmed}");
            self.has_seen_the_past.store(true, SeqCst);
        }
        Some(())
    }

    /// Whether the servers have lost writes that they had confirmed.
    ///
    /// Servers that end soon after a change of the leader may lose what they have received by then (ZOOKEEPER-4785, seen
    /// with 3.8.0). No client can help that.
    pub(crate) async fn has_seen_the_past(&self) -> bool {
        let zookeeper = self.zookeeper().await;
        let _ = timeout(SESSION_TIMEOUT, self.write(&zookeeper)).await;
        self.has_seen_the_past.load(SeqCst)
    }
}

/// What a register says.
pub(crate) fn number(data: Vec<u8>) -> Option<u64> {
    String::from_utf8(data).ok()?.parse().ok()
}

pub(crate) struct Stage {
    pub(crate) servers: Servers,
    pub(crate) members: Vec<Arc<Member>>,
    pub(crate) bystander: Arc<Bystander>,
}

impl Servers {
    /// A node that one server shows and another does not, and goes on to.
    ///
    /// After some changes of the leader a ZooKeeper server keeps ephemeral nodes of a history that the others have
    /// given up (ZOOKEEPER-5010, seen with 3.8): whoever asks that server waits for them for ever, and numbers are given
    /// again. No client can help that.
    pub(crate) async fn disagreement(&self) -> Option<String> {
        let before = join_all(self.all().iter().map(nodes_of)).await;
        sleep(SESSION_TIMEOUT * 2).await;
        let after = join_all(self.all().iter().map(nodes_of)).await;
        for (has, (then, now)) in before.iter().zip(&after).enumerate() {
            let stays = then.iter().filter(|(path, czxid)| now.get(*path) == Some(czxid));
            for (path, czxid) in stays {
                let lacks = (0..before.len())
                    .find(|server| !before[*server].contains_key(path) && !after[*server].contains_key(path));
                if let Some(lacks) = lacks {
                    return Some(format!(
                        "server {has} has {path} of {czxid:#x}, and server {lacks} has not"
                    ));
                }
            }
        }
        None
    }
}

/// The nodes of the locks as one server shows them, each with the transaction that created it.
async fn nodes_of(server: &TestingServer) -> BTreeMap<String, i64> {
    let zookeeper = Bystander::connect(&server.connect_string()).await;
    let nodes = nodes_below(&zookeeper, ROOT).await;
    nodes.into_iter().map(|(path, stat)| (path, stat.czxid)).collect()
}

impl Stage {
    pub(crate) async fn set(three: bool, registers: impl Iterator<Item = &str>) -> Self {
        let servers = Servers::start(three).await;
        let bystander = Arc::new(Bystander::start(&servers).await);
        let zookeeper = bystander.zookeeper().await;
        let mode = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
        zookeeper.create(REGISTERS, b"", &mode).await.unwrap();
        for register in registers {
            zookeeper.create(register, b"0", &mode).await.unwrap();
        }
        let members = join_all((0..CLIENTS).map(|number| Member::start(&servers, number))).await;
        Self { servers, members, bystander }
    }

    /// Nothing is left of all tasks, while the clients live; and nothing of the clients when they are closed. Returns how
    /// the servers disagree if something is left.
    pub(crate) async fn leave(self) -> Option<String> {
        let zookeeper = self.bystander.zookeeper().await;
        let nothing_left = eventually("no node is left", async || {
            ephemerals_below(&zookeeper, ROOT).await.is_empty().then_some(())
        });
        if timeout(BOUND / 2, nothing_left).await.is_err() {
            let disagreement = self.servers.disagreement().await;
            return Some(disagreement.expect("nothing is left"));
        }
        self.no_watch_is_left("of the tasks").await;
        join_all(self.members.iter().map(|member| member.client.close())).await;
        self.no_watch_is_left("of the clients").await;
        None
    }

    async fn no_watch_is_left(&self, whose: &str) {
        for server in self.servers.all() {
            eventually(&format!("no watch {whose} is left"), async || {
                (server.watch_count().await.ok()? == 0).then_some(())
            })
            .await;
        }
    }
}
