//! What is read of instances, and of what is none.

use super::*;

#[tokio::test]
async fn an_instance_that_may_not_be_read_is_left_out() {
    let server = empty_server().await;
    let (client, owner) = (connect(&server).await, bystander(&server).await);
    let _registration = within(services(&client).register(orders("a"))).await.unwrap();
    owner.auth("digest", b"someone:secret").await.unwrap();
    let private = CreateMode::Ephemeral.with_acls(zk::Acls::creator_all());
    owner.create("/services/orders/b", b"{}", &private).await.unwrap();
    let services = services(&client);
    let found = within(services.instances("orders")).await.unwrap();
    assert_eq!(found.iter().map(|instance| instance.id.as_str()).collect::<Vec<_>>(), ["a"]);
    let error = within(services.instance("orders", "b")).await.unwrap_err();
    assert!(matches!(&error, Error::NotAnInstance { path, .. } if path == "/services/orders/b"), "{error}");
    assert_eq!(found.unreadable(), [error]);
    let cache = services.cache("orders").unwrap();
    let cached = within(cache.wait_until(|instances| !instances.unreadable().is_empty())).await.unwrap();
    assert_eq!(*cached, found);
}
