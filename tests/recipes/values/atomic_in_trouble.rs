//! Numbers when replies are lost, connections break and sessions end: nothing is added twice, and nothing is lost.

use super::*;

const PATH: &str = "/numbers/a";

#[tokio::test]
async fn a_lost_request_is_repeated_and_a_lost_reply_is_told() {
    let (_server, proxy) = server_and_proxy().await;
    let number = DistributedAtomicLong::new(&connect_through(&proxy).await, PATH).unwrap();
    number.increment().await.unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseRequest);
    assert_eq!(within(number.increment()).await, Ok(2));
    within(lost.happened()).await;

    // All that are written together are told; who has written nothing is answered.
    let held = proxy.intercept(Request::SetData, Fate::HoldReply);
    let first = begun(number.increment());
    within(held.happened()).await;
    let mut batch = Box::pin(join_all([number.fetch_add(10), number.fetch_add(20)]));
    let mut other = Box::pin(number.compare_exchange(-1, 0));
    assert!(poll_once(&mut batch).is_pending() && poll_once(&mut other).is_pending());
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    held.release();
    assert_eq!(within(first).await, Ok(3));
    for outcome in within(batch).await {
        assert!(matches!(outcome, Err(Error::WriteOutcomeUnknown { .. })), "{outcome:?}");
    }
    within(lost.happened()).await;
    assert_eq!(within(other).await, Ok(Err(33)), "added once");
    assert_eq!(number.increment().await, Ok(34));
}

#[tokio::test]
async fn a_create_whose_reply_is_lost_counts_once() {
    let (_server, proxy) = server_and_proxy().await;
    let number = DistributedAtomicLong::new(&connect_through(&proxy).await, "/a").unwrap();
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    assert_eq!(within(number.increment()).await, Ok(1));
    within(lost.happened()).await;
    assert_eq!(number.get().await, Ok(1));
}

/// Somebody may take what was created before the reply is missed.
#[tokio::test]
async fn a_value_is_created_at_most_once_by_one_exchange() {
    let (_server, proxy, zookeeper) = server_proxy_and_bystander().await;
    let value = DistributedAtomicValue::new(&connect_through(&proxy).await, "/a").unwrap();
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    proxy.refuse_connections(true).unwrap();
    let setting = tokio::spawn(async move { value.compare_exchange(None, "ours").await });
    within(lost.happened()).await;
    assert_eq!(zookeeper.get_data("/a").await.unwrap().0, b"ours", "it was done");
    // Somebody takes what was written.
    zookeeper.delete("/a", None).await.unwrap();
    mend(&proxy);
    let outcome = within(setting).await.unwrap();
    assert!(matches!(outcome, Err(Error::WriteOutcomeUnknown { .. })), "{outcome:?}");
    assert!(zookeeper.check_stat("/a").await.unwrap().is_none(), "written twice");
}

#[tokio::test]
async fn a_missing_chroot_is_told_as_such() {
    let server = empty_server().await;
    let client = Client::connect(&format!("{}/no/such/chroot", server.connect_string())).await.unwrap();
    for path in ["/deep/a", "/a"] {
        let value = DistributedAtomicValue::new(&client, path).unwrap();
        let number = DistributedAtomicLong::new(&client, path).unwrap();
        let outcomes = [
            within(value.initialize("a")).await.map(drop),
            within(value.compare_exchange(None, "a")).await.map(drop),
            within(value.force_set("a")).await,
            within(number.initialize(7)).await.map(drop),
            within(number.increment()).await.map(drop),
        ];
        for outcome in outcomes {
            let refused = matches!(&outcome, Err(Error::ZooKeeper { source: zk::Error::NoNode, .. }));
            assert!(refused, "{path}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn no_error_is_told_that_is_older_than_the_call() {
    let (_server, proxy, zookeeper) = server_proxy_and_bystander().await;
    let number = DistributedAtomicLong::new(&connect_through(&proxy).await, PATH).unwrap();
    number.force_set(5).await.unwrap();
    zookeeper.set_data(PATH, b"seven", None).await.unwrap();
    let held = proxy.intercept(Request::GetData, Fate::HoldReply);
    let early = begun(number.increment());
    within(held.happened()).await;
    zookeeper.set_data(PATH, &5_i64.to_be_bytes(), None).await.unwrap();
    let late = begun(number.increment());
    held.release();
    let (early, late) = within(join(early, late)).await;
    assert!(matches!(early, Err(Error::NotANumber { .. })), "{early:?}");
    assert!(late.is_ok(), "the number was there before the call: {late:?}");
}

/// What is lost is the create of a parent: the node itself was refused before, and is created afterwards.
#[tokio::test]
async fn a_lost_parent_is_no_doubt_about_the_node() {
    let (_server, proxy, client) = server_proxy_and_client().await;
    for fate in [Fate::LoseRequest, Fate::LoseReply] {
        let number = DistributedAtomicLong::new(&client, &format!("/{fate:?}/a/b")).unwrap();
        let lost = proxy.intercept_after(1, fate);
        assert_eq!(within(number.initialize(7)).await, Ok(true), "{fate:?}");
        within(lost.happened()).await;
        assert_eq!(number.get().await, Ok(7));
    }
}
