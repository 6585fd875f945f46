//! Numbers that are promoted to a lock when they keep failing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use futures_util::future::join;
use zk_recipes::atomic::{AtomicOptions, DistributedAtomicLong};
use zk_recipes::testing::{FaultProxy, Traffic};
use zk_recipes::{Client, Error, InterProcessMutex, LockGuard};
use zookeeper_client as zk;

use crate::recipes::stage::{server_and_proxy, server_proxy_and_bystander};
use crate::support::{PooledServer, bystander, children, connect, connect_through, eventually, within};

const PATH: &str = "/numbers/a";
const LOCK: &str = "/numbers/lock";

fn long(client: &Client) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, PATH).unwrap()
}

fn longest() -> AtomicOptions {
    AtomicOptions::new().timeout(Duration::MAX)
}

/// Writes all the time, until it is dropped. What it writes rises.
struct Rival {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Rival {
    async fn start(zookeeper: &zk::Client) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (is_over, zookeeper) = (stop.clone(), zookeeper.clone());
        let task = tokio::spawn(async move {
            let mut number = 1_000_i64;
            while !is_over.load(SeqCst) {
                number += 1000;
                zookeeper.set_data(PATH, &number.to_be_bytes(), None).await.unwrap();
            }
        });
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.store(true, SeqCst);
        self.task.await.unwrap();
    }
}

async fn queue(zookeeper: &zk::Client, length: usize) {
    eventually("the queue has this length", || async {
        (children(zookeeper, LOCK).await.len() == length).then_some(())
    })
    .await;
}

/// Another client has the lock.
struct Held {
    _server: PooledServer,
    proxy: FaultProxy,
    zookeeper: zk::Client,
    client: Client,
    _holder: (Client, LockGuard),
}

impl Held {
    async fn start() -> Self {
        let (server, proxy) = server_and_proxy().await;
        let holder = connect(&server).await;
        let held = InterProcessMutex::new(&holder, LOCK).unwrap().acquire().await.unwrap();
        long(&holder).force_set(0).await.unwrap();
        let (zookeeper, client) = (bystander(&server).await, connect_through(&proxy).await);
        Self { _server: server, proxy, zookeeper, client, _holder: (holder, held) }
    }

    /// Runs `adding` until it waits for the lock.
    async fn promote(&self, options: AtomicOptions) -> tokio::task::JoinHandle<zk_recipes::Result<i64>> {
        let locking = long(&self.client).with_options(&options.promoted_to_lock(LOCK)).unwrap();
        self.proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(10)));
        let rival = Rival::start(&self.zookeeper).await;
        let promoted = tokio::spawn(async move { locking.fetch_add(1).await });
        queue(&self.zookeeper, 2).await;
        rival.stop().await;
        self.proxy.set_traffic(Traffic::pass());
        promoted
    }
}

#[tokio::test]
async fn who_vanishes_leaves_the_queue_of_the_lock() {
    let stage = Held::start().await;
    let promoted = stage.promote(longest()).await;
    // Others are not held up meanwhile.
    let plain = long(&stage.client);
    within(plain.increment()).await.unwrap();
    promoted.abort();
    assert!(promoted.await.unwrap_err().is_cancelled());
    queue(&stage.zookeeper, 1).await;
    within(plain.increment()).await.unwrap();
}

#[tokio::test]
async fn a_wait_for_the_lock_ends_with_the_time_of_the_call() {
    let stage = Held::start().await;
    let promoted = stage.promote(AtomicOptions::new().timeout(Duration::from_secs(5))).await;
    let outcome = within(promoted).await.unwrap();
    assert!(matches!(outcome, Err(Error::Contended { .. })), "{outcome:?}");
    queue(&stage.zookeeper, 1).await;
}

#[tokio::test]
async fn the_error_of_a_lock_is_for_those_who_ask_for_it() {
    let (_server, proxy, zookeeper) = server_proxy_and_bystander().await;
    let client = connect_through(&proxy).await;
    long(&client).force_set(0).await.unwrap();
    let readable = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_read());
    zookeeper.create("/forbidden", b"", &readable).await.unwrap();
    let locking = long(&client).with_options(&longest().promoted_to_lock("/forbidden/lock")).unwrap();
    let plain = long(&client).with_options(&longest()).unwrap();
    proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(10)));
    let rival = Rival::start(&zookeeper).await;
    let plain = tokio::spawn(async move { plain.increment().await });
    let refused = within(locking.increment()).await;
    rival.stop().await;
    proxy.set_traffic(Traffic::pass());
    assert!(matches!(&refused, Err(Error::ZooKeeper { .. })), "{refused:?}");
    let outcome = within(plain).await.unwrap();
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[tokio::test]
async fn no_client_waits_for_a_lock_that_it_holds_itself() {
    let (_server, proxy, zookeeper) = server_proxy_and_bystander().await;
    let client = connect_through(&proxy).await;
    long(&client).force_set(0).await.unwrap();
    let number = long(&client).with_options(&longest().promoted_to_lock(LOCK)).unwrap();
    proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(10)));
    let rival = Rival::start(&zookeeper).await;
    let updating = tokio::spawn({
        let number = number.clone();
        async move { number.fetch_update(|old| Some(old + 1)).await }
    });
    // It is promoted.
    queue(&zookeeper, 1).await;
    let adding = tokio::spawn(async move { number.fetch_add(1).await });
    queue(&zookeeper, 2).await;
    rival.stop().await;
    proxy.set_traffic(Traffic::pass());
    let (updated, added) = within(join(updating, adding)).await;
    assert!(updated.unwrap().unwrap().is_ok() && added.unwrap().is_ok());
    queue(&zookeeper, 0).await;
}
