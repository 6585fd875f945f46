//! Kept nodes and groups that others disturb, or whose sessions are given up before they end.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use zk_recipes::nodes::{
    Group, MemberChange, Members, NodeMode, NodeState, OnStranger, PersistentNode, PersistentNodeOptions,
};

use super::prelude::*;

pub(super) const PATH: &str = "/kept/a";

pub(super) fn start(client: &Client, mode: NodeMode) -> PersistentNode {
    PersistentNode::start(client, PATH, "ours", PersistentNodeOptions::new().mode(mode)).unwrap()
}

pub(super) fn data(stage: &Stage) -> Option<String> {
    stage.servers().node(PATH).map(|node| String::from_utf8(node.data).unwrap())
}

fn owner(stage: &Stage) -> Option<i64> {
    stage.servers().node(PATH).map(|node| node.ephemeral_owner)
}

pub(super) fn anyone(mode: zk::CreateMode) -> zk::CreateOptions<'static> {
    mode.with_acls(zk::Acls::anyone_all())
}

// --- Others ---

/// Waits for a stranger's node to go, while he does something to it all the time.
// "It is tried again, with pauses of up to 5 seconds; and as soon as someone else's node is gone." "Someone who goes on
// deleting or writing is not fought: the pauses grow up to 5 s." The same of someone else's node.
#[history(false, true)]
async fn a_stranger_who_writes_to_his_node_or_replaces_it_causes_no_storm(stage: Stage, replaces: bool) {
    const TIME: Duration = secs(60);
    assert!(stage.servers().create("/kept", b"", true));
    let (proxy, client, other) = stage.far_and_near(usual).await;
    let stranger = other.zookeeper().await.unwrap();
    stranger.create(PATH, b"theirs", &anyone(zk::CreateMode::Ephemeral)).await.unwrap();
    let options = PersistentNodeOptions::new().on_stranger(OnStranger::Wait);
    let node = PersistentNode::start(&client, PATH, "ours", options).unwrap();
    let blocked = |state: &NodeState| matches!(state, NodeState::Blocked(Error::NodeTaken { .. }));
    within(node.watch_state().wait_for(blocked)).await.unwrap();
    proxy.take_requests();
    let begin = Instant::now();
    while begin.elapsed() < TIME {
        if replaces {
            let mut writer = stranger.new_multi_writer();
            writer.add_delete(PATH, None).unwrap();
            writer.add_create(PATH, b"theirs", &anyone(zk::CreateMode::Ephemeral)).unwrap();
            writer.commit().await.unwrap();
        } else {
            stranger.set_data(PATH, b"theirs, newer", None).await.unwrap();
        }
        sleep(ms(5)).await;
    }
    let requests = proxy.take_requests();
    let creates = requests.iter().filter(|request| **request == Request::Create).count();
    assert!(creates < 60, "{creates} creates in {TIME:?}");
    stranger.delete(PATH, None).await.unwrap();
    within(node.wait_present()).await.unwrap();
    within(node.close()).await.unwrap();
}

// Curator repeats a refused create as fast as the servers answer, and says nothing.
#[history]
async fn a_refused_create_is_not_repeated_all_the_time(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(usual).await;
    let acl = [Acl::new(Permission::READ | Permission::ADMIN, AuthId::anyone())];
    let unwritable = zk::CreateMode::Persistent.with_acls(zk::Acls::new(&acl));
    other.zookeeper().await.unwrap().create("/kept", b"", &unwritable).await.unwrap();
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap_err();
    proxy.take_requests();
    sleep(secs(60)).await;
    let creates = proxy.take_requests().iter().filter(|request| **request == Request::Create).count();
    assert!((5..60).contains(&creates), "{creates} creates in a minute");
}

