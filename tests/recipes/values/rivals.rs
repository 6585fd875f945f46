//! Numbers and values while others write, delete and arrive all the time.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use zk_recipes::atomic::{AtomicOptions, DistributedAtomicLong};
use zk_recipes::shared::SharedValue;
use zk_recipes::testing::{Fate, FaultProxy, Request, Traffic};
use zk_recipes::{Client, Error, InterProcessMutex};
use zookeeper_client as zk;

use crate::support::{bystander, children, connect, connect_through, empty_server, poll_once, within};

const PATH: &str = "/numbers/a";
const LOCK: &str = "/numbers/lock";

fn long(client: &Client) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, PATH).unwrap()
}

/// Goes on doing something to the node, until it is dropped.
struct Rival(tokio::task::JoinHandle<()>);

impl Rival {
    /// Writes all the time. What it writes rises.
    fn writes(zookeeper: &zk::Client) -> Self {
        let zookeeper = zookeeper.clone();
        Self(tokio::spawn(async move {
            let mut number = 1_000_i64;
            loop {
                number += 1000;
                zookeeper.set_data(PATH, &number.to_be_bytes(), None).await.unwrap();
            }
        }))
    }

    /// Deletes the node whenever it is there.
    fn deletes(zookeeper: &zk::Client) -> Self {
        let zookeeper = zookeeper.clone();
        Self(tokio::spawn(async move {
            loop {
                let (stat, created) = zookeeper.check_and_watch_stat(PATH).await.unwrap();
                match stat {
                    Some(_) => drop(zookeeper.delete(PATH, None).await),
                    None => drop(created.changed().await),
                }
            }
        }))
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How long a call takes to be overtaken that often, each time between its read and its write.
async fn overtaken<T>(
    proxy: &FaultProxy,
    rival: &DistributedAtomicLong,
    times: i64,
    call: impl Future<Output = T>,
) -> Duration {
    let mut reading = proxy.intercept(Request::GetData, Fate::HoldReply);
    let rivals = async {
        let mut paused = Duration::ZERO;
        for number in 1..=times {
            let begin = Instant::now();
            reading.happened().await;
            paused += begin.elapsed();
            rival.force_set(1_000_000 * number).await.unwrap();
            let next = proxy.intercept(Request::GetData, Fate::HoldReply);
            std::mem::replace(&mut reading, next).release();
        }
        drop(reading);
        paused
    };
    let (paused, _) = within(futures_util::future::join(rivals, call)).await;
    paused
}

/// "The line has paused for it."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_pauses_between_its_tries_as_an_increment_does() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let number = long(&connect_through(&proxy).await);
    let number = number.with_options(&AtomicOptions::new().timeout(Duration::MAX)).unwrap();
    let rival = long(&connect(&server).await);
    number.force_set(0).await.unwrap();
    let increment = overtaken(&proxy, &rival, 60, number.increment()).await;
    // So that it reads the number first.
    number.force_set(0).await.unwrap();
    let update = overtaken(&proxy, &rival, 60, number.fetch_update(|old| Some(old + 1))).await;
    assert!(
        update > increment / 3,
        "60 pauses took {update:?} for an update, {increment:?} for an increment"
    );
}

/// "Operations on a number that are written together line up together."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_together_lines_up_together() {
    const CALLS: usize = 20;
    for updates in [false, true] {
        let server = empty_server().await;
        let (zookeeper, proxy) =
            (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
        let holder = connect(&server).await;
        let _held = InterProcessMutex::new(&holder, LOCK).unwrap().acquire().await.unwrap();
        let options = AtomicOptions::new().timeout(Duration::MAX).promoted_to_lock(LOCK);
        let number = long(&connect_through(&proxy).await).with_options(&options).unwrap();
        number.force_set(0).await.unwrap();
        proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(10)));
        let rival = Rival::writes(&zookeeper);
        let calls = (0..CALLS).map(|_| async {
            match updates {
                true => number.fetch_update(|old| Some(old + 1)).await.map(drop),
                false => number.increment().await.map(drop),
            }
        });
        let mut longest = 0;
        let looking = async {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(8) {
                longest = longest.max(children(&zookeeper, LOCK).await.len() - 1);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            _ = join_all(calls) => {}
            () = looking => {}
        }
        drop(rival);
        assert!((1..4).contains(&longest), "updates: {updates}; {longest} wait for the lock");
    }
}

