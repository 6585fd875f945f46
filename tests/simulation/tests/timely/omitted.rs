//! Servers that answer a connection, but leave out one reply. ZooKeeper does that to a create whose outcome it takes from
//! a late write of an earlier connection with the same xid.

use std::pin::pin;

use zk_recipes::shared::SharedValue;

use super::prelude::*;

/// By then, a later request has been answered: the keep-alive makes one every seventh of the session timeout.
const NOTICED: Duration = Duration::from_secs(2);

async fn soon<T>(what: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let done = within(what).await;
    assert!(start.elapsed() < NOTICED, "{:?}", start.elapsed());
    done
}

#[history]
async fn a_create_without_a_reply_holds_up_no_one(stage: Stage) {
    let servers = stage.servers();
    let (proxy, client) = stage.far(session).await;
    let other = stage.connect(1, session).await;
    let session = session_id(&client).await;
    visit(&mutex(&other)).await;
    visit(&mutex(&client)).await;
    for is_behind_a_holder in [false, true] {
        let held = match is_behind_a_holder {
            true => Some(mutex(&other).acquire().await.unwrap()),
            false => None,
        };
        let omitted = proxy.intercept(Request::Create, Fate::OmitReply);
        let first = waiter(&mutex(&client)).await;
        within(omitted.happened()).await;
        let second = waiter(&mutex(&other)).await;
        if let Some(held) = held {
            held.release().await.unwrap();
        }
        let guard = soon(granted(first)).await;
        let queue = nodes(servers, PATH);
        assert_eq!((queue.len(), &*queue[0]), (2, guard.node_path()), "one node for one acquire");
        assert_eq!(guard.fencing_token(), servers.node(guard.node_path()).unwrap().czxid);
        guard.release().await.unwrap();
        granted(second).await.release().await.unwrap();
    }
    // Given up before that is noticed.
    let omitted = proxy.intercept(Request::Create, Fate::OmitReply);
    let first = waiter(&mutex(&client)).await;
    within(omitted.happened()).await;
    first.abort();
    drop(first.await);
    soon(mutex(&other).acquire()).await.unwrap().release().await.unwrap();
    assert_eq!(session_id(&client).await, session);
    nothing_is_left(servers).await;
}

#[history]
async fn every_write_without_a_reply_is_settled(stage: Stage) {
    let servers = stage.servers();
    let (proxy, client) = stage.far(session).await;
    let session = session_id(&client).await;
    let omit = |request| proxy.intercept(request, Fate::OmitReply);

    // Of a node with its parent, and of its delete.
    let omitted = omit(Request::Multi);
    let guard = soon(mutex(&client).acquire()).await.unwrap();
    within(omitted.happened()).await;
    assert_eq!(nodes(servers, PATH), [guard.node_path()]);
    let omitted = omit(Request::Delete);
    soon(guard.release()).await.unwrap();
    within(omitted.happened()).await;
    nothing_is_left(servers).await;

    // Of several nodes, and of their deletes.
    let permits = Semaphore::new(&client, "/locks/s", 3).unwrap();
    permits.acquire().await.unwrap().release().await.unwrap();
    let omitted = omit(Request::Multi);
    let guard = soon(permits.many(2).unwrap().acquire()).await.unwrap();
    within(omitted.happened()).await;
    let omitted = omit(Request::Multi);
    soon(guard.release()).await.unwrap();
    within(omitted.happened()).await;
    nothing_is_left(servers).await;

    let value = SharedValue::new(&client, "/value", b"0").unwrap();
    value.set(b"1").await.unwrap();
    let omitted = omit(Request::SetData);
    soon(value.set(b"2")).await.unwrap();
    within(omitted.happened()).await;
    assert_eq!(value.get().await.unwrap(), b"2");

    assert_eq!(session_id(&client).await, session);
}

/// The reply has come, but its future is polled late.
#[history]
async fn a_reply_that_nobody_looks_at_is_not_missing(stage: Stage) {
    let client = stage.connect(0, session).await;
    let lock = mutex(&client);
    visit(&lock).await;
    let mut acquiring = pin!(lock.acquire());
    assert!(poll_once(&mut acquiring).is_pending());
    sleep(SESSION).await;
    let guard = within(acquiring).await.unwrap();
    assert_eq!(client.watch_connection().get(), ConnectionState::Connected, "it has connected once");
    guard.release().await.unwrap();
    nothing_is_left(stage.servers()).await;
}
