//! Which members of a `DoubleBarrier` count: each once, and only those that are there.

use std::collections::HashSet;
use std::pin::pin;

use zk_recipes::testing::{Fate, FaultProxy, Request, Traffic};
use zk_recipes::{Acl, AuthId, ConnectionState, Error, Permission};
use zookeeper_client as zk;

use super::*;
use crate::installed::{Generation, Peers};

#[tokio::test]
async fn who_tries_again_at_once_is_not_two() {
    let server = empty_server().await;
    let client = connect(&server).await;
    for polls in 1..4 {
        let barrier = DoubleBarrier::new(&client, &format!("{PATH}/{polls}"), 2).unwrap();
        // The path exists.
        assert!(within(barrier.enter_within(BRIEF)).await.unwrap().is_none());
        assert!(poll_times(barrier.enter(), polls).await.is_none());
        let alone = within(barrier.enter_within(BRIEF)).await.unwrap();
        assert!(alone.is_none(), "let in alone after an attempt that was dropped after {polls} polls");
    }
}

// A try that is too short for the server, and another one.
#[tokio::test]
async fn who_tries_again_at_a_slow_server_is_not_two() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let barrier = double_barrier(&client, 2);
    assert!(within(barrier.enter_within(BRIEF)).await.unwrap().is_none());
    proxy.set_traffic(Traffic::pass().delay(BRIEF / 3));
    assert!(within(barrier.enter_within(BRIEF / 2)).await.unwrap().is_none());
    let alone = within(barrier.enter_within(5 * BRIEF)).await.unwrap();
    assert!(alone.is_none(), "let in alone");
}

// A session that the client has given up, since the servers were down, may still be alive there.
#[tokio::test]
async fn a_member_that_comes_again_is_not_two() {
    let bounds = (Duration::from_secs(2), Duration::from_secs(20));
    let mut server = Server::builder().session_timeout_bounds(bounds.0, bounds.1).start().await.unwrap();
    let builder = builder().session_timeout(Duration::from_secs(4));
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connected(builder, &proxy.connect_string()).await;
    let zookeeper = bystander(&server).await;
    let waiting = enter_in_task(&client, 2);
    let before = queue_of(&zookeeper, PATH, 1).await.remove(0);
    drop(zookeeper);
    server.kill().await.unwrap();
    let mut connection = client.watch_connection();
    within(connection.wait_for(|state| matches!(state, ConnectionState::Lost))).await.unwrap();
    // The requests that end the session that was given up come later than those of the member; here, they are lost.
    let _late: Vec<_> = (0..10).map(|_| proxy.intercept(Request::Other(-11), Fate::LoseRequest)).collect();
    server.restart().await.unwrap();
    connected_again(&client).await;
    let zookeeper = bystander(&server).await;
    eventually("it comes again, without its old node", async || {
        let children = children(&zookeeper, PATH).await;
        assert!(!children.iter().any(|name| name == "ready"), "let in alone: {children:?}");
        (children.len() == 1 && children[0] != before).then_some(())
    })
    .await;
    assert!(!waiting.is_finished());
}

// The same for one that was in, and whose value is still kept.
#[tokio::test]
async fn a_member_that_is_lost_and_comes_again_is_not_two() {
    let mut server = Server::builder()
        .session_timeout_bounds(Duration::from_secs(2), Duration::from_secs(20))
        .start()
        .await
        .unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connected(builder().session_timeout(Duration::from_secs(4)), &proxy.connect_string()).await;
    let entered = within(double_barrier(&client, 1).enter()).await.unwrap();
    server.kill().await.unwrap();
    within(entered.lost()).await;
    let _late: Vec<_> = (0..10).map(|_| proxy.intercept(Request::Other(-11), Fate::LoseRequest)).collect();
    server.restart().await.unwrap();
    connected_again(&client).await;
    let alone = within(double_barrier(&client, 2).enter_within(BRIEF)).await.unwrap();
    assert!(alone.is_none(), "let in by the node of its earlier session");
    assert!(entered.loss().is_some());
}

