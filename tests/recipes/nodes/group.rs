//! `Group` and `GroupMember`.

use super::*;

const PATH: &str = "/groups/g";

fn group(client: &Client) -> Group {
    Group::new(client, PATH).unwrap()
}

async fn shows(members: &mut Watch<Members>, wanted: &str) -> Members {
    let shown = |members: &Members| members.is_current() && text(members) == wanted;
    let waiting = async { members.wait_for(shown).await.unwrap().clone() };
    match tokio::time::timeout(BOUND, waiting).await {
        Ok(shown) => shown,
        Err(_) => panic!("{wanted:?} is not shown, but {:?}", members.get()),
    }
}

#[tokio::test]
async fn members_see_each_other_come_change_and_go() {
    let (server, [one, two]) = server_and_clients().await;
    let mut seen = group(&one).watch_members();
    assert!(!seen.get().is_current(), "nothing is known yet");
    // Before there is a group.
    shows(&mut seen, "").await;
    assert_eq!(text(&within(group(&one).members()).await.unwrap()), "");

    let a = within(group(&one).join("a", "1")).await.unwrap();
    let mut before = shows(&mut seen, "a=1").await;
    let b = within(group(&two).join("b", "2")).await.unwrap();
    assert_eq!(text(&within(group(&one).members()).await.unwrap()), "a=1 b=2", "at once");
    let now = shows(&mut seen, "a=1 b=2").await;
    let member = now.get("b").unwrap().clone();
    assert_eq!(member.session_id(), session_id(&two).await);
    assert_eq!(now.changes_since(&before), [MemberChange::Joined { id: "b".into(), member }]);
    within(b.set_payload("3")).await.unwrap();
    assert_eq!((b.payload(), b.is_member()), (b"3".to_vec(), true));
    before = now;
    let now = shows(&mut seen, "a=1 b=3").await;
    assert!(matches!(&now.changes_since(&before)[..], [MemberChange::Changed { id, .. }] if id == "b"));
    within(b.leave()).await.unwrap();
    before = now;
    let now = shows(&mut seen, "a=1").await;
    assert!(matches!(&now.changes_since(&before)[..], [MemberChange::Left { id, .. }] if id == "b"));
    drop(a);
    shows(&mut seen, "").await;
    drop(seen);
    queue_of(&bystander(&server).await, PATH, 0).await;
    all_watches(&server, 0).await;
}

#[tokio::test]
async fn an_id_has_one_member() {
    let (server, [one, two]) = server_and_clients().await;
    let first = within(group(&one).join("a", "1")).await.unwrap();
    let taken = Error::NodeTaken { path: format!("{PATH}/a"), session: Some(session_id(&one).await) };
    assert_eq!(within(group(&two).join("a", "2")).await.unwrap_err(), taken);
    let brief = ms(300);
    let refused = answered(async || match group(&two).join_within("a", "2", brief).await {
        Err(error @ Error::NodeTaken { .. }) => Ok(error),
        other => other.map(|_| panic!("it joins")),
    });
    assert_eq!(refused.await, taken);
    let again = within(group(&one).join("a", "2")).await.unwrap_err();
    assert!(matches!(again, Error::InvalidArgument { .. }), "{again}");
    for id in ["", "a/b"] {
        let error = within(group(&one).join(id, "")).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { argument: "id", .. }), "{error}");
    }
    assert!(matches!(within(group(&one).join("..", "")).await, Err(Error::InvalidPath { .. })));
    assert_eq!(text(&within(group(&two).members()).await.unwrap()), "a=1", "it was left alone");

    // It waits for the end of the other session.
    let waiting = group(&two);
    let waiting = tokio::spawn(async move { waiting.join_within("a", "2", BOUND).await });
    let path = format!("{PATH}/a");
    watches_with_holders_on(&server, &path).await;
    drop(first);
    let second = within(waiting).await.unwrap().unwrap();
    assert_eq!(text(&within(group(&two).members()).await.unwrap()), "a=2");
    drop(second);
    // Who gives up joining is no member.
    let group = group(&two);
    poll_times(Box::pin(group.join("b", "2")), 1).await;
    queue_of(&bystander(&server).await, PATH, 0).await;
}

