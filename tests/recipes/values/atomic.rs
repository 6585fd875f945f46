//! `DistributedAtomicLong`, `DistributedAtomicValue` and `CachedAtomicLong`: what they return, what they write, and what that
//! costs.

use std::collections::BTreeSet;

use super::*;

const PATH: &str = "/numbers/deep/down/a";

fn long(client: &zk_recipes::Client) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, PATH).unwrap()
}

#[tokio::test]
async fn a_number_is_eight_bytes_in_a_node() {
    let (_server, [one, other], zookeeper) = server_clients_and_bystander().await;
    let (number, same) = (long(&one), long(&other));
    // A missing node counts as zero, and is not created by a read.
    assert_eq!(number.get().await, Ok(0));
    assert_eq!(number.compare_exchange(7, 8).await, Ok(Err(0)));
    assert_eq!(number.fetch_update(|_| None).await, Ok(Err(0)));
    assert_eq!(zookeeper.check_stat(PATH).await, Ok(None));
    assert_eq!(number.fetch_add(258).await, Ok(0));
    assert_eq!(zookeeper.get_data(PATH).await.unwrap().0, [0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(same.add(-259).await, Ok(-1));
    assert_eq!(zookeeper.get_data(PATH).await.unwrap().0, [255; 8]);
    assert_eq!((number.increment().await, same.decrement().await), (Ok(0), Ok(-1)));
    assert_eq!((number.swap(7).await, number.get().await), (Ok(-1), Ok(7)));
    assert_eq!(same.compare_exchange(7, 8).await, Ok(Ok(7)));
    assert_eq!(number.compare_exchange(7, 9).await, Ok(Err(8)));
    assert_eq!(number.fetch_update(|old| Some(old * 2)).await, Ok(Ok(8)));
    assert_eq!(same.fetch_update(|_| None).await, Ok(Err(16)));
    assert_eq!((same.initialize(1).await, same.get().await), (Ok(false), Ok(16)));
    // What it refuses, it has seen.
    number.force_set(50).await.unwrap();
    assert_eq!(same.fetch_update(|old| (old < 20).then_some(old + 1)).await, Ok(Err(50)));
    zookeeper.set_data(PATH, b"", None).await.unwrap();
    assert_eq!(number.increment().await, Ok(1));
    // Deleted by hand: zero again.
    zookeeper.delete(PATH, None).await.unwrap();
    assert_eq!((same.initialize(5).await, number.increment().await), (Ok(true), Ok(6)));
    // By a handle that has made the node itself.
    let again = long(&one);
    for made in [5, 100] {
        zookeeper.delete(PATH, None).await.unwrap();
        assert_eq!(
            (again.initialize(made).await, again.compare_exchange(1, 2).await),
            (Ok(true), Ok(Err(made)))
        );
    }
    assert_eq!((again.increment().await, again.get().await), (Ok(101), Ok(101)));
    zookeeper.delete(PATH, None).await.unwrap();
    assert_eq!(number.increment().await, Ok(1));
    zookeeper.delete(PATH, None).await.unwrap();
    number.force_set(3).await.unwrap();
    assert_eq!((number.increment().await, same.get().await), (Ok(4), Ok(4)));
    assert_eq!(number.path(), PATH);
}

#[tokio::test]
async fn what_is_no_number_and_what_does_not_fit_are_errors() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let number = long(&client);
    number.force_set(i64::MAX - 1).await.unwrap();
    // Of three that are written together, one does not fit.
    let added = tokio::join!(number.fetch_add(1), number.fetch_add(1), number.fetch_add(-5));
    let overflow = Error::Overflow { path: PATH.into(), value: i64::MAX, delta: 1 };
    assert_eq!(added, (Ok(i64::MAX - 1), Err(overflow), Ok(i64::MAX)));
    assert_eq!(number.add(i64::MIN).await, Ok(i64::MAX - 5 + i64::MIN));
    assert!(matches!(number.add(i64::MIN).await, Err(Error::Overflow { .. })));
    zookeeper.set_data(PATH, b"seven", None).await.unwrap();
    let not_a_number = Error::NotANumber { path: PATH.into(), length: 5 };
    assert_eq!(number.get().await, Err(not_a_number.clone()));
    assert_eq!(number.increment().await, Err(not_a_number));
    assert_eq!(zookeeper.get_data(PATH).await.unwrap().0, b"seven");
    number.force_set(7).await.unwrap();
    assert_eq!(number.increment().await, Ok(8));
}

#[tokio::test]
async fn a_change_takes_one_round_trip_while_nobody_else_writes() {
    let (server, proxy) = server_and_proxy().await;
    let number = long(&connect_through(&proxy).await);
    let other = long(&connect(&server).await);
    assert_eq!(number.increment().await, Ok(1));
    proxy.take_requests();
    for nth in 2..7 {
        assert_eq!(number.increment().await, Ok(nth));
    }
    assert_eq!(proxy.take_requests(), [Request::SetData; 5]);
    assert_eq!(number.fetch_update(|old| Some(old - 1)).await, Ok(Ok(6)));
    assert_eq!(number.fetch_update(|old| Some(old + 1)).await, Ok(Ok(5)));
    assert_eq!(proxy.take_requests(), [Request::SetData; 2]);
    // After a change by somebody else, it is tried, read and written.
    assert_eq!(other.increment().await, Ok(7));
    assert_eq!(number.increment().await, Ok(8));
    assert_eq!(proxy.take_requests(), [Request::SetData, Request::Sync, Request::GetData, Request::SetData]);
}

#[tokio::test]
async fn tasks_of_one_client_are_written_together() {
    for (updates, tasks) in [(false, 64), (true, 600)] {
        let (_server, proxy, client) = server_proxy_and_client().await;
        let number = long(&client);
        number.increment().await.unwrap();
        proxy.take_requests();
        // By handles of their own.
        let add = || async {
            match updates {
                true => Ok(long(&client).fetch_update(|old| Some(old + 1)).await?.unwrap()),
                false => long(&client).fetch_add(1).await,
            }
        };
        // While a write is under way, the others line up.
        let held = proxy.intercept(Request::SetData, Fate::HoldReply);
        let first = begun(add());
        within(held.happened()).await;
        let adding = begun(try_join_all((0..tasks).map(|_| add())));
        held.release();
        let previous = within(adding).await.unwrap();
        assert_eq!(within(first).await, Ok(1));
        assert_eq!(previous, (2..2 + tasks).collect::<Vec<_>>());
        assert_eq!(proxy.take_requests(), [Request::SetData; 2]);
    }
}

#[tokio::test]
async fn a_value_is_compared_and_exchanged() {
    let (_server, [one, other]) = server_and_clients().await;
    let value = DistributedAtomicValue::new(&one, PATH).unwrap();
    let same = DistributedAtomicValue::new(&other, PATH).unwrap();
    assert_eq!(value.get().await, Ok(None));
    assert_eq!(value.compare_exchange(Some(b"a"), "b").await, Ok(Err(None)));
    assert_eq!(value.compare_exchange(None, "a").await, Ok(Ok(None)));
    assert_eq!(same.compare_exchange(None, "b").await, Ok(Err(Some(b"a".to_vec()))));
    assert_eq!(same.compare_exchange(Some(b"a"), "b").await, Ok(Ok(Some(b"a".to_vec()))));
    assert_eq!(value.swap("c").await, Ok(Some(b"b".to_vec())));
    let longer = |old: Option<&[u8]>| Some([old.unwrap(), b"!"].concat());
    assert_eq!(value.fetch_update(longer).await, Ok(Ok(Some(b"c".to_vec()))));
    assert_eq!(value.fetch_update(|_| None).await, Ok(Err(Some(b"c!".to_vec()))));
    assert_eq!((same.initialize("d").await, same.get().await), (Ok(false), Ok(Some(b"c!".to_vec()))));
    same.force_set("").await.unwrap();
    assert_eq!(value.get().await, Ok(Some(Vec::new())));
    let too_large = vec![0; 1 << 20];
    for refused in [
        value.swap(&too_large).await.map(drop),
        value.compare_exchange(None, &too_large).await.map(drop),
        value.fetch_update(|_| Some(too_large.clone())).await.map(drop),
        value.initialize(&too_large).await.map(drop),
        value.force_set(&too_large).await,
    ] {
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "value", .. })), "{refused:?}");
    }
    // Each of several appends once.
    let options = AtomicOptions::new().timeout(secs(60)).promoted_to_lock("/numbers/lock");
    let handles = [&value, &same].map(|value| value.with_options(options.clone()).unwrap());
    let appending = (0..10).map(|nth| handles[nth % 2].fetch_update(longer));
    assert!(within(join_all(appending)).await.iter().all(|done| matches!(done, Ok(Ok(_)))));
    assert_eq!(value.get().await.unwrap().unwrap(), [b'!'; 10]);
}

