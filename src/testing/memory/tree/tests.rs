use super::*;

const ME: Requester<'static> = Requester { session: 7, ids: &[] };

fn stamp(zxid: i64) -> Stamp {
    Stamp { zxid, time: 1_000 * zxid }
}

fn node(path: &str, kind: Kind) -> Create {
    let acl = vec![Acl { permissions: acl::ALL, id: Id::new("world", "anyone") }];
    Create { path: path.into(), data: Some(b"data".to_vec()), acl, kind, is_sequential: false }
}

fn sequential(path: &str) -> Create {
    Create { is_sequential: true, ..node(path, Kind::Persistent) }
}

/// A tree with a node at each of these paths, created one after the other.
fn tree(paths: &[&str]) -> Tree {
    let mut tree = Tree::new();
    for (index, path) in paths.iter().enumerate() {
        create(&mut tree, node(path, Kind::Persistent), index as i64 + 1).unwrap();
    }
    tree
}

fn create(tree: &mut Tree, create: Create, zxid: i64) -> Result<(String, Stat), Code> {
    let mut transaction = tree.begin(stamp(zxid), ME);
    let created = transaction.create(create);
    transaction.commit();
    created
}

#[test]
fn a_sequential_node_is_numbered_by_the_creates_before_it() {
    let mut tree = tree(&["/a", "/a/plain"]);
    let (first, _) = create(&mut tree, sequential("/a/n-"), 3).unwrap();
    assert_eq!(first, "/a/n-0000000001");
    let mut transaction = tree.begin(stamp(4), ME);
    transaction.delete(&first, -1).unwrap();
    transaction.commit();
    assert_eq!(create(&mut tree, sequential("/a/n-"), 5).unwrap().0, "/a/n-0000000002");
    // Three creates and a delete.
    let stat = tree.stat("/a", &[]).unwrap();
    assert_eq!((stat.cversion, stat.num_children, stat.pzxid), (4, 2, 5));
}

#[test]
fn what_is_not_committed_has_not_happened() {
    let mut tree = tree(&["/a", "/a/old", "/a/older"]);
    let before = (tree.stat("/a", &[]), tree.stat("/a/old", &[]), tree.stat("/a/older", &[]));
    let mut transaction = tree.begin(stamp(9), ME);
    transaction.create(sequential("/a/n-")).unwrap();
    transaction.create(node("/a/ephemeral", Kind::Ephemeral)).unwrap();
    transaction.create(node("/a/container", Kind::Container)).unwrap();
    transaction.set_data("/a/old", None, 0).unwrap();
    transaction.delete("/a/old", 1).unwrap();
    transaction.delete("/a/older", -1).unwrap();
    transaction.create(node("/a/older", Kind::Persistent)).unwrap();
    drop(transaction);
    assert_eq!((tree.stat("/a", &[]), tree.stat("/a/old", &[]), tree.stat("/a/older", &[])), before);
    assert_eq!(tree.data("/a/old", &[]).unwrap().0, Some(&b"data"[..]));
    assert_eq!(tree.children("/a", &[]).unwrap().0.len(), 2);
    assert_eq!(tree.count_below("/a", &[]), Ok(2));
    assert!(tree.ephemerals_of(7, "/").is_empty() && tree.overdue(i64::MAX).is_empty());
    assert_eq!(create(&mut tree, sequential("/a/n-"), 10).unwrap().0, "/a/n-0000000002");
}

#[test]
fn ephemeral_nodes_end_with_their_session() {
    let mut tree = tree(&["/a"]);
    create(&mut tree, node("/a/b", Kind::Ephemeral), 2).unwrap();
    create(&mut tree, node("/c", Kind::Ephemeral), 3).unwrap();
    assert_eq!(create(&mut tree, node("/c/d", Kind::Persistent), 4), Err(Code::NoChildrenForEphemerals));
    assert_eq!(tree.ephemerals_of(7, "/a"), ["/a/b"]);
    assert!(tree.end_session(8, 5).is_empty());
    let changes = tree.end_session(7, 6);
    let changes: Vec<_> = changes.iter().map(|change| (change.event, change.path.as_str())).collect();
    use Event::{ChildrenChanged, Deleted};
    assert_eq!(
        changes,
        [(Deleted, "/a/b"), (ChildrenChanged, "/a"), (Deleted, "/c"), (ChildrenChanged, "/")]
    );
    assert_eq!(tree.stat("/a", &[]).unwrap().pzxid, 6);
    assert_eq!(tree.ephemerals(), 0);
}

#[test]
fn containers_are_overdue_after_their_last_child_and_others_after_their_time() {
    let mut tree = tree(&[]);
    create(&mut tree, node("/container", Kind::Container), 1).unwrap();
    create(&mut tree, node("/timed", Kind::Ttl(500)), 2).unwrap();
    assert!(tree.overdue(2_500).is_empty());
    assert_eq!(tree.overdue(2_501), ["/timed"]);
    create(&mut tree, node("/container/a", Kind::Persistent), 3).unwrap();
    assert_eq!(tree.overdue(2_501), ["/timed"]);
    let mut transaction = tree.begin(stamp(4), ME);
    transaction.delete("/container/a", -1).unwrap();
    transaction.commit();
    assert_eq!(tree.overdue(0), ["/container"]);
    tree.reap("/container", 5);
    assert_eq!(tree.stat("/container", &[]), Err(Code::NoNode));
    assert!(tree.overdue(0).is_empty());
}

#[test]
fn the_first_violated_condition_is_returned() {
    let mut tree = tree(&["/a", "/a/b"]);
    let mut transaction = tree.begin(stamp(3), ME);
    let mut create = |path: &str| transaction.create(node(path, Kind::Persistent)).map(|_| ());
    assert_eq!(create("a"), Err(Code::BadArguments));
    assert_eq!(create("/x/../b"), Err(Code::NoNode));
    assert_eq!(create("/a/.."), Err(Code::BadArguments));
    assert_eq!(create("/a"), Err(Code::NodeExists));
    assert_eq!(transaction.delete("/zookeeper/quota", -1), Err(Code::BadArguments));
    assert_eq!(transaction.delete("/x", 5), Err(Code::NoNode));
    assert_eq!(transaction.delete("/a", 5), Err(Code::BadVersion));
    assert_eq!(transaction.delete("/a", 0), Err(Code::NotEmpty));
    assert_eq!(transaction.set_data("/a", None, 1), Err(Code::BadVersion));
    assert_eq!(transaction.check("/a/", 0), Err(Code::BadArguments));
}
