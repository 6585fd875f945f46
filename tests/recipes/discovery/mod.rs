//! Service discovery.

mod following;
mod registering;
mod static_instances;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::recipes::prelude::*;

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

/// Creates nodes below that of the service, with data that need not be those of an instance.
async fn create(zookeeper: &zk::Client, nodes: &[(&str, &str)]) {
    zookeeper.mkdir("/services/orders", &anyone(CreateMode::Persistent)).await.unwrap();
    for (id, data) in nodes {
        zookeeper
            .create(&format!("/services/orders/{id}"), data.as_bytes(), &anyone(CreateMode::Persistent))
            .await
            .unwrap();
    }
}
