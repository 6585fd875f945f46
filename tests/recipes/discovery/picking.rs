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
