//! What is refused, and with which error.

use super::*;

#[tokio::test]
async fn bad_settings_are_refused_before_anything_is_sent() {
    let builder = Client::builder;
    let refused: [(&str, ClientBuilder, &str); 9] = [
        ("connect string", builder(), ""),
        ("connect string", builder(), "zk1:0"),
        ("session timeout", builder().session_timeout(Duration::ZERO), NOBODY),
        ("session timeout", builder().session_timeout(Duration::MAX), NOBODY),
        ("connection timeout", builder().connection_timeout(Duration::ZERO), NOBODY),
        ("validity margin", builder().session_timeout(BOUND).validity_margin(BOUND.mul_f64(0.67)), NOBODY),
        ("ACL", builder().acl([]), NOBODY),
        ("retry policy", builder().retry_policy(RetryPolicy::forever(Duration::ZERO)), NOBODY),
        ("retry policy", builder().retry_policy(RetryPolicy::until_elapsed(BOUND, Duration::ZERO)), NOBODY),
    ];
    for (wanted, builder, hosts) in refused {
        match builder.connect_lazily(hosts) {
            Err(Error::InvalidArgument { argument, .. }) => assert_eq!(argument, wanted),
            other => panic!("{wanted}: {other:?}"),
        }
    }
    for namespace in ["/a", "a/", "a//b", "a/..", "a\0"] {
        let error = builder().namespace(namespace).connect_lazily(NOBODY).unwrap_err();
        assert!(matches!(error, Error::InvalidPath { .. }), "{namespace}: {error}");
    }
    assert!(matches!(Client::connect("zk1/a/").await, Err(Error::InvalidPath { .. })));
}

#[tokio::test]
async fn refused_credentials_are_an_error() {
    let error = Client::builder().auth("nonesuch", "alice:secret").connect(&servers()).await.unwrap_err();
    assert_eq!(error, Error::AuthFailed { hosts: servers() });
}

