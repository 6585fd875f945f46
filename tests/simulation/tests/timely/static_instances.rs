//! Instances that belong to no session, by lost replies.

use zk_recipes::discovery::{ServiceDiscovery, ServiceInstance, ServiceType};

use super::prelude::*;

const NODE: &str = "/services/orders/a";

fn described(port: u16) -> ServiceInstance {
    ServiceInstance::new("orders").id("a").port(port).service_type(ServiceType::Static)
}

// It is made again, described as it was, and then anew, and neither reply comes.
#[history]
async fn an_instance_is_ours_whichever_create_has_made_it(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let services = ServiceDiscovery::new(&client, "/services").unwrap();
    let mut registration = within(services.register(described(1))).await.unwrap();
    let first = proxy.intercept(Request::Create, Fate::LoseReply);
    stage.servers().delete(NODE);
    within(first.happened()).await;
    let second = proxy.intercept(Request::Create, Fate::LoseReply);
    let mut updating = Box::pin(registration.update(described(2)));
    assert!(poll_once(&mut updating).is_pending());
    within(second.happened()).await;
    within(updating).await.unwrap();
    within(registration.unregister()).await.unwrap();
    assert_eq!(stage.servers().node(NODE), None);
}
