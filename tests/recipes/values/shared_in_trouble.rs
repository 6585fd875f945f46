//! `SharedValue` when replies are lost, and when others write first.

use super::*;

const PATH: &str = "/values/a";

/// A value by way of a proxy, and who looks at the node.
async fn stage() -> (crate::support::PooledServer, FaultProxy, SharedValue, zk::Client) {
    let (server, proxy) = server_and_proxy().await;
    let value = SharedValue::new(&connect_through(&proxy).await, PATH, "seed").unwrap();
    let zookeeper = bystander(&server).await;
    value.get().await.unwrap();
    (server, proxy, value, zookeeper)
}

#[tokio::test]
async fn a_write_that_did_not_arrive_is_repeated() {
    let (_server, proxy, value, zookeeper) = stage().await;
    let seen = value.get_versioned().await.unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseRequest);
    let written = within(value.compare_and_set(&seen, "new")).await.unwrap().unwrap();
    within(lost.happened()).await;
    assert_eq!(value.get_versioned().await.unwrap(), written);
    assert_eq!(zookeeper.get_data(PATH).await.unwrap().1.version, 1);
}

/// Somebody else may have written the same.
#[tokio::test]
async fn a_lost_reply_is_never_an_answer() {
    let (_server, proxy, value, zookeeper) = stage().await;
    let seen = value.get_versioned().await.unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    let error = within(value.compare_and_set(&seen, "new")).await.unwrap_err();
    within(lost.happened()).await;
    assert!(matches!(&error, Error::WriteOutcomeUnknown { path, .. } if path == PATH), "{error}");
    assert!(!error.is_retryable());
    let (data, stat) = zookeeper.get_data(PATH).await.unwrap();
    assert_eq!((&data[..], stat.version), (&b"new"[..], 1), "written once");
    // Nor is it added twice.
    let count = SharedCount::new(&connect_through(&proxy).await, "/values/count", 0).unwrap();
    count.get().await.unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    let error = within(count.update(|count| count + 1)).await.unwrap_err();
    within(lost.happened()).await;
    assert!(matches!(error, Error::WriteOutcomeUnknown { .. }), "{error}");
    assert_eq!(count.get().await, Ok(1));
}

#[tokio::test]
async fn a_write_outlives_its_session() {
    let (_server, client) = server_and_client().await;
    let value = SharedValue::new(&client, PATH, "seed").unwrap();
    let seen = value.get_versioned().await.unwrap();
    kill_session(&client).await.unwrap();
    // Nothing was sent on the old session.
    let written = within(value.compare_and_set(&seen, "new")).await.unwrap().unwrap();
    assert_eq!(value.get_versioned().await.unwrap(), written);
}

#[tokio::test]
async fn an_update_is_tried_again_until_its_time_is_over() {
    let (server, proxy, value, _) = stage().await;
    let other = SharedValue::new(&connect(&server).await, PATH, "").unwrap();
    for (timeout, expected) in [(Duration::ZERO, None), (secs(60), Some(b"theirs+".to_vec()))] {
        let held = proxy.intercept(Request::GetData, Fate::HoldReply);
        let updating = tokio::spawn({
            let value = value.with_timeout(timeout);
            async move { value.update(|old| [old, b"+"].concat()).await }
        });
        within(held.happened()).await;
        other.set("theirs").await.unwrap();
        held.release();
        match (within(updating).await.unwrap(), expected) {
            (Ok(written), expected) => assert_eq!(Some(written.into_value()), expected),
            (Err(error), None) => assert!(matches!(error, Error::Contended { .. }), "{error}"),
            (Err(error), _) => panic!("{error}"),
        }
    }
    assert_eq!(other.get().await.unwrap(), b"theirs+");
}

#[tokio::test]
async fn a_node_that_is_replaced_in_that_moment_is_reported() {
    let (_server, proxy, value, zookeeper) = stage().await;
    let held = proxy.intercept(Request::GetData, Fate::HoldReply);
    let updating = tokio::spawn(async move { value.update(|old| [old, b"+"].concat()).await });
    within(held.happened()).await;
    zookeeper.delete(PATH, None).await.unwrap();
    zookeeper.create(PATH, b"theirs", &anyone(CreateMode::Persistent)).await.unwrap();
    held.release();
    let error = within(updating).await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::NodeReplaced { path, .. } if path == PATH), "{error}");
}

/// What is at the next version shows that ours was not done.
#[tokio::test]
async fn another_write_settles_a_lost_one() {
    let (_server, proxy, value, zookeeper) = stage().await;
    let seen = value.get_versioned().await.unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseRequest);
    let writing = tokio::spawn({
        let value = value.clone();
        async move { value.compare_and_set(&seen, "ours").await }
    });
    proxy.refuse_connections(true).unwrap();
    within(lost.happened()).await;
    zookeeper.set_data(PATH, b"theirs", None).await.unwrap();
    mend(&proxy);
    let current = within(writing).await.unwrap().unwrap().unwrap_err();
    assert_eq!(current.value(), b"theirs");

    // Two of them do not.
    let lost = proxy.intercept(Request::SetData, Fate::LoseRequest);
    let writing = tokio::spawn(async move { value.compare_and_set(&current, "ours").await });
    proxy.refuse_connections(true).unwrap();
    within(lost.happened()).await;
    zookeeper.set_data(PATH, b"theirs", None).await.unwrap();
    zookeeper.set_data(PATH, b"theirs again", None).await.unwrap();
    mend(&proxy);
    let error = within(writing).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::WriteOutcomeUnknown { .. }), "{error}");
}
