//! Kept nodes and groups.

use crate::interop::prelude::*;

const PATH: &str = "/kept/a";

pub(crate) async fn a_kept_node_of_curator_is_respected(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, client) = (stage.curator("java").await, stage.client("rust").await);
    let data = async || String::from_utf8(stage.zookeeper.get_data(PATH).await.unwrap().0).unwrap();

    let mut theirs = java.open("a", &format!("node {PATH} data=java")).await;
    theirs.call("acquire").await;
    let ours = PersistentNode::start(&client, PATH, "rust", PersistentNodeOptions::new()).unwrap();
    assert!(matches!(within(ours.wait_present()).await, Err(Error::NodeTaken { .. })));
    theirs.call("act data java2").await;
    eventually("Curator's data", async || (data().await == "java2").then_some(())).await;
    theirs.call("release").await;
    let mut state = ours.watch_state();
    let mut last = within(state.wait_for(NodeState::is_present)).await.unwrap().clone();
    assert_eq!(data().await, "rust");

    // Curator takes ours for its own: it writes to it, and deletes it when it is closed.
    let mut second = java.open("b", &format!("node {PATH} data=java")).await;
    second.call("acquire").await;
    eventually("our data", async || (data().await == "rust").then_some(())).await;
    assert_eq!(ours.state(), last);
    second.call("release").await;
    let is_new = |state: &NodeState| state.is_present() && *state != last;
    last = within(state.wait_for(is_new)).await.unwrap().clone();
    assert_eq!((data().await.as_str(), ours.state()), ("rust", last));
    within(ours.close()).await.unwrap();
    queue_of(&stage.zookeeper, "/kept", 0).await;
}

pub(crate) async fn numbered_nodes_have_names_of_one_form(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, client) = (stage.curator("java").await, stage.client("rust").await);
    let mut theirs = java.open("a", "node /kept/m- mode=EPHEMERAL_SEQUENTIAL data=java").await;
    theirs.call("acquire").await;
    let options = PersistentNodeOptions::new().mode(NodeMode::EphemeralSequential);
    let ours = PersistentNode::start(&client, "/kept/m-", "rust", options).unwrap();
    let path = within(ours.wait_present()).await.unwrap();
    let form = |path: &str, number: &str| {
        let name = path.strip_prefix("/kept/_c_").unwrap();
        name.len() == 36 + "-m-0000000000".len() && name.ends_with(&format!("-m-{number}"))
    };
    let theirs_at = theirs.call("act path").await;
    assert!(form(&theirs_at, "0000000000"), "{theirs_at}");
    assert!(form(&path, "0000000001"), "{path}");
    assert_eq!(children(&stage.zookeeper, "/kept").await.len(), 2);
    theirs.call("release").await;
    within(ours.close()).await.unwrap();
    queue_of(&stage.zookeeper, "/kept", 0).await;
}

pub(crate) async fn nodes_with_a_ttl_are_kept_by_both(generation: Generation) {
    /// Long enough for a busy machine to touch the node in time.
    const TTL: Duration = secs(2);
    let stage = Stage::set_with_ttl_nodes(generation).await;
    let (java, client) = (stage.curator("java").await, stage.client("rust").await);
    let opening = format!("node {PATH} ttl={} data=both", TTL.as_millis());
    let ours =
        || PersistentTtlNode::start(&client, PATH, "both", PersistentTtlNodeOptions::new(TTL)).unwrap();
    let stat = async |path: &str| stage.zookeeper.check_stat(path).await.unwrap();
    let touch = format!("{PATH}/touch");
    // As often as in two times to live.
    let touched = async |by: &str| {
        let first = eventually("it is touched", async || {
            let (data, stat) = stage.zookeeper.get_data(&touch).await.ok()?;
            (data == by.as_bytes()).then_some(stat)
        })
        .await;
        eventually("it is touched again", async || {
            let touched = stat(&touch).await.expect("it is touched in time");
            (touched.version >= first.version + 4).then_some(())
        })
        .await;
    };
    let vanished =
        async || eventually("it vanishes", async || stat(PATH).await.is_none().then_some(())).await;

    // Curator's first: ours keeps the same node on its own.
    let mut theirs = java.open("a", &opening).await;
    theirs.call("acquire").await;
    let before = stat(PATH).await.unwrap().czxid;
    let node = ours();
    within(node.wait_present()).await.unwrap();
    theirs.call("release").await;
    touched("rust").await;
    assert_eq!(stat(PATH).await.unwrap().czxid, before);
    drop(node);
    vanished().await;

    // Ours first.
    let node = ours();
    within(node.wait_present()).await.unwrap();
    let before = stat(PATH).await.unwrap().czxid;
    let mut theirs = java.open("b", &opening).await;
    theirs.call("acquire").await;
    drop(node);
    touched("java").await;
    assert_eq!(stat(PATH).await.unwrap().czxid, before);
    theirs.call("release").await;
    vanished().await;
}

pub(crate) async fn groups_are_shared(generation: Generation) {
    const GROUP: &str = "/groups/g";
    let stage = Stage::set(generation).await;
    let (java, client) = (stage.curator("java").await, stage.client("rust").await);
    let group = Group::new(&client, GROUP).unwrap();
    let mut seen = group.watch_members();
    let mut shows = async |wanted: &str| {
        let text = |members: &Members| {
            let members = members
                .iter()
                .map(|(id, member)| format!("{id}={}", String::from_utf8_lossy(member.payload().unwrap())));
            members.collect::<Vec<_>>().join(" ")
        };
        let shown = seen.wait_for(|members| members.is_current() && text(members) == wanted);
        within(shown).await.unwrap().clone()
    };
    let mut theirs = java.open("a", &format!("group {GROUP} id=java data=1")).await;
    theirs.call("acquire").await;
    shows("java=1").await;
    assert!(matches!(within(group.join("java", "")).await, Err(Error::NodeTaken { .. })));
    let ours = within(group.join("rust", "2")).await.unwrap();
    shows("java=1 rust=2").await;
    let theirs = tokio::sync::Mutex::new(theirs);
    let shown_there = async |wanted: &str| {
        eventually("Curator's view", async || {
            (theirs.lock().await.call("act members").await == wanted).then_some(())
        })
        .await;
    };
    shown_there("java=1 rust=2").await;
    within(ours.set_payload("3")).await.unwrap();
    shown_there("java=1 rust=3").await;
    theirs.lock().await.call("act data 4").await;
    shows("java=4 rust=3").await;
    within(ours.leave()).await.unwrap();
    shown_there("java=4").await;
    theirs.lock().await.call("release").await;
    shows("").await;
    queue_of(&stage.zookeeper, GROUP, 0).await;
}