/// Waits until someone besides its owner watches the node.
async fn watches_with_holders_on(server: &Server, path: &str) {
    eventually("both watch the node", async || {
        let watches = server.four_letter_word("wchp").await.unwrap();
        let watchers = watches.split(path).nth(1)?.lines().skip(1);
        let watchers = watchers.take_while(|line| line.trim_start().starts_with("0x")).count();
        (watchers >= 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn members_that_may_not_be_read_are_members() {
    let (server, client) = server_and_client().await;
    let own = vec![Acl::new(Permission::ALL, AuthId::new("auth", ""))];
    let secretive = builder().auth("digest", "secretive:secret");
    let secretive = secretive.acl_for_path(move |path| path.ends_with("/s").then(|| own.clone()));
    let secretive = secretive.connect(&server.connect_string()).await.unwrap();
    let member = within(group(&secretive).join("s", "secret")).await.unwrap();
    let mut seen = group(&client).watch_members();
    let members = shows(&mut seen, "s=?").await;
    // Newer servers do not tell whose it is.
    let is_told = bystander(&server).await.check_stat(&format!("{PATH}/s")).await.is_ok();
    let session = if is_told { session_id(&secretive).await } else { 0 };
    assert_eq!(members.get("s").unwrap().session_id(), session);
    assert_eq!(text(&within(group(&client).members()).await.unwrap()), "s=?");
    drop(member);
    shows(&mut seen, "").await;
}

#[tokio::test]
async fn it_takes_few_requests() {
    let (_server, proxy, watcher, client) = server_proxy_and_clients().await;
    let members = futures_util::future::join_all((0..20).map(|i| {
        let group = group(&client);
        async move { within(group.join(&i.to_string(), "x")).await.unwrap() }
    }));
    let members = members.await;
    proxy.take_requests();
    let mut seen = group(&watcher).watch_members();
    within(seen.wait_for(|members| members.len() == 20)).await.unwrap();
    let requests = proxy.take_requests();
    assert_eq!(requests.len(), 21, "{requests:?}");
    let another = within(group(&client).join("another", "x")).await.unwrap();
    within(seen.wait_for(|members| members.len() == 21)).await.unwrap();
    assert_eq!(proxy.take_requests(), [Request::GetChildren, Request::GetData]);
    within(members[7].set_payload("y")).await.unwrap();
    within(seen.wait_for(|members| members.get("7").unwrap().payload() == Some(b"y"))).await.unwrap();
    assert_eq!(proxy.take_requests(), [Request::GetData]);
    within(another.leave()).await.unwrap();
    within(seen.wait_for(|members| members.len() == 20)).await.unwrap();
    let requests = proxy.take_requests();
    assert!(requests.iter().all(|request| *request == Request::GetChildren), "{requests:?}");
}

#[tokio::test]
async fn a_group_that_may_not_be_listed_is_tried_again() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let acl = [Acl::new(Permission::CREATE | Permission::ADMIN, AuthId::anyone())];
    let container = CreateMode::Container;
    zookeeper.create("/groups", b"", &container.with_acls(zk::Acls::anyone_all())).await.unwrap();
    zookeeper.create(PATH, b"", &container.with_acls(zk::Acls::new(&acl))).await.unwrap();
    let member = within(group(&client).join("a", "1")).await.unwrap();
    let mut seen = group(&client).watch_members();
    let error = within(group(&client).members()).await.unwrap_err();
    assert!(matches!(error, Error::ZooKeeper { source: zk::Error::NoAuth, .. }), "{error}");
    assert!(!seen.get().is_current());
    zookeeper.set_acl(PATH, &[Acl::new(Permission::ALL, AuthId::anyone())], None).await.unwrap();
    shows(&mut seen, "a=1").await;
    within(client.close()).await;
    within(seen.wait_for(|members| !members.is_current())).await.unwrap();
    assert!(within(seen.changed()).await.is_none(), "it ends with the client");
    // It depends on what its keeper sees first: that the client is closed, or that its session is over.
    let left = within(member.leave()).await;
    assert!(matches!(left, Ok(()) | Err(Error::Closed)), "{left:?}");
}
