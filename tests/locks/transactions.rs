//! Writes that are done only while the lock is held.

use crate::prelude::*;
use crate::support::kinds::*;
use zk_recipes::zookeeper_client::{self as zk, MultiWriteResult};

use CreateMode::{Container, Ephemeral, EphemeralSequential, Persistent, PersistentSequential};

async fn exists(zookeeper: &zk::Client, path: &str) -> bool {
    zookeeper.check_stat(path).await.unwrap().is_some()
}

/// What it says of the operation that could not be done.
fn failed<T: std::fmt::Debug>(outcome: Result<T>) -> (usize, &'static str, String, zk::Error) {
    match outcome.unwrap_err() {
        Error::OperationFailed { index, operation, path, source } => (index, operation, path, source),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn all_is_done_in_order_below_the_namespace() {
    let sandbox = Sandbox::new();
    let root = format!("/{}", sandbox.root);
    let everybody_reads =
        [Acl::new(Permission::ALL, AuthId::anyone()), Acl::new(Permission::READ, AuthId::anyone())];
    let acl = everybody_reads.clone();
    let special = format!("{root}/special");
    let builder = sandbox.builder().acl_for_path(move |path| (path == special).then(|| acl.to_vec()));
    let client = builder.connect(&servers()).await.unwrap();
    let session = session_id(&client).await;
    let zookeeper = bystander_of(&servers()).await;
    for kind in KINDS {
        let guard = kind.unlimited(&client).acquire().await.unwrap();
        let done = guard
            .transaction()
            .create("/special", b"1", Persistent)
            .create("/special/job-", b"2", PersistentSequential)
            .set_data("/special", b"3", 0)
            .check("/special", 1)
            .create("/special/job-", b"4", EphemeralSequential)
            .create("/gone", b"5", Ephemeral)
            .delete("/gone", None)
            .create("/container", b"", Container)
            .create("/mine", b"6", Ephemeral)
            .commit()
            .await
            .unwrap();
        use MultiWriteResult::{Check, Create, Delete, SetData};
        let created = |index: usize, name: &str| match &done[index] {
            Create { path, stat } => {
                assert_eq!(*path, format!("{root}{name}"));
                assert!(stat.is_invalid() || stat.czxid > guard.fencing_token(), "{stat:?}");
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(done.len(), 9);
        created(0, "/special");
        created(1, "/special/job-0000000000");
        assert!(matches!(&done[2], SetData { stat } if stat.version == 1), "{:?}", done[2]);
        assert!(matches!(done[3], Check));
        created(4, "/special/job-0000000001");
        created(5, "/gone");
        assert!(matches!(done[6], Delete));
        created(7, "/container");
        created(8, "/mine");
        // All of it is there, and the acl is that of the path. Another server may lag behind.
        zookeeper.sync("/").await.unwrap();
        let (data, stat) = zookeeper.get_data(&format!("{root}/special")).await.unwrap();
        assert_eq!((&data[..], stat.num_children), (&b"3"[..], 2));
        assert_eq!(zookeeper.get_acl(&format!("{root}/special")).await.unwrap().0, everybody_reads);
        let (data, stat) = zookeeper.get_data(&format!("{root}/mine")).await.unwrap();
        assert_eq!((&data[..], stat.ephemeral_owner), (&b"6"[..], session));
        assert!(!exists(&zookeeper, &format!("{root}/gone")).await);
        let tidied = guard
            .transaction()
            .delete("/special/job-0000000000", 0)
            .delete("/special/job-0000000001", 0)
            .delete("/special", 1)
            .delete("/container", None)
            .delete("/mine", None);
        assert_eq!(tidied.commit().await.unwrap().len(), 5);
        assert_eq!(guard.transaction().commit().await.map(|done| done.len()), Ok(0));
        guard.release().await.unwrap();
    }
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn what_cannot_be_done_is_named_and_nothing_is_done() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let zookeeper = bystander_of(&servers()).await;
    let full = |path: &str| format!("/{}{path}", sandbox.root);
    for kind in KINDS {
        let guard = kind.unlimited(&client).acquire().await.unwrap();
        let begun = || guard.transaction().create("/begun", b"", Persistent);
        let outcomes = [
            // It is not the holder's node that is missing.
            (begun().check("/none", 0).commit().await, (1, "check", "/none", zk::Error::NoNode)),
            (
                begun().set_data("/begun", b"", 7).commit().await,
                (1, "write", "/begun", zk::Error::BadVersion),
            ),
            (begun().delete("/begun", 1).commit().await, (1, "delete", "/begun", zk::Error::BadVersion)),
            (
                begun().check("/begun", 0).create("/begun", b"", Persistent).commit().await,
                (2, "create", "/begun", zk::Error::NodeExists),
            ),
            (begun().create("/a/b", b"", Ephemeral).commit().await, (1, "create", "/a/b", zk::Error::NoNode)),
            (
                begun().create("/begun/a", b"", Persistent).delete("/begun", None).commit().await,
                (2, "delete", "/begun", zk::Error::NotEmpty),
            ),
            (
                guard.transaction().delete("/none", None).commit().await,
                (0, "delete", "/none", zk::Error::NoNode),
            ),
        ];
        for (outcome, (index, operation, path, source)) in outcomes {
            assert_eq!(failed(outcome), (index, operation, full(path), source), "{kind:?}");
            assert!(!exists(&zookeeper, &full("/begun")).await, "{kind:?}: all or nothing");
        }
        assert_eq!(guard.loss(), None, "{kind:?}");
        guard.release().await.unwrap();
    }
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    let (_server, proxy, _) = server_with_proxy().await;
    let [one, two] = [connect_through(&proxy).await, connect_through(&proxy).await];
    let guard = Kind::Mutex.unlimited(&one).acquire().await.unwrap();
    let multis = || proxy.take_requests().into_iter().filter(|request| *request == Request::Multi).count();
    multis();
    for path in ["", "a", "/", "/a/", "//a", "/a/../b", "/a\0"] {
        let outcomes = [
            guard.transaction().create("/fine", b"", Persistent).create(path, b"", Persistent).commit().await,
            guard.transaction().check(path, 0).commit().await,
            guard.transaction().set_data(path, b"", None).commit().await,
            guard.transaction().delete(path, None).commit().await,
        ];
        for outcome in outcomes {
            let error = outcome.unwrap_err();
            assert!(
                matches!(&error, Error::InvalidPath { path: bad, .. } if bad == path),
                "{path:?}: {error}"
            );
        }
    }
    // Nothing could check the nodes of two sessions together.
    let of_two = MultiLock::of([Kind::Read.unlimited(&one), Kind::Write.unlimited(&two)]).unwrap();
    let guards = of_two.acquire().await.unwrap();
    multis();
    let error = guards.transaction().create("/a", b"", Persistent).commit().await.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "transaction", .. }), "{error}");
    assert_eq!(multis(), 0);
    // Of each by itself it can.
    for member in guards.members() {
        member.transaction().create("/a", b"", Persistent).delete("/a", None).commit().await.unwrap();
    }
    guards.release().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn every_member_of_a_multi_lock_must_be_held() {
    let (_server, zookeeper, [client]) = server_with_clients().await;
    let locks = [
        MultiLock::new(&client, ["/x", "/y", "/z"]).unwrap(),
        MultiLock::of([Kind::Mutex, Kind::Permit, Kind::Write].map(|kind| kind.unlimited(&client))).unwrap(),
    ];
    for lock in locks {
        for missing in 0..3 {
            let guard = lock.acquire().await.unwrap();
            let node = guard.members()[missing].node_path().to_owned();
            zookeeper.delete(&node, None).await.unwrap();
            let error = guard.transaction().create("/a", b"", Persistent).commit().await.unwrap_err();
            assert_eq!(error, Error::LockLost { path: node, reason: LossReason::Deleted });
            let losses: Vec<_> = guard.members().iter().map(LockGuard::loss).collect();
            let mut expected = vec![None; 3];
            expected[missing] = Some(LossReason::Deleted);
            assert_eq!(losses, expected);
            assert!(!exists(&zookeeper, "/a").await);
            assert_lost(&guard.release().await.unwrap_err(), LossReason::Deleted);
        }
    }
}

#[tokio::test]
async fn a_writer_that_reads_writes_by_either_node() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let lock = ReadWriteLock::new(&client, "/locks/a").unwrap();
    let writing = lock.write().acquire().await.unwrap();
    let reading = lock.read().acquire().await.unwrap();
    writing.release().await.unwrap();
    let write = reading.transaction().create("/by-reader", b"", Ephemeral);
    assert_eq!(write.commit().await.unwrap().len(), 1);
    assert_eq!(reading.transaction().delete("/by-reader", None).commit().await.unwrap().len(), 1);
    reading.release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn a_holder_without_the_right_to_read_its_node_is_told_so() {
    let sandbox = Sandbox::new();
    let path = format!("/{}{}/", sandbox.root, Kind::Mutex.path());
    let acl = [Acl::new(Permission::DELETE, AuthId::anyone())];
    let builder = sandbox.builder().acl_for_path(move |node| node.starts_with(&path).then(|| acl.to_vec()));
    let client = builder.connect(&servers()).await.unwrap();
    let guard = Kind::Mutex.unlimited(&client).acquire().await.unwrap();
    let write = guard.transaction().create("/unchecked", b"", Persistent);
    match within(write.commit()).await.unwrap_err() {
        Error::ZooKeeper { path, source: zk::Error::NoAuth, .. } => assert_eq!(path, guard.node_path()),
        other => panic!("{other}"),
    }
    let zookeeper = bystander_of(&servers()).await;
    assert!(!exists(&zookeeper, &format!("/{}/unchecked", sandbox.root)).await);
    assert_eq!(guard.loss(), None);
    guard.release().await.unwrap();
    sandbox.assert_nothing_left().await;
}
