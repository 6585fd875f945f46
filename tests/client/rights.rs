//! Rights that are missing half way: errors at once that name what could not be done, and nothing left.

use crate::prelude::*;
use crate::support::kinds::*;

fn all_but(missing: Permission) -> Permission {
    let all = [Permission::READ, Permission::WRITE, Permission::CREATE, Permission::DELETE];
    all.into_iter().filter(|right| *right != missing).fold(Permission::NONE, |rights, right| rights | right)
}

/// A server, its operator, and a client whose retries would be noticed.
struct Scene {
    server: PooledServer,
    alice: zk::Client,
    proxy: FaultProxy,
    client: Client,
}

impl Scene {
    async fn start() -> Self {
        let server = empty_server().await;
        let alice =
            zk::Client::connector().with_session_timeout(SESSION).with_auth("digest", b"alice:secret");
        let alice = alice.connect(&server.connect_string()).await.unwrap();
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let builder = Client::builder().retry_policy(RetryPolicy::forever(2 * BOUND));
        let client = builder.connect(&proxy.connect_string()).await.unwrap();
        Self { server, alice, proxy, client }
    }

    /// Makes a node of which everybody has these rights, and below which only what is made by hand.
    async fn make(&self, path: &str, rights: Permission) {
        let (parent, _) = path.rsplit_once('/').unwrap();
        let everything = anyone(CreateMode::Persistent);
        if !parent.is_empty() {
            self.alice.mkdir(parent, &everything).await.unwrap();
        }
        let acl = [Acl::new(rights, AuthId::anyone()), only_alice(Permission::ALL)];
        let options = zk::CreateMode::Persistent.with_acls(zk::Acls::new(&acl));
        self.alice.create(path, b"", &options).await.unwrap();
    }

    /// The operation fails at once for want of a right, and leaves nothing.
    async fn refused<T: std::fmt::Debug>(
        &self,
        what: &str,
        operation: &str,
        path: &str,
        outcome: impl Future<Output = Result<T>>,
    ) {
        self.proxy.take_requests();
        let error = within(outcome).await.unwrap_err();
        match &error {
            Error::ZooKeeper { operation: named, path: place, source: zk::Error::NoAuth } => {
                assert_eq!((*named, place.as_str()), (operation, path), "{what}");
            }
            other => panic!("{what}: {other}"),
        }
        assert!(!error.is_retryable() && error.to_string().contains("lack a permission"), "{error}");
        let requests = self.proxy.take_requests();
        assert!(requests.len() < 20, "{what}: {requests:?}");
        no_ephemerals_below(&self.alice, "/locks").await;
        watches_of(&self.server, 0).await;
    }
}

#[tokio::test]
async fn whoever_may_not_enter_or_look_around_is_told_at_once() {
    let scene = Scene::start().await;
    let Scene { client, .. } = &scene;
    for (missing, operation) in
        [(Permission::CREATE, "create a node in"), (Permission::READ, "list the children of")]
    {
        let path = format!("/locks/queue-{}", operation.len());
        scene.make(&path, all_but(missing)).await;
        let lock = ReadWriteLock::new(client, &path).unwrap();
        let sides: [Arc<dyn InterProcessLock>; 3] = [
            Arc::new(InterProcessMutex::new(client, &path).unwrap()),
            Arc::new(lock.read().clone()),
            Arc::new(lock.write().clone()),
        ];
        for lock in sides {
            scene.refused(&format!("{lock:?}"), operation, &path, lock.acquire()).await;
            scene.refused(&format!("{lock:?}"), operation, &path, lock.try_acquire()).await;
            scene.refused(&format!("{lock:?}"), operation, &path, lock.try_acquire_for(BOUND)).await;
        }
        let lock = InterProcessMutex::new(client, &path).unwrap();
        scene.refused("ticket", operation, &path, lock.enqueue()).await;
        // Who has the rights gets on.
        let alice = Client::builder().auth("digest", "alice:secret");
        let alice = alice.connect(&scene.server.connect_string()).await.unwrap();
        let lock = InterProcessMutex::new(&alice, &path).unwrap();
        within(lock.acquire()).await.unwrap().release().await.unwrap();
    }
    // A parent that may not be made.
    scene.make("/locks/closed", Permission::NONE).await;
    let lock = InterProcessMutex::new(client, "/locks/closed/deep/down").unwrap();
    scene.refused("a parent", "create", "/locks/closed/deep", lock.acquire()).await;

    // Of a multi-lock, all members are left.
    scene.make("/locks/shut", all_but(Permission::CREATE)).await;
    scene.make("/locks/dark", all_but(Permission::READ)).await;
    let lock = |paths: [&str; 2]| MultiLock::new(client, paths).unwrap();
    let both = lock(["/locks/a", "/locks/shut"]);
    scene.refused("shut", "create nodes in", "/locks/a, /locks/shut", both.acquire()).await;
    let both = lock(["/locks/a", "/locks/dark"]);
    scene.refused("dark", "list the children of", "/locks/dark", both.acquire()).await;
    let member = |path: &str| -> Lock { Arc::new(InterProcessMutex::new(client, path).unwrap()) };
    let mixed = MultiLock::of([member("/locks/a"), member("/locks/shut")]).unwrap();
    scene.refused("mixed", "create a node in", "/locks/shut", mixed.acquire()).await;

    // Of a semaphore, the gate is left when the leases are closed.
    for (missing, operation) in
        [(Permission::CREATE, "create leases in"), (Permission::READ, "count the leases of")]
    {
        let path = if missing == Permission::CREATE { "/locks/no-create" } else { "/locks/no-read" };
        let leases = format!("{path}/leases");
        scene.make(&leases, all_but(missing)).await;
        let semaphore = Semaphore::new(client, path, 3).unwrap();
        scene.refused("one", operation, &leases, semaphore.acquire()).await;
        scene.refused("all", operation, &leases, semaphore.many(3).unwrap().acquire()).await;
        scene.refused("a try", operation, &leases, semaphore.try_acquire()).await;
        // With another number of permits, it may not be there beside the first one.
        drop(semaphore);
        let one = SemaphoreMutex::new(client, path).unwrap();
        scene.refused("a semaphore mutex", operation, &leases, one.acquire()).await;
    }
    // The gate itself.
    scene.make("/locks/gate/locks", all_but(Permission::CREATE)).await;
    let semaphore = Semaphore::new(client, "/locks/gate", 3).unwrap();
    scene.refused("gate", "create a node in", "/locks/gate/locks", semaphore.acquire()).await;
}