#[test]
fn threads_change_numbers() {
    const THREADS: usize = 8;
    let sandbox = Sandbox::new();
    let client = sandbox.builder().connect_blocking(&servers()).unwrap();
    let number = blocking::atomic::DistributedAtomicLong::new(&client, PATH).unwrap();
    let previous: BTreeSet<_> = std::thread::scope(|scope| {
        let adding: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| number.fetch_add(1).unwrap())).collect();
        adding.into_iter().map(|adding| adding.join().unwrap()).collect()
    });
    assert_eq!(previous, (0..THREADS as i64).collect());
    assert_eq!(number.compare_exchange(THREADS as i64, 20), Ok(Ok(THREADS as i64)));
    assert_eq!(number.fetch_update(|old| Some(old + 1)), Ok(Ok(20)));
    let ids = blocking::atomic::CachedAtomicLong::new(&number, 3).unwrap();
    assert_eq!([(); 4].map(|()| ids.next().unwrap()), [21, 22, 23, 24]);
    let value = blocking::atomic::DistributedAtomicValue::new(&client, "/value").unwrap();
    assert_eq!(value.compare_exchange(None, "a"), Ok(Ok(None)));
    assert_eq!(value.swap("b").unwrap().unwrap(), b"a");
    client.close().unwrap();
    assert_eq!(number.increment(), Err(Error::Closed));
}

