//! The metrics of the recipes other than locks.

use crate::metered::{measured, measured_at, value};
use crate::support::prelude::*;

#[tokio::test]
async fn nodes_of_caches_and_what_has_them_read_again() {
    let server = empty_server().await;
    let path = "/metrics/cache";
    for path in ["/metrics/cache/a", "/metrics/cache/b"] {
        SharedValue::new(&connect(&server).await, path, "").unwrap().set("").await.unwrap();
    }
    let nodes = || value("zk_recipes_cached_nodes", &[("path", path)]);
    let resyncs = || value("zk_recipes_cache_resyncs_total", &[("path", path)]);

    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = measured_at(&proxy.connect_string()).await;
    let cache = Cache::start(&client, path, CacheOptions::tree()).unwrap();
    within(cache.wait_current()).await.unwrap();
    assert_eq!((nodes(), resyncs()), (3.0, 0.0));
    let other = Cache::start(&client, path, CacheOptions::node()).unwrap();
    within(other.wait_current()).await.unwrap();
    assert_eq!(nodes(), 4.0, "those of all caches of the path");
    drop(other);
    until("the other cache is gone", || nodes() == 3.0).await;

    proxy.cut();
    until("it is read again", || resyncs() >= 1.0).await;
    drop(cache);
    until("there is no cache", || nodes() == 0.0).await;
}

#[tokio::test]
async fn writes_of_values_and_numbers() {
    let server = empty_server().await;
    let (client, other) = (measured(&server).await, measured(&server).await);
    let writes =
        |path, outcome| value("zk_recipes_value_writes_total", &[("path", path), ("outcome", outcome)]);

    let path = "/metrics/value";
    let shared = SharedValue::new(&client, path, "0").unwrap();
    shared.set("1").await.unwrap();
    assert_eq!((writes(path, "written"), writes(path, "conflict")), (1.0, 0.0));
    let before = shared.get_versioned().await.unwrap();
    shared.set("2").await.unwrap();
    assert!(shared.compare_and_set(&before, "3").await.unwrap().is_err());
    assert_eq!(
        (writes(path, "written"), writes(path, "conflict")),
        (2.0, 0.0),
        "it has looked, and not written"
    );

    let path = "/metrics/number";
    let [mine, theirs] = [&client, &other].map(|client| DistributedAtomicLong::new(client, path).unwrap());
    mine.increment().await.unwrap();
    theirs.increment().await.unwrap();
    assert_eq!(mine.increment().await.unwrap(), 3, "it remembers 1, and is told that there was another one");
    assert_eq!((writes(path, "written"), writes(path, "conflict")), (3.0, 1.0));
}

#[tokio::test]
async fn kept_nodes_by_their_state() {
    let server = empty_server().await;
    let client = measured(&server).await;
    let path = "/metrics/kept";
    let kept = |state| value("zk_recipes_kept_nodes", &[("path", path), ("state", state)]);
    let node = PersistentNode::start(&client, path, "1", PersistentNodeOptions::new()).unwrap();
    within(node.wait_present()).await.unwrap();
    assert_eq!((kept("present"), kept("absent")), (1.0, 0.0));
    within(node.close()).await.unwrap();
    until("it is not counted", || kept("present") == 0.0 && kept("closed") == 0.0).await;
}

#[tokio::test]
async fn jobs_that_a_wrong_clock_stops() {
    let server = MemoryServer::start().unwrap();
    let client = measured_at(&server.connect_string()).await;
    let path = "/metrics/job";
    let refused = || value("zk_recipes_wrong_clocks_total", &[("path", path)]);
    let hour = secs(3600);
    let clock = ManualClock::new(std::time::SystemTime::UNIX_EPOCH);
    let options = JobOptions::new().clock_tolerance(hour).clock(&clock);
    let job = ScheduledJob::every(&client, path, hour, options, |_| async { Ok::<(), std::io::Error>(()) });
    let job = job.unwrap();
    assert_eq!(refused(), 0.0);
    let mut state = job.watch_state();
    within(state.wait_for(|state| matches!(state, JobState::WrongClock(_)))).await.unwrap();
    assert!(refused() >= 1.0);
}
