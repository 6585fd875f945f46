//! The gate of the only permit, which is left along with the next write.

use zk_recipes::shared::SharedCount;

use super::prelude::*;

/// A mutex whose queues its client knows.
async fn known(client: &Client) -> SemaphoreMutex {
    let mutex = SemaphoreMutex::new(client, PATH).unwrap();
    for _ in 0..4 {
        once(&mutex).await;
    }
    mutex
}

/// No one else can have a permit meanwhile. A release that comes soon takes one write for both.
#[history]
async fn the_place_at_the_gate_of_the_only_permit_goes_with_the_next_write(stage: Stage) {
    use Request::{Delete, Multi};
    let (proxy, client) = stage.far(session).await;
    let mutex = known(&client).await;
    proxy.take_requests();
    once(&mutex).await;
    assert_eq!(proxy.take_requests(), [Multi, Multi]);
    let guard = mutex.acquire().await.unwrap();
    for _ in 0..8 {
        yield_now().await;
    }
    guard.release().await.unwrap();
    assert_eq!(proxy.take_requests(), [Multi, Multi], "it waits while others run");
    drop(mutex.acquire().await.unwrap());
    sleep(A_MOMENT).await;
    assert_eq!(proxy.take_requests(), [Multi, Multi]);
    let guard = mutex.acquire().await.unwrap();
    sleep(A_MOMENT).await;
    assert_eq!(proxy.take_requests(), [Multi, Delete], "it does not stay for long");
    assert_eq!(ephemerals(stage.servers(), PATH), [guard.node_path()]);
    guard.release().await.unwrap();
    assert_eq!(proxy.take_requests(), [Delete]);
    let guard = mutex.acquire().await.unwrap();
    let seen = mutex.participants().await.unwrap();
    assert_eq!(
        seen.iter().map(Participant::node_path).collect::<Vec<_>>(),
        [guard.node_path()],
        "it goes before a read"
    );
    proxy.cut();
    guard.release().await.unwrap();
    nothing_is_left(stage.servers()).await;
}

/// Others can have the other permit, or the one that there will be.
#[history(false, true)]
async fn where_there_can_be_two_permits_the_gate_is_left_at_once(stage: Stage, is_shared: bool) {
    let client = stage.connect(0, session).await;
    let semaphore = if is_shared {
        let count = SharedCount::new(&client, "/counts/a", 1).unwrap();
        Semaphore::with_shared_count(&client, PATH, &count).unwrap()
    } else {
        Semaphore::new(&client, PATH, 2).unwrap()
    };
    for _ in 0..4 {
        once(&semaphore).await;
    }
    let left_after = async || {
        let start = Instant::now();
        queue_of(stage.servers(), &format!("{PATH}/locks"), 0).await;
        start.elapsed()
    };
    drop(mutex_at(&client, &format!("{PATH}/locks")).acquire().await.unwrap());
    let at_once = left_after().await;
    let guard = semaphore.acquire().await.unwrap();
    assert_eq!(left_after().await, at_once);
    guard.release().await.unwrap();
}

/// Old servers do not tell the dates of what a transaction creates.
#[history(MemoryVersion::V3_5, MemoryVersion::V3_6, MemoryVersion::V3_9)]
async fn an_acquire_of_another_lock_takes_one_round_trip(stage: Stage, version: MemoryVersion) {
    let (_, proxy) = apart(&stage, MemoryEnsemble::builder().version(version), "10.2.0.1:2181").await;
    let client = proxy.client(session).await;
    let (only, other) = (known(&client).await, mutex_at(&client, "/locks/b"));
    visit(&other).await;
    visit(&other).await;
    proxy.set_traffic(Traffic::pass().delay(ms(50)));
    let held = only.acquire().await.unwrap();
    proxy.take_requests();
    drop((took(ms(100), other.acquire()).await.unwrap(), held));
    assert_eq!(proxy.take_requests()[..2], [Request::Delete, Request::Create]);
}

/// By a handle that was fetched before, too: what is alone is sent at once.
#[history]
async fn who_gives_back_finds_it_given_back(stage: Stage) {
    let client = stage.connect(0, session).await;
    let mutex = known(&client).await;
    let zookeeper = client.zookeeper().await.unwrap();
    drop(mutex.acquire().await.unwrap());
    for queue in ["locks", "leases"] {
        assert_eq!(zookeeper.list_children(&format!("{PATH}/{queue}")).await.unwrap(), [""; 0]);
    }
}

#[history]
async fn a_client_that_closes_as_soon_as_it_holds_takes_one_round_trip(stage: Stage) {
    for (nth, round_trip) in [50, 190, 300].into_iter().enumerate() {
        let proxy = stage.proxy_of(0, nth + 1).await;
        let client = proxy.connect(session).await;
        let mutex = known(&client).await;
        proxy.set_traffic(Traffic::pass().delay(ms(round_trip / 2)));
        let _held = mutex.acquire().await.unwrap();
        took(ms(round_trip), client.close()).await;
        proxy.set_traffic(Traffic::pass());
    }
}
