//! Locks at paths that do not exist: a lock for each order or user.

use crate::prelude::*;

const PARENT: &str = "/orders";

/// A server, a client whose requests go through a proxy, and somebody who looks.
struct Scene {
    server: PooledServer,
    proxy: FaultProxy,
    client: Client,
    zookeeper: zk::Client,
    /// Whether the servers tell along with a transaction when its nodes were created.
    tells_dates: bool,
}

impl Scene {
    async fn new() -> Self {
        let (server, proxy, zookeeper, client) = server_behind_proxy().await;
        let tells_dates = dates_transactions(&zookeeper).await;
        Self { server, proxy, client, zookeeper, tells_dates }
    }

    /// One in which the client knows that the paths below [`PARENT`] are new.
    async fn taught() -> Self {
        let scene = Self::new().await;
        for number in 0..3 {
            scene.lock(&format!("lesson-{number}")).acquire().await.unwrap().release().await.unwrap();
        }
        scene.proxy.take_requests();
        scene
    }

    fn lock(&self, name: &str) -> InterProcessMutex {
        InterProcessMutex::new(&self.client, &format!("{PARENT}/{name}")).unwrap()
    }

    /// The requests of an acquire, without those for dates that old servers need.
    async fn acquire(&self, lock: &InterProcessMutex) -> (LockGuard, Vec<Request>) {
        self.proxy.take_requests();
        let guard = within(lock.acquire()).await.unwrap();
        let mut requests = self.proxy.take_requests();
        requests.retain(|request| *request != Request::Confirm);
        if !self.tells_dates
            && let Some(transaction) = requests.iter().position(|request| *request == Request::Multi)
        {
            let behind = requests.split_off(transaction);
            requests.extend(behind.into_iter().filter(|request| *request != Request::Exists));
        }
        self.assert_holds(&guard).await;
        (guard, requests)
    }

    async fn assert_holds(&self, guard: &LockGuard) {
        let stat = self.zookeeper.check_stat(guard.node_path()).await.unwrap().unwrap();
        assert_eq!(
            (stat.czxid, stat.ephemeral_owner),
            (guard.fencing_token(), session_id(&self.client).await)
        );
    }
}

#[tokio::test]
async fn a_new_path_takes_one_more_round_trip_until_that_is_expected() {
    let scene = Scene::new().await;
    let (guard, requests) = scene.acquire(&scene.lock("a")).await;
    assert_eq!(requests, [Request::Create, Request::GetChildren, Request::Create, Request::Multi]);
    assert_eq!(sequence(guard.node_path()), 0);
    guard.release().await.unwrap();
    let (guard, requests) = scene.acquire(&scene.lock("b")).await;
    assert_eq!(requests, [Request::Create, Request::GetChildren, Request::Create, Request::Multi]);
    guard.release().await.unwrap();
    for name in ["c", "d", "e"] {
        let (guard, requests) = scene.acquire(&scene.lock(name)).await;
        assert_eq!(requests, [Request::Multi], "the path and the node");
        assert_eq!(sequence(guard.node_path()), 0);
        guard.release().await.unwrap();
    }
    // A path that was used lately exists.
    let (guard, requests) = scene.acquire(&scene.lock("d")).await;
    assert_eq!(requests, [Request::Create, Request::GetChildren]);
    guard.release().await.unwrap();
    // Another parent is another matter.
    let lock = InterProcessMutex::new(&scene.client, "/users/a").unwrap();
    let (guard, requests) = scene.acquire(&lock).await;
    assert_eq!(requests, [Request::Create, Request::GetChildren, Request::Create, Request::Multi]);
    guard.release().await.unwrap();
}

/// Whoever may not create the path can use it nevertheless.
#[tokio::test]
async fn a_path_that_exists_needs_no_right_to_create_it() {
    let scene = Scene::taught().await;
    let other = InterProcessMutex::new(&connect(&scene.server).await, &format!("{PARENT}/there")).unwrap();
    other.acquire().await.unwrap().release().await.unwrap();
    let read_only = [Acl::new(Permission::READ, AuthId::anyone())];
    scene.zookeeper.set_acl(PARENT, &read_only, None).await.unwrap();
    let (guard, requests) = scene.acquire(&scene.lock("there")).await;
    assert_eq!(requests, [Request::Multi, Request::Create, Request::GetChildren]);
    guard.release().await.unwrap();
    let missing = scene.lock("missing");
    let denied =
        Error::ZooKeeper { operation: "create", path: missing.path().into(), source: zk::Error::NoAuth };
    assert_eq!(within(missing.acquire()).await.unwrap_err(), denied);
}

#[tokio::test]
async fn a_new_path_has_its_own_acl() {
    let scene = Scene::taught().await;
    let of_queues = vec![Acl::new(Permission::ALL, AuthId::new("auth", ""))];
    let builder = Client::builder().auth("digest", "orders:secret");
    let builder = builder.acl_for_path(move |path| path.starts_with("/secret/").then(|| of_queues.clone()));
    let client = builder.connect(&scene.server.connect_string()).await.unwrap();
    for number in 0..4 {
        let lock = InterProcessMutex::new(&client, &format!("/secret/{number}")).unwrap();
        let guard = lock.acquire().await.unwrap();
        let zookeeper = client.zookeeper().await.unwrap();
        for path in [lock.path(), guard.node_path()] {
            let (acl, _) = zookeeper.get_acl(path).await.unwrap();
            assert_eq!(acl[0].scheme(), "digest", "{path}");
        }
        guard.release().await.unwrap();
    }
}
