//! Instances that are registered, and read.

use serde_json::json;

use super::*;

#[tokio::test]
async fn an_instance_is_found_while_it_is_registered() {
    let (_server, [ours, others]) = server_and_clients().await;
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
    assert!(instance.registration_time.duration_since(found.registration_time).unwrap() < ms(1));
    instance.registration_time = found.registration_time;
    assert_eq!(found, instance);
    assert_eq!(within(others.instance("orders", "c")).await.unwrap(), None);

    within(first.unregister()).await.unwrap();
    assert_eq!(ids(&others).await, ["b"]);
    drop(second);
    eventually("it is unregistered", || async { ids(&others).await.is_empty().then_some(()) }).await;
}

#[tokio::test]
async fn the_base_may_be_the_root_of_a_namespace() {
    let server = MemoryServer::start().unwrap();
    let client = Client::builder().namespace("services").connect(&server.connect_string()).await.unwrap();
    let whole = Client::connect(&server.connect_string()).await.unwrap();
    let services = ServiceDiscovery::<()>::new(&client, "/").unwrap();
    assert_eq!(within(services.names()).await.unwrap(), Vec::<String>::new());
    let cache = services.cache("orders").unwrap();
    let registration = within(services.register(ServiceInstance::new("orders").id("a"))).await.unwrap();
    assert_eq!(within(services.names()).await.unwrap(), ["orders"]);
    within(cache.wait_until(|instances| instances.len() == 1)).await.unwrap();
    let same = ServiceDiscovery::<()>::new(&whole, "/services").unwrap();
    assert_eq!(within(same.instances("orders")).await.unwrap().len(), 1);
    let root = ServiceDiscovery::<()>::new(&whole, "/").unwrap();
    assert!(within(root.names()).await.unwrap().contains(&"services".to_owned()));
    within(registration.unregister()).await.unwrap();
}

#[tokio::test]
async fn the_node_is_in_the_format_of_curator() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
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
async fn what_cannot_be_registered_is_refused() {
    let server = empty_server().await;
    let services = services(&connect(&server).await);
    for instance in [
        ServiceInstance::new(""),
        ServiceInstance::new("a/b"),
        orders("a").service_type(ServiceType::DynamicSequential),
        orders("a").address("a".repeat(64 << 10)),
    ] {
        let error = within(services.register(instance)).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    }
    let mut registration = within(services.register(orders("a"))).await.unwrap();
    for other in [
        orders("b"),
        orders("a").service_type(ServiceType::Static),
        orders("a").address("a".repeat(64 << 10)),
    ] {
        let error = within(registration.update(other)).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        assert_eq!(registration.instance().address.as_deref(), Some("10.0.0.7"));
    }
    assert_eq!(ids(&services).await, ["a"]);
    for name in ["", "a/b", "..", ".", "a\u{1}b", "\u{1f600}"] {
        for error in [
            within(services.instances(name)).await.unwrap_err(),
            within(services.instance("orders", name)).await.unwrap_err(),
            within(services.register(orders(name))).await.unwrap_err(),
            services.cache(name).unwrap_err(),
        ] {
            assert!(matches!(error, Error::InvalidArgument { .. }), "{name:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn what_is_no_instance_or_may_not_be_read_is_left_out() {
    let server = empty_server().await;
    let (client, owner) = (connect(&server).await, bystander(&server).await);
    let _registration = within(services(&client).register(orders("a"))).await.unwrap();
    owner.auth("digest", b"someone:secret").await.unwrap();
    let private = CreateMode::Ephemeral.with_acls(zk::Acls::creator_all());
    owner.create("/services/orders/b", b"{}", &private).await.unwrap();
    create(&owner, &[("c", "10.0.0.8:8080")]).await;
    let services = services(&client);
    let found = within(services.instances("orders")).await.unwrap();
    assert_eq!(found.iter().map(|instance| instance.id.as_str()).collect::<Vec<_>>(), ["a"]);
    let error = within(services.instance("orders", "b")).await.unwrap_err();
    assert!(matches!(&error, Error::NotAnInstance { path, .. } if path == "/services/orders/b"), "{error}");
    assert_eq!((found.unreadable().len(), &found.unreadable()[0]), (2, &error));
    let cache = services.cache("orders").unwrap();
    let cached = within(cache.wait_until(|instances| instances.unreadable().len() == 2)).await.unwrap();
    assert_eq!(*cached, found);
}

#[tokio::test]
async fn threads_find_services_too() {
    use zk_recipes::blocking::{self, discovery};

    let (_server, client) = server_and_client().await;
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
