//! One-shot watches of the session on the path of a cache.

use super::*;

/// A waiter for a semaphore watches the shared count at the path of a cache. The reply to its first watch, or another of
/// its reads, is on its way when the caller stops: it gives up, or is not polled. The cache is set before, or while the reply is
/// on its way.
async fn the_cache_is_told(server: &Server, nth: usize, gives_up: bool, cache_first: bool) {
    let zookeeper = bystander(server).await;
    let [path, locks] = ["count", "semaphore"].map(|kind| format!("/{kind}-{nth}-{gives_up}-{cache_first}"));
    let other = connect(server).await;
    let theirs = SharedCount::new(&other, &path, 1).unwrap();
    let _one = Semaphore::with_shared_count(&other, &locks, &theirs).unwrap().acquire().await.unwrap();
    let (proxy, client) = connect_by_proxy(server).await;
    let new_cache = || Cache::start(&client, &path, CacheOptions::tree()).unwrap();
    let cache = cache_first.then(new_cache);
    if let Some(cache) = &cache {
        within(cache.wait_current()).await.unwrap();
    }
    let count = SharedCount::new(&client, &path, 1).unwrap();
    let semaphore = Semaphore::with_shared_count(&client, &locks, &count).unwrap();
    let mut held: Vec<_> = (0..=nth).map(|_| proxy.intercept(Request::GetData, Fate::HoldReply)).collect();
    let last = held.pop().unwrap();
    let all_happen = async {
        for earlier in held {
            earlier.happened().await;
            earlier.release();
        }
        last.happened().await;
    };
    let mut waiting = Some(Box::pin(semaphore.acquire()));
    tokio::select! {
        _ = waiting.as_mut().unwrap() => unreachable!("it is taken"),
        () = within(all_happen) => {}
    }
    let cache = cache.unwrap_or_else(new_cache);
    // Let its watch be requested.
    sleep(ms(200)).await;
    waiting = waiting.filter(|_| !gives_up);
    // Let the cache react.
    sleep(ms(100)).await;
    last.release();
    within(cache.wait_current()).await.unwrap();
    sleep(ms(200)).await;
    drop(waiting);
    sleep(ms(100)).await;
    for child in ["one", "two"] {
        let child = format!("{path}/{child}");
        create(&zookeeper, &child, b"new").await;
        shows(&cache, &child, Some(b"new")).await;
    }
    zookeeper.set_data(&path, &7_i32.to_be_bytes(), None).await.unwrap();
    shows(&cache, &path, Some(&7_i32.to_be_bytes())).await;
}

#[tokio::test]
async fn a_one_shot_watch_whose_caller_stops_on_its_way_ends_no_cache() {
    on_each_server(async |server: &Server| {
        let cases = (0..12).map(|case| the_cache_is_told(server, case % 3, case / 3 % 2 == 0, case / 6 == 0));
        join_all(cases).await;
    })
    .await;
}

/// An observer watches the children of the path of a cache, which is dropped.
#[tokio::test]
async fn nothing_is_left_of_a_cache_beside_a_watch_on_children() {
    on_each_server(async |server: &Server| {
        let zookeeper = bystander(server).await;
        create_all(&zookeeper, &["/leaders", "/leaders/other"], b"").await;
        let (proxy, client) = connect_by_proxy(server).await;
        let mut leader = LeaderObserver::new(&client, "/leaders").unwrap().watch_leader();
        within(leader.wait_for(|leader| *leader == Observation::Nobody)).await.unwrap();
        eventually("it watches", async || (server.watch_count().await.ok()? > 0).then_some(())).await;
        drop(current(&client, "/leaders").await);
        // Its end takes a moment, which does not show.
        sleep(secs(1)).await;
        proxy.take_requests();
        for number in 0..300_u32 {
            zookeeper.set_data("/leaders/other", &number.to_be_bytes(), None).await.unwrap();
        }
        client.zookeeper().await.unwrap().sync("/").await.unwrap();
        let requests = proxy.take_requests();
        let removals = requests.iter().filter(|request| **request == Request::RemoveWatches).count();
        assert!(requests.len() < 30 && removals < 10, "{removals} of them to remove watches: {requests:?}");
        drop(leader);
        eventually("no watch is left", async || {
            let left = server.four_letter_word("wchp").await.unwrap();
            (!left.contains("/leaders")).then_some(())
        })
        .await;
    })
    .await;
}
