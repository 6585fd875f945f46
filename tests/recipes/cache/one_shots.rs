//! One-shot watches of the session on the path of a cache.

use super::*;

/// What becomes of the caller of a watch while the reply is on its way.
#[derive(Clone, Copy, Debug)]
enum Caller {
    GivesUp,
    IsNotPolled,
}

/// A waiter for a semaphore watches the shared count at the path of a cache. The reply to its first watch, or another of
/// its reads, is on its way when the caller stops. The cache is set before, or while the reply is on its way.
async fn the_cache_is_told(server: &Server, nth: usize, caller: Caller, cache_first: bool) {
    let zookeeper = bystander(server).await;
    let path = format!("/count-{nth}-{caller:?}-{cache_first}");
    let locks = format!("/semaphore-{nth}-{caller:?}-{cache_first}");
    let other = connect(server).await;
    let theirs = SharedCount::new(&other, &path, 1).unwrap();
    let one = Semaphore::with_shared_count(&other, &locks, &theirs).unwrap().acquire().await.unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let new_cache = || Cache::new(&client, &path, CacheOptions::tree()).unwrap();
    let mut cache = None;
    if cache_first {
        within(cache.insert(new_cache()).wait_current()).await.unwrap();
    }
    let count = SharedCount::new(&client, &path, 1).unwrap();
    let semaphore = Semaphore::with_shared_count(&client, &locks, &count).unwrap();
    let mut held: Vec<_> = (0..=nth).map(|_| proxy.intercept(Request::GetData, Fate::HoldReply)).collect();
    let last = held.pop().unwrap();
    let mut waiting = Box::pin(semaphore.acquire());
    for earlier in held {
        tokio::select! {
            _ = &mut waiting => unreachable!("it is taken"),
            () = earlier.happened() => {}
            () = sleep(secs(2)) => return,
        }
        earlier.release();
    }
    tokio::select! {
        _ = &mut waiting => unreachable!("it is taken"),
        () = last.happened() => {}
        // There are not so many.
        () = sleep(secs(2)) => return,
    }
    let cache = cache.unwrap_or_else(new_cache);
    // Let its watch be requested.
    sleep(ms(200)).await;
    let kept = match caller {
        Caller::GivesUp => {
            drop(waiting);
            None
        }
        Caller::IsNotPolled => Some(waiting),
    };
    // Let the cache react.
    sleep(ms(100)).await;
    last.release();
    within(cache.wait_current()).await.unwrap();
    sleep(ms(200)).await;
    drop(kept);
    sleep(ms(100)).await;
    for child in ["one", "two"] {
        let child = format!("{path}/{child}");
        create(&zookeeper, &child, b"new").await;
        shows(&cache, &child, Some(b"new")).await;
    }
    zookeeper.set_data(&path, &7_i32.to_be_bytes(), None).await.unwrap();
    shows(&cache, &path, Some(&7_i32.to_be_bytes())).await;
    drop(one);
}

async fn all_are_told(server: &Server) {
    for cache_first in [false, true] {
        for nth in 0..3 {
            for caller in [Caller::GivesUp, Caller::IsNotPolled] {
                the_cache_is_told(server, nth, caller, cache_first).await;
            }
        }
    }
}

#[tokio::test]
async fn a_one_shot_watch_whose_caller_stops_on_its_way_ends_no_cache() {
    on_each_server(all_are_told).await;
}

/// An observer that watches the children of the path of the cache, which is dropped.
async fn dropped_beside_an_observer(server: &Server) -> (usize, usize) {
    let zookeeper = bystander(server).await;
    create(&zookeeper, "/leaders", b"").await;
    create(&zookeeper, "/leaders/other", b"").await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let mut leader = LeaderObserver::new(&client, "/leaders").unwrap().watch_leader();
    within(leader.wait_for(|leader| *leader == Observation::Nobody)).await.unwrap();
    watches_on_children_of(server).await;
    let cache = Cache::new(&client, "/leaders", CacheOptions::tree()).unwrap();
    within(cache.wait_current()).await.unwrap();
    drop(cache);
    sleep(secs(2)).await;
    proxy.take_requests();
    for number in 0..1000_u32 {
        zookeeper.set_data("/leaders/other", &number.to_be_bytes(), None).await.unwrap();
    }
    sleep(secs(1)).await;
    let requests = proxy.take_requests();
    let removals = requests.iter().filter(|request| **request == Request::RemoveWatches).count();
    drop(leader);
    let is_gone = async || {
        let left = server.four_letter_word("wchp").await.unwrap();
        (!left.contains("/leaders")).then_some(())
    };
    eventually("no watch is left", is_gone).await;
    (requests.len(), removals)
}

async fn watches_on_children_of(server: &Server) {
    eventually("it watches", async || (server.watch_count().await.ok()? > 0).then_some(())).await;
}

#[tokio::test]
async fn nothing_is_left_of_a_cache_beside_a_watch_on_children() {
    on_each_server(async |server: &Server| {
        let (requests, removals) = dropped_beside_an_observer(server).await;
        assert!(requests < 100 && removals < 10, "{requests} requests, {removals} of them to remove watches");
    })
    .await;
}
