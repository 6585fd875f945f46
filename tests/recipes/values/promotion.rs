//! Numbers that are promoted to a lock when they keep failing.

use super::*;

const PATH: &str = "/numbers/a";
const LOCK: &str = "/numbers/lock";

fn long(client: &Client) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, PATH).unwrap()
}

fn longest() -> AtomicOptions {
    AtomicOptions::new().timeout(Duration::MAX)
}

/// Writes all the time, while this is done. What it writes rises.
async fn with_rival<T>(zookeeper: &zk::Client, done: impl Future<Output = T>) -> T {
    let writing = async {
        let mut number = 1_000_i64;
        loop {
            number += 1000;
            zookeeper.set_data(PATH, &number.to_be_bytes(), None).await.unwrap();
        }
    };
    tokio::select! {
        done = done => done,
        () = writing => unreachable!("there is no end to it"),
    }
}

async fn queue(zookeeper: &zk::Client, length: usize) {
    queue_of(zookeeper, LOCK, length).await;
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
    async fn promote(&self, options: AtomicOptions) -> JoinHandle<Result<i64>> {
        let locking = long(&self.client).with_options(options.promoted_to_lock(LOCK)).unwrap();
        self.proxy.set_traffic(Traffic::pass().delay(ms(10)));
        self.proxy.take_requests();
        let promoted = tokio::spawn(async move { locking.fetch_add(1).await });
        with_rival(&self.zookeeper, queue(&self.zookeeper, 2)).await;
        let tries = self.proxy.take_requests();
        let tries = tries.iter().filter(|request| **request == Request::SetData).count();
        assert!(tries >= 3, "first it is tried without: {tries}");
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
    let promoted = stage.promote(AtomicOptions::new().timeout(secs(5))).await;
    let outcome = within(promoted).await.unwrap();
    assert!(matches!(outcome, Err(Error::Contended { .. })), "{outcome:?}");
    queue(&stage.zookeeper, 1).await;
}

#[tokio::test]
async fn the_error_of_a_lock_is_for_those_who_ask_for_it() {
    let (_server, proxy, client, zookeeper) = server_proxy_client_and_bystander().await;
    long(&client).force_set(0).await.unwrap();
    let readable = CreateMode::Persistent.with_acls(zk::Acls::anyone_read());
    zookeeper.create("/forbidden", b"", &readable).await.unwrap();
    let locking = long(&client).with_options(longest().promoted_to_lock("/forbidden/lock")).unwrap();
    let plain = long(&client).with_options(longest()).unwrap();
    proxy.set_traffic(Traffic::pass().delay(ms(10)));
    let plain = tokio::spawn(async move { plain.increment().await });
    let refused = with_rival(&zookeeper, within(locking.increment())).await;
    proxy.set_traffic(Traffic::pass());
    assert!(matches!(&refused, Err(Error::ZooKeeper { .. })), "{refused:?}");
    let outcome = within(plain).await.unwrap();
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[tokio::test]
async fn no_client_waits_for_a_lock_that_it_holds_itself() {
    let (_server, proxy, client, zookeeper) = server_proxy_client_and_bystander().await;
    long(&client).force_set(0).await.unwrap();
    let number = long(&client).with_options(longest().promoted_to_lock(LOCK)).unwrap();
    proxy.set_traffic(Traffic::pass().delay(ms(10)));
    let same = number.clone();
    let updating = tokio::spawn(async move { same.fetch_update(|old| Some(old + 1)).await });
    // It is promoted.
    with_rival(&zookeeper, queue(&zookeeper, 1)).await;
    let adding = tokio::spawn(async move { number.fetch_add(1).await });
    with_rival(&zookeeper, queue(&zookeeper, 2)).await;
    proxy.set_traffic(Traffic::pass());
    let (updated, added) = within(join(updating, adding)).await;
    assert!(updated.unwrap().unwrap().is_ok() && added.unwrap().is_ok());
    queue(&zookeeper, 0).await;
}