#[tokio::test]
async fn an_unreadable_lease_is_a_lease_all_the_same() {
    let sandbox = Sandbox::new();
    let [alice, bob] = [sandbox.private_client("alice").await, sandbox.private_client("bob").await];
    let [hers, his] = [&alice, &bob].map(|client| Semaphore::new(client, Kind::Permit.path(), 2).unwrap());
    let permits = within(hers.many(2).unwrap().acquire()).await.unwrap().into_permits();
    assert!(his.try_acquire().await.unwrap().is_none());
    assert_eq!(his.available_permits().await, Ok(0));
    let waiter = tokio::spawn(async move { his.acquire().await });
    let zookeeper = bystander_of(&servers()).await;
    let gate = format!("/{}{}", sandbox.root, Kind::Permit.queue());
    queue_of(&zookeeper, &gate, 1).await;
    assert!(!waiter.is_finished());
    for permit in permits {
        permit.release().await.unwrap();
    }
    within(waiter).await.unwrap().unwrap().release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

/// For a client that may not read those of its own nodes.
fn unable_to_read(is_hidden: fn(&str) -> bool) -> ClientBuilder {
    Client::builder().acl_for_path(move |path| {
        let rights = Permission::WRITE | Permission::DELETE;
        is_hidden(path).then(|| vec![Acl::new(rights, AuthId::anyone())])
    })
}

/// Who may not read its own node cannot hear of requests, nor by its watch of the end of the node. The lock is held.
#[tokio::test]
async fn a_holder_that_may_not_read_its_node_holds_and_does_not_ask_again() {
    let (server, proxy, zookeeper) = server_with_proxy().await;
    // Of a semaphore, the node at the gate must be readable: the leases are only made if it exists.
    let is_hidden = |path: &str| path.contains("/_c_") && !path.starts_with(&Kind::Permit.queue());
    let client = unable_to_read(is_hidden).connect(&proxy.connect_string()).await.unwrap();
    for kind in KINDS {
        let guard = kind.unlimited(&client).acquire().await.unwrap();
        let state = guard.watch_state();
        let reads = async || {
            let reads = proxy.take_requests().into_iter().filter(|request| *request == Request::GetData);
            reads.count()
        };
        reads().await;
        // It listens: there is one attempt for each node, and no more.
        for _ in 0..3 {
            match within(guard.revoke_requested()).await.unwrap_err() {
                Error::ZooKeeper { operation: "watch", path, source: zk::Error::NoAuth } => {
                    let members = guard.members().iter().map(|member| member.node_path());
                    assert!(members.chain([guard.node_path()]).any(|node| node == path), "{path}");
                }
                other => panic!("{kind:?}: {other}"),
            }
        }
        assert!(reads().await <= kind.nodes(), "{kind:?}");
        assert_eq!((guard.loss(), state.get()), (None, zk_recipes::LockState::Held), "{kind:?}");
        // A loss that shows in another way is heard of.
        let lock = kind.limited(&client, BOUND);
        guard.release().await.unwrap();
        let guard = lock.acquire().await.unwrap();
        let ending = async { guard.extend(ms(1)) };
        let (lost, _) = within(join(guard.lost(), ending)).await;
        assert_eq!(lost, LossReason::Deadline, "{kind:?}");
        drop(guard);
        // Somebody deletes the node: that shows when the holder asks.
        let guard = kind.unlimited(&client).acquire().await.unwrap();
        zookeeper.delete(kind.node(&guard), None).await.unwrap();
        assert_lost(&guard.release().await.unwrap_err(), LossReason::Deleted);
    }
    watches_of(&server, 0).await;
}

#[tokio::test]
async fn whoever_may_not_leave_is_told_and_others_know_it_as_the_holder() {
    let scene = Scene::start().await;
    let Scene { client, server, alice, .. } = &scene;
    scene.make("/locks/trap", all_but(Permission::DELETE)).await;
    let lock = InterProcessMutex::new(client, "/locks/trap").unwrap();
    let owner = Owner::new();
    let guard = lock.owned_by(&owner).acquire().await.unwrap();
    let node = guard.node_path().to_owned();
    match within(guard.release()).await.unwrap_err() {
        Error::ZooKeeper { operation: "delete", path, source: zk::Error::NoAuth } => assert_eq!(path, node),
        other => panic!("{other}"),
    }
    // It is not held by its owner any more, but stands in the way of all until an operator removes it.
    assert!(!lock.is_owned_by(&owner));
    let waiting = InterProcessMutex::new(&connect(server).await, "/locks/trap").unwrap();
    assert_eq!(waiting.holder().await.unwrap().unwrap().node_path(), node);
    let waiter = acquire_in_task(&waiting);
    queue_of(alice, "/locks/trap", 2).await;
    alice.delete(&node, None).await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap();
    let node = guard.node_path().to_owned();
    drop(guard);
    alice.delete(&node, None).await.unwrap();
}
