//! Service discovery of Curator and of this library on one path.

use serde::{Deserialize, Serialize};

use crate::interop::prelude::*;

const BASE: &str = "/services";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    zone: String,
}

fn instance(id: &str, port: u16) -> ServiceInstance<Details> {
    ServiceInstance::new("orders")
        .id(id)
        .address("10.0.0.7")
        .port(port)
        .payload(Details { zone: "north".into() })
        .uri_spec(UriSpec::new("{scheme}://{address}:{port}/{name}/{service-type}"))
}

/// What an actor tells, once it is this.
async fn tells(actor: &mut Actor, command: &str, expected: &str) {
    for _ in 0..600 {
        if actor.call(command).await == expected {
            return;
        }
        tokio::time::sleep(ms(100)).await;
    }
    panic!("{command} does not tell {expected:?}, but {:?}", actor.call(command).await);
}

pub(crate) async fn services_are_found_by_both(generation: Generation) {
    let stage = Stage::set(generation).await;
    let curator = stage.curator("java").await;
    let mut java = curator.open("java", &format!("service {BASE}")).await;
    let client = stage.client("rust").await;
    let services = ServiceDiscovery::new(&client, BASE).unwrap().payload_class("Services$Details");

    // Theirs is found by us.
    java.call("act register a,8080,south").await;
    let found = within(services.instances("orders")).await.unwrap();
    assert!(found.unreadable().is_empty(), "{found:?}");
    assert_eq!((found.len(), &*found[0].id, found[0].port), (1, "a", Some(8080)));
    assert_eq!(found[0].payload, Some(Details { zone: "south".into() }));
    assert_eq!(found[0].uri().as_deref(), Some("http://10.0.0.7:8080/orders/dynamic"));

    // Ours is found by them, as they would have registered it.
    let mut registration = within(services.register(instance("b", 9090))).await.unwrap();
    assert_eq!(within(services.names()).await.unwrap().join(" "), java.call("act names").await);
    let both =
        "a,8080,south,http://10.0.0.7:8080/orders/dynamic b,9090,north,http://10.0.0.7:9090/orders/dynamic";
    assert_eq!(java.call("act query").await, both);
    tells(&mut java, "act cached", both).await;
    within(registration.update(instance("b", 9091))).await.unwrap();
    tells(&mut java, "act cached", &both.replace("9090", "9091")).await;

    // Both follow what the other does.
    let cache = services.cache("orders").unwrap();
    within(cache.wait_until(|instances| instances.len() == 2)).await.unwrap();
    java.call("act update a,8081,east").await;
    within(cache.wait_until(|instances| instances[0].port == Some(8081))).await.unwrap();
    java.call("act unregister").await;
    let provider = ServiceProvider::new(cache);
    within(provider.cache().wait_until(|instances| instances.len() == 1)).await.unwrap();
    assert_eq!(provider.pick().map(|instance| instance.id.clone()).as_deref(), Some("b"));
    tells(&mut java, "act picked", "b").await;
    within(registration.unregister()).await.unwrap();
    tells(&mut java, "act cached", "").await;
    eventually("none is left", || async {
        within(services.instances("orders")).await.unwrap().is_empty().then_some(())
    })
    .await;
}
