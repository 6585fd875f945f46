//! `Barrier`; what lost connections and replies do to it is told in the simulation.

use super::*;

const PATH: &str = "/barriers/b";
const BRIEF: Duration = ms(200);

fn barrier(client: &Client) -> Barrier {
    Barrier::new(client, PATH).unwrap()
}

fn wait_in_task(client: &Client) -> JoinHandle<Result<()>> {
    let barrier = barrier(client);
    tokio::spawn(async move { barrier.wait().await })
}

#[tokio::test]
async fn it_holds_back_until_it_is_removed() {
    let (server, [one, two]) = server_and_clients().await;
    assert!(!within(barrier(&one).is_set()).await.unwrap());
    within(barrier(&one).wait()).await.unwrap();
    within(barrier(&one).remove()).await.unwrap();
    for _ in 0..2 {
        within(barrier(&one).set()).await.unwrap();
        within(barrier(&one).set()).await.unwrap();
        assert!(within(barrier(&two).is_set()).await.unwrap(), "at once");
        assert!(!answered(async || barrier(&two).wait_within(BRIEF).await).await);
        assert!(!within(barrier(&two).wait_within(Duration::ZERO)).await.unwrap());
        let waiting: Vec<_> = (0..5).map(|_| wait_in_task(&two)).collect();
        all_watches(&server, 1).await;
        within(barrier(&one).remove()).await.unwrap();
        for waiting in waiting {
            within(waiting).await.unwrap().unwrap();
        }
        assert!(within(barrier(&two).wait_within(Duration::ZERO)).await.unwrap());
    }
    all_watches(&server, 0).await;
}

// CURATOR-654: each wait at a barrier that is not set leaves a watch behind, until there is no memory left.
#[tokio::test]
async fn no_wait_leaves_a_watch_behind() {
    let (server, client) = server_and_client().await;
    for _ in 0..5 {
        within(barrier(&client).wait()).await.unwrap();
    }
    all_watches(&server, 0).await;
    within(barrier(&client).set()).await.unwrap();
    for _ in 0..5 {
        assert!(!within(barrier(&client).wait_within(BRIEF / 10)).await.unwrap_or(false));
        let waiting = wait_in_task(&client);
        all_watches(&server, 1).await;
        waiting.abort();
        all_watches(&server, 0).await;
    }
}

#[tokio::test]
async fn the_opening_is_the_event_and_takes_no_request() {
    let (server, proxy, client, other) = server_proxy_and_clients().await;
    within(barrier(&other).set()).await.unwrap();
    proxy.take_requests();
    let waiting = wait_in_task(&client);
    all_watches(&server, 1).await;
    within(barrier(&other).remove()).await.unwrap();
    within(waiting).await.unwrap().unwrap();
    assert_eq!(proxy.take_requests(), [Request::Confirm, Request::GetData]);
}

#[tokio::test]
async fn a_barrier_that_is_set_again_without_a_connection_has_been_open() {
    let (server, proxy, client, other) = server_proxy_and_clients().await;
    within(barrier(&other).set()).await.unwrap();
    let waiting = wait_in_task(&client);
    all_watches(&server, 1).await;
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    all_watches(&server, 0).await;
    within(barrier(&other).remove()).await.unwrap();
    within(barrier(&other).set()).await.unwrap();
    proxy.refuse_connections(false).unwrap();
    within(waiting).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_cannot_be_done_is_said() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    assert!(matches!(Barrier::new(&client, "b"), Err(Error::InvalidPath { .. })));
    let acl = [zk::Acl::new(zk::Permission::READ, zk::AuthId::anyone())];
    zookeeper.create("/barriers", b"", &CreateMode::Persistent.with_acls(zk::Acls::new(&acl))).await.unwrap();
    let error = within(barrier(&client).set()).await.unwrap_err();
    assert!(matches!(&error, Error::ZooKeeper { source: zk::Error::NoAuth, .. }), "{error}");
    within(client.close()).await;
    assert_eq!(within(barrier(&client).wait()).await, Err(Error::Closed));
}
