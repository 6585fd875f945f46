//! Service discovery for threads.

use super::*;

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
