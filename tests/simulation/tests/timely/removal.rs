//! The end of a kept node whose requests, replies or connections were lost. Nothing comes back later.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_recipes::nodes::{NodeMode, PersistentNode, PersistentNodeOptions};
use zk_recipes::testing::{Fate, Request};
use zk_recipes::{Client, ClientBuilder, RetryPolicy};
use zk_recipes_simulation::world::World;

use super::{Proxy, SESSION, ends, play, poll_once, within};

const PATH: &str = "/kept/a";
/// Longer than anything that is done in the background may take, and than any session.
const LATER: Duration = Duration::from_secs(60);

fn start(client: &Client, mode: NodeMode) -> PersistentNode {
    PersistentNode::start(client, PATH, "ours", PersistentNodeOptions::new().mode(mode)).unwrap()
}

fn data(world: &World) -> Option<String> {
    world.servers().node(PATH).map(|node| String::from_utf8(node.data).unwrap())
}

fn impatient(builder: ClientBuilder) -> ClientBuilder {
    let builder = builder.session_timeout(SESSION).drop_timeout(Duration::ZERO);
    builder.connection_timeout(Duration::from_secs(1)).retry_policy(RetryPolicy::n_times(0, Duration::ZERO))
}

/// Before a client that keeps a node, whose parent exists.
async fn proxy(world: &World) -> Proxy {
    assert!(world.servers().create("/kept", b"", true));
    Proxy::before(world, 0).await
}

#[test]
fn close_after_a_lost_write_leaves_nothing() {
    play(async |world| {
        let proxy = proxy(&world).await;
        let client = proxy.client(&world, |builder| builder).await;
        let node = start(&client, NodeMode::Ephemeral);
        within(node.wait_present()).await.unwrap();
        let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
        assert!(poll_once(&mut Box::pin(node.set_data("newer"))).is_pending());
        within(lost.happened()).await;
        within(node.close()).await.unwrap();
        // The client and its session live on.
        sleep(LATER).await;
        assert_eq!(data(&world), None);
        ends(&world, [client]).await;
    });
}

/// Closes a persistent node while the first reply to such a request is lost.
async fn close_after_a_lost_reply_to(request: Request, world: World) {
    let proxy = proxy(&world).await;
    let client = proxy.client(&world, |builder| builder).await;
    let lost = proxy.intercept(request, Fate::LoseReply);
    let node = start(&client, NodeMode::Persistent);
    within(lost.happened()).await;
    within(node.close()).await.unwrap();
    sleep(LATER).await;
    assert_eq!(data(&world), None);
    ends(&world, [client]).await;
}

#[test]
fn close_after_a_lost_create_leaves_no_persistent_node() {
    play(|world| close_after_a_lost_reply_to(Request::Create, world));
}

/// The create was answered, but not the look.
#[test]
fn close_after_a_lost_look_leaves_no_persistent_node() {
    play(|world| close_after_a_lost_reply_to(Request::Exists, world));
}

/// A persistent node whose create has lost its reply, so long ago that it cannot be carried out late any more.
async fn once_in_doubt(world: &World, proxy: &Proxy) -> (Client, PersistentNode) {
    let client = proxy.client(world, |builder| builder.session_timeout(SESSION)).await;
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    let node = start(&client, NodeMode::Persistent);
    within(lost.happened()).await;
    within(node.wait_present()).await.unwrap();
    sleep(SESSION * 5 / 2).await;
    (client, node)
}

#[test]
fn close_long_after_a_lost_create_leaves_a_strangers_persistent_node_alone() {
    play(async |world| {
        let proxy = proxy(&world).await;
        let (client, node) = once_in_doubt(&world, &proxy).await;
        proxy.cut_off();
        world.servers().delete(PATH);
        world.servers().create(PATH, b"ours", false);
        let mut closing = Box::pin(node.close());
        assert!(poll_once(&mut closing).is_pending());
        proxy.refuse_connections(false);
        within(closing).await.unwrap();
        assert_eq!(data(&world).as_deref(), Some("ours"));
        ends(&world, [client]).await;
    });
}

/// Another process takes over at the same path, with the same data.
#[test]
fn nothing_is_swept_up_long_after_a_lost_create() {
    play(async |world| {
        let proxy = proxy(&world).await;
        let (client, node) = once_in_doubt(&world, &proxy).await;
        within(node.close()).await.unwrap();
        world.servers().create(PATH, b"ours", false);
        sleep(LATER).await;
        assert_eq!(data(&world).as_deref(), Some("ours"));
        ends(&world, [client]).await;
    });
}

#[test]
fn a_persistent_node_dropped_in_an_outage_is_deleted_after_it() {
    play(async |world| {
        let proxy = proxy(&world).await;
        let client = proxy.client(&world, impatient).await;
        let node = start(&client, NodeMode::Persistent);
        within(node.wait_present()).await.unwrap();
        proxy.cut_off();
        // Longer than the session.
        sleep(2 * SESSION).await;
        drop(node);
        sleep(LATER).await;
        assert!(data(&world).is_some());
        proxy.refuse_connections(false);
        sleep(LATER).await;
        assert_eq!(data(&world), None);
        ends(&world, [client]).await;
    });
}

/// The reply to the create of a numbered node was lost, so its name is not known.
#[test]
fn close_of_a_numbered_node_in_an_outage_waits_for_its_session() {
    play(async |world| {
        let proxy = proxy(&world).await;
        for is_short in [false, true] {
            let client = proxy.client(&world, impatient).await;
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
            assert_eq!(world.servers().children("/kept"), Some(Vec::new()));
            client.close().await;
        }
        ends(&world, []).await;
    });
}

/// What sweeps up after one value spares the next.
#[test]
fn the_next_node_stays() {
    play(async |world| {
        let proxy = proxy(&world).await;
        let client = proxy.client(&world, |builder| builder).await;
        let lost = proxy.intercept(Request::Create, Fate::LoseReply);
        let node = start(&client, NodeMode::Ephemeral);
        within(lost.happened()).await;
        within(node.wait_present()).await.unwrap();
        within(node.close()).await.unwrap();
        let next = start(&client, NodeMode::Ephemeral);
        within(next.wait_present()).await.unwrap();
        let session = async || client.zookeeper().await.unwrap().session_id().0;
        let before = world.servers().node(PATH).unwrap();
        assert_eq!(before.ephemeral_owner, session().await);
        sleep(LATER).await;
        assert_eq!(session().await, before.ephemeral_owner);
        assert_eq!(world.servers().node(PATH), Some(before), "no one else has deleted it");
        within(next.close()).await.unwrap();
        ends(&world, [client]).await;
    });
}
