//! Nodes with a time to live: they stay while their keepers touch them, and go when these cannot.

use zk_recipes::nodes::{NodeState, PersistentTtlNode, PersistentTtlNodeOptions};

use super::kept::{PATH, anyone};
use super::prelude::*;

const TOUCH: &str = "/kept/a/touch";
const TTL: Duration = secs(2);

/// Servers that look for nodes whose time is over all the time.
struct Scene {
    servers: MemoryEnsemble,
    /// Before the client that keeps.
    proxy: Proxy,
    client: Client,
    /// Nearer to the servers.
    stranger: zk::Client,
}

async fn scene(stage: &Stage) -> Scene {
    scene_with(stage, session).await
}

async fn scene_with(stage: &Stage, with: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Scene {
    let builder = MemoryEnsemble::builder().ttl_nodes(true).container_check_interval(ms(50));
    let (servers, proxy) = apart(stage, builder, "10.7.0.1:2181").await;
    let client = proxy.client(with).await;
    let near = Proxy::before(stage, servers.clone(), "10.7.0.2:2181").await;
    let stranger = near.client(session).await.zookeeper().await.unwrap();
    Scene { servers, proxy, client, stranger }
}

fn start(client: &Client) -> PersistentTtlNode {
    PersistentTtlNode::start(client, PATH, "ours", PersistentTtlNodeOptions::new(TTL)).unwrap()
}

async fn kept(client: &Client) -> PersistentTtlNode {
    let node = start(client);
    assert_eq!(within(node.wait_present()).await.unwrap(), PATH);
    node
}

impl Scene {
    fn czxid(&self) -> i64 {
        self.servers.node(PATH).expect("it is there").czxid
    }

    fn data(&self) -> Option<String> {
        self.servers.node(PATH).map(|node| String::from_utf8(node.data).unwrap())
    }

    /// Waits until the child was written to so often that the node is older than its time to live.
    async fn touched_for_long(&self) {
        let version = || self.servers.node(TOUCH).expect("it is touched in time").version;
        let before = version();
        until(|| version() >= before + 9).await;
    }

    async fn vanished(&self) {
        until(|| self.servers.node(PATH).is_none()).await;
    }

    async fn present_other_than(&self, node: &PersistentTtlNode, before: i64) -> i64 {
        let is_new =
            |state: &NodeState| matches!(state, NodeState::Present { czxid, .. } if *czxid != before);
        within(node.watch_state().wait_for(is_new)).await.unwrap();
        self.czxid()
    }
}

#[history]
async fn it_is_there_as_long_as_its_value_lives_and_for_its_ttl(stage: Stage) {
    let scene = scene(&stage).await;
    let node = kept(&scene.client).await;
    let before = scene.servers.node(PATH);
    scene.touched_for_long().await;
    let session = session_id(&scene.client).await;
    assert!(scene.servers.end_session(session));
    scene.touched_for_long().await;
    assert_eq!(scene.servers.node(PATH), before, "who watches it notices nothing");
    // It was touched just now.
    let touched = Instant::now();
    drop(node);
    scene.vanished().await;
    assert!(touched.elapsed() >= TTL - ms(2) && touched.elapsed() < TTL + ms(200), "{:?}", touched.elapsed());
    // The parent was a container.
    until(|| scene.servers.node("/kept").is_none()).await;
    until(|| scene.servers.watch_count() == 0).await;
}

#[history]
async fn a_touch_takes_a_write_and_a_look(stage: Stage) {
    let scene = scene(&stage).await;
    let _node = kept(&scene.client).await;
    scene.proxy.take_requests();
    scene.touched_for_long().await;
    let requests = scene.proxy.take_requests();
    let touches: Vec<_> = requests.chunks(2).take(8).collect();
    assert_eq!(touches, [[Request::SetData, Request::Exists]; 8]);
}

// As a process that is killed; and one that comes back.
#[history]
async fn it_vanishes_when_no_one_touches_it_and_comes_back_with_the_connection(stage: Stage) {
    let scene = scene(&stage).await;
    let node = kept(&scene.client).await;
    let before = scene.czxid();
    scene.proxy.cut_off();
    scene.vanished().await;
    scene.proxy.refuse_connections(false);
    scene.present_other_than(&node, before).await;
    scene.touched_for_long().await;
}

#[history]
async fn it_comes_back_when_others_delete_it_or_its_child(stage: Stage) {
    let scene = scene(&stage).await;
    let node = kept(&scene.client).await;
    let mut czxid = scene.czxid();
    for _ in 0..2 {
        let mut writer = scene.stranger.new_multi_writer();
        writer.add_delete(TOUCH, None).unwrap();
        writer.add_delete(PATH, None).unwrap();
        writer.commit().await.unwrap();
        czxid = scene.present_other_than(&node, czxid).await;
        scene.touched_for_long().await;
    }
    // Without a child it may be removed at once, since it is older than its time to live.
    let before = scene.servers.node(TOUCH).unwrap().czxid;
    assert!(scene.servers.delete(TOUCH));
    until(|| scene.servers.node(TOUCH).is_some_and(|child| child.czxid != before)).await;
    scene.touched_for_long().await;
    let before = scene.servers.node(PATH).unwrap().version;
    assert!(scene.servers.set_data(PATH, b"theirs"));
    until(|| scene.servers.node(PATH).is_some_and(|node| node.version == before + 2)).await;
    assert_eq!(scene.data().as_deref(), Some("ours"));
}

#[history]
async fn several_keep_one_node(stage: Stage) {
    let scene = scene(&stage).await;
    let mut nodes = vec![kept(&scene.client).await];
    let before = scene.servers.node(PATH);
    for _ in 0..2 {
        nodes.push(kept(&scene.proxy.client(session).await).await);
    }
    for node in nodes {
        assert_eq!(scene.servers.node(PATH), before, "no one else has written to it");
        scene.touched_for_long().await;
        drop(node);
    }
    scene.vanished().await;
}

// Someone writes to it for so long that the pauses before its data are written back are longer than its time to live; also
// one that is nearer to the servers, so that each write comes too late.
#[history(0, 50)]
async fn a_fight_about_its_data_does_not_keep_it_from_being_touched(stage: Stage, delay: u64) {
    let scene = scene(&stage).await;
    let _node = kept(&scene.client).await;
    let before = scene.czxid();
    scene.proxy.set_traffic(Traffic::pass().delay(ms(delay)));
    let writing = async {
        loop {
            scene.stranger.set_data(PATH, b"theirs", None).await.unwrap();
            sleep(ms(1)).await;
        }
    };
    tokio::select! {
        () = scene.touched_for_long() => {}
        () = writing => {}
    }
    scene.touched_for_long().await;
    assert_eq!((scene.czxid(), scene.data().as_deref()), (before, Some("ours")));
}

#[history]
async fn what_belongs_to_no_session_is_kept_and_other_nodes_are_left_alone(stage: Stage) {
    let scene = scene(&stage).await;
    // So that the parent stays.
    assert!(scene.servers.create("/kept", b"", false));
    let ttl = anyone(zk::CreateMode::Persistent).with_ttl(TTL);
    let persistent = anyone(zk::CreateMode::Persistent);
    for (options, vanishes) in [(anyone(zk::CreateMode::Container), true), (ttl, true), (persistent, false)] {
        let (theirs, _) = scene.stranger.create(PATH, b"theirs", &options).await.unwrap();
        let node = kept(&scene.client).await;
        assert_eq!((scene.czxid(), scene.data().as_deref()), (theirs.czxid, Some("ours")));
        scene.touched_for_long().await;
        within(node.close()).await.unwrap();
        until(|| scene.servers.node(TOUCH).is_none()).await;
        if !vanishes {
            assert!(scene.servers.delete(PATH));
        }
        scene.vanished().await;
    }
    let ephemeral = anyone(zk::CreateMode::Ephemeral);
    let (theirs, _) = scene.stranger.create(PATH, b"theirs", &ephemeral).await.unwrap();
    let node = start(&scene.client);
    let error = within(node.wait_present()).await.unwrap_err();
    assert_eq!(error, Error::NodeTaken { path: PATH.into(), session: Some(theirs.ephemeral_owner) });
    assert_eq!((scene.czxid(), scene.data().as_deref()), (theirs.czxid, Some("theirs")));
    assert!(scene.servers.delete(PATH));
    within(node.watch_state().wait_for(NodeState::is_present)).await.unwrap();
    scene.touched_for_long().await;
}

#[history]
async fn lost_replies_do_not_matter(stage: Stage) {
    let scene = scene(&stage).await;
    for fate in [Fate::LoseRequest, Fate::LoseReply] {
        let met = scene.proxy.intercept(Request::Multi, fate);
        let node = start(&scene.client);
        within(met.happened()).await;
        within(node.wait_present()).await.unwrap();
        let met = scene.proxy.intercept(Request::SetData, fate);
        within(met.happened()).await;
        scene.touched_for_long().await;
        within(node.close()).await.unwrap();
        scene.vanished().await;
        // One that ends at that moment leaves nothing.
        for request in [Request::Multi, Request::SetData] {
            let met = scene.proxy.intercept(request, fate);
            let node = start(&scene.client);
            within(met.happened()).await;
            drop(node);
            sleep(2 * TTL).await;
            assert_eq!(scene.servers.node(PATH), None, "{request:?}, {fate:?}");
        }
    }
}

// Curator says nothing of it, and the node vanishes.
#[history]
async fn a_child_that_may_not_be_written_to_is_reported(stage: Stage) {
    let scene = scene(&stage).await;
    assert!(scene.servers.create("/kept", b"", false));
    let acl = [Acl::new(Permission::READ | Permission::WRITE, AuthId::anyone())];
    let options = zk::CreateMode::Persistent.with_acls(zk::Acls::new(&acl)).with_ttl(TTL);
    scene.stranger.create(PATH, b"ours", &options).await.unwrap();
    let node = start(&scene.client);
    let refused = Error::ZooKeeper { operation: "touch", path: PATH.into(), source: zk::Error::NoAuth };
    assert_eq!(within(node.wait_present()).await, Err(refused));
    // When that has vanished, it makes one with its own ACL.
    within(node.watch_state().wait_for(NodeState::is_present)).await.unwrap();
    scene.touched_for_long().await;
}

// "A node that exists as long as this value lives".
#[history]
async fn it_is_touched_although_its_data_are_refused(stage: Stage) {
    let acl = [Acl::new(Permission::READ | Permission::CREATE | Permission::DELETE, AuthId::anyone())];
    let of_path = move |path: &str| path.ends_with("/a").then(|| acl.to_vec());
    let scene = scene_with(&stage, |builder| session(builder).acl_for_path(of_path)).await;
    let node = kept(&scene.client).await;
    let before = scene.czxid();
    let refused = within(node.set_data("newer")).await;
    assert!(matches!(refused, Err(Error::ZooKeeper { source: zk::Error::NoAuth, .. })), "{refused:?}");
    scene.touched_for_long().await;
    assert_eq!(scene.czxid(), before);
    assert!(node.state().is_present(), "{:?}", node.state());
}