/// What an error of a refused argument says.
fn refusal<T: std::fmt::Debug>(outcome: zk_recipes::Result<T>) -> (&'static str, String) {
    match outcome {
        Err(Error::InvalidArgument { argument, reason }) => (argument, reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_servers_do_not_take_is_refused_before_it_is_sent() {
    const MIB: usize = 1 << 20;
    let (_server, proxy, _) = server_with_proxy().await;
    // So much is done here that a session of the usual length may expire on a busy machine.
    let session = secs(60);
    let client = Client::builder().session_timeout(session).connect(&proxy.connect_string()).await.unwrap();
    let innocent = mutex(&client).acquire().await.unwrap();
    let session = session_id(&client).await;
    let many = Semaphore::new(&client, "/semaphore", 20_000).unwrap();
    let count = SharedCount::new(&client, "/count", 5).unwrap();
    let shared = Semaphore::with_shared_count(&client, "/shared", &count).unwrap();
    let paths = (0..10_000).map(|path| format!("/members/{path}"));
    let members = MultiLock::new(&client, paths).unwrap();
    let large = LockOptions::new().node_data(vec![0; MIB / 2]);
    let large_members = MultiLock::new(&client, ["/large/a", "/large/b", "/large/c"]).unwrap();
    let large_members = large_members.with_options(large.clone()).unwrap();
    proxy.take_requests();

    assert_eq!(refusal(many.many(20_000)).0, "permits");
    assert_eq!(refusal(shared.many(u32::MAX)).0, "permits");
    assert_eq!(refusal(many.with_options(large.clone()).unwrap().many(2)).0, "permits");
    let two_large = many.many(2).unwrap().with_options(large.clone()).unwrap();
    assert_eq!(refusal(two_large.acquire().await).0, "permits");
    // Of a path of its own: a second number for the same one is refused in any case.
    assert_eq!(refusal(Semaphore::new(&client, "/too-many", u32::MAX)).0, "permits");
    assert_eq!(refusal(members.acquire().await).0, "members of a multi-lock");
    assert_eq!(refusal(large_members.acquire().await).0, "members of a multi-lock");
    let too_large = LockOptions::new().node_data(vec![0; MIB / 2 + 1]);
    assert_eq!(refusal(mutex(&client).with_options(too_large)).0, "node data");
    let (argument, reason) =
        refusal(innocent.transaction().create("/a", vec![0; MIB], CreateMode::Persistent).commit().await);
    assert_eq!(argument, "transaction");
    assert!(reason.contains("1048575"), "{reason}");
    let builder = Client::builder().identity(vec![0; MIB / 2 + 1]);
    assert_eq!(refusal(builder.connect_lazily(NOBODY)).0, "identity");
    let mut requests = proxy.take_requests();
    // Those that keep the innocent one valid.
    requests.retain(|request| matches!(request, Request::Create | Request::Delete | Request::GetChildren));
    assert_eq!(requests, []);

    // What is just below goes through, with data of a length that leaves some room for the names.
    let data = vec![0; MIB - 512];
    innocent.transaction().create("/a", data, CreateMode::Persistent).commit().await.unwrap();
    let data = mutex(&client).with_options(large).unwrap().owned_by(&Owner::new()).try_acquire().await;
    assert!(data.unwrap().is_none(), "it is held");
    let permits = many.many(5_000).unwrap().acquire().await.unwrap();
    assert_eq!(permits.members().len(), 5_000);
    assert_eq!(session_id(&client).await, session);
    assert!(innocent.is_valid());
}

#[tokio::test]
async fn data_that_asks_for_the_lock_is_refused() {
    let client = Client::connect_lazily(NOBODY).unwrap();
    let request = "__REVOKE__";
    assert_eq!(refusal(Client::builder().identity(request).connect_lazily(NOBODY)).0, "identity");
    assert_eq!(refusal(Client::builder().identity(gzip(request)).connect_lazily(NOBODY)).0, "identity");
    let options = LockOptions::new().node_data(request);
    assert_eq!(refusal(mutex(&client).with_options(options)).0, "node data");
    let options = || LeaderOptions::new().id(request);
    assert_eq!(refusal(LeaderLatch::start(&client, "/leader", options())).0, "id");
    let work = |_| async { Ok::<(), std::io::Error>(()) };
    assert_eq!(refusal(LeaderSelector::start(&client, "/leader", options(), work)).0, "id");
}

#[tokio::test]
async fn a_connect_string_that_nobody_can_connect_to_is_refused_at_once() {
    for (hosts, instead) in [
        ("ftp://127.0.0.1:2181", "tcp://127.0.0.1:2181"),
        ("tcp+tls://127.0.0.1:2181", "TLS options"),
        ("zk1:2181/a,zk2:2181/a", "behind the last host"),
        ("::1", "[::1]:2181"),
        ("zk1:2181;zk2:2181", "commas"),
    ] {
        let (argument, reason) = refusal(Client::connect_lazily(hosts));
        assert_eq!(argument, "connect string", "{hosts}");
        assert!(reason.contains(instead), "{hosts}: {reason}");
    }
}

#[tokio::test]
async fn the_error_of_a_missing_session_names_the_cause_for_each_host() {
    use tokio::io::AsyncWriteExt;

    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = |listener: &tokio::net::TcpListener| listener.local_addr().unwrap().to_string();
    let (silence, otherwise) = (address(&silent), address(&other));
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = other.accept().await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let hosts = format!("{NOBODY},nobody.invalid:2181,{silence},{otherwise}/chroot");
    let client = Client::builder().connection_timeout(secs(3)).connect(&hosts).await;
    let error = client.unwrap_err();
    let text = error.to_string();
    let Error::NotConnected { causes, .. } = error else { panic!("{text}") };
    let causes: Vec<_> = causes.into_iter().map(|failure| (failure.host, failure.cause)).collect();
    let wanted = [
        (NOBODY.into(), ConnectFailure::Refused),
        ("nobody.invalid:2181".into(), ConnectFailure::NameNotFound),
        (silence, ConnectFailure::NoAnswer),
        (otherwise, ConnectFailure::NotZooKeeper),
    ];
    assert_eq!(causes, wanted);
    assert!(
        text.contains("127.0.0.1:1 (connection refused), nobody.invalid:2181 (name not found)"),
        "{text}"
    );
    serving.abort();
}
