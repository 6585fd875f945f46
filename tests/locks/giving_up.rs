//! What callers that give up or lose their runtime cost the other callers of their client.

use crate::prelude::*;
use crate::support::kinds::KINDS;

/// Its create is on its way, and nobody answers.
async fn give_up_elsewhere(drop_runtime: bool, crowd: usize) {
    let (_server, proxy, zookeeper, client) = server_behind_proxy().await;
    let lock = mutex(&client);
    visit(&lock, 1).await;
    let visiting = || {
        let lock = lock.owned_by(&Owner::new());
        tokio::spawn(async move { lock.acquire().await?.release().await })
    };
    proxy.set_traffic(Traffic::black_hole());
    let before = proxy.requests_seen();
    let callers = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let own = lock.owned_by(&Owner::new());
    let gives_up = callers.spawn(async move { own.acquire().await });
    let crowd: Vec<_> = (0..crowd).map(|_| visiting()).collect();
    let callers = tokio::task::spawn_blocking(move || {
        callers.block_on(until("it is sent", || proxy.requests_seen() > before));
        gives_up.abort();
        callers.block_on(gives_up).unwrap_err();
        // From now on nobody drives its timers.
        let callers = (!drop_runtime).then_some(callers);
        proxy.cut();
        proxy.set_traffic(Traffic::pass());
        (callers, proxy)
    });
    let (callers, _proxy) = callers.await.unwrap();
    for caller in crowd.into_iter().chain((0..5).map(|_| visiting())) {
        within(caller).await.unwrap().unwrap();
    }
    queue_of(&zookeeper, "/locks/a", 0).await;
    callers.into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
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
