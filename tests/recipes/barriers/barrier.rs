//! `Barrier`.

use super::*;

const PATH: &str = "/barriers/b";
const BRIEF: Duration = ms(200);

fn barrier(client: &Client) -> Barrier {
    Barrier::new(client, PATH).unwrap()
}

fn wait_in_task(client: &Client) -> JoinHandle<Result<()>> {
    let barrier = barrier(client);
    tokio::spawn(async move { barrier.wait().await })
}

#[tokio::test]
async fn it_holds_back_until_it_is_removed() {
    let (server, [one, two]) = server_and_clients().await;
    assert!(!within(barrier(&one).is_set()).await.unwrap());
    within(barrier(&one).wait()).await.unwrap();
    within(barrier(&one).remove()).await.unwrap();
    for _ in 0..2 {
        within(barrier(&one).set()).await.unwrap();
        within(barrier(&one).set()).await.unwrap();
        assert!(within(barrier(&two).is_set()).await.unwrap(), "at once");
        assert!(!answered(async || barrier(&two).wait_within(BRIEF).await).await);
        assert!(!within(barrier(&two).wait_within(Duration::ZERO)).await.unwrap());
        let waiting: Vec<_> = (0..5).map(|_| wait_in_task(&two)).collect();
        all_watches(&server, 1).await;
        within(barrier(&one).remove()).await.unwrap();
        for waiting in waiting {
            within(waiting).await.unwrap().unwrap();
        }
        assert!(within(barrier(&two).wait_within(Duration::ZERO)).await.unwrap());
    }
    all_watches(&server, 0).await;
}

// CURATOR-654: each wait at a barrier that is not set leaves a watch behind, until there is no memory left.
#[tokio::test]
async fn no_wait_leaves_a_watch_behind() {
    let (server, client) = server_and_client().await;
    for _ in 0..5 {
        within(barrier(&client).wait()).await.unwrap();
    }
    all_watches(&server, 0).await;
    within(barrier(&client).set()).await.unwrap();
    for _ in 0..5 {
        assert!(!within(barrier(&client).wait_within(BRIEF / 10)).await.unwrap_or(false));
        let waiting = wait_in_task(&client);
        all_watches(&server, 1).await;
        waiting.abort();
        all_watches(&server, 0).await;
    }
    all_watches(&server, 0).await;
}

/// `zookeeper-client` uses freed memory if both are removed at the same time.
#[tokio::test]
async fn watches_of_two_kinds_on_one_node_are_removed_one_after_the_other() {
    let (server, proxy, client) = server_proxy_and_client().await;
    within(barrier(&client).set()).await.unwrap();
    let group = Group::new(&client, PATH).unwrap();
    let mut members = group.watch_members();
    within(members.wait_for(|members| members.is_current())).await.unwrap();
    all_watches(&server, 1).await;
    let waiting = wait_in_task(&client);
    all_watches(&server, 2).await;
    // Its reply comes behind that to the watch: what the client has not heard of, it does not remove.
    assert!(within(barrier(&client).is_set()).await.unwrap());
    proxy.set_traffic(Traffic::black_hole_to_client());
    waiting.abort();
    all_watches(&server, 1).await;
    drop(members);
    // Without an answer, it stays.
    sleep(BRIEF).await;
    all_watches(&server, 1).await;
    proxy.set_traffic(Traffic::pass());
    all_watches(&server, 0).await;
}

/// What is given up while it is being set, too.
#[tokio::test]
async fn waits_of_two_recipes_at_one_node_leave_no_watch_behind() {
    let (server, proxy, client) = server_proxy_and_client().await;
    within(barrier(&client).set()).await.unwrap();
    let group = Group::new(&client, PATH).unwrap();
    proxy.set_traffic(Traffic::pass().delay(ms(2)));
    for _ in 0..50 {
        let mut members = group.watch_members();
        let waiting = wait_in_task(&client);
        let patience = ms(fastrand::u64(0..15));
        let _ = tokio::time::timeout(patience, members.wait_for(|members| members.is_current())).await;
        waiting.abort();
    }
    all_watches(&server, 0).await;
}

#[tokio::test]
async fn the_opening_is_the_event_and_takes_no_request() {
    let (server, proxy, client, other) = server_proxy_and_clients().await;
    within(barrier(&other).set()).await.unwrap();
    proxy.take_requests();
    let waiting = wait_in_task(&client);
    all_watches(&server, 1).await;
    within(barrier(&other).remove()).await.unwrap();
    within(waiting).await.unwrap().unwrap();
    assert_eq!(proxy.take_requests(), [Request::Confirm, Request::GetData]);
}

