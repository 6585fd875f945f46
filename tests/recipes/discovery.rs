//! Service discovery.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zk_recipes::discovery::{
    DownInstancePolicy, ServiceDiscovery, ServiceInstance, ServiceProvider, ServiceType, UriSpec,
};
use zk_recipes::testing::kill_session;
use zk_recipes::{Client, Error};
use zookeeper_client as zk;

use crate::support::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Weight {
    weight: u32,
}

fn services(client: &Client) -> ServiceDiscovery<Weight> {
    ServiceDiscovery::new(client, "/services").unwrap().payload_class("com.acme.Weight")
}

fn orders(id: &str) -> ServiceInstance<Weight> {
    ServiceInstance::new("orders").id(id).address("10.0.0.7").port(8080).payload(Weight { weight: 3 })
}

async fn ids(services: &ServiceDiscovery<Weight>) -> Vec<String> {
    let instances = within(services.instances("orders")).await.unwrap();
    instances.iter().map(|instance| instance.id.clone()).collect()
}

async fn json(zookeeper: &zk::Client, path: &str) -> Value {
    serde_json::from_slice(&zookeeper.get_data(path).await.unwrap().0).unwrap()
}

#[tokio::test]
async fn an_instance_is_found_while_it_is_registered() {
    let server = empty_server().await;
    let (ours, others) = (connect(&server).await, connect(&server).await);
    let (ours, others) = (services(&ours), services(&others));
    assert_eq!(within(others.names()).await.unwrap(), Vec::<String>::new());
    assert_eq!(ids(&others).await, Vec::<String>::new());

    let mut instance = orders("a");
    let first = within(ours.register(instance.clone())).await.unwrap();
    let second = within(ours.register(orders("b"))).await.unwrap();
    assert_eq!(within(others.names()).await.unwrap(), ["orders"]);
    assert_eq!(ids(&others).await, ["a", "b"]);
    let found = within(others.instance("orders", "a")).await.unwrap().unwrap();
    // The node has milliseconds.
    assert!(
        instance.registration_time.duration_since(found.registration_time).unwrap()
            < Duration::from_millis(1)
    );
    instance.registration_time = found.registration_time;
    assert_eq!(found, instance);
    assert_eq!(within(others.instance("orders", "c")).await.unwrap(), None);

    within(first.unregister()).await.unwrap();
    assert_eq!(ids(&others).await, ["b"]);
    drop(second);
    eventually("it is unregistered", || async { ids(&others).await.is_empty().then_some(()) }).await;
}

#[tokio::test]
async fn the_node_is_in_the_format_of_curator() {
    let server = empty_server().await;
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    let spec = UriSpec::new("{scheme}://{address}");
    let mut registration = within(services(&client).register(orders("a").uri_spec(spec))).await.unwrap();
    let written = json(&zookeeper, "/services/orders/a").await;
    let expected = json!({
        "name": "orders", "id": "a", "address": "10.0.0.7", "port": 8080, "sslPort": null,
        "payload": {"@class": "com.acme.Weight", "weight": 3},
        "registrationTimeUTC": written["registrationTimeUTC"], "serviceType": "DYNAMIC",
        "uriSpec": {"parts": [
            {"value": "scheme", "variable": true}, {"value": "://", "variable": false},
            {"value": "address", "variable": true},
        ]},
    });
    assert_eq!(written, expected);
    assert!(written["registrationTimeUTC"].as_u64().unwrap() > 1_700_000_000_000);

    within(registration.update(orders("a").enabled(false))).await.unwrap();
    assert!(!registration.instance().enabled);
    assert_eq!(json(&zookeeper, "/services/orders/a").await["enabled"], false);
    assert!(!within(services(&client).instance("orders", "a")).await.unwrap().unwrap().enabled);
}

#[tokio::test]
async fn an_instance_is_registered_again_after_its_session() {
    let server = empty_server().await;
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    let registration = within(services(&client).register(orders("a"))).await.unwrap();
    let session = session_id(&client).await;
    kill_session(&client).await.unwrap();
    let owner = || async {
        let stat = zookeeper.check_stat("/services/orders/a").await.unwrap();
        stat.map(|stat| stat.ephemeral_owner).filter(|owner| *owner != session)
    };
    let owner = eventually("another session has registered it", owner).await;
    assert_eq!(owner, session_id(&client).await);
    drop(registration);
}

#[tokio::test]
async fn an_instance_of_another_session_is_waited_for() {
    let server = empty_server().await;
    let (earlier, later) = (connect(&server).await, connect(&server).await);
    let registration = within(services(&earlier).register(orders("a"))).await.unwrap();
    let later = services(&later);
    let mut waiting = Box::pin(later.register(orders("a").port(9090)));
    for _ in 0..20 {
        assert!(poll_once(&mut waiting).is_pending());
        assert_eq!(within(later.instance("orders", "a")).await.unwrap().unwrap().port, Some(8080));
    }
    within(registration.unregister()).await.unwrap();
    let registration = within(waiting).await.unwrap();
    assert_eq!(within(later.instance("orders", "a")).await.unwrap().unwrap().port, Some(9090));
    drop(registration);
}

