//! Permits as many as a `SharedCount` says.

use super::*;

#[tokio::test]
async fn a_shared_count_is_four_bytes_in_a_node() {
    let (sandbox, [one, other]) = sandbox_with_clients().await;
    let zookeeper = zk::Client::connect(&servers()).await.unwrap();
    let path = format!("/{}{COUNT}", sandbox.root);
    // Another server may lag behind.
    let data = async || {
        zookeeper.sync(&path).await.unwrap();
        zookeeper.get_data(&path).await.unwrap().0
    };
    let count = SharedCount::new(&one, COUNT, 258).unwrap();
    assert_eq!(count.path(), path);
    assert_eq!(zookeeper.check_stat(&path).await, Ok(None), "nothing is sent before it is needed");
    assert_eq!(count.get().await, Ok(258));
    assert_eq!(data().await, [0, 0, 1, 2]);
    assert_eq!(zookeeper.check_stat(&path).await.unwrap().unwrap().ephemeral_owner, 0);
    // The seed is for the first only.
    let same = SharedCount::new(&other, COUNT, 7).unwrap();
    assert_eq!(same.get().await, Ok(258));
    for (number, bytes) in [(-2, [255, 255, 255, 254]), (i32::MIN, [128, 0, 0, 0]), (0, [0; 4])] {
        same.set(number).await.unwrap();
        assert_eq!(data().await, bytes);
        assert_eq!(count.get().await, Ok(number));
    }
    zookeeper.set_data(&path, &[0, 1, 0, 0], None).await.unwrap();
    assert_eq!(count.get().await, Ok(65536));
    // Set before it was ever read.
    let fresh = SharedCount::new(&one, "/counts/deep/down/b", 1).unwrap();
    fresh.set(2).await.unwrap();
    assert_eq!(SharedCount::new(&other, "/counts/deep/down/b", 3).unwrap().get().await, Ok(2));
    // Deleted by hand: made again.
    zookeeper.delete(&path, None).await.unwrap();
    assert_eq!(same.get().await, Ok(7));
}

#[tokio::test]
async fn of_two_who_make_a_count_the_first_has_its_seed() {
    let (server, proxy, _, client) = server_behind_proxy().await;
    let late = SharedCount::new(&client, COUNT, 1).unwrap();
    let early = SharedCount::new(&connect(&server).await, COUNT, 2).unwrap();
    let held = proxy.intercept(Request::GetData, Fate::HoldReply);
    let reading = tokio::spawn(async move { late.get().await });
    // It finds no node.
    within(held.happened()).await;
    assert_eq!(early.get().await, Ok(2));
    held.release();
    assert_eq!(within(reading).await.unwrap(), Ok(2));
    assert_eq!(early.get().await, Ok(2));
}

#[tokio::test]
async fn something_else_in_the_node_of_a_count_is_an_error() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let zookeeper = client.zookeeper().await.unwrap();
    let count = SharedCount::new(&client, COUNT, 1).unwrap();
    let semaphore = Semaphore::with_shared_count(&client, PATH, &count).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    for garbage in [&b""[..], b"3", b"three", b"\0\0\0\0\x03"] {
        zookeeper.set_data(count.path(), garbage, None).await.unwrap();
        let error = count.get().await.unwrap_err();
        assert!(matches!(&error, Error::NotACount { path } if path == count.path()), "{error}");
        assert!(error.to_string().contains("four bytes"), "{error}");
        // Without waiting for better times.
        for error in [
            within(semaphore.acquire()).await.unwrap_err(),
            within(semaphore.try_acquire()).await.unwrap_err(),
            within(semaphore.available_permits()).await.unwrap_err(),
        ] {
            assert!(matches!(&error, Error::NotACount { path } if path == count.path()), "{error}");
            assert!(error.to_string().contains("four bytes"), "{error}");
        }
    }
    count.set(1).await.unwrap();
    within(semaphore.acquire()).await.unwrap().release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

/// Its path may mean another node to that client, and what one session sees is not known to the other.
#[tokio::test]
async fn a_count_of_another_client_is_refused_before_anything_is_sent() {
    let (sandbox, [client, other]) = sandbox_with_clients().await;
    let count = SharedCount::new(&other, COUNT, 3).unwrap();
    let error = Semaphore::with_shared_count(&client, PATH, &count).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "count", .. }), "{error}");
    assert!(error.to_string().contains(count.path()), "{error}");
    let handle = other.clone();
    let semaphore = Semaphore::with_shared_count(&handle, PATH, &count).unwrap();
    release(semaphore.many(3).unwrap().acquire().await.unwrap().into_permits()).await;
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn the_limit_follows_the_shared_count() {
    let (server, zookeeper, clients) = server_with_clients::<2>().await;
    let counts = clients.each_ref().map(|client| SharedCount::new(client, COUNT, 2).unwrap());
    let [semaphore, other] =
        [0, 1].map(|i| Semaphore::with_shared_count(&clients[i], PATH, &counts[i]).unwrap());
    let count = &counts[1];
    let mut held = semaphore.many(2).unwrap().acquire().await.unwrap().into_permits();
    leases_out(&zookeeper, "", 2).await;

    // Raising wakes. As many as there never were are waited for, and not refused.
    let waiter = acquire_in_task(&other, 3);
    watches_of(&server, 2).await;
    let session = session_id(&clients[1]).await;
    let packets = server.session_packets(session).await.unwrap();
    zookeeper.set_data(COUNT, &4_i32.to_be_bytes(), None).await.unwrap();
    eventually("it looks again", || async {
        (server.session_packets(session).await.unwrap() >= packets + 3).then_some(())
    })
    .await;
    // Replies come in order: behind the first it has decided, behind the second it would have its leases.
    for _ in 0..2 {
        clients[1].zookeeper().await.unwrap().sync("/").await.unwrap();
    }
    assert_eq!(children(&zookeeper, LEASES).await.len(), 2, "four are not enough");
    assert!(!waiter.is_finished());
    count.set(5).await.unwrap();
    let more = within(waiter).await.unwrap().unwrap();
    leases_out(&zookeeper, "", 5).await;

    // Lowering revokes nothing, and keeps others out until enough are given back.
    count.set(1).await.unwrap();
    assert_eq!(semaphore.available_permits().await, Ok(0));
    let waiter = acquire_in_task(&other, 1);
    watches_of(&server, 2).await;
    for guard in more {
        guard.release().await.unwrap();
    }
    for left in [2, 1] {
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        assert_eq!(semaphore.available_permits().await, Ok(0));
        assert_eq!(children(&zookeeper, LEASES).await.len(), left);
        assert!(!waiter.is_finished());
        assert_eq!(held[0].loss(), None);
        held.pop().unwrap().release().await.unwrap();
    }
    release(within(waiter).await.unwrap().unwrap()).await;
    leases_out(&zookeeper, "", 0).await;

    // Below one nobody is let in, though nobody is inside.
    for none in [0, -1, i32::MIN] {
        count.set(none).await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        assert_eq!(semaphore.available_permits().await, Ok(0));
        let waiter = acquire_in_task(&semaphore, 1);
        watches_of(&server, 2).await;
        assert!(!waiter.is_finished());
        count.set(1).await.unwrap();
        release(within(waiter).await.unwrap().unwrap()).await;
        leases_out(&zookeeper, "", 0).await;
    }
    nothing_left(&server, &zookeeper).await;
}