/// Calls with a time limit of one second, while someone deletes the node each time it is created.
async fn ends_in_its_time<T: Debug>(call: impl AsyncFnOnce(&Client) -> zk_recipes::Result<T>) {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    let client = connect_through(&proxy).await;
    // So that the parent is there.
    long(&client).force_set(0).await.unwrap();
    proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(5)));
    let _rival = Rival::deletes(&zookeeper);
    proxy.take_requests();
    let ended = tokio::time::timeout(Duration::from_secs(15), call(&client)).await;
    let requests = proxy.take_requests().len();
    assert!(matches!(ended, Ok(Err(Error::Contended { .. }))), "{ended:?} after {requests} requests");
}

/// "[`Error::Contended`]: other clients wrote first each time, until the time was over."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_in_its_time_although_someone_deletes_the_node_each_time() {
    ends_in_its_time(async |client| {
        let options = AtomicOptions::new().timeout(Duration::from_secs(1));
        long(client).with_options(&options).unwrap().increment().await
    })
    .await;
}

/// The same of a value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_of_a_value_ends_in_its_time_although_someone_deletes_the_node_each_time() {
    ends_in_its_time(async |client| {
        let value = SharedValue::new(client, PATH, "seed").unwrap().with_timeout(Duration::from_secs(1));
        value.update(|old| [old, b"+"].concat()).await
    })
    .await;
}

/// "[`Error::Contended`]: other clients, or other calls of this one, changed the number each time".
#[tokio::test]
async fn an_update_is_not_held_up_by_calls_that_change_nothing() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let number = long(&client);
    number.increment().await.unwrap();
    let hasty = number.with_options(&AtomicOptions::new().timeout(Duration::from_secs(1))).unwrap();
    let mut others = Vec::new();
    let add = |old: i64| {
        let mut other = Box::pin(number.compare_exchange(-1, 0));
        if poll_once(&mut other).is_pending() {
            others.push(other);
        }
        Some(old + 1)
    };
    let ended = within(hasty.fetch_update(add)).await;
    let changed_nothing = others.len();
    within(try_join_all(others)).await.unwrap();
    assert_eq!(ended, Ok(Ok(1)), "beside {changed_nothing} calls that changed nothing");
}

/// The handle itself has made the node.
#[tokio::test]
async fn a_number_that_was_initialized_again_is_counted_from() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let number = long(&connect(&server).await);
    assert_eq!(number.initialize(5).await, Ok(true));
    assert_eq!(number.compare_exchange(1, 2).await, Ok(Err(5)));
    zookeeper.delete(PATH, None).await.unwrap();
    assert_eq!(number.initialize(100).await, Ok(true));
    let counted = number.increment().await;
    assert_eq!((counted, number.get().await), (Ok(101), Ok(101)));
}

/// "A client that has changed or compared the number within the last ten seconds may overwrite a new node". This one was
/// sent longer ago, and has never arrived.
#[tokio::test]
async fn a_lost_write_is_not_repeated_after_a_long_outage_over_another_node() {
    let server = empty_server().await;
    let (zookeeper, proxy) =
        (bystander(&server).await, FaultProxy::start(server.connect_string()).await.unwrap());
    let number = long(&connect_through(&proxy).await);
    assert_eq!(number.increment().await, Ok(1));
    proxy.refuse_connections(true).unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseRequest);
    let mut adding = Box::pin(number.increment());
    assert!(poll_once(&mut adding).is_pending());
    within(lost.happened()).await;
    let version = zookeeper.get_data(PATH).await.unwrap().1.version;
    zookeeper.delete(PATH, None).await.unwrap();
    let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.create(PATH, &500_i64.to_be_bytes(), &persistent).await.unwrap();
    for _ in 0..version {
        zookeeper.set_data(PATH, &500_i64.to_be_bytes(), None).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(12)).await;
    proxy.refuse_connections(false).unwrap();
    let added = within(adding).await;
    let there = zookeeper.get_data(PATH).await.unwrap().0;
    let there = i64::from_be_bytes(there.try_into().unwrap());
    assert!((500..=501).contains(&there), "{there}, and it is told: {added:?}");
}

