//! Numbers when replies are lost, connections break and sessions end: nothing is added twice, and nothing is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use futures_util::future::{join, join_all};
use zk_recipes::atomic::{AtomicOptions, DistributedAtomicLong, DistributedAtomicValue};
use zk_recipes::testing::{Fate, FaultProxy, Request, kill_session};
use zk_recipes::{Client, Error};
use zookeeper_client as zk;

use crate::support::{bystander, connect, connect_through, empty_server, poll_once, repeats, within};

const PATH: &str = "/numbers/a";

#[tokio::test]
async fn a_lost_request_is_repeated_and_a_lost_reply_is_told() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let number = DistributedAtomicLong::new(&connect_through(&proxy).await, PATH).unwrap();
    number.increment().await.unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseRequest);
    assert_eq!(within(number.increment()).await, Ok(2));
    within(lost.happened()).await;

    // All that are written together are told; who has written nothing is answered.
    let held = proxy.intercept(Request::SetData, Fate::HoldReply);
    let mut first = Box::pin(number.increment());
    assert!(poll_once(&mut first).is_pending());
    within(held.happened()).await;
    let mut batch = Box::pin(join_all([number.fetch_add(10), number.fetch_add(20)]));
    let mut other = Box::pin(number.compare_exchange(-1, 0));
    assert!(poll_once(&mut batch).is_pending() && poll_once(&mut other).is_pending());
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    held.release();
    assert_eq!(within(first).await, Ok(3));
    for outcome in within(batch).await {
        assert!(matches!(outcome, Err(Error::WriteOutcomeUnknown { .. })), "{outcome:?}");
    }
    within(lost.happened()).await;
    assert_eq!(within(other).await, Ok(Err(33)), "added once");
    assert_eq!(number.increment().await, Ok(34));
}

#[tokio::test]
async fn a_create_whose_reply_is_lost_counts_once() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let number = DistributedAtomicLong::new(&connect_through(&proxy).await, "/a").unwrap();
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    assert_eq!(within(number.increment()).await, Ok(1));
    within(lost.happened()).await;
    assert_eq!(number.get().await, Ok(1));
}

/// Between its read and its write another one is always ahead, until its time is over.
#[tokio::test]
async fn a_call_ends_when_its_time_is_over() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let rival = DistributedAtomicLong::new(&connect(&server).await, PATH).unwrap();
    rival.force_set(0).await.unwrap();
    let options = AtomicOptions::new().timeout(Duration::ZERO);
    let number = DistributedAtomicLong::new(&connect_through(&proxy).await, PATH).unwrap();
    let number = number.with_options(&options).unwrap();
    let held = proxy.intercept(Request::GetData, Fate::HoldReply);
    let adding = tokio::spawn(async move { number.increment().await });
    within(held.happened()).await;
    rival.force_set(7).await.unwrap();
    held.release();
    let outcome = within(adding).await.unwrap();
    assert!(matches!(outcome, Err(Error::Contended { .. })), "{outcome:?}");
    assert_eq!(rival.get().await, Ok(7));
}

/// What each call has told.
#[derive(Debug, Default)]
struct Told {
    previous: Vec<i64>,
    unknown: i64,
    failed: i64,
}

