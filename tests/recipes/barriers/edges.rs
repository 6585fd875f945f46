//! `DoubleBarrier`s with bad luck: what is lost, late, hidden, or of another size.

use std::pin::pin;
use std::time::Instant;

use zk_recipes::testing::{Fate, FaultProxy, Request, Traffic, kill_session};
use zookeeper_client as zk;

use super::counted::private;
use super::*;

const READY: &str = "/barriers/d/ready";
/// What must happen at once, happens within this time.
const SOON: Duration = Duration::from_secs(10);

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"))
}

/// Members that no one else waits with.
async fn crowd(client: &Client, count: usize, members: usize) -> Vec<JoinHandle<Result<Entered>>> {
    (0..count).map(|_| enter_in_task(client, members)).collect()
}

/// Both enter and leave ten times.
async fn have_ten_rounds(clients: [Client; 2]) {
    let rounds = clients.map(|client| {
        tokio::spawn(async move {
            for round in 0..10 {
                let entered =
                    soon(&format!("enter {round}"), double_barrier(&client, 2).enter()).await.unwrap();
                soon(&format!("leave {round}"), entered.leave()).await.unwrap();
            }
        })
    });
    for rounds in rounds {
        rounds.await.unwrap();
    }
}

async fn container(zookeeper: &zk::Client) {
    let containers = zk::CreateMode::Container.with_acls(zk::Acls::anyone_all());
    zookeeper.mkdir(PATH, &containers).await.unwrap();
}

// The connection is lost right after it was let in, and again as it leaves.
#[tokio::test]
async fn who_loses_the_connection_twice_does_not_wait_for_the_next_round() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let slow = connect_through(&proxy).await;
    let [other, third, fourth] = connect_many(&server).await;
    let slow_enters = enter_in_task(&slow, 2);
    queue_of(&zookeeper, PATH, 1).await;
    all_watches(&server, 2).await;
    let lost = proxy.intercept(Request::Exists, Fate::LoseRequest);
    let last = within(enter_in_task(&other, 2)).await.unwrap().unwrap();
    let first = within(slow_enters).await.unwrap().unwrap();
    within(lost.happened()).await;
    connected_again(&slow).await;
    // It works for a while.
    tokio::time::sleep(2 * BRIEF).await;
    let held = proxy.intercept(Request::Exists, Fate::HoldReply);
    let leaving = leave_in_task(first);
    within(held.happened()).await;
    queue_of(&zookeeper, PATH, 2).await;
    within(last.leave()).await.unwrap();
    queue_of(&zookeeper, PATH, 0).await;
    let _next = entered(&[third, fourth]).await;
    proxy.cut();
    soon("its own round is over", leaving).await.unwrap().unwrap();
}

// One outage, from right after it was let in until after it has left.
#[tokio::test]
async fn who_leaves_at_once_as_the_connection_is_lost_does_not_wait_for_the_next_round() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let slow = connect_through(&proxy).await;
    let [other, third, fourth] = connect_many(&server).await;
    let slow_enters = enter_in_task(&slow, 2);
    queue_of(&zookeeper, PATH, 1).await;
    all_watches(&server, 2).await;
    let held = proxy.intercept(Request::Exists, Fate::HoldReply);
    let last = within(enter_in_task(&other, 2)).await.unwrap().unwrap();
    let first = within(slow_enters).await.unwrap().unwrap();
    within(held.happened()).await;
    let leaving = leave_in_task(first);
    queue_of(&zookeeper, PATH, 2).await;
    within(last.leave()).await.unwrap();
    queue_of(&zookeeper, PATH, 0).await;
    let _next = entered(&[third, fourth]).await;
    proxy.cut();
    soon("its own round is over", leaving).await.unwrap().unwrap();
}

// One of both is far away.
#[tokio::test]
async fn members_that_may_not_be_read_have_one_round_after_the_other() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let clients =
        [private(&proxy.connect_string(), "far").await, private(&server.connect_string(), "near").await];
    proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(20)));
    have_ten_rounds(clients).await;
}

// The same with members that may be read.
#[tokio::test]
async fn members_that_are_far_have_one_round_after_the_other() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let clients = [connect_through(&proxy).await, connect(&server).await];
    proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(20)));
    have_ten_rounds(clients).await;
}

