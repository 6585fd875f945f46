//! Attacks on the promises of service discovery.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use serde_json::{Value, json};
use zk_recipes::cache::CacheState;
use zk_recipes::discovery::{
    DownInstancePolicy, Instances, ServiceDiscovery, ServiceInstance, ServiceProvider, ServiceType,
};
use zk_recipes::{Client, Error};
use zookeeper_client as zk;

use crate::support::*;

const BRIEF: Duration = Duration::from_millis(500);

fn services(client: &Client) -> ServiceDiscovery {
    ServiceDiscovery::new(client, "/services").unwrap()
}

fn orders(id: &str) -> ServiceInstance {
    ServiceInstance::new("orders").id(id).address("10.0.0.7").port(8080)
}

fn open() -> zk::CreateOptions<'static> {
    zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all())
}

async fn service_of(zookeeper: &zk::Client, nodes: &[(&str, Value)]) {
    zookeeper.mkdir("/services/orders", &open()).await.unwrap();
    for (id, json) in nodes {
        zookeeper
            .create(&format!("/services/orders/{id}"), json.to_string().as_bytes(), &open())
            .await
            .unwrap();
    }
}

// guide/discovery.md: "Two processes that register one id do not replace each other: the second one waits until the first
// one is gone." `ServiceDiscovery::register` says the same. Two static instances do replace each other.
#[tokio::test]
async fn two_static_instances_do_not_replace_each_other() {
    let server = empty_server().await;
    let (one, other, looker) = (connect(&server).await, connect(&server).await, connect(&server).await);
    let is_static = |port| orders("a").port(port).service_type(ServiceType::Static);
    let first = within(services(&one).register(is_static(1))).await.unwrap();
    let services_of_other = services(&other);
    let second = tokio::time::timeout(BRIEF, services_of_other.register(is_static(2))).await;
    let registered = within(services(&looker).instance("orders", "a")).await.unwrap().unwrap().port;
    assert!(second.is_err(), "the second one is registered as well; port: {registered:?}");
    drop(first);
}

// And then they write over each other for ever.
#[tokio::test]
async fn two_static_instances_do_not_fight() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let (one, other) = (connect(&server).await, connect(&server).await);
    let is_static = |port| orders("a").port(port).service_type(ServiceType::Static);
    let first = within(services(&one).register(is_static(1))).await.unwrap();
    let services_of_other = services(&other);
    let second = tokio::time::timeout(BRIEF, services_of_other.register(is_static(2))).await;
    let before = zookeeper.check_stat("/services/orders/a").await.unwrap().unwrap().version;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let after = zookeeper.check_stat("/services/orders/a").await.unwrap().unwrap().version;
    assert!(after - before <= 1, "{} writes in 10 seconds", after - before);
    drop((first, second));
}

// guide/discovery.md: "What cannot be read is told, and left out." One node that may not be read hides all instances. A
// cache does as it is told.
#[tokio::test]
async fn an_instance_that_may_not_be_read_is_left_out() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let registration = within(services(&client).register(orders("a"))).await.unwrap();
    let owner = bystander(&server).await;
    owner.auth("digest", b"someone:secret").await.unwrap();
    let private = zk::CreateMode::Ephemeral.with_acls(zk::Acls::creator_all());
    owner.create("/services/orders/b", b"{}", &private).await.unwrap();
    let cache = services(&client).cache("orders").unwrap();
    let cached = within(cache.wait_until(|instances| !instances.unreadable().is_empty())).await.unwrap();
    assert_eq!(cached.len(), 1);
    let found = within(services(&client).instances("orders")).await;
    drop(zookeeper);
    assert_eq!(found.map(|found| (found.len(), found.unreadable().len())), Ok((1, 1)));
    drop(registration);
}

/// The payload of an instance of Java, as the `JsonInstanceSerializer` of Curator 5.4 writes it.
async fn payload_of_java<T: serde::Serialize + serde::de::DeserializeOwned>(
    payload: Value,
) -> Result<Option<T>, String> {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    service_of(&zookeeper, &[("a", json!({
        "name": "orders", "id": "a", "address": "10.0.0.7", "port": 1, "sslPort": null, "payload": payload,
        "registrationTimeUTC": 1, "serviceType": "DYNAMIC", "uriSpec": null,
    }))]).await;
    let client = connect(&server).await;
    let services = ServiceDiscovery::<T>::new(&client, "/services").unwrap();
    let found = within(services.instance("orders", "a")).await.map_err(|error| error.to_string())?;
    Ok(found.unwrap().payload)
}