#[tokio::test]
async fn members_that_are_gone_are_forgotten() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let barrier = double_barrier(&client, 2);
    eventually("nothing is deleted any more", async || {
        assert!(within(barrier.enter_within(BRIEF)).await.unwrap().is_none());
        queue_of(&zookeeper, PATH, 0).await;
        tokio::time::sleep(BRIEF).await;
        proxy.take_requests();
        assert!(within(barrier.enter_within(BRIEF)).await.unwrap().is_none());
        (proxy.take_requests().first() == Some(&Request::Create)).then_some(())
    })
    .await;
}

// The list of members is old by the time that it is used.
#[tokio::test]
async fn who_has_given_up_does_not_count_for_one_that_is_polled_late() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let (one, late) = (connect(&server).await, connect_through(&proxy).await);
    let given_up = enter_in_task(&one, 2);
    // It watches its own node when it has looked, and waits.
    watches_on(&server, &queue_of(&zookeeper, PATH, 1).await[0]).await;
    let late = double_barrier(&late, 2);
    let mut entering = pin!(late.enter());
    let replies = proxy.replies_seen();
    // Its requests are sent, and answered.
    assert!(poll_once(&mut entering).is_pending());
    queue_of(&zookeeper, PATH, 2).await;
    eventually("the replies are there", async || (proxy.replies_seen() >= replies + 3).then_some(())).await;
    // The task is busy with something else. Meanwhile, the other one gives up: nobody has let it in.
    given_up.abort();
    queue_of(&zookeeper, PATH, 1).await;
    let alone = tokio::time::timeout(BRIEF, &mut entering).await;
    assert!(alone.is_err(), "let in alone: {alone:?}");
    let other = enter_in_task(&one, 2);
    let _entered = within(entering).await.unwrap();
    let _other = within(other).await.unwrap().unwrap();
}

// It cannot be known.
#[tokio::test]
async fn who_gives_up_without_a_connection_counts_until_its_session_ends() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let (away, other) = (connect_through(&proxy).await, connect(&server).await);
    let barrier_of_away = double_barrier(&away, 2);
    let entering = tokio::spawn(async move {
        barrier_of_away.enter_within(Duration::from_secs(1)).await.map(|entered| entered.is_some())
    });
    queue_of(&zookeeper, PATH, 1).await;
    proxy.set_traffic(Traffic::black_hole());
    assert_eq!(within(entering).await.unwrap(), Ok(false), "it has given up");
    let counted = within(double_barrier(&other, 2).enter_within(BRIEF)).await.unwrap();
    // The leave waits for the end of that session.
    within(counted.expect("counted").leave()).await.unwrap();
    let alone = within(double_barrier(&other, 2).enter_within(BRIEF)).await.unwrap();
    assert!(alone.is_none());
}

/// A client whose nodes no one else may read.
pub(super) async fn private(server: &str, who: &str) -> Client {
    let own = [Acl::new(Permission::ALL, AuthId::new("auth", ""))];
    let builder = builder().auth("digest", format!("{who}:secret"));
    let builder = builder.acl_for_path(move |path| path.contains("/_c_").then(|| own.to_vec()));
    connected(builder, server).await
}

// They cannot be checked by each other.
#[tokio::test]
async fn members_that_may_not_be_read_count() {
    let server = empty_server().await;
    let servers = server.connect_string();
    let clients = [private(&servers, "one").await, private(&servers, "other").await];
    for _ in 0..2 {
        let mut all = entered(&clients).await;
        let leaving = leave_in_task(all.remove(0));
        within(all.remove(0).leave()).await.unwrap();
        within(leaving).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn who_gives_up_does_not_count_beside_one_that_may_not_be_read() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
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
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
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

/// A server of Debian's ZooKeeper or of a newer one; `None` if that is not installed.
async fn server_of(newer: bool) -> Option<Server> {
    let builder = Server::builder();
    let builder = match newer {
        true => builder.class_path(Peers::if_installed(Generation::Current)?.class_path),
        false => builder,
    };
    Some(builder.start().await.unwrap())
}
