//! Everything that sets watches and gives them up, while the nodes change, far from a server in memory: what
//! `zookeeper-client` keeps for watches is unsafe code. An address sanitizer ends the process at the first wrong access.
//! Without one, this proves little; CONTRIBUTING.md has the command.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zk_recipes::barriers::Barrier;
use zk_recipes::cache::{Cache, CacheOptions};
use zk_recipes::discovery::{ServiceDiscovery, ServiceInstance};
use zk_recipes::nodes::Group;
use zk_recipes::testing::{FaultProxy, MemoryServer, Traffic};
use zk_recipes::{Client, InterProcessMutex};
use zookeeper_client as zk;

/// The nodes that change, that caches and locks share.
const PATHS: [&str; 4] = ["/r", "/r/a", "/r/a/b", "/r/c"];

#[derive(Default)]
struct Counts {
    caches: AtomicU64,
    groups: AtomicU64,
    services: AtomicU64,
    locks: AtomicU64,
    clients: AtomicU64,
}

fn main() {
    let seconds = std::env::var("ASAN_SECONDS").map_or(60, |seconds| seconds.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run(Duration::from_secs(seconds)));
}

async fn run(duration: Duration) {
    let end = Instant::now() + duration;
    let counts = Arc::new(Counts::default());
    let server = MemoryServer::start().unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let connected = Client::connect(&proxy.connect_string()).await.unwrap();
    let mut tasks = JoinSet::new();
    for path in PATHS {
        tasks.spawn(write(server.connect_string(), path));
        tasks.spawn(locks(connected.clone(), path, counts.clone()));
    }
    for path in PATHS {
        tasks.spawn(groups(connected.clone(), path, counts.clone()));
    }
    for _ in 0..6 {
        tasks.spawn(caches(connected.clone(), counts.clone()));
    }
    tasks.spawn(services(connected, counts.clone()));
    tasks.spawn(clients(proxy.connect_string(), counts.clone()));
    while Instant::now() < end {
        // Requests are on their way for longer or shorter.
        let delay = fastrand::u64(0..20);
        proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(delay)));
        tokio::select! {
            Some(ended) = tasks.join_next() => ended.unwrap(),
            () = sleep(Duration::from_secs(2)) => {}
        }
        if fastrand::u8(0..5) == 0 {
            proxy.cut();
        }
    }
    let Counts { caches, groups, services, locks, clients } = &*counts;
    println!(
        "{caches:?} caches, {groups:?} groups, {services:?} services, {locks:?} locks, {clients:?} clients: no report"
    );
}

/// Up to a few milliseconds: about as long as a round trip.
async fn pause() {
    sleep(Duration::from_micros(fastrand::u64(0..30_000))).await;
}

/// Changes the data and the children of a node all the time.
async fn write(hosts: String, path: &'static str) {
    let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    let child = format!("{path}/x");
    loop {
        let Ok(zookeeper) = zk::Client::connect(&hosts).await else { continue };
        while zookeeper.state() == zk::SessionState::SyncConnected {
            let _ = zookeeper.create(path, b"", &open).await;
            let _ = zookeeper.set_data(path, b"new", None).await;
            let _ = zookeeper.create(&child, b"", &open).await;
            let _ = zookeeper.delete(&child, None).await;
            sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn caches(client: Client, counts: Arc<Counts>) {
    loop {
        let path = PATHS[fastrand::usize(0..PATHS.len())];
        let options = if fastrand::bool() { CacheOptions::tree() } else { CacheOptions::node() };
        let cache = Cache::start(&client, path, options).unwrap();
        // Given up while the watch is being set, while the nodes are read, or later.
        let _ = timeout(Duration::from_micros(fastrand::u64(0..100_000)), cache.wait_loaded()).await;
        if fastrand::bool() {
            pause().await;
        }
        drop(cache);
        counts.caches.fetch_add(1, Relaxed);
    }
}

/// Watches of the data and of the children of nodes, which are given up.
async fn groups(client: Client, path: &'static str, counts: Arc<Counts>) {
    let barrier = Barrier::new(&client, &format!("{path}/x")).unwrap();
    loop {
        let group = Group::new(&client, path).unwrap();
        let members = group.watch_members();
        let _ = barrier.wait_within(Duration::from_millis(30)).await;
        if let Ok(Ok(member)) = timeout(Duration::from_millis(50), group.join("m", "payload")).await {
            pause().await;
            let _ = member.leave().await;
        }
        drop(members);
        counts.groups.fetch_add(1, Relaxed);
    }
}

/// More callers than one that give up.
async fn locks(client: Client, path: &'static str, counts: Arc<Counts>) {
    let lock = format!("{path}/lock");
    let one = async || {
        let mutex = InterProcessMutex::new(&client, &lock).unwrap();
        let patience = Duration::from_micros(fastrand::u64(1..60_000));
        if let Ok(Some(guard)) = mutex.try_acquire_for(patience).await {
            pause().await;
            let _ = guard.release().await;
        }
        counts.locks.fetch_add(1, Relaxed);
    };
    loop {
        tokio::join!(one(), one(), one());
    }
}

async fn services(client: Client, counts: Arc<Counts>) {
    let discovery = ServiceDiscovery::<()>::new(&client, "/services").unwrap();
    loop {
        let cache = discovery.cache("s").unwrap();
        if let Ok(Ok(registration)) =
            timeout(Duration::from_millis(80), discovery.register(ServiceInstance::new("s"))).await
        {
            let _ = timeout(Duration::from_millis(50), cache.wait_loaded()).await;
            drop(registration);
        }
        counts.services.fetch_add(1, Relaxed);
    }
}

/// Clients that are closed, or dropped, while caches, groups and locks are in use.
async fn clients(hosts: String, counts: Arc<Counts>) {
    loop {
        let client = Client::connect(&hosts).await;
        let Ok(client) = client else { continue };
        let mut users = JoinSet::new();
        users.spawn(caches(client.clone(), counts.clone()));
        users.spawn(groups(client.clone(), "/r/a", counts.clone()));
        users.spawn(locks(client.clone(), "/r/a", counts.clone()));
        sleep(Duration::from_millis(fastrand::u64(0..500))).await;
        // What they use of a client that is closed panics or fails; that is not the subject.
        users.shutdown().await;
        if fastrand::bool() {
            client.close().await;
        }
        counts.clients.fetch_add(1, Relaxed);
    }
}
