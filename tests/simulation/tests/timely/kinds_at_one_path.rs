//! Locks of two kinds at one path, and locks beside other recipes: whoever comes second is refused, and does no harm.

use super::prelude::*;

type Make = fn(&Client, &str) -> Lock;

/// What a kind of lock is called in errors, and how it is made.
const MAKES: [(&str, Make); 4] = [
    ("mutex", |client, path| lock_at(client, path)),
    ("read/write lock", |client, path| Arc::new(ReadWriteLock::new(client, path).unwrap().write().clone())),
    ("read/write lock", |client, path| Arc::new(ReadWriteLock::new(client, path).unwrap().read().clone())),
    ("semaphore", |client, path| Arc::new(Semaphore::new(client, path, 2).unwrap())),
];

/// The second is of the same client or of another one, and the path is new or not.
#[history((false, false), (false, true), (true, false), (true, true))]
async fn the_second_of_two_kinds_of_lock_is_refused(stage: Stage, is_own: bool, is_used: bool) {
    let [one, two] = stage.clients().await;
    for ((first, (found, make_first)), (second, (expected, make_second))) in
        MAKES.iter().enumerate().flat_map(|first| MAKES.iter().enumerate().map(move |second| (first, second)))
    {
        if found == expected {
            continue;
        }
        let path = format!("/mixed/{first}-{second}");
        let first = make_first(&one, &path);
        let second = make_second(if is_own { &one } else { &two }, &path).owned_by(&Owner::new());
        if is_used {
            once(&*first).await;
        }
        let held = within(first.acquire()).await.unwrap();
        let before = stage.servers().packets();
        let error = within(second.acquire()).await.unwrap_err();
        // What is known of the own client is refused before anything is sent.
        let node = (!is_own).then(|| held.node_path().to_owned());
        assert_eq!(error, Error::KindConflict { path: path.clone(), node, expected, found });
        let is_refused = async || matches!(second.try_acquire().await, Err(Error::KindConflict { .. }));
        assert!(is_refused().await, "{path}");
        assert!(!is_own || stage.servers().packets() == before, "{path}");
        assert!(held.is_valid(), "{path}");
        held.release().await.unwrap();
        // Nothing of it is in the way.
        once(&*first).await;
        if is_own {
            // To have the first is enough: whether the two hold at the same time is a matter of luck.
            assert!(is_refused().await, "{path}");
            drop(first);
            once(&*second).await;
        }
    }
}

/// Makes a node as another library does, or another kind of recipe.
async fn place(client: &Client, name: &str) -> String {
    let mode = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
    let prefix = format!("{PATH}/{name}");
    let (_, sequence) = client.zookeeper().await.unwrap().create(&prefix, b"", &mode).await.unwrap();
    format!("{prefix}{sequence}")
}

const WRITER: &str = "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-__WRIT__";

/// What was found on the path, by which node.
fn found(error: &Error) -> (&'static str, Option<&str>) {
    match error {
        Error::KindConflict { path, node, expected: "mutex", found } if path == PATH => {
            (found, node.as_deref())
        }
        other => panic!("{other}"),
    }
}

// Curator, which takes every child for a contender, waits there; who goes by the names of its own recipe only would
// hold beside the other one.
#[history]
async fn behind_the_node_of_another_kind_of_recipe_it_fails_and_leaves_nothing(stage: Stage) {
    let [client, other] = stage.clients().await;
    let servers = stage.servers();
    let mutex = mutex(&client);
    once(&mutex).await;
    for (end, kind) in [
        ("__WRIT__", "read/write lock"),
        ("__READ__", "read/write lock"),
        ("latch-", "leader latch"),
        ("lease-", "semaphore"),
    ] {
        let node = place(&other, &format!("_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-{end}")).await;
        let error = within(mutex.acquire()).await.unwrap_err();
        assert_eq!(found(&error), (kind, Some(&*node)));
        assert!(error.to_string().contains(kind) && error.to_string().contains("as a mutex"), "{error}");
        assert_eq!(found(&within(mutex.try_acquire()).await.unwrap_err()).0, kind);
        let both = MultiLock::new(&client, [PATH, "/locks/b"]).unwrap();
        assert_eq!(found(&within(both.acquire()).await.unwrap_err()).0, kind);
        sleep(A_MOMENT).await;
        assert_eq!(nodes(servers, PATH), [&*node]);
        servers.delete(&node);
        once(&mutex).await;
    }
    // What kazoo writes is a mutex.
    let kazoo = place(&other, "3f1e2c4a0b5d4a6e9c7f1a2b3c4d5e6f__lock__").await;
    assert!(within(mutex.try_acquire()).await.unwrap().is_none());
    servers.delete(&kazoo);
    once(&mutex).await;
}

