//! Numbers and values over time: outages, rivals, and watches without changes.

mod shared;

use zk_recipes::atomic::{AtomicOptions, CachedAtomicLong, DistributedAtomicLong, DistributedAtomicValue};
use zk_recipes::shared::{SharedState, SharedValue};

use super::prelude::*;

const PATH: &str = "/numbers/a";
const LOCK: &str = "/numbers/lock";
/// What was written last is remembered for less.
const LONG: Duration = secs(12);

fn long(client: &Client) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, PATH).unwrap()
}

/// A number that is 1, of a client with a proxy before it.
async fn one(
    stage: &Stage,
    with: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> (Proxy, Client, DistributedAtomicLong) {
    let (proxy, client) = stage.far(with).await;
    let number = long(&client);
    assert_eq!(number.increment().await, Ok(1));
    (proxy, client, number)
}

fn data(stage: &Stage) -> Vec<u8> {
    stage.servers().node(PATH).unwrap().data
}

/// Puts another node in the place of that of a number, with the same version.
fn replace(stage: &Stage, number: i64) {
    let version = stage.servers().node(PATH).unwrap().version;
    stage.servers().delete(PATH);
    stage.servers().create(PATH, &number.to_be_bytes(), false);
    for _ in 0..version {
        stage.servers().set_data(PATH, &number.to_be_bytes());
    }
}

// --- Outages ---

/// What was written last is remembered for ten seconds. The new node has the same version as the one before.
#[history]
async fn a_number_is_read_again_after_a_long_outage(stage: Stage) {
    let (proxy, client, number) = one(&stage, |builder| builder.session_timeout(2 * LONG)).await;
    proxy.cut_off();
    disconnected(&client).await;
    let mut adding = Box::pin(number.increment());
    assert!(poll_once(&mut adding).is_pending());
    replace(&stage, 500);
    sleep(LONG).await;
    proxy.refuse_connections(false);
    assert_eq!(within(adding).await, Ok(501));
}

/// "A client that has changed or compared the number within the last ten seconds may overwrite a new node". This one was
/// sent longer ago, and has never arrived.
#[history]
async fn a_lost_write_is_not_repeated_after_a_long_outage_over_another_node(stage: Stage) {
    let (proxy, _, number) = one(&stage, |builder| builder.session_timeout(2 * LONG)).await;
    proxy.refuse_connections(true);
    let lost = proxy.intercept(Request::SetData, Fate::LoseRequest);
    let mut adding = Box::pin(number.increment());
    assert!(poll_once(&mut adding).is_pending());
    within(lost.happened()).await;
    replace(&stage, 500);
    sleep(LONG).await;
    proxy.refuse_connections(false);
    let added = within(adding).await;
    let there = i64::from_be_bytes(data(&stage).try_into().unwrap());
    assert!((500..=501).contains(&there), "{there}, and it is told: {added:?}");
}

#[history]
async fn an_operation_that_was_cancelled_before_it_was_sent_is_not_done(stage: Stage) {
    let (proxy, client, number) = one(&stage, usual).await;
    proxy.cut_off();
    disconnected(&client).await;
    proxy.take_requests();
    let mut adding = Box::pin(number.fetch_add(10));
    assert!(poll_once(&mut adding).is_pending());
    // The task takes it up meanwhile.
    sleep(ms(200)).await;
    drop(adding);
    assert_eq!(proxy.take_requests(), [], "nothing was sent");
    proxy.refuse_connections(false);
    let added = within(number.increment()).await;
    assert_eq!(added, Ok(2), "ten were added by a call that was cancelled before");
}

#[history]
async fn an_outage_is_told_to_everybody_who_waits(stage: Stage) {
    const CONNECTION: Duration = ms(500);
    let policy = RetryPolicy::n_times(0, Duration::ZERO);
    let with = |builder| usual(builder).retry_policy(policy).connection_timeout(CONNECTION);
    let (proxy, client, number) = one(&stage, with).await;
    proxy.cut_off();
    let start = Instant::now();
    for outcome in join_all([number.increment(), number.increment()]).await {
        assert!(outcome.is_err());
    }
    assert!(start.elapsed() < 2 * CONNECTION + A_MOMENT, "{:?}", start.elapsed());
    proxy.refuse_connections(false);
    connected(&client).await;
    let added = within(number.increment()).await.unwrap();
    assert!((2..=4).contains(&added), "{added}");
}

#[history]
async fn a_caller_that_is_polled_late_gets_a_number_in_hand(stage: Stage) {
    let (proxy, _, number) = one(&stage, usual).await;
    let ids = CachedAtomicLong::new(&number, 10).unwrap();
    let mut late = Box::pin(ids.next());
    assert!(poll_once(&mut late).is_pending());
    for _ in 0..4 {
        within(ids.next()).await.unwrap();
    }
    stage.servers().set_data(PATH, b"seven");
    proxy.take_requests();
    within(ids.next()).await.unwrap();
    // The next block cannot be drawn, which the number that is read and is none shows.
    sleep(A_MOMENT).await;
    assert!(proxy.requests_seen() >= 3, "it is read");
    within(ids.next()).await.unwrap();
    sleep(ms(200)).await;
    assert!(within(late).await.is_ok(), "there are numbers in hand");
    for _ in 0..3 {
        within(ids.next()).await.unwrap();
    }
    let outcome = within(ids.next()).await;
    assert!(matches!(outcome, Err(Error::NotANumber { .. })), "{outcome:?}");
}

// --- Rivals ---

/// Goes on doing something to the node, until it is dropped.
struct Rival(tokio::task::JoinHandle<()>);

impl Rival {
    /// Writes all the time. What it writes rises.
    fn writes(zookeeper: zk::Client) -> Self {
        Self(tokio::spawn(async move {
            let mut number = 1_000_i64;
            loop {
                number += 1000;
                zookeeper.set_data(PATH, &number.to_be_bytes(), None).await.unwrap();
            }
        }))
    }

    /// Deletes the node whenever it is there.
    fn deletes(zookeeper: zk::Client) -> Self {
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
    proxy: &Proxy,
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
    let (paused, _) = within(join(rivals, call)).await;
    paused
}

/// "The line has paused for it."
#[history]
async fn an_update_pauses_between_its_tries_as_an_increment_does(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(usual).await;
    let number = long(&client).with_options(AtomicOptions::new().timeout(Duration::MAX)).unwrap();
    let rival = long(&other);
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
#[history]
async fn what_is_written_together_lines_up_together(stage: Stage) {
    const CALLS: usize = 20;
    for updates in [false, true] {
        let (proxy, client, other) = stage.far_and_near(usual).await;
        let held = mutex_at(&other, LOCK).acquire().await.unwrap();
        let options = AtomicOptions::new().timeout(Duration::MAX).promoted_to_lock(LOCK);
        let number = long(&client).with_options(options).unwrap();
        number.force_set(0).await.unwrap();
        proxy.set_traffic(Traffic::pass().delay(ms(10)));
        let rival = Rival::writes(other.zookeeper().await.unwrap());
        let calls = (0..CALLS).map(|_| async {
            match updates {
                true => number.fetch_update(|old| Some(old + 1)).await.map(drop),
                false => number.increment().await.map(drop),
            }
        });
        let mut longest = 0;
        let looking = async {
            let begin = Instant::now();
            while begin.elapsed() < secs(8) {
                longest = longest.max(stage.servers().children(LOCK).unwrap().len() - 1);
                sleep(ms(50)).await;
            }
        };
        tokio::select! {
            _ = join_all(calls) => {}
            () = looking => {}
        }
        drop(rival);
        assert!((1..4).contains(&longest), "updates: {updates}; {longest} wait for the lock");
        proxy.set_traffic(Traffic::pass());
        held.release().await.unwrap();
        sleep(SESSION).await;
        client.close().await;
        other.close().await;
    }
}

/// What a call may take that waits for others.
const TIME: Duration = secs(1);

async fn increment(client: Client) -> zk_recipes::Result<()> {
    let number = long(&client).with_options(AtomicOptions::new().timeout(TIME))?;
    number.increment().await.map(drop)
}

async fn update(client: Client) -> zk_recipes::Result<()> {
    let value = SharedValue::new(&client, PATH, "seed")?.with_timeout(TIME);
    value.update(|old| [old, b"+"].concat()).await.map(drop)
}

/// "[`Error::Contended`]: other clients wrote first each time, until the time was over." Someone deletes the node each time it
/// is created.
#[history(increment, update)]
async fn a_call_ends_in_its_time_although_someone_deletes_the_node_each_time(
    stage: Stage,
    call: impl AsyncFnOnce(Client) -> zk_recipes::Result<()>,
) {
    let (proxy, client, other) = stage.far_and_near(usual).await;
    // So that the parent is there.
    long(&client).force_set(0).await.unwrap();
    proxy.set_traffic(Traffic::pass().delay(ms(5)));
    let _rival = Rival::deletes(other.zookeeper().await.unwrap());
    proxy.take_requests();
    let start = Instant::now();
    let ended = within(call(client.clone())).await;
    let (took, requests) = (start.elapsed(), proxy.take_requests().len());
    assert!(matches!(ended, Err(Error::Contended { .. })), "{ended:?} after {requests} requests");
    assert!(took >= TIME && took < TIME + 5 * A_MOMENT, "{took:?}");
    proxy.set_traffic(Traffic::pass());
}

/// "[`Error::Contended`]: other clients, or other calls of this one, changed the number each time".
#[history]
async fn an_update_is_not_held_up_by_calls_that_change_nothing(stage: Stage) {
    let client = stage.client(0).await;
    let number = long(&client);
    number.increment().await.unwrap();
    let hasty = number.with_options(AtomicOptions::new().timeout(TIME)).unwrap();
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

// --- Locks of numbers ---

fn promoted(client: &Client, time: Duration, lock: &str) -> DistributedAtomicLong {
    let options = AtomicOptions::new().timeout(time).promoted_to_lock(lock);
    long(client).with_options(options).unwrap()
}

#[history]
async fn whoever_is_gone_or_out_of_time_leaves_the_queue_of_the_lock(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(usual).await;
    let held = mutex_at(&other, LOCK).acquire().await.unwrap();
    long(&client).force_set(0).await.unwrap();
    proxy.set_traffic(Traffic::pass().delay(ms(10)));
    for is_gone in [true, false] {
        proxy.take_requests();
        let locking = promoted(&client, secs(5), LOCK);
        let adding = tokio::spawn(async move { locking.fetch_add(1).await });
        let rival = Rival::writes(other.zookeeper().await.unwrap());
        queue_of(stage.servers(), LOCK, 2).await;
        drop(rival);
        let tries = proxy.take_requests();
        let tries = tries.iter().filter(|request| **request == Request::SetData).count();
        assert!(tries >= 3, "first it is tried without: {tries}");
        // Others are not held up meanwhile.
        timeout(secs(1), long(&client).increment()).await.unwrap().unwrap();
        if is_gone {
            adding.abort();
        } else {
            let ended = within(adding).await.unwrap();
            assert!(matches!(ended, Err(Error::Contended { .. })), "{ended:?}");
        }
        queue_of(stage.servers(), LOCK, 1).await;
    }
    proxy.set_traffic(Traffic::pass());
    held.release().await.unwrap();
}

#[history]
async fn the_error_of_a_lock_is_for_those_who_ask_for_it(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(usual).await;
    long(&client).force_set(0).await.unwrap();
    let zookeeper = other.zookeeper().await.unwrap();
    let readable = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_read());
    zookeeper.create("/forbidden", b"", &readable).await.unwrap();
    let locking = promoted(&client, Duration::MAX, "/forbidden/lock");
    let plain = long(&client).with_options(AtomicOptions::new().timeout(Duration::MAX)).unwrap();
    proxy.set_traffic(Traffic::pass().delay(ms(10)));
    let plain = tokio::spawn(async move { plain.increment().await });
    let rival = Rival::writes(zookeeper);
    let refused = within(locking.increment()).await;
    drop(rival);
    proxy.set_traffic(Traffic::pass());
    assert!(matches!(refused, Err(Error::ZooKeeper { .. })), "{refused:?}");
    within(plain).await.unwrap().unwrap();
}

#[history]
async fn no_client_waits_for_a_lock_that_it_holds_itself(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(usual).await;
    long(&client).force_set(0).await.unwrap();
    let number = promoted(&client, Duration::MAX, LOCK);
    proxy.set_traffic(Traffic::pass().delay(ms(10)));
    let rival = Rival::writes(other.zookeeper().await.unwrap());
    let same = number.clone();
    let updating = tokio::spawn(async move { same.fetch_update(|old| Some(old + 1)).await });
    queue_of(stage.servers(), LOCK, 1).await;
    let adding = tokio::spawn(async move { number.fetch_add(1).await });
    queue_of(stage.servers(), LOCK, 2).await;
    drop(rival);
    proxy.set_traffic(Traffic::pass());
    let (updated, added) = within(join(updating, adding)).await;
    assert!(updated.unwrap().unwrap().is_ok() && added.unwrap().is_ok());
    queue_of(stage.servers(), LOCK, 0).await;
}

/// No other client is there, and nothing is written.
#[history]
async fn calls_that_change_nothing_are_no_rivals_of_each_other(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let number = DistributedAtomicLong::new(&client, PATH).unwrap();
    let number = number.with_options(AtomicOptions::new().timeout(Duration::ZERO)).unwrap();
    proxy.set_traffic(Traffic::pass().delay(ms(5)));
    let calls = (0..3).map(|task| {
        let number = number.clone();
        spawn_local(async move {
            sleep(ms(3) * task).await;
            for _ in 0..50 {
                assert_eq!(number.compare_exchange(5, 6).await, Ok(Err(0)));
            }
        })
    });
    for call in within(join_all(calls)).await {
        call.unwrap();
    }
    proxy.set_traffic(Traffic::pass());
}
