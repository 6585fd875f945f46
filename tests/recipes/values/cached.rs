//! `CachedAtomicLong`: numbers in blocks.

use super::*;

const PATH: &str = "/ids";

#[tokio::test]
async fn numbers_come_in_blocks_that_are_drawn_ahead() {
    let (_server, proxy) = server_and_proxy().await;
    let number = DistributedAtomicLong::new(&connect_through(&proxy).await, PATH).unwrap();
    number.increment().await.unwrap();
    let refused = CachedAtomicLong::new(&number, 0).unwrap_err();
    assert!(matches!(refused, Error::InvalidArgument { argument: "block size", .. }), "{refused}");
    let ids = CachedAtomicLong::new(&number, 10).unwrap();
    proxy.take_requests();
    for id in 1..5 {
        assert_eq!(ids.next().await, Ok(id));
    }
    assert_eq!(proxy.take_requests(), [Request::SetData]);
    assert_eq!(ids.next().await, Ok(5));
    // Half is used up: the next block is drawn, and nobody waits for it.
    eventually("a block is drawn", async || (number.get().await == Ok(21)).then_some(())).await;
    let held = proxy.intercept(Request::SetData, Fate::HoldReply);
    for id in 6..=20 {
        assert_eq!(ids.next().await, Ok(id));
    }
    within(held.happened()).await;
    held.release();
    assert_eq!(within(ids.next()).await, Ok(21));
}

#[tokio::test]
async fn a_block_whose_reply_is_lost_is_left_out() {
    let (_server, proxy) = server_and_proxy().await;
    let number = DistributedAtomicLong::new(&connect_through(&proxy).await, PATH).unwrap();
    number.increment().await.unwrap();
    let ids = CachedAtomicLong::new(&number, 10).unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    assert_eq!(within(ids.next()).await, Ok(11));
    within(lost.happened()).await;
}

#[tokio::test]
async fn all_who_wait_learn_that_no_block_can_be_drawn() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let number = DistributedAtomicLong::new(&client, PATH).unwrap();
    number.force_set(5).await.unwrap();
    zookeeper.set_data(PATH, b"five", None).await.unwrap();
    let ids = CachedAtomicLong::new(&number, 10).unwrap();
    for outcome in within(join_all([ids.next(), ids.next()])).await {
        assert!(matches!(outcome, Err(Error::NotANumber { .. })), "{outcome:?}");
    }
    number.force_set(5).await.unwrap();
    assert_eq!(within(ids.next()).await, Ok(5));
    client.close().await;
    assert_eq!(ids.next().await, Err(Error::Closed));
}