#[tokio::test]
async fn who_leaves_does_not_wait_for_one_of_the_next_round_that_may_not_be_read() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let clients =
        [private(&proxy.connect_string(), "slow").await, private(&server.connect_string(), "other").await];
    let mut all = entered(&clients).await;
    let last = all.pop().unwrap();
    let held = proxy.intercept(Request::Delete, Fate::HoldReply);
    let leaving = leave_in_task(all.remove(0));
    within(held.happened()).await;
    within(last.leave()).await.unwrap();
    let _next = enter_in_task(&clients[1], 2);
    queue_of(&zookeeper, PATH, 1).await;
    held.release();
    soon("its own round is over", leaving).await.unwrap().unwrap();
}

// After all members of a round have died.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn members_that_may_not_be_read_replace_a_ready_that_was_left_behind() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let servers = server.connect_string();
    let clients = [private(&servers, "one").await, private(&servers, "other").await];
    let _all = entered(&clients).await;
    for client in &clients {
        kill_session(client).await.unwrap();
    }
    queue_of(&zookeeper, PATH, 1).await;
    let first = enter_in_task(&clients[0], 2);
    queue_of(&zookeeper, PATH, 2).await;
    let second = soon("both are there", double_barrier(&clients[1], 2).enter()).await;
    let _second = second.expect("both are there, and nobody is in");
    let _first = soon("both are there", first).await.unwrap().unwrap();
}

// It is let in with fewer than it was told.
#[tokio::test]
async fn leaving_costs_no_request_for_each_member_of_the_next_round() {
    const MANY: usize = 300;
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    let clients = [connect_through(&proxy).await, connect(&server).await];
    let many = connect(&server).await;
    let mut all = entered(&clients).await;
    let last = all.pop().unwrap();
    let held = proxy.intercept(Request::Delete, Fate::HoldReply);
    let leaving = leave_in_task(all.remove(0));
    within(held.happened()).await;
    within(last.leave()).await.unwrap();
    let _next = crowd(&many, MANY, 2 * MANY).await;
    queue_of(&zookeeper, PATH, MANY).await;
    proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(5)));
    proxy.take_requests();
    let begun = Instant::now();
    held.release();
    within(leaving).await.unwrap().unwrap();
    let took = begun.elapsed();
    eventually("no more requests", async || {
        let before = proxy.requests_seen();
        tokio::time::sleep(BRIEF).await;
        (proxy.requests_seen() == before).then_some(())
    })
    .await;
    let requests = proxy.take_requests().len();
    assert!(
        requests < MANY / 10 && took < Duration::from_millis(10) * 20,
        "{requests} requests in {took:?}, at 10 ms a round trip"
    );
}

// Someone who has left deletes `ready` late, when the next round has begun: it has the same version.
// The same for one that came first, and so does not know that a later one was let in with it.
// Whoever enters while a member is in joins that round, also one of Curator, which does not write `ready`.
#[tokio::test]
async fn who_leaves_waits_for_one_of_curators_that_has_come_late() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let clients = connect_many::<2>(&server).await;
    let curators = bystander(&server).await;
    let mut all = entered(&clients).await;
    assert!(curators.check_stat(READY).await.unwrap().is_some(), "so it is in");
    let ephemeral = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
    let node = format!("{PATH}/2a7b3a7c-6d5e-4a43-8a53-0b8d4a2f8f11");
    curators.create(&node, b"", &ephemeral).await.unwrap();
    drop(all.pop());
    queue_of(&zookeeper, PATH, 3).await;
    let leaving = leave_in_task(all.remove(0));
    queue_of(&zookeeper, PATH, 2).await;
    tokio::time::sleep(4 * BRIEF).await;
    assert!(!leaving.is_finished(), "the one of Curator's is still in");
    curators.delete(&node, None).await.unwrap();
    within(leaving).await.unwrap().unwrap();
}

#[tokio::test]
async fn who_is_polled_late_is_let_in_after_another_connection() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    container(&zookeeper).await;
    for cuts in [0, 1, 2] {
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let (late, other) = (connect_through(&proxy).await, connect(&server).await);
        let barrier = double_barrier(&late, 2);
        let mut entering = pin!(barrier.enter());
        let replies = proxy.replies_seen();
        assert!(poll_once(&mut entering).is_pending());
        queue_of(&zookeeper, PATH, 1).await;
        eventually("the replies are there", async || (proxy.replies_seen() >= replies + 3).then_some(()))
            .await;
        for _ in 0..cuts {
            proxy.cut();
            tokio::time::sleep(BRIEF).await;
            connected_again(&late).await;
        }
        let entered = within(double_barrier(&other, 2).enter()).await.unwrap();
        let late = soon("both are there", entering).await.unwrap();
        let leaving = leave_in_task(entered);
        soon("both leave", late.leave()).await.unwrap();
        soon("both leave", leaving).await.unwrap().unwrap();
        queue_of(&zookeeper, PATH, 0).await;
    }
}