// `ServiceDiscovery::payload_class`: "It is not needed to read those of Java services." What Java writes as an object, a
// list, a string, an int, a double or a boolean is read; nothing else is. All these are outputs of Curator 5.4.
#[tokio::test]
async fn a_long_of_java_is_read() {
    assert_eq!(payload_of_java::<i64>(json!(["java.lang.Long", 5])).await, Ok(Some(5)));
}

#[tokio::test]
async fn an_enum_of_java_is_read() {
    assert_eq!(payload_of_java::<String>(json!(["com.acme.Color", "RED"])).await, Ok(Some("RED".into())));
}

#[tokio::test]
async fn an_array_of_java_is_read() {
    assert_eq!(payload_of_java::<Vec<i32>>(json!(["[I", [1, 2]])).await, Ok(Some(vec![1, 2])));
}

#[tokio::test]
async fn a_uuid_of_java_is_read() {
    let uuid = "00000000-0000-0001-0000-000000000002".to_owned();
    assert_eq!(payload_of_java::<String>(json!(["java.util.UUID", uuid])).await, Ok(Some(uuid)));
}

// Jackson takes the last of two fields of one name, `null` for false, and text for a number; we have a stricter reader.
#[tokio::test]
async fn what_curator_reads_is_read() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    service_of(
        &zookeeper,
        &[
            ("a", json!({"port": "8080"})),
            ("b", json!({"registrationTimeUTC": -5})),
            ("c", json!({"port": -1})),
        ],
    )
    .await;
    zookeeper
        .create("/services/orders/d", br#"{"name":"o","name":"orders","id":"d"}"#, &open())
        .await
        .unwrap();
    let client = connect(&server).await;
    let found = within(services(&client).instances("orders")).await.unwrap();
    assert_eq!(found.unreadable(), []);
}

// `ServiceProvider::note_error`: "Reports an error of an instance. It is left out." Curator's `DownInstanceManager` takes an
// instance that is registered again, elsewhere, for another one. Here, it is left out for the faults of the one before.
#[tokio::test]
async fn an_instance_that_is_registered_anew_is_picked() {
    let server = empty_server().await;
    let (one, other, looker) = (connect(&server).await, connect(&server).await, connect(&server).await);
    let first = within(services(&one).register(orders("a"))).await.unwrap();
    let cache = services(&looker).cache("orders").unwrap();
    within(cache.wait_until(|instances| instances.len() == 1)).await.unwrap();
    let provider = ServiceProvider::new(cache);
    let failed = provider.pick().unwrap();
    provider.note_error(&failed);
    provider.note_error(&failed);
    assert_eq!(provider.pick(), None);
    within(first.unregister()).await.unwrap();
    let second = within(services(&other).register(orders("a").address("10.0.0.8"))).await.unwrap();
    let there = provider.cache().wait_until(|instances| {
        instances.iter().any(|instance| instance.address.as_deref() == Some("10.0.0.8"))
    });
    within(there).await.unwrap();
    assert!(provider.pick().is_some(), "no error of this one was reported");
    drop(second);
}

// Curator's instances of the type `DYNAMIC_SEQUENTIAL` can have one id, in nodes with a number each.
#[tokio::test]
async fn instances_with_one_id_are_not_taken_for_one_another() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let node = |port| json!({"name": "orders", "id": "a", "port": port, "serviceType": "DYNAMIC_SEQUENTIAL"});
    service_of(&zookeeper, &[("a0000000000", node(1)), ("a0000000001", node(2))]).await;
    let client = connect(&server).await;
    let cache = services(&client).cache("orders").unwrap();
    within(cache.wait_until(|instances| instances.len() == 2)).await.unwrap();
    let policy = DownInstancePolicy { errors: 1, timeout: Duration::from_secs(3600) };
    let provider = ServiceProvider::new(cache).down_instances(policy);
    let failed = provider.pick().unwrap();
    provider.note_error(&failed);
    let picked = provider.pick();
    assert!(picked.is_some_and(|picked| picked.port != failed.port), "there is another one");
}

// `Instances`: "sorted by their ids".
#[tokio::test]
async fn instances_are_sorted_by_their_ids() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    service_of(&zookeeper, &[("x", json!({"id": "b"})), ("y", json!({"id": "a"}))]).await;
    let client = connect(&server).await;
    let found = within(services(&client).instances("orders")).await.unwrap();
    let ids: Vec<_> = found.iter().map(|instance| instance.id.as_str()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
}

