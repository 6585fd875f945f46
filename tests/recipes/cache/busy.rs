//! Nodes that change, come or go more than once while a request is on its way.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_recipes::cache::{Cache, CacheOptions};
use zk_recipes::testing::{FaultProxy, Traffic};
use zookeeper_client as zk;

use super::{create, server_3_9};
use crate::support::{bystander, connect_through};

/// In each direction.
const DELAY: Duration = Duration::from_millis(50);
/// Between two changes.
const PAUSE: Duration = Duration::from_millis(5);
/// Long enough for the load of a few nodes.
const LONG: Duration = Duration::from_secs(20);

/// Whether the cache becomes current while someone acts again and again.
async fn becomes_current(cache: &Cache, act: impl AsyncFn()) -> bool {
    let acting = async {
        loop {
            act().await;
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        current = timeout(LONG, cache.wait_current()) => current.is_ok(),
        () = acting => unreachable!("there is no end to it"),
    }
}

/// A node comes and goes in one transaction.
async fn come_and_go(zookeeper: &zk::Client, path: &str) {
    let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    let mut writer = zookeeper.new_multi_writer();
    writer.add_create(path, b"", &open).unwrap();
    writer.add_delete(path, None).unwrap();
    writer.commit().await.unwrap();
}

/// It does not tell the stat of such a node.
#[tokio::test]
async fn a_cache_loads_although_nodes_come_and_go_below_one_that_may_not_be_read_on_3_9() {
    let Some(server) = server_3_9().await else { return };
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/r", b"").await;
    create(&zookeeper, "/r/a", b"").await;
    let all_but_read =
        zk::Permission::CREATE | zk::Permission::DELETE | zk::Permission::WRITE | zk::Permission::ADMIN;
    let acl = [zk::Acl::new(all_but_read, zk::AuthId::anyone())];
    zookeeper.set_acl("/r/a", &acl, None).await.unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    proxy.set_traffic(Traffic::pass().delay(DELAY));
    let cache = Cache::new(&client, "/r", CacheOptions::tree()).unwrap();
    let is_current = becomes_current(&cache, async || come_and_go(&zookeeper, "/r/a/c").await).await;
    assert!(is_current, "it is {:?}", cache.state());
    assert_eq!(cache.current().unreadable().collect::<Vec<_>>(), ["/r/a"]);
}
