//! What is read of instances, and of what is none.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

#[tokio::test]
async fn what_is_no_instance_is_told() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let registration = within(services(&client).register(orders("a"))).await.unwrap();
    let long = format!(r#"{{"address":"{}"}}"#, "a".repeat(64 << 10));
    let strangers = [("b", "10.0.0.8:8080"), ("c", r#"{"payload":{"size":1}}"#), ("d", &*long)];
    create(&zookeeper, &strangers).await;
    let services = services(&client);
    let instances = within(services.instances("orders")).await.unwrap();
    assert_eq!(instances.len(), 1);
    let unreadable = instances.unreadable().iter().map(|error| match error {
        Error::NotAnInstance { path, .. } => path.as_str(),
        other => panic!("{other:?}"),
    });
    assert_eq!(unreadable.collect::<Vec<_>>(), ["b", "c", "d"].map(|id| format!("/services/orders/{id}")));
    let error = within(services.instance("orders", "b")).await.unwrap_err();
    assert_eq!(error, instances.unreadable()[0]);
    drop(registration);
}

#[tokio::test]
async fn an_instance_that_may_not_be_read_is_left_out() {
    let server = empty_server().await;
    let (client, owner) = (connect(&server).await, bystander(&server).await);
    let registration = within(services(&client).register(orders("a"))).await.unwrap();
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
    drop(registration);
}

#[tokio::test]
async fn payloads_of_java_are_read() {
    async fn reads<T: Serialize + DeserializeOwned>(client: &Client, id: &str) -> Option<T> {
        let services = ServiceDiscovery::<T>::new(client, "/services").unwrap();
        within(services.instance("orders", id)).await.unwrap().unwrap().payload
    }
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let uuid = "00000000-0000-0001-0000-000000000002";
    // As the `JsonInstanceSerializer` of Curator 5.4 writes them.
    for (id, payload) in [
        ("long", json!(["java.lang.Long", 5])),
        ("enum", json!(["com.acme.Color", "RED"])),
        ("array", json!(["[I", [1, 2]])),
        ("uuid", json!(["java.util.UUID", uuid])),
    ] {
        let instance = json!({
            "name": "orders", "id": id, "address": "10.0.0.7", "port": 1, "sslPort": null, "payload": payload,
            "registrationTimeUTC": 1, "serviceType": "DYNAMIC", "uriSpec": null,
        });
        create(&zookeeper, &[(id, &instance.to_string())]).await;
    }
    assert_eq!(reads::<i64>(&client, "long").await, Some(5));
    assert_eq!(reads::<String>(&client, "enum").await.as_deref(), Some("RED"));
    assert_eq!(reads::<Vec<i32>>(&client, "array").await, Some(vec![1, 2]));
    assert_eq!(reads::<String>(&client, "uuid").await.as_deref(), Some(uuid));
    assert_eq!(reads::<Value>(&client, "array").await, Some(json!([1, 2])));
}

#[tokio::test]
async fn what_java_reads_is_read() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let nodes = [
        ("a", r#"{"port":"8080"}"#),
        ("b", r#"{"registrationTimeUTC":-5}"#),
        ("c", r#"{"port":-1}"#),
        ("d", r#"{"name":"o","name":"orders","id":"d"}"#),
        ("e", r#"{"port":"","uriSpec":{}}"#),
        ("f", r#"{"port":8080.0,"uriSpec":{"parts":[{"value":"a","variable":null}]}}"#),
        ("g", r#"{"address":5,"enabled":"true"} more"#),
    ];
    create(&zookeeper, &nodes).await;
    let found = within(services(&client).instances("orders")).await.unwrap();
    assert_eq!(found.unreadable(), []);
    let ports: Vec<_> = found.iter().map(|instance| instance.port).collect();
    assert_eq!(ports, [Some(8080), None, None, None, None, Some(8080), None]);
    assert_eq!((&*found[3].name, found[6].address.as_deref()), ("orders", Some("5")));
}

#[tokio::test]
async fn instances_are_sorted_by_their_ids() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    create(&zookeeper, &[("x", r#"{"id":"b"}"#), ("y", r#"{"id":"a"}"#)]).await;
    let services = services(&client);
    let found = within(services.instances("orders")).await.unwrap();
    assert_eq!(found.iter().map(|instance| instance.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(*within(services.cache("orders").unwrap().wait_loaded()).await.unwrap(), found);
}
