//! Caches of instances, and providers.

use std::io::Write;

use super::*;

#[tokio::test]
async fn a_cache_follows_the_instances() {
    let (_server, [ours, others]) = server_and_clients().await;
    let (ours, others) = (services(&ours), services(&others));
    let cache = others.cache("orders").unwrap();
    let none = within(cache.wait_loaded()).await.unwrap();
    assert!(none.is_empty() && none.unreadable().is_empty());

    let mut registration = within(ours.register(orders("a"))).await.unwrap();
    let one = within(cache.wait_changed(&none)).await.unwrap();
    assert_eq!(one.iter().map(|instance| instance.id.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(Arc::ptr_eq(&one, &cache.instances()));
    assert_eq!(*one, within(others.instances("orders")).await.unwrap());

    within(registration.update(orders("a").port(9090))).await.unwrap();
    let changed = within(cache.wait_changed(&one)).await.unwrap();
    assert_eq!(changed[0].port, Some(9090));
    let second = within(ours.register(orders("b"))).await.unwrap();
    let two = within(cache.wait_until(|instances| instances.len() == 2)).await.unwrap();
    assert!(Arc::ptr_eq(&changed[0], &two[0]), "what has not changed is not read again");
    drop((registration, second));
    within(cache.wait_until(|instances| instances.is_empty())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn instances_that_have_not_changed_are_not_reported() {
    let (_server, [one, looker]) = server_and_clients().await;
    let cache = Arc::new(services(&looker).cache("orders").unwrap());
    let mut registration = within(services(&one).register(orders("a"))).await.unwrap();
    let mut seen = within(cache.wait_until(|instances| instances.len() == 1)).await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let readers = [(); 6].map(|()| {
        let (cache, over) = (cache.clone(), over.clone());
        std::thread::spawn(move || {
            while !over.load(SeqCst) {
                drop(cache.instances());
            }
        })
    });
    let is_over = over.clone();
    let watching = tokio::spawn(async move {
        while !is_over.load(SeqCst) {
            if let Ok(changed) = timeout(ms(500), cache.wait_changed(&seen)).await {
                let changed = changed.unwrap();
                assert_ne!(*changed, *seen, "a report of a change that was none");
                seen = changed;
            }
        }
    });
    for port in 0..repeats(2000) as u16 {
        within(registration.update(orders("a").port(port))).await.unwrap();
    }
    over.store(true, SeqCst);
    for reader in readers {
        reader.join().unwrap();
    }
    within(watching).await.unwrap();
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

// A stranger's nodes of some hundred kilobytes in all, which would take a gigabyte.
#[tokio::test]
async fn a_cache_outlasts_what_strangers_have_compressed() {
    let (server, [one, looker]) = server_and_clients().await;
    // Its session lives on other threads: this one decompresses for long.
    let zookeeper = one.zookeeper().await.unwrap();
    let compressing = Client::builder().enable_compression().connect(&server.connect_string()).await.unwrap();
    let first = within(services(&one).register(orders("a"))).await.unwrap();
    let cache = services(&looker).cache("orders").unwrap();
    within(cache.wait_until(|instances| instances.len() == 1)).await.unwrap();
    // Too large each, and too large together.
    let (bombs, instances) = (3, 1100);
    let bomb = gzip(&vec![0; 1 << 20]);
    let instance = gzip(format!(r#"{{"address":"{}"}}"#, "a".repeat(65_000)).as_bytes());
    for (prefix, count, data) in [("s", bombs, &bomb), ("t", instances, &instance)] {
        for stranger in 0..count {
            let path = format!("/services/orders/{prefix}{stranger}");
            zookeeper.create(&path, data, &anyone(CreateMode::Persistent)).await.unwrap();
        }
    }
    let _last = within(services(&compressing).register(orders("z"))).await.unwrap();
    let all_are_seen = || async {
        assert!(!matches!(cache.watch_state().get(), CacheState::Failed(_)));
        let seen = cache.instances();
        (seen.len() + seen.unreadable().len() == 1 + bombs + instances + 1).then_some(seen)
    };
    let seen = eventually("the cache has seen them all", all_are_seen).await;
    let bytes: usize = seen.iter().filter_map(|instance| Some(instance.address.as_ref()?.len())).sum();
    assert!((32 << 20..=64 << 20).contains(&bytes), "{bytes}");
    assert_eq!(*seen, within(services(&looker).instances("orders")).await.unwrap());

    // When they are gone, there is room again.
    for stranger in 0..instances {
        zookeeper.delete(&format!("/services/orders/t{stranger}"), None).await.unwrap();
    }
    drop(first);
    let left = within(cache.wait_until(|instances| instances.len() == 1)).await.unwrap();
    assert_eq!((left[0].id.as_str(), left.unreadable().len()), ("z", bombs));
}

#[tokio::test]
async fn a_provider_picks_what_is_enabled_and_up() {
    let (_server, client) = server_and_client().await;
    let services = services(&client);
    let mut registrations = Vec::new();
    for id in ["a", "b", "c"] {
        registrations.push(within(services.register(orders(id))).await.unwrap());
    }
    let cache = services.cache("orders").unwrap();
    within(cache.wait_until(|instances| instances.len() == 3)).await.unwrap();
    let policy = DownInstancePolicy { errors: 2, timeout: secs(3600) };
    let provider = ServiceProvider::new(cache).down_instances(policy).filter(|instance| instance.id != "c");
    let picked =
        |count: usize| -> Vec<String> { (0..count).map(|_| provider.pick().unwrap().id.clone()).collect() };
    assert_eq!(picked(4), ["a", "b", "a", "b"]);

    let a = provider.candidates().remove(0);
    provider.note_error(&a);
    assert_eq!(provider.candidates().len(), 2);
    provider.note_error(&a);
    assert_eq!(picked(2), ["b", "b"]);

    within(registrations[1].update(orders("b").enabled(false))).await.unwrap();
    within(provider.cache().wait_until(|instances| instances.iter().any(|instance| !instance.enabled)))
        .await
        .unwrap();
    assert_eq!(provider.pick(), None);
}
