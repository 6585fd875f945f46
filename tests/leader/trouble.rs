//! Elections in trouble: wiped servers, candidates that are alike, and the ends of clients and sessions.

use super::*;

fn latch(client: &Client) -> LeaderLatch {
    LeaderLatch::start(client, PATH, LeaderOptions::new()).unwrap()
}

// CURATOR-724: after the path is gone, Curator's latch before 5.8 never leads again.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_wiped_server_has_a_leader_again() {
    let mut server = empty_server().await;
    let builder = Client::builder().session_timeout(secs(3));
    let clients = [
        builder.clone().connect(&server.connect_string()).await.unwrap(),
        builder.connect(&server.connect_string()).await.unwrap(),
    ];
    let (first, leadership) = leading(&clients[0], LeaderOptions::new()).await;
    let second = latch(&clients[1]);
    let mut seen = LeaderObserver::new(&clients[1], PATH).unwrap().watch_leader();
    within(seen.wait_for(|seen| matches!(seen, Observation::Leader(_)))).await.unwrap();
    queue_of(&bystander(&server).await, PATH, 2).await;

    server.kill().await.unwrap();
    let data = server.real().data_dir().join("version-2");
    std::fs::remove_dir_all(&data).unwrap();
    server.restart().await.unwrap();

    assert_eq!(within(leadership.lost()).await, LossReason::Expired);
    let zookeeper = bystander(&server).await;
    queue_of(&zookeeper, PATH, 2).await;
    let is_leading = || [&first, &second].map(LeaderLatch::has_leadership);
    until("one leads", || is_leading() != [false; 2]).await;
    assert_ne!(is_leading(), [true; 2]);
    let token = first.leader().await.unwrap().unwrap().fencing_token();
    let is_seen = |seen: &Observation| matches!(seen, Observation::Leader(it) if it.fencing_token() == token);
    within(seen.wait_for(is_seen)).await.unwrap();
    for latch in [&first, &second] {
        within(latch.close(CloseMode::Silent)).await.unwrap();
    }
    queue_of(&zookeeper, PATH, 0).await;
}

#[tokio::test]
async fn a_closed_client_ends_all() {
    let (server, [one, two]) = server_and_clients().await;
    let (leading, leadership) = leading(&one, LeaderOptions::new()).await;
    let waiting = latch(&two);
    let awaiting = tokio::spawn({
        let waiting = waiting.clone();
        async move { waiting.await_leadership().await }
    });
    let mut seen = LeaderObserver::new(&two, PATH).unwrap().watch_leader();
    queue_of(&bystander(&server).await, PATH, 2).await;
    two.close().await;
    assert_eq!(within(awaiting).await.unwrap().unwrap_err(), Error::Closed);
    within(async { while seen.changed().await.is_some() {} }).await;
    one.close().await;
    assert_eq!(within(leadership.lost()).await, LossReason::Closed);
    assert!(!leading.has_leadership());
    assert_eq!(within(leadership.resign()).await, Err(Error::Closed));
    for latch in [leading, waiting] {
        let mut state = latch.watch_state();
        within(async { while state.changed().await.is_some() {} }).await;
        assert!(matches!(state.get(), LeaderState::Closed));
        let _ = within(latch.close(CloseMode::Silent)).await;
    }
}

#[tokio::test]
async fn a_term_that_is_over_blocks_nobody_on_an_adopted_session() {
    let server = empty_server().await;
    let session = zk::Client::connect(&server.connect_string()).await.unwrap();
    let client = Client::from_zookeeper(session.clone()).unwrap();
    let other = connect(&server).await;
    let (_old, leadership) = leading(&client, LeaderOptions::new()).await;
    let next = latch(&other);
    queue_of(&bystander(&server).await, PATH, 2).await;
    within(client.close()).await;
    within(next.await_leadership()).await.unwrap();
    assert_eq!(leadership.loss(), Some(LossReason::Closed));
}
