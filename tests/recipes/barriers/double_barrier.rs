//! `DoubleBarrier`.

use super::*;

/// Waits until there is neither a member nor a watch.
async fn nothing_left(server: &Server, zookeeper: &zk::Client) {
    queue_of(zookeeper, PATH, 0).await;
    all_watches(server, 0).await;
}

#[tokio::test]
async fn members_begin_and_end_together() {
    let (server, clients, zookeeper) = server_clients_and_bystander::<3>().await;
    for _ in 0..2 {
        let first = [enter_in_task(&clients[0], 3), enter_in_task(&clients[1], 3)];
        queue_of(&zookeeper, PATH, 2).await;
        // Each watches for the sign, and its own node.
        all_watches(&server, 4).await;
        assert!(first.iter().all(|entering| !entering.is_finished()));
        let mut all = vec![within(enter_in_task(&clients[2], 3)).await.unwrap().unwrap()];
        for entering in first {
            all.push(within(entering).await.unwrap().unwrap());
        }
        assert_eq!(queue_of(&zookeeper, PATH, 4).await.iter().filter(|name| *name == "ready").count(), 1);
        assert!(all.iter().all(|entered| entered.loss().is_none()));

        let last = all.pop().unwrap();
        let leaving: Vec<_> = all.into_iter().map(leave_in_task).collect();
        queue_of(&zookeeper, PATH, 2).await;
        assert!(leaving.iter().all(|leaving| !leaving.is_finished()));
        within(last.leave()).await.unwrap();
        for leaving in leaving {
            within(leaving).await.unwrap().unwrap();
        }
        nothing_left(&server, &zookeeper).await;
    }
    assert!(matches!(
        DoubleBarrier::new(&clients[0], PATH, 0),
        Err(Error::InvalidArgument { argument: "members", .. })
    ));
}

// CURATOR-80, -318: whoever has given up still counts, and the next one passes alone.
#[tokio::test]
async fn who_gives_up_does_not_count() {
    let (server, [one, two], zookeeper) = server_clients_and_bystander().await;
    assert!(answered(async || double_barrier(&one, 2).enter_within(BRIEF).await).await.is_none());
    nothing_left(&server, &zookeeper).await;
    let dropped = enter_in_task(&one, 2);
    queue_of(&zookeeper, PATH, 1).await;
    dropped.abort();
    nothing_left(&server, &zookeeper).await;
    assert!(answered(async || double_barrier(&two, 2).enter_within(BRIEF).await).await.is_none());
    nothing_left(&server, &zookeeper).await;
    // A guard that is dropped leaves, and the last one tidies up.
    let clients = [one, two];
    drop(entered(&clients).await);
    nothing_left(&server, &zookeeper).await;
}

#[tokio::test]
async fn the_loss_of_a_member_is_told() {
    let (server, clients, zookeeper) = server_clients_and_bystander::<3>().await;
    let mut all = entered(&clients).await;
    let (third, second, first) = (all.pop().unwrap(), all.pop().unwrap(), all.pop().unwrap());
    kill_session(&clients[0]).await.unwrap();
    assert_eq!(within(first.lost()).await, LossReason::Expired);
    zookeeper.delete(second.node_path(), None).await.unwrap();
    assert_eq!(within(second.lost()).await, LossReason::Deleted);
    assert_eq!((second.loss(), third.loss()), (Some(LossReason::Deleted), None));
    let path = first.node_path().to_owned();
    let lost = Error::MemberLost { path, reason: LossReason::Expired };
    assert_eq!(within(first.leave()).await, Err(lost));
    assert!(matches!(within(second.leave()).await, Err(Error::MemberLost { .. })));
    // The others need not be waited for.
    within(third.leave()).await.unwrap();
    nothing_left(&server, &zookeeper).await;
}

#[tokio::test]
async fn who_leaves_waits_for_a_time_at_most() {
    let (server, clients) = server_and_clients::<2>().await;
    let mut all = entered(&clients).await;
    let zookeeper = bystander(&server).await;
    assert!(!within(all.remove(0).leave_within(BRIEF)).await.unwrap());
    queue_of(&zookeeper, PATH, 2).await;
    assert!(within(all.remove(0).leave_within(BOUND)).await.unwrap());
    nothing_left(&server, &zookeeper).await;
}

#[tokio::test]
async fn it_takes_few_requests() {
    let (server, proxy, client, other) = server_proxy_and_clients().await;
    let zookeeper = bystander(&server).await;
    zookeeper.mkdir(PATH, &anyone(CreateMode::Container)).await.unwrap();
    let waiting = enter_in_task(&other, 2);
    queue_of(&zookeeper, PATH, 1).await;
    proxy.take_requests();
    let entered = within(enter_in_task(&client, 2)).await.unwrap().unwrap();
    let requests: Vec<_> = proxy.take_requests().into_iter().take(4).collect();
    let expected = [Request::Create, Request::Exists, Request::GetChildren, Request::Multi];
    assert_eq!(requests, expected, "and then the watches");
    let leaving = leave_in_task(within(waiting).await.unwrap().unwrap());
    within(entered.leave()).await.unwrap();
    within(leaving).await.unwrap().unwrap();
}

#[tokio::test]
async fn threads_have_the_same() {
    let (_server, client) = server_and_client().await;
    on_a_thread(move || {
        use zk_recipes::blocking;
        let client = blocking::Client::from(client);
        let barrier = blocking::barriers::DoubleBarrier::new(&client, PATH, 2).unwrap();
        assert!(barrier.enter_within(5 * BRIEF).unwrap().is_none());
        let other = std::thread::spawn({
            let barrier = barrier.clone();
            move || barrier.enter()?.leave_within(BOUND)
        });
        let entered = barrier.enter().unwrap();
        assert!(entered.loss().is_none() && entered.node_path().starts_with(barrier.path()));
        entered.leave().unwrap();
        assert!(other.join().unwrap().unwrap());
    })
    .await;
}

#[tokio::test]
async fn lost_replies_do_no_harm() {
    let (server, proxy, zookeeper) = server_proxy_and_bystander().await;
    let (client, other) = (connect_through(&proxy).await, connect(&server).await);
    // Its requests, so that the create of its own node and that of `ready` are among them.
    for fate in [Fate::LoseReply, Fate::LoseRequest] {
        for lost in 0..6 {
            let waiting = enter_in_task(&other, 2);
            queue_of(&zookeeper, PATH, 1).await;
            let intercepted = proxy.intercept_after(lost, fate);
            let entered = within(enter_in_task(&client, 2)).await.unwrap().unwrap();
            let first = within(waiting).await.unwrap().unwrap();
            assert_eq!(queue_of(&zookeeper, PATH, 3).await.len(), 3, "one node each");
            let leaving = leave_in_task(first);
            within(entered.leave()).await.unwrap();
            within(leaving).await.unwrap().unwrap();
            intercepted.release();
            queue_of(&zookeeper, PATH, 0).await;
        }
    }
}
