//! Providers of instances.

use super::*;

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

#[tokio::test]
async fn an_instance_that_is_registered_anew_is_picked() {
    let (_server, [one, other, looker]) = server_and_clients().await;
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
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let node =
        |port| format!(r#"{{"name":"orders","id":"a","port":{port},"serviceType":"DYNAMIC_SEQUENTIAL"}}"#);
    create(&zookeeper, &[("a0000000000", &node(1)), ("a0000000001", &node(2))]).await;
    let cache = services(&client).cache("orders").unwrap();
    within(cache.wait_until(|instances| instances.len() == 2)).await.unwrap();
    let policy = DownInstancePolicy { errors: 1, timeout: secs(3600) };
    let provider = ServiceProvider::new(cache).down_instances(policy);
    let failed = provider.pick().unwrap();
    provider.note_error(&failed);
    let picked = provider.pick().expect("there is another one");
    assert_ne!(picked.port, failed.port);
}
