//! `SharedValue` and `SharedCount`: what is read, written and compared.

use super::*;

const PATH: &str = "/values/deep/down/a";

#[tokio::test]
async fn a_value_is_the_data_of_a_node() {
    let (_server, [one, other], zookeeper) = server_clients_and_bystander().await;
    let value = SharedValue::new(&one, PATH, "seed").unwrap();
    assert_eq!(zookeeper.check_stat(PATH).await, Ok(None), "nothing is sent before it is needed");
    assert_eq!(value.get().await.unwrap(), b"seed");
    let same = SharedValue::new(&other, PATH, "another seed").unwrap();
    assert_eq!(same.get().await.unwrap(), b"seed");
    same.set("").await.unwrap();
    assert_eq!(value.get().await.unwrap(), b"");
    let (data, stat) = zookeeper.get_data(PATH).await.unwrap();
    assert_eq!((&*data, stat.ephemeral_owner), (&b""[..], 0));
    // Deleted by hand: made again.
    zookeeper.delete(PATH, None).await.unwrap();
    assert_eq!(same.get().await.unwrap(), b"another seed");
    zookeeper.delete(PATH, None).await.unwrap();
    same.set("set").await.unwrap();
    assert_eq!(value.get().await.unwrap(), b"set");
}

#[tokio::test]
async fn a_value_is_set_only_if_nothing_was_written_since() {
    let (_server, [one, other]) = server_and_clients().await;
    let [value, same] = [&one, &other].map(|client| SharedValue::new(client, PATH, "1").unwrap());
    let first = value.get_versioned().await.unwrap();
    assert_eq!(same.get_versioned().await.unwrap(), first);
    let second = value.compare_and_set(&first, "2").await.unwrap().unwrap();
    assert_eq!(second.value(), b"2");
    assert_ne!(second.version(), first.version());
    // What was written is known without a read.
    assert_eq!(value.get_versioned().await.unwrap(), second);
    // Too late, also with the same bytes.
    assert_eq!(same.compare_and_set(&first, "2").await.unwrap().unwrap_err(), second);
    same.set("2").await.unwrap();
    let current = value.compare_and_set(&second, "3").await.unwrap().unwrap_err();
    assert_eq!(current.value(), b"2");
    let third = value.compare_and_set(&current, "3").await.unwrap().unwrap();
    assert_eq!(same.get_versioned().await.unwrap(), third);
}

#[tokio::test]
async fn a_node_that_was_made_again_is_not_taken_for_the_old_one() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let value = SharedValue::new(&client, PATH, "seed").unwrap();
    let seen = value.get_versioned().await.unwrap();
    zookeeper.delete(PATH, None).await.unwrap();
    // With the same number as its version, and with the same data.
    zookeeper.create(PATH, b"seed", &anyone(CreateMode::Persistent)).await.unwrap();
    let current = value.compare_and_set(&seen, "new").await.unwrap().unwrap_err();
    assert_eq!(current.value(), seen.value());
    assert_ne!(current.version(), seen.version());
    assert_eq!(value.get().await.unwrap(), b"seed");
    zookeeper.delete(PATH, None).await.unwrap();
    assert_eq!(value.compare_and_set(&current, "new").await.unwrap().unwrap_err().value(), b"seed");
}

#[tokio::test]
async fn a_count_is_four_bytes_and_is_compared_and_set() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let count = SharedCount::new(&client, PATH, 258).unwrap();
    let data = async || zookeeper.get_data(PATH).await.unwrap().0;
    assert_eq!((count.get().await, &*data().await), (Ok(258), &[0, 0, 1, 2][..]));
    for (number, bytes) in [(-2, [255, 255, 255, 254]), (0, [0; 4])] {
        count.set(number).await.unwrap();
        assert_eq!((count.get().await, &*data().await), (Ok(number), &bytes[..]));
    }
    zookeeper.set_data(PATH, &[0, 1, 0, 0], None).await.unwrap();
    let first = count.get_versioned().await.unwrap();
    assert_eq!(first.value(), &65536);
    let second = count.compare_and_set(&first, i32::MIN).await.unwrap().unwrap();
    assert_eq!(data().await, [128, 0, 0, 0]);
    assert_eq!(count.compare_and_set(&first, 3).await.unwrap().unwrap_err(), second);
    zookeeper.set_data(PATH, b"three", None).await.unwrap();
    let not_a_count = Error::NotACount { path: PATH.into() };
    assert_eq!(count.compare_and_set(&second, 3).await, Err(not_a_count.clone()));
    assert_eq!(count.update(|count| count).await, Err(not_a_count));
    assert_eq!(data().await, b"three");
}