// Curator rewrites the data at each reconnect, which wakes all watchers of all kept nodes.
#[history]
async fn a_reconnect_in_the_session_writes_nothing(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    let before = stage.servers().node(PATH).unwrap();
    for _ in 0..3 {
        proxy.take_requests();
        proxy.cut();
        sleep(secs(1)).await;
        let requests = proxy.take_requests();
        assert!(requests.contains(&Request::Exists), "it looks at the node again: {requests:?}");
        assert_eq!(stage.servers().node(PATH).as_ref(), Some(&before));
    }
    assert!(node.state().is_present());
    // What was changed during the interruption is noticed.
    proxy.cut_off();
    assert!(stage.servers().delete(PATH));
    proxy.refuse_connections(false);
    is_present(&mut node.watch_state(), |czxid| czxid != before.czxid).await;
}

// The write and the takeover pass each other.
#[history]
async fn data_that_are_set_at_the_time_of_a_takeover_leave_a_strangers_node_alone(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(usual).await;
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    proxy.set_traffic(Traffic::black_hole_to_client());
    assert!(stage.servers().delete(PATH));
    let stranger = other.zookeeper().await.unwrap();
    stranger.create(PATH, b"theirs", &anyone(zk::CreateMode::Ephemeral)).await.unwrap();
    proxy.take_requests();
    assert!(poll_once(&mut Box::pin(node.set_data("ours, newer"))).is_pending());
    sleep(A_MOMENT).await;
    let requests = proxy.take_requests();
    assert!(requests.iter().any(|request| matches!(request, Request::Exists | Request::SetData)));
    proxy.set_traffic(Traffic::pass());
    let taken = |state: &NodeState| matches!(state, NodeState::Blocked(Error::NodeTaken { .. }));
    within(node.watch_state().wait_for(taken)).await.unwrap();
    assert_eq!(data(&stage).as_deref(), Some("theirs"));
    within(node.close()).await.unwrap();
    stranger.delete(PATH, None).await.unwrap();
}

// The same for a member: another process has taken the id.
#[history]
async fn who_leaves_a_group_does_not_evict_another(stage: Stage) {
    let (proxy, one, two) = stage.far_and_near(usual).await;
    let first = within(Group::new(&one, "/group").unwrap().join("a", "1")).await.unwrap();
    let group = Group::new(&two, "/group").unwrap();
    let waiting = tokio::spawn(async move { group.join_within("a", "2", BOUND).await });
    sleep(A_MOMENT).await;
    proxy.cut_off();
    // An operator evicts the first.
    assert!(stage.servers().delete("/group/a"));
    let second = within(waiting).await.unwrap().unwrap();
    let taken = stage.servers().node("/group/a");
    let mut leaving = Box::pin(first.leave());
    assert!(poll_once(&mut leaving).is_pending());
    proxy.refuse_connections(false);
    within(leaving).await.unwrap();
    assert_eq!(stage.servers().node("/group/a"), taken, "it is still the same");
    within(second.leave()).await.unwrap();
}

/// A node whose data someone changes so often that the next pause is of 5 s.
async fn disturbed(stage: &Stage) -> (Client, PersistentNode) {
    let client = stage.client(0).await;
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    for _ in 0..9 {
        stage.servers().set_data(PATH, b"theirs");
        until(|| data(stage).as_deref() == Some("ours")).await;
    }
    stage.servers().set_data(PATH, b"theirs");
    sleep(ms(500)).await;
    (client, node)
}

async fn shows_what_is_there(stage: &Stage, node: &PersistentNode) {
    for _ in 0..100 {
        sleep(A_MOMENT).await;
        let shown = node.state();
        assert_eq!(data(stage).is_some(), shown.is_present(), "{shown:?}");
    }
}

// "Present: The node exists."; "Absent".
#[history]
async fn the_state_is_right_while_someone_disturbs(stage: Stage) {
    let (_, node) = disturbed(&stage).await;
    assert_eq!(data(&stage).as_deref(), Some("theirs"), "it waits");
    stage.servers().delete(PATH);
    // It is looked at again in that time.
    sleep(ms(500)).await;
    shows_what_is_there(&stage, &node).await;
}

