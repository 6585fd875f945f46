//! What callers that give up or lose their runtime cost the other callers of their client.

use crate::prelude::*;
use crate::support::kinds::KINDS;

/// A caller on a runtime of its own, whose timers nobody drives when it has given up.
fn caller_on_its_own_runtime(
    client: &Client,
    drop_runtime: bool,
    patience: Duration,
) -> Option<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lock = mutex(client);
    if drop_runtime {
        // Gives up by the shut-down.
        runtime.spawn(async move { lock.owned_by(&Owner::new()).acquire().await });
        runtime.block_on(sleep(patience));
        drop(runtime);
        return None;
    }
    let gave_up =
        runtime.block_on(async { timeout(patience, lock.owned_by(&Owner::new()).acquire()).await.is_err() });
    assert!(gave_up);
    Some(runtime)
}

/// Acquires and releases in a task, for an owner of its own.
fn visiting(lock: &InterProcessMutex) -> JoinHandle<zk_recipes::Result<()>> {
    let lock = lock.owned_by(&Owner::new());
    tokio::spawn(async move { lock.acquire().await?.release().await })
}

async fn give_up_elsewhere(drop_runtime: bool, crowd: usize) {
    let (server, proxy, _) = server_with_proxy().await;
    let builder = Client::builder().session_timeout(secs(20)).connection_timeout(ms(5000));
    let builder = builder.retry_policy(RetryPolicy::forever(ms(700)));
    let client = builder.connect(&proxy.connect_string()).await.unwrap();
    let b = bystander(&server).await;
    let lock = mutex(&client);
    lock.acquire().await.unwrap().release().await.unwrap();
    // Its create is cut off, and it pauses.
    proxy.set_traffic(Traffic::black_hole());
    let cutter = async {
        sleep(ms(200)).await;
        proxy.cut();
        proxy.set_traffic(Traffic::pass());
    };
    let mut kept = Vec::new();
    let parked = {
        let client = client.clone();
        let elsewhere =
            tokio::task::spawn_blocking(move || caller_on_its_own_runtime(&client, drop_runtime, ms(500)));
        let crowd: Vec<_> = (0..crowd).map(|_| visiting(&lock)).collect();
        let (runtime, ()) = tokio::join!(elsewhere, cutter);
        kept.push(runtime.unwrap());
        crowd
    };
    let late: Vec<_> = (0..5).map(|_| visiting(&lock)).collect();
    for caller in parked.into_iter().chain(late) {
        timeout(secs(10), caller).await.expect("waits for ever").expect("panics").unwrap();
    }
    queue_of(&b, "/locks/a", 0).await;
    // What it began is seen through, or given up, by now. The janitor still works: it finds a node that was not answered for.
    sleep(ms(1500)).await;
    server.pause().unwrap();
    assert!(poll_times(lock.acquire(), 1).await.is_none());
    sleep(ms(1500)).await;
    server.resume().unwrap();
    sleep(ms(300)).await;
    timeout(secs(10), queue_of(&b, "/locks/a", 0)).await.expect("an orphan");
    drop(kept.into_iter().flatten().map(|r| r.shutdown_background()).collect::<Vec<_>>());
}

/// When it was shut down, or when nobody drives it; alone, and beside a crowd.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_needs_the_runtime_of_one_who_gave_up() {
    let cases = [(true, 0), (false, 0), (true, 10), (false, 10)];
    join_all(cases.map(|(drop_runtime, crowd)| give_up_elsewhere(drop_runtime, crowd))).await;
}

#[test]
fn an_acquire_under_way_may_be_dropped_outside_of_any_runtime() {
    let home = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (server, client) = home.block_on(async {
        let s = empty_server().await;
        let c = connect(&s).await;
        (s, c)
    });
    for kind in KINDS {
        let lock = kind.unlimited(&client);
        home.block_on(async { lock.acquire().await.unwrap().release().await.unwrap() });
        server.pause().unwrap();
        let mut acquire = lock.acquire();
        home.block_on(async { assert!(futures_util::poll!(acquire.as_mut()).is_pending()) });
        drop(acquire);
        server.resume().unwrap();
        home.block_on(async { within(lock.acquire()).await.unwrap().release().await.unwrap() });
    }
}
