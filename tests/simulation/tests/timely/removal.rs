//! The end of a kept node whose requests, replies or connections were lost. Nothing comes back later.

use zk_recipes::nodes::{NodeMode, NodeState, PersistentNode};

use super::kept::{PATH, data, start};
use super::prelude::*;

/// Longer than anything that is done in the background may take, and than any session.
const LATER: Duration = secs(60);

/// Before a client that keeps a node, whose parent exists.
async fn proxy(stage: &Stage) -> Proxy {
    assert!(stage.servers().create("/kept", b"", true));
    stage.proxy(0).await
}

#[history]
async fn close_after_a_lost_write_leaves_nothing(stage: Stage) {
    let proxy = proxy(&stage).await;
    let client = proxy.client(plain).await;
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    assert!(poll_once(&mut Box::pin(node.set_data("newer"))).is_pending());
    within(lost.happened()).await;
    within(node.close()).await.unwrap();
    // The client and its session live on.
    sleep(LATER).await;
    assert_eq!(data(&stage), None);
}

/// The reply to its create, or to the look after it.
#[history(Request::Create, Request::Exists)]
async fn close_after_a_lost_reply_leaves_no_persistent_node(stage: Stage, request: Request) {
    let proxy = proxy(&stage).await;
    let client = proxy.client(plain).await;
    let lost = proxy.intercept(request, Fate::LoseReply);
    let node = start(&client, NodeMode::Persistent);
    within(lost.happened()).await;
    within(node.close()).await.unwrap();
    sleep(LATER).await;
    assert_eq!(data(&stage), None);
}

/// A persistent node whose create has lost its reply, so long ago that it cannot be carried out late any more.
async fn once_in_doubt(proxy: &Proxy) -> (Client, PersistentNode) {
    let client = proxy.client(session).await;
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let node = start(&client, NodeMode::Persistent);
    within(lost.happened()).await;
    within(node.wait_present()).await.unwrap();
    sleep(SESSION * 5 / 2).await;
    (client, node)
}

#[history]
async fn close_long_after_a_lost_create_leaves_a_strangers_persistent_node_alone(stage: Stage) {
    let proxy = proxy(&stage).await;
    let (_, node) = once_in_doubt(&proxy).await;
    proxy.cut_off();
    stage.servers().delete(PATH);
    stage.servers().create(PATH, b"ours", false);
    let mut closing = Box::pin(node.close());
    assert!(poll_once(&mut closing).is_pending());
    proxy.refuse_connections(false);
    within(closing).await.unwrap();
    assert_eq!(data(&stage).as_deref(), Some("ours"));
}

// The create found someone else's node, but the reply that says so was lost.
#[history(("theirs", false), ("ours", true))]
async fn close_after_a_lost_create_leaves_a_strangers_persistent_node_alone(
    stage: Stage,
    theirs: &'static str,
    is_written_to: bool,
) {
    let proxy = proxy(&stage).await;
    assert!(stage.servers().create(PATH, theirs.as_bytes(), false));
    if is_written_to {
        assert!(stage.servers().set_data(PATH, theirs.as_bytes()));
    }
    let client = proxy.client(plain).await;
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let node = start(&client, NodeMode::Persistent);
    within(lost.happened()).await;
    within(node.close()).await.unwrap();
    sleep(LATER).await;
    assert_eq!(data(&stage).as_deref(), Some(theirs));
}

/// A value that ends before it was present has not taken over what was there, however far it has come.
#[history((Request::Create, "theirs"), (Request::GetData, "theirs"), (Request::SetData, "ours"))]
async fn a_value_that_ends_at_once_leaves_the_persistent_node_of_a_stranger(
    stage: Stage,
    request: Request,
    has: &'static str,
) {
    let proxy = proxy(&stage).await;
    assert!(stage.servers().create(PATH, b"theirs", false));
    let client = proxy.client(plain).await;
    let held = proxy.intercept(request, Fate::HoldReply);
    let node = start(&client, NodeMode::Persistent);
    within(held.happened()).await;
    let mut closing = Box::pin(node.close());
    assert!(poll_once(&mut closing).is_pending());
    held.release();
    within(closing).await.unwrap();
    assert_eq!(data(&stage).as_deref(), Some(has));
}

/// Another process takes over at the same path, with the same data.
#[history]
async fn nothing_is_swept_up_long_after_a_lost_create(stage: Stage) {
    let proxy = proxy(&stage).await;
    let (_, node) = once_in_doubt(&proxy).await;
    within(node.close()).await.unwrap();
    stage.servers().create(PATH, b"ours", false);
    sleep(LATER).await;
    assert_eq!(data(&stage).as_deref(), Some("ours"));
}