// `ServiceDiscovery::instance`, `instances`, `cache`, `register`: "`Error::InvalidArgument`: the name or the id cannot be
// that of a node."
#[tokio::test]
async fn names_that_are_none_are_invalid_arguments() {
    let server = empty_server().await;
    let services = services(&connect(&server).await);
    let mut others = Vec::new();
    for name in ["..", ".", "a\u{1}b", "\u{1f600}"] {
        let errors = [
            within(services.instances(name)).await.unwrap_err(),
            within(services.instance("orders", name)).await.unwrap_err(),
            within(services.register(orders(name))).await.unwrap_err(),
            services.cache(name).unwrap_err(),
        ];
        others.extend(errors.into_iter().filter(|error| !matches!(error, Error::InvalidArgument { .. })));
    }
    assert_eq!(others, []);
}

// `ServiceCache::wait_changed`: "Waits until the instances are others than `seen`." Readers that are slow put an older
// snapshot in the place of a newer one, after which equal instances are new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn instances_that_have_not_changed_are_not_reported() {
    let server = empty_server().await;
    let (one, looker) = (connect(&server).await, connect(&server).await);
    let cache = Arc::new(services(&looker).cache("orders").unwrap());
    let mut registration = within(services(&one).register(orders("a"))).await.unwrap();
    let mut seen = within(cache.wait_until(|instances| instances.len() == 1)).await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let (cache, over) = (cache.clone(), over.clone());
            std::thread::spawn(move || {
                while !over.load(SeqCst) {
                    drop(cache.instances());
                }
            })
        })
        .collect();
    let (cached, is_over) = (cache.clone(), over.clone());
    let watching = tokio::spawn(async move {
        let mut equal = 0;
        while !is_over.load(SeqCst) {
            let Ok(changed) = tokio::time::timeout(BRIEF, cached.wait_changed(&seen)).await else { continue };
            let changed = changed.unwrap();
            equal += usize::from(*changed == *seen);
            seen = changed;
        }
        equal
    });
    for port in 1..2000 {
        within(registration.update(orders("a").port(port))).await.unwrap();
    }
    over.store(true, SeqCst);
    for reader in readers {
        reader.join().unwrap();
    }
    assert_eq!(within(watching).await.unwrap(), 0, "reports of a change that was none");
}

// guide/discovery.md: "What cannot be read is told, and left out." A stranger's nodes of a few hundred kilobytes in all, which
// blow up to 1 MiB each, end a cache for good: it does not come back when they are gone. A `ServiceCache` has no options by
// which to allow for it, and a provider says nothing of it.
#[tokio::test]
async fn a_cache_outlasts_the_nodes_of_strangers() {
    use std::io::Write;
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let (one, looker) = (connect(&server).await, connect(&server).await);
    let first = within(services(&one).register(orders("a"))).await.unwrap();
    let cache = services(&looker).cache("orders").unwrap();
    within(cache.wait_until(|instances| instances.len() == 1)).await.unwrap();
    let mut zeros = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    zeros.write_all(&vec![0; 1 << 20]).unwrap();
    let bomb = zeros.finish().unwrap();
    let strangers = 520;
    for stranger in 0..strangers {
        zookeeper.create(&format!("/services/orders/s{stranger}"), &bomb, &open()).await.unwrap();
    }
    let all_are_seen = || async {
        let has_ended = matches!(*cache.watch_state().borrow(), CacheState::Failed(_));
        (has_ended || cache.instances().unreadable().len() == strangers).then_some(())
    };
    eventually("the cache has seen them all", all_are_seen).await;
    for stranger in 0..strangers {
        zookeeper.delete(&format!("/services/orders/s{stranger}"), None).await.unwrap();
    }
    within(first.unregister()).await.unwrap();
    let second = within(services(&one).register(orders("b"))).await.unwrap();
    let only_b = |instances: &Arc<Instances>| instances.len() == 1 && instances[0].id == "b";
    let found = within(cache.wait_until(only_b)).await.map(drop);
    let picked = ServiceProvider::new(cache).pick().map(|picked| picked.id.clone());
    assert_eq!((found, picked.as_deref()), (Ok(()), Some("b")), "`a` is gone");
    drop(second);
}
