//! Writes that share transactions, by the threads that a client has in fact.

use std::collections::HashSet;

use tokio::runtime::Handle;

use crate::prelude::*;

const LOCKS: usize = 30;

/// The threads of the library know no runtime, and that of the caller is busy.
#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_share_transactions_and_lose_no_connection() {
    let server = empty_server().await;
    for is_here in [false, true] {
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let builder = if is_here { builder().runtime(Handle::current()) } else { builder() };
        let client = connected(builder, &proxy.connect_string()).await;
        let locks = (0..LOCKS).map(|lock| mutex_at(&client, &format!("/locks/{lock}")));
        let locks: Vec<_> = locks.collect();
        for lock in &locks {
            visit(lock, 2).await;
        }
        let mut states = client.watch_connection();
        assert_eq!(states.changed().await, Some(ConnectionState::Connected));
        proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(2)));
        proxy.take_requests();
        let mut last = HashSet::new();
        for _ in 0..2 {
            let guards = join_all(locks.iter().map(acquire_in_task)).await;
            let guards: Vec<_> = guards.into_iter().map(|guard| guard.unwrap().unwrap()).collect();
            let nodes: HashSet<_> = guards.iter().map(|guard| guard.node_path().to_owned()).collect();
            assert_eq!((nodes.len(), nodes.is_disjoint(&last)), (LOCKS, true));
            last = nodes;
            for released in join_all(guards.into_iter().map(LockGuard::release)).await {
                released.unwrap();
            }
        }
        assert!(proxy.take_requests().contains(&Request::Multi));
        assert_eq!(states.changed().now_or_never(), None);
        client.close().await;
    }
}