#[tokio::test]
async fn a_static_instance_belongs_to_no_session() {
    let server = empty_server().await;
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    let instance = orders("a").service_type(ServiceType::Static);
    let registration = within(services(&client).register(instance)).await.unwrap();
    let stat = zookeeper.check_stat("/services/orders/a").await.unwrap().unwrap();
    assert_eq!(stat.ephemeral_owner, 0);
    within(registration.unregister()).await.unwrap();
    assert_eq!(zookeeper.check_stat("/services/orders/a").await.unwrap(), None);
}

#[tokio::test]
async fn what_is_no_instance_is_told() {
    let server = empty_server().await;
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    let registration = within(services(&client).register(orders("a"))).await.unwrap();
    let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.create("/services/orders/b", b"10.0.0.8:8080", &persistent).await.unwrap();
    zookeeper.create("/services/orders/c", br#"{"payload":{"size":1}}"#, &persistent).await.unwrap();
    let services = services(&client);
    let instances = within(services.instances("orders")).await.unwrap();
    assert_eq!(instances.len(), 1);
    let unreadable = instances.unreadable().iter().map(|error| match error {
        Error::NotAnInstance { path, .. } => path.as_str(),
        other => panic!("{other:?}"),
    });
    assert_eq!(unreadable.collect::<Vec<_>>(), ["/services/orders/b", "/services/orders/c"]);
    let error = within(services.instance("orders", "b")).await.unwrap_err();
    assert_eq!(error, instances.unreadable()[0]);
    drop(registration);
}

#[tokio::test]
async fn what_cannot_be_registered_is_refused() {
    let server = empty_server().await;
    let services = services(&connect(&server).await);
    for instance in [
        ServiceInstance::new(""),
        ServiceInstance::new("a/b"),
        orders(""),
        orders("a/b"),
        orders("a").service_type(ServiceType::DynamicSequential),
        orders("a").address("a".repeat(2 << 20)),
    ] {
        let error = within(services.register(instance)).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    }
    assert!(matches!(within(services.instances("..")).await, Err(Error::InvalidPath { .. })));
    let mut registration = within(services.register(orders("a"))).await.unwrap();
    for other in
        [orders("b"), orders("a").service_type(ServiceType::Static), orders("a").address("a".repeat(2 << 20))]
    {
        let error = within(registration.update(other)).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        assert_eq!(registration.instance().address.as_deref(), Some("10.0.0.7"));
    }
    assert_eq!(ids(&services).await, ["a"]);
}

#[tokio::test]
async fn a_cache_follows_the_instances() {
    let server = empty_server().await;
    let (ours, others) = (connect(&server).await, connect(&server).await);
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

#[tokio::test]
async fn a_cache_tells_what_is_no_instance() {
    let server = empty_server().await;
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    let services = services(&client);
    let registration = within(services.register(orders("a"))).await.unwrap();
    let cache = services.cache("orders").unwrap();
    within(cache.wait_until(|instances| instances.len() == 1)).await.unwrap();
    let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.create("/services/orders/b", b"10.0.0.8:8080", &persistent).await.unwrap();
    let instances = within(cache.wait_until(|instances| !instances.unreadable().is_empty())).await.unwrap();
    assert_eq!(instances.len(), 1);
    assert_eq!(*instances, within(services.instances("orders")).await.unwrap());
    drop(registration);
}

#[tokio::test]
async fn a_provider_picks_what_is_enabled_and_up() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let services = services(&client);
    let mut registrations = Vec::new();
    for id in ["a", "b", "c"] {
        registrations.push(within(services.register(orders(id))).await.unwrap());
    }
    let cache = services.cache("orders").unwrap();
    within(cache.wait_until(|instances| instances.len() == 3)).await.unwrap();
    let policy = DownInstancePolicy { errors: 2, timeout: Duration::from_secs(3600) };
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

#[tokio::test]
async fn threads_find_services_too() {
    use zk_recipes::blocking::{self, discovery};

    let server = empty_server().await;
    let client = connect(&server).await;
    let found = within(tokio::task::spawn_blocking(move || {
        let client = blocking::Client::from(client);
        let services = discovery::ServiceDiscovery::<Weight>::new(&client, "/services").unwrap();
        let mut registration = services.register(orders("a")).unwrap();
        registration.update(orders("a").port(9090)).unwrap();
        assert_eq!(services.names().unwrap(), ["orders"]);
        assert_eq!(services.instances("orders").unwrap()[0].port, Some(9090));
        assert_eq!(services.instance("orders", "b").unwrap(), None);
        let cache = services.cache("orders").unwrap();
        let seen = cache.wait_until(|instances| instances.len() == 1).unwrap();
        registration.unregister().unwrap();
        let left = cache.wait_changed(&seen).unwrap();
        (left.len(), ServiceProvider::new(cache.into()).pick())
    }));
    assert_eq!(found.await.unwrap(), (0, None));
}