// Curator overlooks an opening that was short, and fails when the connection is lost.
#[tokio::test]
async fn a_wait_outlasts_interruptions_and_sees_that_it_was_open_meanwhile() {
    let (server, proxy, zookeeper) = server_proxy_and_bystander().await;
    let (client, other) = (connect_through(&proxy).await, connect(&server).await);
    within(barrier(&other).set()).await.unwrap();
    let waiting = wait_in_task(&client);
    for round in 0..3 {
        all_watches(&server, 1).await;
        match round {
            0 => proxy.cut(),
            1 => kill_session(&client).await.unwrap(),
            // Not an opening.
            _ => drop(zookeeper.set_data(PATH, b"changed", None).await.unwrap()),
        }
        let mut connection = client.watch_connection();
        within(connection.wait_for(|state| state.is_connected())).await.unwrap();
        assert!(!waiting.is_finished());
    }
    // Open for a moment, in which the waiter is away.
    all_watches(&server, 1).await;
    cut_off(&proxy);
    within(barrier(&other).remove()).await.unwrap();
    within(barrier(&other).set()).await.unwrap();
    mend(&proxy);
    within(waiting).await.unwrap().unwrap();
    assert!(within(barrier(&client).is_set()).await.unwrap());
}

#[tokio::test]
async fn lost_replies_do_no_harm() {
    let (_server, proxy, client) = server_proxy_and_client().await;
    for fate in [Fate::LoseReply, Fate::LoseRequest] {
        let lost = proxy.intercept(Request::Create, fate);
        within(barrier(&client).set()).await.unwrap();
        within(lost.happened()).await;
        assert!(within(barrier(&client).is_set()).await.unwrap());
        let lost = proxy.intercept(Request::Delete, fate);
        within(barrier(&client).remove()).await.unwrap();
        within(lost.happened()).await;
        let lost = proxy.intercept(Request::GetData, fate);
        within(barrier(&client).wait()).await.unwrap();
        within(lost.happened()).await;
    }
}

#[tokio::test]
async fn a_kept_node_is_a_barrier_that_opens_when_its_process_ends() {
    let (server, [setter, waiter]) = server_and_clients().await;
    let node = PersistentNode::start(&setter, PATH, "", PersistentNodeOptions::new()).unwrap();
    within(node.wait_present()).await.unwrap();
    let waiting = wait_in_task(&waiter);
    all_watches(&server, 2).await;
    within(setter.close()).await;
    within(waiting).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_cannot_be_done_is_said() {
    let mut server = empty_server().await;
    let (client, zookeeper) = (connect(&server).await, bystander(&server).await);
    assert!(matches!(Barrier::new(&client, "b"), Err(Error::InvalidPath { .. })));
    let acl = [zk::Acl::new(zk::Permission::READ, zk::AuthId::anyone())];
    zookeeper.create("/barriers", b"", &CreateMode::Persistent.with_acls(zk::Acls::new(&acl))).await.unwrap();
    let error = within(barrier(&client).set()).await.unwrap_err();
    assert!(matches!(&error, Error::ZooKeeper { source: zk::Error::NoAuth, .. }), "{error}");
    server.kill().await.unwrap();
    let error = within(barrier(&client).wait_within(BRIEF)).await.unwrap_err();
    assert!(matches!(error, Error::NotConnected { .. }), "{error}");
    let waiting = wait_in_task(&client);
    within(client.close()).await;
    assert_eq!(within(waiting).await.unwrap(), Err(Error::Closed));
    server.restart().await.unwrap();
}

#[tokio::test]
async fn threads_have_the_same() {
    let (_server, client) = server_and_client().await;
    on_a_thread(move || {
        use zk_recipes::blocking;
        let barrier = blocking::barriers::Barrier::new(&blocking::Client::from(client), PATH).unwrap();
        barrier.set().unwrap();
        assert!(barrier.is_set().unwrap());
        let waiting = std::thread::spawn({
            let barrier = barrier.clone();
            move || barrier.wait()
        });
        barrier.remove().unwrap();
        waiting.join().unwrap().unwrap();
        assert!(barrier.wait_within(BOUND).unwrap());
        assert_eq!(barrier.path(), PATH);
    })
    .await;
}