// The same with an ended session: "it is taken to exist until its session is known to have ended".
#[history]
async fn the_state_is_right_after_a_session_that_ends_while_someone_disturbs(stage: Stage) {
    let (client, node) = disturbed(&stage).await;
    let old = session_id(&client).await;
    stage.servers().end_session(old);
    state_is(&client, ConnectionState::Reconnected).await;
    assert_ne!(session_id(&client).await, old);
    shows_what_is_there(&stage, &node).await;
}

// "Deletes the node, if it is there and ours, and waits until it is gone: a round trip"; "Someone who goes on deleting or
// writing is not fought".
#[history]
async fn close_is_not_held_up_by_someone_who_writes(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    let other = stage.client(1).await;
    let writer = other.zookeeper().await.unwrap();
    let writing = tokio::spawn(async move {
        let mut writes = FuturesUnordered::new();
        for _ in 0..192 {
            writes.push(writer.set_data(PATH, b"theirs", None));
        }
        while let Some(Ok(_)) = writes.next().await {
            writes.push(writer.set_data(PATH, b"theirs", None));
        }
    });
    sleep(ms(500)).await;
    proxy.take_requests();
    let closed = timeout(secs(2), node.close()).await;
    let requests = proxy.take_requests().len();
    writing.abort();
    assert!(matches!(closed, Ok(Ok(()))) && requests < 20, "{closed:?}, {requests} requests");
}

// --- Sessions that are given up ---

/// A client that gives its session up long before the servers do: they count from the last time that they heard of it, but
/// someone else keeps it alive there. Connections are still refused.
struct GivenUp {
    proxy: Proxy,
    client: Client,
    node: PersistentNode,
    first: i64,
    session: i64,
    keeper: zk::Client,
}

async fn given_up(stage: &Stage) -> GivenUp {
    let (proxy, client) = stage.far(usual).await;
    let node = start(&client, NodeMode::Ephemeral);
    within(node.wait_present()).await.unwrap();
    let NodeState::Present { czxid: first, .. } = node.state() else { panic!("{:?}", node.state()) };
    let session = session_id(&client).await;
    let alive = client.zookeeper().await.unwrap().into_session();
    proxy.cut_off();
    let keeper = zk::Client::connector().with_session(alive).connect(&stage.address_of(0)).await.unwrap();
    within(node.watch_state().wait_for(|state| *state == NodeState::Absent)).await.unwrap();
    assert_eq!(owner(stage), Some(session));
    GivenUp { proxy, client, node, first, session, keeper }
}

async fn is_present(state: &mut Watch<NodeState>, is_it: impl Fn(i64) -> bool) -> i64 {
    let is_it = |state: &NodeState| matches!(state, NodeState::Present { czxid, .. } if is_it(*czxid));
    match within(state.wait_for(is_it)).await.unwrap() {
        NodeState::Present { czxid, .. } => czxid,
        other => panic!("{other:?}"),
    }
}

// Curator takes the node of the ended session for its own, and is without one when that goes.
#[history]
async fn the_node_of_an_ended_session_of_ours_is_replaced_in_one_transaction(stage: Stage) {
    let GivenUp { proxy, client, node, first, keeper, .. } = given_up(&stage).await;
    let other = stage.client(1).await;
    let (_, watch) = other.zookeeper().await.unwrap().list_and_watch_children("/kept").await.unwrap();
    proxy.take_requests();
    proxy.refuse_connections(false);
    let second = is_present(&mut node.watch_state(), |czxid| czxid != first).await;
    let requests = proxy.take_requests();
    assert!(requests.contains(&Request::Multi), "{requests:?}");
    let stat = stage.servers().node(PATH).unwrap();
    assert_eq!((stat.czxid, stat.ephemeral_owner), (second, session_id(&client).await));
    assert_eq!(within(watch.changed()).await.event_type, zk::EventType::NodeChildrenChanged);
    let there = stage.servers().children("/kept");
    assert_eq!(there, Some(vec!["a".to_owned()]), "it is there whenever someone looks");
    drop((node, keeper));
    sleep(2 * SESSION).await;
}

