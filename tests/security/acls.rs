//! Who may do what with the nodes of an authenticated client.

use zk_recipes::testing::{FaultProxy, TestingServer};
use zk_recipes::{Error, InterProcessMutex, MultiLock};
use zookeeper_client as zk;

use crate::capture;
use crate::installed::Generation;
use crate::stage::{builder, server};
use crate::support::within;

async fn started(generation: Generation) -> TestingServer {
    server(generation).start().await.unwrap()
}

pub(crate) async fn creator_only_keeps_other_users_out(generation: Generation) {
    let server = started(generation).await;
    let hosts = server.connect_string();
    let user = async |name: &str| {
        let client = builder().auth("digest", format!("{name}:secret")).creator_only();
        within(client.connect(&hosts)).await.unwrap()
    };
    let (alice, alice_again, bob) = (user("alice").await, user("alice").await, user("bob").await);

    let mutex = InterProcessMutex::new(&alice, "/alice/locks/a").unwrap();
    let guard = within(mutex.acquire()).await.unwrap();
    let zookeeper = alice.zookeeper().await.unwrap();
    for path in ["/alice", "/alice/locks", "/alice/locks/a", guard.node_path()] {
        let (acl, _) = zookeeper.get_acl(path).await.unwrap();
        let [only] = &acl[..] else { panic!("{path}: {acl:?}") };
        assert_eq!((only.scheme(), only.permission()), ("digest", zk::Permission::ALL), "{path}");
        assert!(only.id().starts_with("alice:"), "{path}");
    }

    // Bob can neither enter, nor look, nor take anything away.
    let bobs = InterProcessMutex::new(&bob, "/alice/locks/a").unwrap();
    for error in [within(bobs.acquire()).await.unwrap_err(), within(bobs.participants()).await.unwrap_err()] {
        assert!(error.to_string().contains("lack a permission"), "{error}");
    }
    let multi = MultiLock::new(&bob, ["/bob/a", "/alice/locks/a"]).unwrap();
    within(multi.acquire()).await.unwrap_err();
    let bobs_session = bob.zookeeper().await.unwrap();
    assert_eq!(bobs_session.delete(guard.node_path(), None).await, Err(zk::Error::NoAuth));
    assert!(guard.is_valid());

    // Whoever is authenticated as the same user takes part.
    let again = InterProcessMutex::new(&alice_again, "/alice/locks/a").unwrap();
    let waiting = tokio::spawn(async move { again.acquire().await });
    let queued = async || (within(mutex.participants()).await.unwrap().len() == 2).then_some(());
    crate::support::eventually("the other client waits", queued).await;
    within(guard.release()).await.unwrap();
    drop(within(waiting).await.unwrap().unwrap());

    let nobody = builder().creator_only().connect(&hosts).await.unwrap_err();
    assert!(matches!(&nobody, Error::InvalidArgument { argument: "ACL", .. }), "{nobody}");
    assert!(nobody.to_string().contains("call `auth`"), "{nobody}");
}

pub(crate) async fn open_nodes_of_an_authenticated_client_are_warned_about_once(generation: Generation) {
    capture::start();
    let server = started(generation).await;
    let warnings = |proxy: &FaultProxy| {
        let here = proxy.connect_string();
        capture::lines()
            .iter()
            .filter(|line| line.contains("open to everyone") && line.contains(&here))
            .count()
    };
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let authenticated = || builder().auth("digest", "alice:secret");
    let client = within(authenticated().connect(&proxy.connect_string())).await.unwrap();
    let mut state = client.watch_connection();
    proxy.cut();
    within(state.wait_for(|state| !state.is_connected())).await.unwrap();
    within(state.wait_for(|state| state.is_connected())).await.unwrap();
    assert_eq!(warnings(&proxy), 1);

    // Whoever has decided knows.
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let hosts = proxy.connect_string();
    drop(within(authenticated().creator_only().connect(&hosts)).await.unwrap());
    drop(within(authenticated().acl(zk::Acls::anyone_all().to_vec()).connect(&hosts)).await.unwrap());
    drop(within(authenticated().acl_for_path(|_| None).connect(&hosts)).await.unwrap());
    drop(within(builder().connect(&hosts)).await.unwrap());
    assert_eq!(warnings(&proxy), 0);
}
