//! `DoubleBarrier`; lost connections and replies, and members that give up or die, are told of in the simulation.

use super::*;

/// Waits until there is neither a member nor a watch.
async fn nothing_left(server: &Server, zookeeper: &zk::Client) {
    queue_of(zookeeper, PATH, 0).await;
    all_watches(server, 0).await;
}

#[tokio::test]
async fn members_begin_and_end_together() {
    let (server, clients, zookeeper) = server_clients_and_bystander::<3>().await;
    // Made to stay, so it stays.
    zookeeper.mkdir(PATH, &anyone(CreateMode::Persistent)).await.unwrap();
    let before = zookeeper.check_stat(PATH).await.unwrap().unwrap();
    for _ in 0..2 {
        let first = [enter_in_task(&clients[0], 3), enter_in_task(&clients[1], 3)];
        queue_of(&zookeeper, PATH, 2).await;
        // Each watches for the sign, and its own node.
        all_watches(&server, 4).await;
        assert!(first.iter().all(|entering| !entering.is_finished()));
        let last = within(enter_in_task(&clients[2], 3)).await.unwrap().unwrap();
        let [first, second] = join_all(first).await.try_into().unwrap();
        let (first, second) = (first.unwrap().unwrap(), second.unwrap().unwrap());
        assert_eq!(queue_of(&zookeeper, PATH, 4).await.iter().filter(|name| *name == "ready").count(), 1);
        assert!([&first, &second, &last].iter().all(|entered| entered.loss().is_none()));

        let leaving = leave_in_task(first);
        assert!(!within(second.leave_within(BRIEF)).await.unwrap(), "the last one is in");
        queue_of(&zookeeper, PATH, 2).await;
        assert!(!leaving.is_finished());
        assert!(within(last.leave_within(BOUND)).await.unwrap());
        within(leaving).await.unwrap().unwrap();
        nothing_left(&server, &zookeeper).await;
    }
    assert_eq!(zookeeper.check_stat(PATH).await.unwrap().unwrap().czxid, before.czxid);
    assert!(matches!(
        DoubleBarrier::new(&clients[0], PATH, 0),
        Err(Error::InvalidArgument { argument: "members", .. })
    ));
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

/// A client whose nodes no one else may read.
async fn private(server: &str, who: &str) -> Client {
    let own = [Acl::new(Permission::ALL, AuthId::new("auth", ""))];
    let builder = builder().auth("digest", format!("{who}:secret"));
    let builder = builder.acl_for_path(move |path| path.contains("/_c_").then(|| own.to_vec()));
    connected(builder, server).await
}

#[tokio::test]
async fn who_comes_late_joins_a_member_that_it_may_read() {
    for (newer, are_all_hidden) in [(false, false), (false, true), (true, false), (true, true)] {
        let Some(server) = server_of(newer).await else { continue };
        let servers = server.connect_string();
        let hidden = [private(&servers, "one").await, private(&servers, "other").await];
        let open = if are_all_hidden { private(&servers, "third").await } else { connect(&server).await };
        let [one, other] = hidden;
        let _all = entered(&[one, other, open]).await;
        let late = connect(&server).await;
        let joined = within(double_barrier(&late, 3).enter()).await;
        if are_all_hidden {
            let error = joined.unwrap_err();
            let is_refused = matches!(error, Error::ZooKeeper { source: zk::Error::NoAuth, .. });
            assert!(is_refused && error.to_string().contains(PATH), "{error}");
        } else {
            let _joined = joined.unwrap();
        }
    }
}

#[tokio::test]
async fn a_ready_that_does_not_fit_into_a_request_is_refused() {
    let server = empty_server().await;
    let id = |at: u32| AuthId::new("ip", &format!("10.{}.{}.{}", at >> 16, at >> 8 & 0xff, at & 0xff));
    let many: Vec<_> = (0..60_000).map(|at| Acl::new(Permission::ALL, id(at))).collect();
    let builder = builder().acl_for_path(move |path| path.ends_with("/ready").then(|| many.clone()));
    let client = connected(builder, &server.connect_string()).await;
    let refused = within(double_barrier(&client, 1).enter()).await.unwrap_err();
    assert!(matches!(refused, Error::RequestTooLarge { .. }), "{refused}");
}

// After all members of a round have died.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn members_that_may_not_be_read_replace_a_ready_that_was_left_behind() {
    let (server, zookeeper) = server_and_bystander().await;
    let servers = server.connect_string();
    let clients = [private(&servers, "one").await, private(&servers, "other").await];
    let _all = entered(&clients).await;
    for client in &clients {
        kill_session(client).await.unwrap();
    }
    queue_of(&zookeeper, PATH, 1).await;
    let first = enter_in_task(&clients[0], 2);
    queue_of(&zookeeper, PATH, 2).await;
    let second = within(double_barrier(&clients[1], 2).enter()).await;
    let _second = second.expect("both are there, and nobody is in");
    let _first = within(first).await.unwrap().unwrap();
}

/// A server of Debian's ZooKeeper or of a newer one; `None` if that is not installed.
async fn server_of(newer: bool) -> Option<Server> {
    let builder = Server::builder();
    let builder = match newer {
        true => builder.class_path(Peers::if_installed(Generation::Current)?.class_path),
        false => builder,
    };
    Some(builder.start().await.unwrap())
}

#[tokio::test]
async fn threads_have_the_same() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let _client = on_a_thread(move || {
        use zk_recipes::blocking;
        let client = blocking::Client::from(client);
        let barrier = blocking::barriers::Barrier::new(&client, "/barriers/b").unwrap();
        barrier.set().unwrap();
        assert!(barrier.is_set().unwrap());
        let waiting = std::thread::spawn({
            let barrier = barrier.clone();
            move || barrier.wait()
        });
        barrier.remove().unwrap();
        waiting.join().unwrap().unwrap();
        assert!(barrier.wait_within(BOUND).unwrap());

        let barrier = blocking::barriers::DoubleBarrier::new(&client, PATH, 2).unwrap();
        assert!(barrier.enter_within(5 * BRIEF).unwrap().is_none());
        let enter = || {
            let barrier = barrier.clone();
            std::thread::spawn(move || barrier.enter())
        };
        let (entering, entered) = (enter(), barrier.enter().unwrap());
        let other = entering.join().unwrap().unwrap();
        assert!(entered.loss().is_none() && entered.node_path().starts_with(barrier.path()));
        let leaving = std::thread::spawn(move || other.leave_within(BOUND));
        entered.leave().unwrap();
        assert!(leaving.join().unwrap().unwrap());
        // One that is dropped leaves as well.
        let (entering, entered) = (enter(), barrier.enter().unwrap());
        drop((entering.join().unwrap().unwrap(), entered));
        client
    })
    .await;
    queue_of(&zookeeper, PATH, 0).await;
}