/// The servers take this number for "any version".
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn the_version_minus_one_is_compared_as_well() {
    let server = server_with_version("/a", -2).await;
    let [client, other] = connect_many(&server).await;
    let zookeeper = bystander(&server).await;
    let [value, same] = [&client, &other].map(|client| SharedValue::new(client, "/a", "").unwrap());
    let before = value.get_versioned().await.unwrap();
    assert_eq!(before.value(), b"x");
    let seen = value.compare_and_set(&before, "y").await.unwrap().unwrap();
    // Later servers leave it out.
    let version = zookeeper.get_data("/a").await.unwrap().1.version;
    assert!([-1, 0].contains(&version), "{version}");
    same.set("z").await.unwrap();
    assert_eq!(value.compare_and_set(&seen, "late").await.unwrap().unwrap_err().value(), b"z");
    assert_eq!(value.get().await.unwrap(), b"z");
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn one_of_two_writes_over_version_minus_one_is_done() {
    let server = server_with_version("/a", -1).await;
    let [client, other] = connect_many(&server).await;
    let [count, same] = [&client, &other].map(|client| SharedValue::new(client, "/a", "").unwrap());
    let seen = count.get_versioned().await.unwrap();
    let (one, two) = tokio::join!(count.compare_and_set(&seen, "one"), same.compare_and_set(&seen, "two"));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(usize::from(one.is_ok()) + usize::from(two.is_ok()), 1, "{one:?} {two:?}");
    let winner = one.or(two).unwrap();
    assert_eq!(count.get_versioned().await.unwrap(), winner);
    assert_eq!(bystander(&server).await.get_data("/a").await.unwrap().1.version, 0);
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_anything_is_sent() {
    let (_server, proxy, client) = server_proxy_and_client().await;
    let too_large = vec![0; 1 << 20];
    let error = SharedValue::new(&client, PATH, too_large.clone()).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "seed", .. }), "{error}");
    let value = SharedValue::new(&client, PATH, vec![1; 1_000_000]).unwrap();
    let seen = value.get_versioned().await.unwrap();
    proxy.take_requests();
    for error in [
        value.set(&too_large).await.unwrap_err(),
        value.compare_and_set(&seen, &too_large).await.unwrap_err(),
        value.update(|_| too_large.clone()).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::InvalidArgument { argument: "value", .. }), "{error}");
    }
    let requests = proxy.take_requests();
    assert!(!requests.contains(&Request::SetData), "{requests:?}");
    // What is as large as allowed is accepted.
    assert_eq!(value.get().await.unwrap().len(), 1_000_000);
}

#[tokio::test]
async fn data_that_a_user_has_compressed_stays_compressed() {
    let sandbox = Sandbox::new();
    let plain = sandbox.client().await;
    let compressing = sandbox.builder().enable_compression().connect(&servers()).await.unwrap();
    let stored = SharedValue::new(&plain, PATH, "").unwrap();
    let value = SharedValue::new(&compressing, PATH, "seed").unwrap();
    value.set("text").await.unwrap();
    let gzip = stored.get().await.unwrap();
    assert!(gzip.starts_with(&[0x1f, 0x8b]), "{gzip:?}");
    assert_eq!(value.get().await.unwrap(), b"text");
    value.set(&gzip).await.unwrap();
    assert_eq!(value.get().await.unwrap(), gzip);
    assert_eq!(value.update(|old| old.to_vec()).await.unwrap().value(), &gzip);
    // What could not be decompressed is refused.
    let longest = vec![7; 1 << 20];
    value.set(&longest).await.unwrap();
    assert!(value.get().await.unwrap() == longest);
    let refused = value.set([&longest[..], &[7]].concat()).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidArgument { argument: "value", .. }), "{refused}");
}

#[test]
fn threads_share_values() {
    let sandbox = Sandbox::new();
    let client = sandbox.builder().connect_blocking(&servers()).unwrap();
    let value = blocking::shared::SharedValue::new(&client, PATH, "seed").unwrap();
    assert_eq!(value.get().unwrap(), b"seed");
    let seen = value.get_versioned().unwrap();
    value.set("set").unwrap();
    assert_eq!(value.compare_and_set(&seen, "new").unwrap().unwrap_err().value(), b"set");
    assert_eq!(
        value.with_timeout(Duration::ZERO).update(|old| [old, b"!"].concat()).unwrap().value(),
        b"set!"
    );
    let count = blocking::shared::SharedCount::new(&client, "/count", 1).unwrap();
    let mut changes = count.watch_state();
    let seen = count.get_versioned().unwrap();
    assert_eq!(count.compare_and_set(&seen, 2).unwrap().unwrap().value(), &2);
    assert_eq!(count.update(|count| count * 2).unwrap().value(), &4);
    while changes.get().current() != Some(&4) {
        assert!(changes.blocking_changed_within(BOUND).unwrap().is_some());
    }
    count.set(5).unwrap();
    assert_eq!((count.get().unwrap(), value.path()), (5, value.as_async().path()));
    client.close().unwrap();
    assert_eq!(count.get(), Err(Error::Closed));
}
