//! What locks cost: nothing that grows with the holds that are over, nor with the square of the waiters.

use crate::prelude::*;

const PATH: &str = "/locks/a";

/// Longer than any test.
const LONG: Duration = secs(600);

/// A client whose requests are counted, and that lives on the runtime of the test.
async fn counted(server: &MemoryServer) -> (FaultProxy, Client) {
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let builder = Client::builder().runtime(tokio::runtime::Handle::current()).drop_timeout(Duration::ZERO);
    let client = builder.session_timeout(BOUND).connect(&proxy.connect_string()).await.unwrap();
    (proxy, client)
}

/// The lists since the last call. Replies come in order: also what nobody waits for has been sent.
async fn lists(proxy: &FaultProxy, client: &Client) -> usize {
    client.zookeeper().await.unwrap().sync("/").await.unwrap();
    proxy.take_requests().iter().filter(|request| **request == Request::GetChildren).count()
}

#[tokio::test]
async fn a_hold_that_is_over_leaves_no_warning_to_come() {
    let server = MemoryServer::start().unwrap();
    let (_proxy, client) = counted(&server).await;
    let options = LockOptions::new().warn_after(None, LONG);
    let lock = |path, options| InterProcessMutex::new(&client, path).unwrap().with_options(options).unwrap();
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for mutex in [lock("/plain", options.clone()), lock("/lingers", options.linger(LONG))] {
        visit(&mutex, 3).await;
        let before = alive();
        visit(&mutex, 500).await;
        let few = || async { (alive() <= before + 10).then_some(()) };
        eventually("no task is left of the holds", few).await;
    }
}

/// Behind another client, and behind a holder of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_of_a_client_join_with_few_lists() {
    const WAITERS: usize = 2_000;
    for is_foreign in [true, false] {
        let server = MemoryServer::start().unwrap();
        let zookeeper = zk::Client::connect(&server.connect_string()).await.unwrap();
        let (proxy, client) = counted(&server).await;
        let other = Client::connect(&server.connect_string()).await.unwrap();
        let holder = mutex(if is_foreign { &other } else { &client });
        let held = holder.owned_by(&Owner::new()).acquire().await.unwrap();
        lists(&proxy, &client).await;
        let mutex = mutex(&client);
        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            let mutex = mutex.owned_by(&Owner::new());
            waiters.spawn(async move { mutex.acquire().await.map(drop) });
        }
        queue_of(&zookeeper, PATH, WAITERS + 1).await;
        let joining = lists(&proxy, &client).await;
        drop(held);
        while let Some(waiter) = within(waiters.join_next()).await {
            waiter.unwrap().unwrap();
        }
        let passing = lists(&proxy, &client).await;
        assert!(joining <= 10 && passing <= 10, "{joining} lists to join, and then {passing}");
    }
}

/// Tickets look, since they tell their position.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_know_their_position_at_once() {
    let server = MemoryServer::start().unwrap();
    let connect = async || Client::connect(&server.connect_string()).await.unwrap();
    let (mine, other) = (mutex(&connect().await), mutex(&connect().await));
    let ticket = async |mutex: &InterProcessMutex| mutex.owned_by(&Owner::new()).enqueue().await.unwrap();
    // Those of another client are between ours; and then many at once.
    let mut tickets = vec![ticket(&mine).await, ticket(&mine).await];
    let others = [ticket(&other).await, ticket(&other).await];
    tickets.push(ticket(&mine).await);
    tickets.extend(within(join_all((0..100).map(|_| ticket(&mine)))).await);
    for ticket in tickets.iter().chain(&others) {
        assert_eq!(ticket.position().await.unwrap(), ticket.watch_position().get());
    }
}