// "A node that belongs to another session is never written to or deleted."
#[history]
async fn a_replacement_leaves_a_strangers_node_alone(stage: Stage) {
    let GivenUp { proxy, node, keeper, .. } = given_up(&stage).await;
    let looked = proxy.intercept(Request::Exists, Fate::HoldReply);
    proxy.refuse_connections(false);
    within(looked.happened()).await;
    // The old session ends, and another process takes the place.
    stage.servers().delete(PATH);
    let other = stage.client(1).await;
    let stranger = other.zookeeper().await.unwrap();
    stranger.create(PATH, b"theirs", &anyone(zk::CreateMode::Ephemeral)).await.unwrap();
    looked.release();
    let settled = |state: &NodeState| *state != NodeState::Absent;
    within(node.watch_state().wait_for(settled)).await.unwrap();
    sleep(SESSION).await;
    assert_eq!(data(&stage).as_deref(), Some("theirs"), "{:?}", node.state());
    stranger.delete(PATH, None).await.unwrap();
    drop((node, stranger, keeper));
    sleep(2 * SESSION).await;
}

// "Deletes the node, if it is there and ours, and waits until it is gone".
#[history]
async fn close_after_a_replacement_whose_look_was_lost_leaves_nothing(stage: Stage) {
    let GivenUp { proxy, client, node, session: old, keeper, .. } = given_up(&stage).await;
    let first = proxy.intercept(Request::Exists, Fate::HoldReply);
    proxy.refuse_connections(false);
    within(first.happened()).await;
    let second = proxy.intercept(Request::Exists, Fate::HoldReply);
    first.release();
    within(second.happened()).await;
    let third = proxy.intercept(Request::Exists, Fate::LoseReply);
    second.release();
    within(third.happened()).await;
    sleep(A_MOMENT).await;
    assert!(owner(&stage).is_some_and(|owner| owner != old), "it was replaced");
    within(node.close()).await.unwrap();
    let session = session_id(&client).await;
    sleep(secs(5)).await;
    assert_eq!(session_id(&client).await, session);
    assert_eq!(data(&stage), None);
    drop(keeper);
    sleep(2 * SESSION).await;
}

fn text(members: &Members) -> String {
    let members = members
        .iter()
        .map(|(id, member)| format!("{id}={}", String::from_utf8_lossy(member.payload().unwrap_or(b"?"))));
    members.collect::<Vec<_>>().join(" ")
}

/// Waits until the members are known to be these.
async fn shows(seen: &mut Watch<Members>, wanted: &str) -> Members {
    let is_it = |members: &Members| members.is_current() && text(members) == wanted;
    within(seen.wait_for(is_it)).await.unwrap().clone()
}

// "it is replaced in one transaction, so watchers see no gap": over a slow link, one event arrives after the other.
#[history]
async fn a_member_that_is_replaced_in_one_transaction_shows_no_gap(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(usual).await;
    let (zookeeper, ephemeral) = (other.zookeeper().await.unwrap(), anyone(zk::CreateMode::Ephemeral));
    assert!(stage.servers().create("/group", b"", true));
    zookeeper.create("/group/a", b"1", &ephemeral).await.unwrap();
    let mut seen = Group::new(&client, "/group").unwrap().watch_members();
    shows(&mut seen, "a=1").await;
    proxy.set_traffic(Traffic::pass().bandwidth(1000));
    for _ in 0..5 {
        let mut writer = zookeeper.new_multi_writer();
        writer.add_delete("/group/a", None).unwrap();
        writer.add_create("/group/a", b"1", &ephemeral).unwrap();
        writer.commit().await.unwrap();
        let czxid = stage.servers().node("/group/a").unwrap().czxid;
        let is_noticed =
            |members: &Members| members.is_current() && members.get("a").is_none_or(|a| a.czxid() == czxid);
        let shown = within(seen.wait_for(is_noticed)).await.unwrap();
        assert_eq!(text(&shown), "a=1");
    }
    proxy.set_traffic(Traffic::pass());
    zookeeper.delete("/group/a", None).await.unwrap();
}

