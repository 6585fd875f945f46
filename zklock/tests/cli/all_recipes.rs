//! `zklock ls --all`.

use std::time::Duration;

use serde_json::{Value, json};
use zk_recipes::atomic::DistributedAtomicLong;
use zk_recipes::barriers::{Barrier, DoubleBarrier};
use zk_recipes::discovery::{ServiceDiscovery, ServiceInstance};
use zk_recipes::nodes::{Group, PersistentTtlNode, PersistentTtlNodeOptions};
use zk_recipes::shared::{SharedCount, SharedValue};

use zk_recipes::{Client, InterProcessMutex, zookeeper_client as zk};

use crate::support::{BOUND, Server, bystander, connect, empty_server, eventually, within};
use crate::zklock::{done, json};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn recipes_without_a_queue_are_listed_if_asked_for() {
    let builder = Server::builder().ttl_nodes();
    let server = builder.start().await.unwrap();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let zookeeper = bystander(&server).await;

    let _lock = InterProcessMutex::new(&client, "/app/lock").unwrap().acquire().await.unwrap();
    let _web_1 = Group::new(&client, "/app/group").unwrap().join("web-1", "a").await.unwrap();
    let _web_2 = Group::new(&other, "/app/group").unwrap().join("web-2", "b").await.unwrap();
    Barrier::new(&client, "/app/barrier").unwrap().set().await.unwrap();
    let double = DoubleBarrier::new(&client, "/app/double", 2).unwrap();
    let entering = tokio::spawn(async move { double.enter_within(BOUND).await });
    let member =
        eventually("it waits for others", async || zookeeper.list_children("/app/double").await.ok()?.pop())
            .await;
    let services = ServiceDiscovery::<Value>::new(&client, "/app/services").unwrap();
    let _instance = services.register(ServiceInstance::new("orders").id("7").port(80)).await.unwrap();
    DistributedAtomicLong::new(&client, "/app/number").unwrap().add(-4711).await.unwrap();
    SharedCount::new(&client, "/app/count", 3).unwrap().set(5).await.unwrap();
    SharedValue::new(&client, "/app/value", "").unwrap().set("secret").await.unwrap();
    let options = PersistentTtlNodeOptions::new(HOUR);
    let ttl = PersistentTtlNode::start(&client, "/app/ttl", "data", options).unwrap();
    within(ttl.wait_present()).await.unwrap();

    let listed = json(&server, &["ls", "--all", "--json", "/app"]).await;
    let found: Vec<_> = listed["others"].as_array().unwrap().iter().map(known).collect();
    let expected = [
        json!(["/app/barrier", "barrier", [], null]),
        json!(["/app/count", "number", [], 5]),
        json!(["/app/double", "double barrier", [member], null]),
        json!(["/app/group", "group", ["web-1", "web-2"], null]),
        json!(["/app/number", "number", [], -4711]),
        json!(["/app/services/orders", "service", ["7"], null]),
        json!(["/app/ttl", "TTL node", [], null]),
        json!(["/app/value", "value", [], null]),
    ];
    assert_eq!(found, expected);
    assert_eq!(listed["locks"].as_array().unwrap().len(), 1);
    let text = done(&server, &["ls", "--all", "/app"]).await.output;
    assert!(text.contains("2: web-1, web-2") && text.contains("-4711") && text.contains("6 bytes"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    let locks_only = json(&server, &["ls", "--json", "/app"]).await;
    assert_eq!(locks_only.get("others"), None);
    entering.abort();
}

fn known(found: &Value) -> Value {
    json!([found["path"], found["kind"], found["members"], found["number"]])
}

#[tokio::test]
async fn nothing_in_use_is_said_so() {
    let server = empty_server().await;
    assert_eq!(done(&server, &["ls", "--all"]).await.output, "nothing here is in use\n");
}

/// As one who may not read them.
#[tokio::test]
async fn nodes_that_may_not_be_read_are_left_out() {
    let server = empty_server().await;
    let owner = Client::builder().auth("digest", "owner:secret").creator_only();
    let owner = owner.connect(&server.connect_string()).await.unwrap();
    SharedCount::new(&owner, "/private/count", 1).unwrap().set(5).await.unwrap();
    let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    bystander(&server).await.create("/open", &7_i32.to_be_bytes(), &open).await.unwrap();
    let listed = done(&server, &["ls", "--all", "--json"]).await;
    let json = listed.json();
    assert_eq!(
        json["others"].as_array().unwrap().iter().map(known).collect::<Vec<_>>(),
        [json!(["/open", "number", [], 7])]
    );
    assert_eq!(json["unreadable"], json!(["/private"]));
    assert!(listed.errors.contains("/private"), "{listed:?}");
}
