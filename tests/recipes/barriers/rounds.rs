//! The rounds of a `DoubleBarrier`: nobody is let in by members that have left.

use super::*;

/// Nobody is let in alone once all have left; and two are.
async fn assert_next_round_waits(server: &Server) {
    let [one, other] = connect_many(server).await;
    // A slow server may not let it into the queue in that time.
    let alone = answered(async || double_barrier(&one, 2).enter_within(BRIEF).await).await;
    assert!(alone.is_none(), "a single member was let into a barrier for two");
    // Its node counts as long as it is there.
    no_members(&bystander(server).await, PATH).await;
    within(async { tokio::join!(leave_after_entering(&one), leave_after_entering(&other)) }).await;
}

async fn leave_after_entering(client: &Client) {
    double_barrier(client, 2).enter().await.unwrap().leave().await.unwrap();
}

async fn no_members(zookeeper: &zk::Client, path: &str) {
    eventually("all members go", async || {
        children(zookeeper, path).await.iter().all(|name| name == "ready").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_leave_that_is_dropped_tidies_up() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    for polls in 1..5 {
        let path = format!("{PATH}/{polls}");
        let barrier = DoubleBarrier::new(&client, &path, 1).unwrap();
        let entered = within(barrier.enter()).await.unwrap();
        let _left = poll_times(entered.leave(), polls).await;
        queue_of(&zookeeper, &path, 0).await;
    }
}

/// Members that leave do not delete `ready` while they see anyone in the barrier, also if that one waits for the next round.
#[tokio::test]
async fn the_last_one_that_waits_for_the_next_round_and_gives_up_tidies_up() {
    let server = MemoryServer::start().unwrap();
    let zookeeper = zk::Client::connect(&server.connect_string()).await.unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    for waiters in [1, 5] {
        let waiting: Vec<_> = (0..waiters).map(|_| enter_in_task(&client, 9)).collect();
        queue_of(&zookeeper, PATH, waiters).await;
        waiting.iter().for_each(JoinHandle::abort);
        queue_of(&zookeeper, PATH, 0).await;

        // What they left behind.
        zookeeper.create(&format!("{PATH}/ready"), b"", &anyone(CreateMode::Persistent)).await.unwrap();
        let waiting: Vec<_> = (0..waiters).map(|_| enter_in_task(&client, 9)).collect();
        queue_of(&zookeeper, PATH, 1 + waiters).await;
        waiting.iter().for_each(JoinHandle::abort);
        queue_of(&zookeeper, PATH, 0).await;
    }
}

#[tokio::test]
async fn a_path_that_was_made_to_stay_stays() {
    let (_server, clients, zookeeper) = server_clients_and_bystander::<2>().await;
    zookeeper.mkdir(PATH, &anyone(CreateMode::Persistent)).await.unwrap();
    let (_, before) = zookeeper.get_data(PATH).await.unwrap();
    for _ in 0..2 {
        let mut all = entered(&clients).await;
        let leaving = leave_in_task(all.remove(0));
        within(all.remove(0).leave()).await.unwrap();
        within(leaving).await.unwrap().unwrap();
        let (children, stat) = zookeeper.get_children(PATH).await.unwrap();
        assert_eq!((children, stat.czxid), (Vec::new(), before.czxid));
    }
}

#[tokio::test]
async fn members_that_are_dropped_with_their_clients_let_nobody_in() {
    for closes in [false, true] {
        let (server, clients, zookeeper) = server_clients_and_bystander::<2>().await;
        drop(entered(&clients).await);
        if closes {
            futures_util::future::join_all(clients.iter().map(Client::close)).await;
        }
        drop(clients);
        no_members(&zookeeper, PATH).await;
        assert_next_round_waits(&server).await;
    }
}

#[test]
fn threads_that_end_let_nobody_in() {
    use zk_recipes::blocking;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(empty_server());
    let client = blocking::Client::from(runtime.block_on(connect(&server)));
    let entered = blocking::barriers::DoubleBarrier::new(&client, PATH, 1).unwrap().enter().unwrap();
    drop(entered);
    drop(client);
    runtime.block_on(async {
        no_members(&bystander(&server).await, PATH).await;
        assert_next_round_waits(&server).await;
        drop(server);
    });
}

const READY: &str = "/barriers/d/ready";

#[tokio::test]
async fn who_leaves_after_ready_was_deleted_does_not_wait_for_the_next_round() {
    let (server, proxy, zookeeper) = server_proxy_and_bystander().await;
    let slow = connect_through(&proxy).await;
    let [other, third, fourth] = connect_many(&server).await;
    let mut all = entered(&[slow, other]).await;
    all_watches(&server, 2).await;
    zookeeper.delete(READY, None).await.unwrap();
    let last = all.pop().unwrap();
    let held = proxy.intercept(Request::GetData, Fate::HoldReply);
    let leaving = leave_in_task(all.remove(0));
    within(held.happened()).await;
    // The round ends, and the next one begins, before it has heard of the node that it looks at.
    drop(last);
    queue_of(&zookeeper, PATH, 0).await;
    let _next = entered(&[third, fourth]).await;
    held.release();
    within(leaving).await.unwrap().unwrap();
}

// Its own node is gone by then.
#[tokio::test]
async fn who_leaves_as_the_last_one_lets_nobody_in_alone() {
    let (_server, [one, other, third, next], zookeeper) = server_clients_and_bystander().await;
    let mut all = entered(&[one, other, third]).await;
    let last = all.pop().unwrap();
    drop(all);
    queue_of(&zookeeper, PATH, 2).await;
    zookeeper.delete(READY, None).await.unwrap();
    let entering = enter_in_task(&next, 3);
    queue_of(&zookeeper, PATH, 2).await;
    within(last.leave()).await.unwrap();
    assert_eq!(children(&zookeeper, PATH).await.len(), 1, "`ready` was created again");
    assert!(!entering.is_finished());
}