// Curator lists itself while its session is over, and shows the others as if it knew.
/// One joins, and another one leaves, while the group may not be read.
#[history]
async fn a_view_shows_what_changes_while_the_group_may_not_be_read(stage: Stage) {
    const GROUP: &str = "/groups/a";
    let (client, owner) = (stage.client(0).await, owning_client(&stage).await);
    let [watched, group] = [&client, &owner].map(|client| Group::new(client, GROUP).unwrap());
    let first = group.join("first", "").await.unwrap();
    let mut seen = watched.watch_members();
    let ids = |members: &Members| members.iter().map(|(id, _)| id.to_owned()).collect::<Vec<_>>();
    within(seen.wait_for(|members| ids(members) == ["first"])).await.unwrap();
    let mut second = None;
    unseen(&owner, GROUP, async { second = Some(group.join("second", "").await.unwrap()) }).await;
    within(seen.wait_for(|members| ids(members) == ["first", "second"])).await.unwrap();
    let leaving = async { unseen(&owner, "/groups/a/first", first.leave()).await };
    unseen(&owner, GROUP, leaving).await;
    within(seen.wait_for(|members| ids(members) == ["second"])).await.unwrap();
    drop(second);
}

#[history]
async fn what_is_out_of_date_says_so_and_a_rejoin_is_two_changes(stage: Stage) {
    let (proxy, cut_off, other) = stage.far_and_near(usual).await;
    let groups = [&cut_off, &other].map(|client| Group::new(client, "/group").unwrap());
    let a = within(groups[0].join("a", "1")).await.unwrap();
    let b = within(groups[1].join("b", "2")).await.unwrap();
    let [mut seen, mut seen_by_other] = groups.each_ref().map(Group::watch_members);
    let before = shows(&mut seen, "a=1 b=2").await;
    let before_by_other = shows(&mut seen_by_other, "a=1 b=2").await;

    proxy.cut_off();
    let stale = within(seen.wait_for(|members| !members.is_current())).await.unwrap().clone();
    assert_eq!(text(&stale), "a=1 b=2");
    within(a.watch_state().wait_for(|state| *state == NodeState::Absent)).await.unwrap();
    assert!(!a.is_member());
    shows(&mut seen_by_other, "b=2").await;
    within(b.set_payload("3")).await.unwrap();
    proxy.refuse_connections(false);
    let now = shows(&mut seen, "a=1 b=3").await;
    let changes = now.changes_since(&before);
    assert!(
        matches!(
            &changes[..],
            [MemberChange::Left { id: left, .. }, MemberChange::Joined { id: joined, .. }, MemberChange::Changed { .. }]
                if left == "a" && joined == "a"
        ),
        "{changes:?}"
    );
    let now = shows(&mut seen_by_other, "a=1 b=3").await;
    assert_eq!(now.changes_since(&before_by_other).len(), 3);
}

// --- Ends ---

const CONNECTION: Duration = secs(1);

// "[`Error::NotConnected`]: a node of [`NodeMode::Persistent`] could not be deleted under the retry policy."
#[history]
async fn close_of_a_persistent_node_in_an_outage_ends_under_the_retry_policy(stage: Stage) {
    const PAUSE: Duration = ms(100);
    let proxy = stage.proxy(0).await;
    let policy = RetryPolicy::one_time(PAUSE);
    let client = proxy.client(tries(4 * SESSION, CONNECTION, policy)).await;
    let node = start(&client, NodeMode::Persistent);
    within(node.wait_present()).await.unwrap();
    let session = session_id(&client).await;
    proxy.cut_off();
    let begin = Instant::now();
    let closed = within(node.close()).await;
    assert!(matches!(closed, Err(Error::NotConnected { .. })), "{closed:?}");
    assert!(begin.elapsed() < CONNECTION + PAUSE + A_MOMENT, "{:?}", begin.elapsed());
    proxy.refuse_connections(false);
    sleep(SESSION).await;
    assert_eq!(data(&stage), None);
    assert_eq!(session_id(&client).await, session, "the outage was shorter than the session");
}