#[history]
async fn who_comes_to_the_path_of_another_kind_of_recipe_does_no_harm_there(stage: Stage) {
    let [one, two, late] = connect_all(&stage).await;
    let held = mutex(&one).acquire().await.unwrap();
    let second = waiter(&mutex(&two)).await;
    let latecomer = place(&late, WRITER).await;
    let third = mutex(&late).enqueue().await.unwrap();
    assert_eq!(third.position().await, Ok(2));
    held.release().await.unwrap();
    let second = granted(second).await;
    // It was told by no list that the latecomer has left.
    let third = spawn_local(third.acquired());
    sleep(A_MOMENT).await;
    stage.servers().delete(&latecomer);
    second.release().await.unwrap();
    let third = granted(third).await;
    // One that stays until it is the first of all keeps those out that are behind it, as long as it is there.
    let latecomer = place(&late, WRITER).await;
    let behind = waiter(&mutex(&one)).await;
    third.release().await.unwrap();
    let error = within(behind).await.unwrap().unwrap_err();
    assert_eq!(found(&error), ("read/write lock", Some(&*latecomer)));
    stage.servers().delete(&latecomer);
    once(&mutex(&one)).await;
}

#[history]
async fn a_waiter_that_finds_another_kind_of_recipe_after_a_reconnect_fails(stage: Stage) {
    let (proxy, client, holder) = stage.far_and_near(session).await;
    let held = mutex(&holder).acquire().await.unwrap();
    let other = place(&holder, "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-latch-").await;
    let waiting = waiter(&mutex(&client)).await;
    proxy.cut_off();
    held.release().await.unwrap();
    sleep(A_MOMENT).await;
    assert!(!waiting.is_finished());
    proxy.refuse_connections(false);
    let error = within(waiting).await.unwrap().unwrap_err();
    assert_eq!(found(&error), ("leader latch", Some(&*other)));
    sleep(A_MOMENT).await;
    assert_eq!(nodes(stage.servers(), PATH), [&*other]);
    stage.servers().delete(&other);
}

#[history]
async fn behind_a_mutex_a_reader_is_not_granted_beside_another_one(stage: Stage) {
    let [two, three] = stage.clients().await;
    let lock = ReadWriteLock::new(&two, PATH).unwrap();
    let reading = within(lock.read().owned_by(&Owner::new()).acquire()).await.unwrap();
    assert!(matches!(within(mutex(&three).acquire()).await, Err(Error::KindConflict { .. })));
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), 1);
    let other = place(&three, "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-lock-").await;
    let beside = within(lock.read().owned_by(&Owner::new()).acquire()).await;
    assert!(matches!(beside, Err(Error::KindConflict { .. })), "{beside:?}");
    assert!(reading.is_valid());
    stage.servers().delete(&other);
}

#[history]
async fn a_mutex_among_the_leases_is_an_error(stage: Stage) {
    let [one, two] = stage.clients().await;
    let mutex = mutex_at(&one, "/locks/a/leases");
    let held = mutex.acquire().await.unwrap();
    let semaphore = Semaphore::new(&two, PATH, 2).unwrap();
    let error = within(semaphore.acquire()).await.unwrap_err();
    let Error::KindConflict { node, expected, found, .. } = &error else { panic!("{error}") };
    assert_eq!((node.as_deref(), *expected, *found), (Some(held.node_path()), "semaphore", "mutex"));
    held.release().await.unwrap();
    // One that comes to a semaphore at work is refused, and does no harm there. But the gate is one.
    let permit = within(semaphore.acquire()).await.unwrap();
    for refused in [&mutex, &mutex_at(&two, PATH)] {
        let error = within(refused.acquire()).await.unwrap_err();
        assert!(matches!(error, Error::KindConflict { found: "semaphore", .. }), "{error}");
    }
    once(&mutex_at(&one, "/locks/a/locks")).await;
    once(&semaphore).await;
    permit.release().await.unwrap();
}

#[history]
async fn a_mutex_below_another_may_be_called_leases(stage: Stage) {
    for client in connect_all(&stage).await {
        let below = within(mutex_at(&client, "/app/leases").acquire()).await.unwrap();
        once(&mutex_at(&client, "/app")).await;
        below.release().await.unwrap();
    }
}