#[tokio::test]
async fn a_node_of_the_same_version_is_not_overwritten_unnoticed() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let number = long(&client);
    assert_eq!(number.increment().await, Ok(1));
    let version = zookeeper.get_data(PATH).await.unwrap().1.version;
    zookeeper.delete(PATH, None).await.unwrap();
    zookeeper.create(PATH, &5_i64.to_be_bytes(), &anyone(CreateMode::Persistent)).await.unwrap();
    for _ in 0..version {
        zookeeper.set_data(PATH, &5_i64.to_be_bytes(), None).await.unwrap();
    }
    assert_eq!(
        number.increment().await,
        Err(Error::NodeReplaced { operation: "change the number at", path: PATH.into() })
    );
}

#[tokio::test]
async fn a_missing_chroot_is_told_as_such() {
    let server = empty_server().await;
    let client = Client::connect(&format!("{}/no/such/chroot", server.connect_string())).await.unwrap();
    for path in ["/deep/a", "/a"] {
        let value = DistributedAtomicValue::new(&client, path).unwrap();
        let number = DistributedAtomicLong::new(&client, path).unwrap();
        let outcomes = [
            within(value.initialize("a")).await.map(drop),
            within(value.compare_exchange(None, "a")).await.map(drop),
            within(value.force_set("a")).await,
            within(number.initialize(7)).await.map(drop),
            within(number.increment()).await.map(drop),
        ];
        for outcome in outcomes {
            assert!(
                matches!(outcome, Err(Error::ZooKeeper { source: zk::Error::NoNode, .. })),
                "{outcome:?}"
            );
        }
    }
}

#[tokio::test]
async fn numbers_come_in_blocks_that_are_drawn_ahead() {
    let (_server, proxy) = server_and_proxy().await;
    let number = DistributedAtomicLong::new(&connect_through(&proxy).await, "/ids").unwrap();
    number.increment().await.unwrap();
    let refused = CachedAtomicLong::new(&number, 0).unwrap_err();
    assert!(matches!(refused, Error::InvalidArgument { argument: "block size", .. }), "{refused}");
    let ids = CachedAtomicLong::new(&number, 10).unwrap();
    proxy.take_requests();
    for id in 1..5 {
        assert_eq!(ids.next().await, Ok(id));
    }
    assert_eq!(proxy.take_requests(), [Request::SetData]);
    assert_eq!(ids.next().await, Ok(5));
    // Half is used up: the next block is drawn, and nobody waits for it.
    eventually("a block is drawn", async || (number.get().await == Ok(21)).then_some(())).await;
    let held = proxy.intercept(Request::SetData, Fate::HoldReply);
    for id in 6..=20 {
        assert_eq!(ids.next().await, Ok(id));
    }
    within(held.happened()).await;
    held.release();
    assert_eq!(within(ids.next()).await, Ok(21));
}

/// By another call that arrives whenever it is computed.
#[tokio::test]
async fn an_update_that_is_overtaken_each_time_ends_in_its_time() {
    let (_server, client) = server_and_client().await;
    let number = long(&client);
    number.increment().await.unwrap();
    let hasty = number.with_options(AtomicOptions::new().timeout(ms(300))).unwrap();
    let (mut others, mut increments) = (Vec::new(), 0);
    let overtaken = |old: i64| {
        let mut other = Box::pin(number.increment());
        if poll_once(&mut other).is_pending() {
            others.push(other);
        }
        increments += 1;
        Some(old + 1)
    };
    let ended = within(hasty.fetch_update(overtaken)).await;
    assert!(matches!(ended, Err(Error::Contended { .. })), "{ended:?}");
    within(try_join_all(others)).await.unwrap();
    assert_eq!(number.get().await, Ok(1 + increments));
}