#[tokio::test]
async fn nothing_is_added_twice_whatever_goes_wrong() {
    const CLIENTS: usize = 4;
    const TASKS: usize = 4;
    let server = empty_server().await;
    let faults = repeats(200);
    let proxies = join_all((0..CLIENTS).map(|_| FaultProxy::start(server.connect_string()))).await;
    let proxies: Vec<_> = proxies.into_iter().map(Result::unwrap).collect();
    let clients = join_all(proxies.iter().map(connect_through)).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let adding = (0..CLIENTS * TASKS).map(|nth| {
        let number = DistributedAtomicLong::new(&clients[nth % CLIENTS], PATH).unwrap();
        let is_over = is_over.clone();
        tokio::spawn(async move {
            let mut told = Told::default();
            while !is_over.load(SeqCst) {
                match number.fetch_add(1).await {
                    Ok(previous) => told.previous.push(previous),
                    Err(Error::WriteOutcomeUnknown { .. }) => told.unknown += 1,
                    Err(_) => told.failed += 1,
                }
            }
            told
        })
    });
    let adding: Vec<_> = adding.collect();
    for fault in 0..faults {
        let nth = fastrand::usize(0..CLIENTS);
        if fault % 7 == 6 {
            // A client that is reconnecting has no session to end.
            let _ = kill_session(&clients[nth]).await;
            continue;
        }
        let fate = if fastrand::bool() { Fate::LoseReply } else { Fate::LoseRequest };
        let lost = proxies[nth].intercept(Request::SetData, fate);
        within(lost.happened()).await;
    }
    is_over.store(true, SeqCst);
    let told = within(join_all(adding)).await.into_iter().map(Result::unwrap);
    let told = told.fold(Told::default(), |mut all, told| {
        all.previous.extend(told.previous);
        Told { unknown: all.unknown + told.unknown, failed: all.failed + told.failed, ..all }
    });
    let done = told.previous.len() as i64;
    let unique: BTreeSet<_> = told.previous.iter().copied().collect();
    assert_eq!(unique.len() as i64, done, "two calls have returned the same");
    let number = DistributedAtomicLong::new(&connect(&server).await, PATH).unwrap().get().await.unwrap();
    assert!(
        done <= number && number <= done + told.unknown,
        "{done} <= {number} <= {done} + {}",
        told.unknown
    );
    assert!(done > 100 && told.unknown > 0, "{done} done, {} unknown, {} failed", told.unknown, told.failed);
}

/// Somebody may take what was created before the reply is missed.
#[tokio::test]
async fn a_value_is_created_at_most_once_by_one_exchange() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let value = DistributedAtomicValue::new(&connect_through(&proxy).await, "/a").unwrap();
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    proxy.refuse_connections(true).unwrap();
    let setting = tokio::spawn(async move { value.compare_exchange(None, "ours").await });
    within(lost.happened()).await;
    assert_eq!(zookeeper.get_data("/a").await.unwrap().0, b"ours", "it was done");
    // Somebody takes what was written.
    zookeeper.delete("/a", None).await.unwrap();
    proxy.refuse_connections(false).unwrap();
    let outcome = within(setting).await.unwrap();
    assert!(matches!(outcome, Err(Error::WriteOutcomeUnknown { .. })), "{outcome:?}");
    assert!(zookeeper.check_stat("/a").await.unwrap().is_none(), "written twice");
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
            let refused = matches!(&outcome, Err(Error::ZooKeeper { source: zk::Error::NoNode, .. }));
            assert!(refused, "{path}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn no_error_is_told_that_is_older_than_the_call() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let number = DistributedAtomicLong::new(&connect_through(&proxy).await, PATH).unwrap();
    number.force_set(5).await.unwrap();
    zookeeper.set_data(PATH, b"seven", None).await.unwrap();
    let held = proxy.intercept(Request::GetData, Fate::HoldReply);
    let mut early = Box::pin(number.increment());
    assert!(poll_once(&mut early).is_pending());
    within(held.happened()).await;
    zookeeper.set_data(PATH, &5_i64.to_be_bytes(), None).await.unwrap();
    let mut late = Box::pin(number.increment());
    assert!(poll_once(&mut late).is_pending());
    held.release();
    let (early, late) = within(join(early, late)).await;
    assert!(matches!(early, Err(Error::NotANumber { .. })), "{early:?}");
    assert!(late.is_ok(), "the number was there before the call: {late:?}");
}

/// What is lost is the create of a parent: the node itself was refused before, and is created afterwards.
#[tokio::test]
async fn a_lost_parent_is_no_doubt_about_the_node() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    for fate in [Fate::LoseRequest, Fate::LoseReply] {
        let number = DistributedAtomicLong::new(&client, &format!("/{fate:?}/a/b")).unwrap();
        let lost = proxy.intercept_after(1, fate);
        assert_eq!(within(number.initialize(7)).await, Ok(true), "{fate:?}");
        within(lost.happened()).await;
        assert_eq!(number.get().await, Ok(7));
    }
}
