//! Instances that belong to no session.

use super::*;

const PATH: &str = "/services/orders/a";

fn described(port: u16) -> ServiceInstance<Weight> {
    orders("a").port(port).service_type(ServiceType::Static)
}

async fn register(client: &Client, port: u16) -> Registration<Weight> {
    within(services(client).register(described(port))).await.unwrap()
}

/// The port that is registered, and how often it was written.
async fn found(zookeeper: &zk::Client) -> (u64, i32) {
    let version = zookeeper.check_stat(PATH).await.unwrap().unwrap().version;
    (json(zookeeper, PATH).await["port"].as_u64().unwrap(), version)
}

async fn gives_up(registration: &Registration<Weight>) {
    let is_taken = |state: &NodeState| matches!(state, NodeState::Blocked(Error::NodeTaken { .. }));
    within(registration.watch_state().wait_for(is_taken)).await.unwrap();
}

async fn is_registered(registration: &Registration<Weight>) {
    within(registration.watch_state().wait_for(NodeState::is_present)).await.unwrap();
}

#[tokio::test]
async fn an_instance_of_another_process_is_waited_for_and_left_alone() {
    let cases = [(ServiceType::Dynamic, false), (ServiceType::Static, false), (ServiceType::Static, true)];
    for (service_type, gives_up) in cases {
        let (_server, [one, other], zookeeper) = server_clients_and_bystander().await;
        let described = |port| orders("a").port(port).service_type(service_type);
        let first = within(services(&one).register(described(1))).await.unwrap();
        let services = services(&other);
        let mut waiting = Box::pin(services.register(described(2)));
        for _ in 0..20 {
            assert!(poll_once(&mut waiting).is_pending());
            assert_eq!(found(&zookeeper).await, (1, 0));
        }
        if gives_up {
            drop(waiting);
            within(other.close()).await;
            assert_eq!(found(&zookeeper).await, (1, 0));
        } else {
            within(first.unregister()).await.unwrap();
            let _second = within(waiting).await.unwrap();
            assert_eq!(found(&zookeeper).await, (2, 0));
        }
    }
}

#[tokio::test]
async fn an_instance_that_is_described_the_same_is_taken_over() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let left_behind = r#"{"registrationTimeUTC":5,"serviceType":"STATIC","port":1,"uriSpec":null,"sslPort":null,
        "payload":{"weight":3,"@class":"com.acme.Weight"},"address":"10.0.0.7","id":"a","name":"orders"}"#;
    create(&zookeeper, &[("a", left_behind)]).await;
    let mut registration = register(&client, 1).await;
    assert_eq!(found(&zookeeper).await, (1, 0));
    within(registration.update(described(2))).await.unwrap();
    assert_eq!(found(&zookeeper).await, (2, 1));
    within(registration.unregister()).await.unwrap();
    assert_eq!(zookeeper.check_stat(PATH).await.unwrap(), None);
}

#[tokio::test]
async fn two_that_are_described_the_same_do_not_fight() {
    let (_server, [one, other], zookeeper) = server_clients_and_bystander().await;
    let mut first = register(&one, 1).await;
    let mut second = register(&other, 1).await;
    assert_eq!(found(&zookeeper).await, (1, 0));
    within(first.update(described(2))).await.unwrap();
    gives_up(&second).await;
    assert_eq!(found(&zookeeper).await, (2, 1));

    within(first.unregister()).await.unwrap();
    is_registered(&second).await;
    assert_eq!(found(&zookeeper).await, (1, 0));
    within(second.update(described(3))).await.unwrap();
    assert_eq!(found(&zookeeper).await, (3, 1));
}

#[tokio::test]
async fn what_someone_writes_into_a_static_instance_stays() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let registration = register(&client, 1).await;
    assert_eq!(zookeeper.check_stat(PATH).await.unwrap().unwrap().ephemeral_owner, 0);
    zookeeper.set_data(PATH, br#"{"port":5}"#, None).await.unwrap();
    gives_up(&registration).await;
    assert_eq!(found(&zookeeper).await, (5, 1));
    zookeeper.delete(PATH, None).await.unwrap();
    is_registered(&registration).await;
    assert_eq!(found(&zookeeper).await, (1, 0));

    zookeeper.set_data(PATH, br#"{"port":6}"#, None).await.unwrap();
    within(registration.unregister()).await.unwrap();
    assert_eq!(found(&zookeeper).await, (6, 1));
}