// The event of the first one's watch arrives when the second one has already looked.
#[tokio::test]
async fn nobody_is_let_in_by_an_event_of_before_it_came() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let shared = connect_through(&proxy).await;
    let others = connect_many::<2>(&server).await;
    let first = enter_in_task(&shared, 3);
    queue_of(&zookeeper, PATH, 1).await;
    all_watches(&server, 2).await;
    proxy.set_traffic(Traffic::black_hole_to_client());
    let opening = others.each_ref().map(|client| enter_in_task(client, 3));
    for opening in opening {
        drop(within(opening).await.unwrap().unwrap());
    }
    queue_of(&zookeeper, PATH, 2).await;
    zookeeper.delete(READY, None).await.unwrap();
    let second = enter_in_task(&shared, 3);
    queue_of(&zookeeper, PATH, 2).await;
    proxy.set_traffic(Traffic::pass());
    let _first = soon("it was let in", first).await.unwrap().unwrap();
    tokio::time::sleep(2 * BRIEF).await;
    assert!(!second.is_finished(), "there are two of three");
}

#[tokio::test]
async fn many_that_give_up_at_once_do_not_count_and_leave_nothing() {
    const MANY: usize = 300;
    for cuts in [false, true] {
        let server = empty_server().await;
        let zookeeper = bystander(&server).await;
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let client = connect_through(&proxy).await;
        let all = crowd(&client, MANY, 2 * MANY).await;
        queue_of(&zookeeper, PATH, MANY).await;
        proxy.set_traffic(Traffic::black_hole());
        for entering in &all {
            entering.abort();
        }
        for entering in all {
            assert!(entering.await.unwrap_err().is_cancelled());
        }
        let alone = enter_in_task(&client, 2);
        tokio::time::sleep(BRIEF).await;
        if cuts {
            proxy.cut();
        }
        proxy.take_requests();
        proxy.set_traffic(Traffic::pass());
        queue_of(&zookeeper, PATH, 1).await;
        tokio::time::sleep(BRIEF).await;
        let requests = proxy.take_requests().len();
        assert!(requests < 5 * MANY, "{requests} requests");
        assert!(!alone.is_finished(), "let in alone");
        alone.abort();
        queue_of(&zookeeper, PATH, 0).await;
    }
}

// All come at once, and find a `ready` that was left behind.
#[tokio::test]
async fn many_that_find_a_stale_ready_are_let_in_at_a_bounded_cost() {
    for (clients, each) in [(1, 60), (10, 6)] {
        let server = empty_server().await;
        let zookeeper = bystander(&server).await;
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        container(&zookeeper).await;
        let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
        zookeeper.create(READY, b"", &persistent).await.unwrap();
        let mut all = Vec::new();
        let mut members = Vec::new();
        for _ in 0..clients {
            members.push(connect_through(&proxy).await);
        }
        proxy.take_requests();
        for client in &members {
            all.extend(crowd(client, each, clients * each).await);
        }
        let mut entered = Vec::new();
        for entering in all {
            entered.push(soon("all are there", entering).await.unwrap().unwrap());
        }
        tokio::time::sleep(BRIEF).await;
        let (requests, all) = (proxy.take_requests(), clients * each);
        let writes = requests.iter().filter(|request| **request == Request::Multi).count();
        // Each looks at all that are there.
        assert!(
            requests.len() < all * (all + 20) && writes < all / 2,
            "{} requests, {writes} writes",
            requests.len()
        );
        let leaving: Vec<_> = entered.into_iter().map(leave_in_task).collect();
        for leaving in leaving {
            soon("all leave", leaving).await.unwrap().unwrap();
        }
        tokio::time::sleep(BRIEF).await;
        assert!(proxy.requests_seen() < 20 * clients * each, "{} requests to leave", proxy.requests_seen());
        queue_of(&zookeeper, PATH, 0).await;
    }
}