/// What the calls of one task have told.
#[derive(Debug, Default)]
struct Told {
    /// The numbers that nobody else may have got.
    own: Vec<i64>,
    /// How much was added for certain, and how much more may have been.
    added: i64,
    maybe: i64,
}

impl Told {
    /// Of a call that has the numbers from what it returns on for itself.
    fn note(&mut self, size: i64, outcome: Option<zk_recipes::Result<i64>>) {
        match outcome {
            Some(Ok(first)) => {
                self.own.extend(first..first + size);
                self.added += size;
            }
            None | Some(Err(Error::WriteOutcomeUnknown { .. })) => self.maybe += size,
            Some(Err(_)) => {}
        }
    }
}

/// Increments, updates, and calls that are cancelled at any moment, while replies are lost and sessions end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_number_is_given_twice_by_calls_of_all_kinds() {
    const CLIENTS: usize = 3;
    let server = empty_server().await;
    let proxies = join_all((0..CLIENTS).map(|_| FaultProxy::start(server.connect_string()))).await;
    let proxies: Vec<_> = proxies.into_iter().map(Result::unwrap).collect();
    let clients = join_all(proxies.iter().map(connect_through)).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let calling = (0..CLIENTS * 6).map(|nth| {
        let number = long(&clients[nth % CLIENTS]);
        let is_over = is_over.clone();
        tokio::spawn(async move {
            let mut told = Told::default();
            while !is_over.load(SeqCst) {
                let patience = match fastrand::bool() {
                    true => Duration::from_micros(fastrand::u64(0..6000)),
                    false => Duration::from_secs(600),
                };
                let size = fastrand::i64(1..4);
                let outcome = match nth / CLIENTS {
                    0 | 1 => tokio::time::timeout(patience, number.fetch_add(size)).await.ok(),
                    2 | 3 => {
                        let updating = number.fetch_update(|old| Some(old + size));
                        let updated = tokio::time::timeout(patience, updating).await.ok();
                        updated.map(|updated| updated.map(|updated| updated.expect("it is always updated")))
                    }
                    4 => {
                        let swapping = async {
                            let now = number.get().await?;
                            let swapped = number.compare_exchange(now, now + size).await?;
                            swapped.map_err(|value| Error::Overflow { path: String::new(), value, delta: 0 })
                        };
                        tokio::time::timeout(patience, swapping).await.ok()
                    }
                    _ => {
                        let ids = zk_recipes::atomic::CachedAtomicLong::new(&number, size as u32).unwrap();
                        let mut drawn = Vec::new();
                        for _ in 0..5 {
                            drawn.extend(
                                tokio::time::timeout(patience, ids.next()).await.into_iter().flatten(),
                            );
                        }
                        told.own.extend(drawn);
                        // Blocks of unknown number.
                        told.maybe += 20 * size;
                        None
                    }
                };
                if nth / CLIENTS < 5 {
                    told.note(size, outcome);
                }
            }
            told
        })
    });
    let calling: Vec<_> = calling.collect();
    for fault in 0..60 {
        let nth = fastrand::usize(0..CLIENTS);
        if fault % 7 == 6 {
            let _ = zk_recipes::testing::kill_session(&clients[nth]).await;
            continue;
        }
        let fate = if fastrand::bool() { Fate::LoseReply } else { Fate::LoseRequest };
        let lost = proxies[nth].intercept(Request::SetData, fate);
        within(lost.happened()).await;
    }
    is_over.store(true, SeqCst);
    let told: Vec<Told> = within(join_all(calling)).await.into_iter().map(Result::unwrap).collect();
    let mut own: Vec<i64> = told.iter().flat_map(|told| told.own.clone()).collect();
    let count = own.len();
    own.sort_unstable();
    own.dedup();
    assert_eq!(own.len(), count, "given twice");
    let (added, maybe) =
        told.iter().fold((0, 0), |(added, maybe), told| (added + told.added, maybe + told.maybe));
    let number = long(&connect(&server).await).get().await.unwrap();
    assert!((added..=added + maybe).contains(&number), "{added} <= {number} <= {added} + {maybe}");
}
