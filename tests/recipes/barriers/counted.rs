//! Which members of a `DoubleBarrier` count: each once, and only those that are there.

use std::collections::HashSet;

use super::*;

/// A client whose nodes no one else may read.
async fn private(server: &str, who: &str) -> Client {
    let own = [Acl::new(Permission::ALL, AuthId::new("auth", ""))];
    let builder = builder().auth("digest", format!("{who}:secret"));
    let builder = builder.acl_for_path(move |path| path.contains("/_c_").then(|| own.to_vec()));
    connected(builder, server).await
}

#[tokio::test]
async fn who_gives_up_does_not_count_beside_one_that_may_not_be_read() {
    let (server, proxy, zookeeper) = server_proxy_and_bystander().await;
    let hidden = private(&server.connect_string(), "hidden").await;
    let (open, last) = (connect(&server).await, connect_through(&proxy).await);
    let hidden_enters = enter_in_task(&hidden, 3);
    queue_of(&zookeeper, PATH, 1).await;
    let open_enters = enter_in_task(&open, 3);
    // Each watches its own node when it has looked, and waits.
    for node in queue_of(&zookeeper, PATH, 2).await {
        watches_on(&server, &node).await;
    }
    // The check of the hidden one is refused, and the others are still to be checked.
    let checked = proxy.intercept(Request::Multi, Fate::HoldReply);
    let last_enters = enter_in_task(&last, 3);
    within(checked.happened()).await;
    open_enters.abort();
    queue_of(&zookeeper, PATH, 2).await;
    proxy.take_requests();
    checked.release();
    eventually("it has tried again, and looks", async || {
        proxy.take_requests().contains(&Request::GetChildren).then_some(())
    })
    .await;
    assert!(!hidden_enters.is_finished() && !last_enters.is_finished(), "two are let in as three");
    let _third = within(double_barrier(&open, 3).enter()).await.unwrap();
    let (_hidden, _last) = within(async { tokio::join!(hidden_enters, last_enters) }).await;
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
async fn who_has_not_heard_is_let_in_beside_one_that_may_not_be_read() {
    let (server, zookeeper) = server_and_bystander().await;
    let hidden = private(&server.connect_string(), "hidden").await;
    let other = connect(&server).await;
    // The names of members are random: each of both orders comes soon.
    let mut orders = HashSet::new();
    for round in 0..40 {
        let path = format!("{PATH}/{round}");
        let enter = |client: &Client| {
            let barrier = DoubleBarrier::new(client, &path, 3).unwrap();
            tokio::spawn(async move { barrier.enter().await })
        };
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let slow = connect_through(&proxy).await;
        let slow_enters = enter(&slow);
        let slow_node = queue_of(&zookeeper, &path, 1).await.remove(0);
        watches_on(&server, &slow_node).await;
        proxy.set_traffic(Traffic::black_hole_to_client());
        let hidden_enters = enter(&hidden);
        queue_of(&zookeeper, &path, 2).await;
        let entered = within(enter(&other)).await.unwrap().unwrap();
        let hidden_entered = within(hidden_enters).await.unwrap().unwrap();
        orders.insert(*hidden_entered.node_path() < *format!("{path}/{slow_node}"));
        let leaving = leave_in_task(entered);
        queue_of(&zookeeper, &path, 3).await;
        zookeeper.delete(&format!("{path}/ready"), None).await.unwrap();
        proxy.cut();
        proxy.set_traffic(Traffic::pass());
        let _slow = within(slow_enters).await.unwrap().unwrap();
        leaving.abort();
        if orders.len() == 2 {
            return;
        }
    }
    panic!("one order only");
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