// Nothing but the watches is needed while nothing happens.
#[tokio::test]
async fn waiting_takes_no_requests() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let (client, other) = (connect_through(&proxy).await, connect(&server).await);
    let waiting = enter_in_task(&client, 2);
    queue_of(&zookeeper, PATH, 1).await;
    all_watches(&server, 2).await;
    proxy.take_requests();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let enters = proxy.take_requests();
    let others = within(enter_in_task(&other, 2)).await.unwrap().unwrap();
    let leaving = leave_in_task(within(waiting).await.unwrap().unwrap());
    queue_of(&zookeeper, PATH, 2).await;
    all_watches(&server, 3).await;
    proxy.take_requests();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let leaves = proxy.take_requests();
    let is_idle = |requests: &[Request]| requests.iter().all(|request| *request == Request::Confirm);
    assert!(is_idle(&enters) && is_idle(&leaves), "{enters:?}, {leaves:?}");
    drop(others);
    within(leaving).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_is_deleted_as_a_whole_leaves_nobody_stuck() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let clients = connect_many::<3>(&server).await;
    let mut all = entered(&clients).await;
    let leaving = [leave_in_task(all.remove(0)), leave_in_task(all.remove(0))];
    let last = all.remove(0);
    queue_of(&zookeeper, PATH, 2).await;
    for name in children(&zookeeper, PATH).await {
        zookeeper.delete(&format!("{PATH}/{name}"), None).await.unwrap();
    }
    zookeeper.delete(PATH, None).await.unwrap();
    for leaving in leaving {
        soon("nobody is in", leaving).await.unwrap().unwrap();
    }
    soon("it is lost", last.lost()).await;
    drop(last);
    // The same for those that wait.
    let first = enter_in_task(&clients[0], 2);
    queue_of(&zookeeper, PATH, 1).await;
    for _ in 0..3 {
        let mut writer = zookeeper.new_multi_writer();
        for name in queue_of(&zookeeper, PATH, 1).await {
            writer.add_delete(&format!("{PATH}/{name}"), None).unwrap();
        }
        writer.add_delete(PATH, None).unwrap();
        let _ = writer.commit().await;
    }
    let second = soon("both come", double_barrier(&clients[1], 2).enter()).await.unwrap();
    let first = soon("both come", first).await.unwrap().unwrap();
    let leaving = leave_in_task(first);
    soon("both leave", second.leave()).await.unwrap();
    soon("both leave", leaving).await.unwrap().unwrap();
    queue_of(&zookeeper, PATH, 0).await;
}

// One comes as another one joins, and takes `ready` for stale, since the member that let both in is gone by then.
#[tokio::test]
async fn who_leaves_waits_for_one_that_has_joined_before_ready_was_replaced() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxies = [
        FaultProxy::start(server.connect_string()).await.unwrap(),
        FaultProxy::start(server.connect_string()).await.unwrap(),
        FaultProxy::start(server.connect_string()).await.unwrap(),
    ];
    let [far, joins, replaces] = [
        connect_through(&proxies[0]).await,
        connect_through(&proxies[1]).await,
        connect_through(&proxies[2]).await,
    ];
    let mut all = entered(&[far, connect(&server).await]).await;
    let last = all.pop().unwrap();
    all_watches(&server, 2).await;
    let leaving = leave_in_task(all.remove(0));
    queue_of(&zookeeper, PATH, 2).await;
    all_watches(&server, 3).await;
    // It hears late of what happens.
    proxies[0].set_traffic(Traffic::black_hole_to_client());
    // This one has looked at the others, and is about to join.
    let held = proxies[1].intercept_after(3, Fate::HoldReply);
    let joining = enter_in_task(&joins, 2);
    within(held.happened()).await;
    queue_of(&zookeeper, PATH, 3).await;
    // This one has seen the old `ready`.
    let seen = proxies[2].intercept_after(2, Fate::HoldReply);
    let replacing = enter_in_task(&replaces, 2);
    within(seen.happened()).await;
    queue_of(&zookeeper, PATH, 4).await;
    held.release();
    let joined = within(joining).await.unwrap().unwrap();
    drop(last);
    queue_of(&zookeeper, PATH, 3).await;
    seen.release();
    let _replaced = within(replacing).await.unwrap().unwrap();
    proxies[0].set_traffic(Traffic::pass());
    tokio::time::sleep(4 * BRIEF).await;
    assert!(!leaving.is_finished(), "one that has joined is still in");
    within(joined.leave_within(BRIEF)).await.unwrap();
    leaving.abort();
}