#[history]
async fn a_persistent_node_dropped_in_an_outage_is_deleted_after_it(stage: Stage) {
    let proxy = proxy(&stage).await;
    let client = proxy.client(tries(SESSION, secs(1), RetryPolicy::n_times(0, Duration::ZERO))).await;
    let node = start(&client, NodeMode::Persistent);
    within(node.wait_present()).await.unwrap();
    proxy.cut_off();
    // Longer than the session.
    sleep(2 * SESSION).await;
    drop(node);
    sleep(LATER).await;
    assert!(data(&stage).is_some());
    proxy.refuse_connections(false);
    sleep(LATER).await;
    assert_eq!(data(&stage), None);
}

/// "tried again in the background for as long as the client lives", which outlasts servers that refuse it for a while.
#[history]
async fn a_persistent_node_closed_while_authentication_is_refused_is_deleted_after_that(stage: Stage) {
    assert!(stage.servers().create("/kept", b"", true));
    let (servers, spoils) = (stage.servers().clone(), Rc::<Cell<bool>>::default());
    let is_told = spoils.clone();
    // The server does not know the credentials of the client while they are spoiled.
    let spoil = move |_, frame: &mut [u8]| {
        let scheme = frame.windows(6).position(|part| part == b"digest");
        if let Some(at) = scheme.filter(|_| is_told.get()) {
            frame[at] = b'?';
        }
        true
    };
    let proxy = Proxy::editing(&stage, servers, "10.9.0.1:2181", spoil).await;
    let with = tries(SESSION, secs(3), RetryPolicy::n_times(0, Duration::ZERO));
    let client = proxy.client(|builder| with(builder).auth("digest", "me:secret")).await;
    let node = start(&client, NodeMode::Persistent);
    within(node.wait_present()).await.unwrap();
    spoils.set(true);
    proxy.cut();
    within(async {
        while !matches!(client.wait_connected().await, Err(Error::AuthFailed { .. })) {
            sleep(A_MOMENT).await;
        }
    })
    .await;
    let closed = within(node.close()).await;
    assert!(matches!(closed, Err(Error::AuthFailed { .. } | Error::NotConnected { .. })), "{closed:?}");
    sleep(LATER).await;
    assert!(data(&stage).is_some());
    spoils.set(false);
    sleep(LATER).await;
    assert_eq!(data(&stage), None);
}

/// The reply to the create of a numbered node was lost, so its name is not known.
#[history]
async fn close_of_a_numbered_node_in_an_outage_waits_for_its_session(stage: Stage) {
    let proxy = proxy(&stage).await;
    for is_short in [false, true] {
        let client = proxy.client(tries(SESSION, secs(1), RetryPolicy::n_times(0, Duration::ZERO))).await;
        let lost = proxy.intercept(Request::Create, Fate::LoseReply);
        let node = start(&client, NodeMode::EphemeralSequential);
        within(lost.happened()).await;
        proxy.refuse_connections(true);
        let mut closing = Box::pin(node.close());
        assert!(timeout(SESSION / 3, &mut closing).await.is_err());
        if is_short {
            proxy.refuse_connections(false);
        }
        assert_eq!(within(closing).await, Ok(()));
        proxy.refuse_connections(false);
        sleep(SESSION).await;
        assert_eq!(stage.servers().children("/kept"), Some(Vec::new()));
        client.close().await;
    }
}

/// What sweeps up after one value spares the next.
#[history]
async fn the_next_node_stays(stage: Stage) {
    let proxy = proxy(&stage).await;
    let client = proxy.client(plain).await;
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let node = start(&client, NodeMode::Ephemeral);
    within(lost.happened()).await;
    within(node.wait_present()).await.unwrap();
    within(node.close()).await.unwrap();
    let next = start(&client, NodeMode::Ephemeral);
    within(next.wait_present()).await.unwrap();
    let session = async || session_id(&client).await;
    let before = stage.servers().node(PATH).unwrap();
    assert_eq!(before.ephemeral_owner, session().await);
    sleep(LATER).await;
    assert_eq!(session().await, before.ephemeral_owner);
    assert_eq!(stage.servers().node(PATH), Some(before), "no one else has deleted it");
    within(next.close()).await.unwrap();
}

#[history]
async fn who_follows_a_node_learns_that_its_client_is_closed(stage: Stage) {
    let client = stage.client(0).await;
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    let mut state = node.watch_state();
    within(client.close()).await;
    within(async { while state.changed().await.is_some() {} }).await;
    assert_eq!(state.get(), NodeState::Closed);
}