// "[`Error::NotConnected`]: the servers cannot be reached under the retry policy."
#[history]
async fn join_fails_when_the_servers_are_gone(stage: Stage) {
    assert!(stage.servers().create("/group", b"", true));
    let proxy = stage.proxy(0).await;
    let policy = RetryPolicy::n_times(0, Duration::ZERO);
    let client = proxy.client(tries(4 * SESSION, CONNECTION, policy)).await;
    let lost = proxy.intercept(Request::Create, Fate::LoseRequest);
    let group = Group::new(&client, "/group").unwrap();
    let joining = tokio::spawn(async move { group.join("a", "1").await });
    within(lost.happened()).await;
    proxy.cut_off();
    let begin = Instant::now();
    let error = within(joining).await.unwrap();
    assert!(matches!(error, Err(Error::NotConnected { .. })), "{error:?}");
    assert!(begin.elapsed() < CONNECTION + A_MOMENT, "{:?}", begin.elapsed());
    proxy.refuse_connections(false);
    sleep(SESSION).await;
}

// "Deletes the node … Dropping the value does the same in the background."; "the client was closed, with whose session an
// ephemeral node goes"; of `Client::close`: "An adopted session stays open: what guards still hold on it is released when
// they are dropped."
#[history]
async fn a_node_of_an_adopted_session_goes_with_its_value(stage: Stage) {
    for is_dropped_first in [false, true] {
        let connector = zk::Client::connector().with_session_timeout(SESSION);
        let zookeeper = connector.connect(&stage.address_of(0)).await.unwrap();
        let client = Client::from_zookeeper(zookeeper.clone()).unwrap();
        let node = start(&client, NodeMode::Ephemeral);
        within(node.wait_present()).await.unwrap();
        if is_dropped_first {
            drop(node);
            within(client.close()).await;
        } else {
            within(client.close()).await;
            assert!(data(&stage).is_some());
            drop((node, client));
        }
        sleep(5 * A_MOMENT).await;
        assert_eq!(data(&stage), None);
        drop(zookeeper);
    }
}

/// A second view of a group, started when the first one ends, sees what happens later.
// "Returns a receiver that always shows the latest members."
#[history(Request::GetChildren, Request::GetData)]
async fn a_view_that_replaces_another_sees_who_joins_and_changes(stage: Stage, held: Request) {
    let (proxy, watcher, other) = stage.far_and_near(usual).await;
    let [group, others] = [&watcher, &other].map(|client| Group::new(client, "/group").unwrap());
    let a = within(others.join("a", "1")).await.unwrap();
    let mut first = group.watch_members();
    within(first.wait_for(|members| members.is_current() && members.len() == 1)).await.unwrap();
    let held = proxy.intercept(held, Fate::HoldReply);
    let mut second = group.watch_members();
    within(held.happened()).await;
    drop(first);
    sleep(ms(500)).await;
    held.release();
    within(second.wait_for(|members| members.is_current() && members.len() == 1)).await.unwrap();
    sleep(ms(500)).await;
    within(a.set_payload("2")).await.unwrap();
    sleep(A_MOMENT).await;
    let payload = second.get().get("a").unwrap().payload().map(<[u8]>::to_vec);
    assert_eq!(payload.as_deref(), Some(&b"2"[..]));
    let _b = within(others.join("b", "1")).await.unwrap();
    sleep(A_MOMENT).await;
    assert_eq!(second.get().len(), 2);
}
