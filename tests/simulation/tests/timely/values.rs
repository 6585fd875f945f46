//! Numbers and values over time: outages, rivals, and watches without changes.

use std::time::Duration;

use futures_util::future::{join, join_all, try_join_all};
use tokio::time::{Instant, sleep, timeout};
use zk_recipes::atomic::{AtomicOptions, CachedAtomicLong, DistributedAtomicLong};
use zk_recipes::shared::{SharedState, SharedValue};
use zk_recipes::testing::{Fate, Request, Traffic};
use zk_recipes::zookeeper_client as zk;
use zk_recipes::{Client, ClientBuilder, Error, InterProcessMutex, RetryPolicy, Watch};
use zk_recipes_simulation::world::World;

use super::{A_MOMENT, Proxy, SESSION, ends, play, poll_once, usual, within};

const PATH: &str = "/numbers/a";
const LOCK: &str = "/numbers/lock";
/// What was written last is remembered for less.
const LONG: Duration = Duration::from_secs(12);

fn long(client: &Client) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, PATH).unwrap()
}

/// A number that is 1, of a client with a proxy before it.
async fn one(
    world: &World,
    with: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> (Proxy, Client, DistributedAtomicLong) {
    let proxy = Proxy::before(world, 0).await;
    let client = proxy.client(world, with).await;
    let number = long(&client);
    assert_eq!(number.increment().await, Ok(1));
    (proxy, client, number)
}

fn data(world: &World) -> Vec<u8> {
    world.servers().node(PATH).unwrap().data
}

/// Puts another node in the place of that of a number, with the same version.
fn replace(world: &World, number: i64) {
    let version = world.servers().node(PATH).unwrap().version;
    world.servers().delete(PATH);
    world.servers().create(PATH, &number.to_be_bytes(), false);
    for _ in 0..version {
        world.servers().set_data(PATH, &number.to_be_bytes());
    }
}

// --- Outages ---

/// What was written last is remembered for ten seconds. The new node has the same version as the one before.
#[test]
fn a_number_is_read_again_after_a_long_outage() {
    play(async |world| {
        let (proxy, client, number) = one(&world, |builder| builder.session_timeout(2 * LONG)).await;
        proxy.cut_off();
        within(client.watch_connection().wait_for(|state| !state.is_connected())).await.unwrap();
        let mut adding = Box::pin(number.increment());
        assert!(poll_once(&mut adding).is_pending());
        replace(&world, 500);
        sleep(LONG).await;
        proxy.refuse_connections(false);
        assert_eq!(within(adding).await, Ok(501));
        ends(&world, [client]).await;
    });
}

/// "A client that has changed or compared the number within the last ten seconds may overwrite a new node". This one was
/// sent longer ago, and has never arrived.
#[test]
fn a_lost_write_is_not_repeated_after_a_long_outage_over_another_node() {
    play(async |world| {
        let (proxy, client, number) = one(&world, |builder| builder.session_timeout(2 * LONG)).await;
        proxy.refuse_connections(true);
        let lost = proxy.intercept(Request::SetData, Fate::LoseRequest);
        let mut adding = Box::pin(number.increment());
        assert!(poll_once(&mut adding).is_pending());
        within(lost.happened()).await;
        replace(&world, 500);
        sleep(LONG).await;
        proxy.refuse_connections(false);
        let added = within(adding).await;
        let there = i64::from_be_bytes(data(&world).try_into().unwrap());
        assert!((500..=501).contains(&there), "{there}, and it is told: {added:?}");
        ends(&world, [client]).await;
    });
}

#[test]
fn an_operation_that_was_cancelled_before_it_was_sent_is_not_done() {
    play(async |world| {
        let (proxy, client, number) = one(&world, usual).await;
        proxy.cut_off();
        within(client.watch_connection().wait_for(|state| !state.is_connected())).await.unwrap();
        proxy.take_requests();
        let mut adding = Box::pin(number.fetch_add(10));
        assert!(poll_once(&mut adding).is_pending());
        // The task takes it up meanwhile.
        sleep(Duration::from_millis(200)).await;
        drop(adding);
        assert_eq!(proxy.take_requests(), [], "nothing was sent");
        proxy.refuse_connections(false);
        let added = within(number.increment()).await;
        assert_eq!(added, Ok(2), "ten were added by a call that was cancelled before");
        ends(&world, [client]).await;
    });
}

#[test]
fn an_outage_is_told_to_everybody_who_waits() {
    const CONNECTION: Duration = Duration::from_millis(500);
    play(async |world| {
        let policy = RetryPolicy::n_times(0, Duration::ZERO);
        let with = |builder| usual(builder).retry_policy(policy).connection_timeout(CONNECTION);
        let (proxy, client, number) = one(&world, with).await;
        proxy.cut_off();
        let start = Instant::now();
        for outcome in join_all([number.increment(), number.increment()]).await {
            assert!(outcome.is_err());
        }
        assert!(start.elapsed() < 2 * CONNECTION + A_MOMENT, "{:?}", start.elapsed());
        proxy.refuse_connections(false);
        within(client.watch_connection().wait_for(|state| state.is_connected())).await.unwrap();
        let added = within(number.increment()).await.unwrap();
        assert!((2..=4).contains(&added), "{added}");
        ends(&world, [client]).await;
    });
}

#[test]
fn a_caller_that_is_polled_late_gets_a_number_in_hand() {
    play(async |world| {
        let (proxy, client, number) = one(&world, usual).await;
        let ids = CachedAtomicLong::new(&number, 10).unwrap();
        let mut late = Box::pin(ids.next());
        assert!(poll_once(&mut late).is_pending());
        for _ in 0..4 {
            within(ids.next()).await.unwrap();
        }
        world.servers().set_data(PATH, b"seven");
        proxy.take_requests();
        within(ids.next()).await.unwrap();
        // The next block cannot be drawn, which the number that is read and is none shows.
        sleep(A_MOMENT).await;
        assert!(proxy.requests_seen() >= 3, "it is read");
        within(ids.next()).await.unwrap();
        sleep(Duration::from_millis(200)).await;
        assert!(within(late).await.is_ok(), "there are numbers in hand");
        for _ in 0..3 {
            within(ids.next()).await.unwrap();
        }
        let outcome = within(ids.next()).await;
        assert!(matches!(outcome, Err(Error::NotANumber { .. })), "{outcome:?}");
        ends(&world, [client]).await;
    });
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
#[test]
fn an_update_pauses_between_its_tries_as_an_increment_does() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let (client, other) = (proxy.client(&world, usual).await, world.machines()[1].client().await);
        let number = long(&client).with_options(&AtomicOptions::new().timeout(Duration::MAX)).unwrap();
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
        ends(&world, [client, other]).await;
    });
}

/// "Operations on a number that are written together line up together."
#[test]
fn what_is_written_together_lines_up_together() {
    const CALLS: usize = 20;
    play(async |world| {
        for updates in [false, true] {
            let proxy = Proxy::before(&world, 0).await;
            let (client, other) = (proxy.client(&world, usual).await, world.machines()[1].client().await);
            let held = InterProcessMutex::new(&other, LOCK).unwrap().acquire().await.unwrap();
            let options = AtomicOptions::new().timeout(Duration::MAX).promoted_to_lock(LOCK);
            let number = long(&client).with_options(&options).unwrap();
            number.force_set(0).await.unwrap();
            proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(10)));
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
                while begin.elapsed() < Duration::from_secs(8) {
                    longest = longest.max(world.servers().children(LOCK).unwrap().len() - 1);
                    sleep(Duration::from_millis(50)).await;
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
        ends(&world, []).await;
    });
}

/// What a call may take that waits for others.
const TIME: Duration = Duration::from_secs(1);

async fn increment(client: Client) -> zk_recipes::Result<()> {
    let number = long(&client).with_options(&AtomicOptions::new().timeout(TIME))?;
    number.increment().await.map(drop)
}

async fn update(client: Client) -> zk_recipes::Result<()> {
    let value = SharedValue::new(&client, PATH, "seed")?.with_timeout(TIME);
    value.update(|old| [old, b"+"].concat()).await.map(drop)
}

/// "[`Error::Contended`]: other clients wrote first each time, until the time was over." Someone deletes the node each time it
/// is created.
async fn ends_in_its_time(world: World, call: impl AsyncFnOnce(Client) -> zk_recipes::Result<()>) {
    let proxy = Proxy::before(&world, 0).await;
    let (client, other) = (proxy.client(&world, usual).await, world.machines()[1].client().await);
    // So that the parent is there.
    long(&client).force_set(0).await.unwrap();
    proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(5)));
    let rival = Rival::deletes(other.zookeeper().await.unwrap());
    proxy.take_requests();
    let start = Instant::now();
    let ended = within(call(client.clone())).await;
    let (took, requests) = (start.elapsed(), proxy.take_requests().len());
    assert!(matches!(ended, Err(Error::Contended { .. })), "{ended:?} after {requests} requests");
    assert!(took >= TIME && took < TIME + 5 * A_MOMENT, "{took:?}");
    proxy.set_traffic(Traffic::pass());
    drop(rival);
    ends(&world, [client, other]).await;
}

#[test]
fn a_call_ends_in_its_time_although_someone_deletes_the_node_each_time() {
    play(|world| ends_in_its_time(world, increment));
    play(|world| ends_in_its_time(world, update));
}

/// "[`Error::Contended`]: other clients, or other calls of this one, changed the number each time".
#[test]
fn an_update_is_not_held_up_by_calls_that_change_nothing() {
    play(async |world| {
        let client = world.machines()[0].client().await;
        let number = long(&client);
        number.increment().await.unwrap();
        let hasty = number.with_options(&AtomicOptions::new().timeout(TIME)).unwrap();
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
        ends(&world, [client]).await;
    });
}

// --- Watches ---

async fn becomes(states: &mut Watch<SharedState<Vec<u8>>>, is: impl Fn(&[u8]) -> bool) {
    let _seen =
        within(states.wait_for(|state| state.current().is_some_and(|value| is(value)))).await.unwrap();
}

/// The servers drop a watch without a word when the value changes while it may not be read.
#[test]
fn what_changes_while_it_may_not_be_read_is_noticed() {
    play(async |world| {
        let (client, machine) = (world.machines()[0].client().await, &world.machines()[1]);
        let owner = machine.builder().auth("digest", "owner:secret");
        let owner = machine.connect(owner, &world.address_of(0)).await;
        let zookeeper = owner.zookeeper().await.unwrap();
        let value = SharedValue::new(&client, PATH, "1").unwrap();
        value.get().await.unwrap();
        let mut states = value.watch();
        becomes(&mut states, |_| true).await;
        let private = [zk::Acl::new(zk::Permission::ALL, zk::AuthId::new("auth", ""))];
        zookeeper.set_acl(PATH, &private, None).await.unwrap();
        zookeeper.set_data(PATH, b"2", None).await.unwrap();
        let may_not = |state: &SharedState<_>| {
            matches!(
                state,
                SharedState::Stale {
                    last: Some(_),
                    error: Some(Error::ZooKeeper { source: zk::Error::NoAuth, .. })
                }
            )
        };
        let _seen = within(states.wait_for(may_not)).await.unwrap().clone();
        zookeeper.set_acl(PATH, &zk::Acls::anyone_all(), None).await.unwrap();
        becomes(&mut states, |value| value == b"2").await;
        drop((states, zookeeper));
        ends(&world, [client, owner]).await;
    });
}

#[test]
fn a_watch_without_changes_costs_a_read_now_and_then() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let client = proxy.client(&world, usual).await;
        let value = SharedValue::new(&client, PATH, "seed").unwrap();
        value.get().await.unwrap();
        let mut states = value.watch();
        becomes(&mut states, |_| true).await;
        proxy.take_requests();
        sleep(6 * SESSION).await;
        let requests = proxy.take_requests();
        assert!(requests.iter().all(|request| *request == Request::GetData), "{requests:?}");
        assert!((2..20).contains(&requests.len()), "{requests:?}");
        drop(states);
        ends(&world, [client]).await;
    });
}

/// Also for a client that waits for a connection for longer.
#[test]
fn a_value_is_stale_as_soon_as_there_is_no_connection() {
    play(async |world| {
        let proxy = Proxy::before(&world, 0).await;
        let client = proxy.client(&world, |builder| usual(builder).connection_timeout(6 * SESSION)).await;
        let value = SharedValue::new(&client, PATH, "seed").unwrap();
        value.get().await.unwrap();
        let mut states = value.watch();
        for _ in 0..10 {
            becomes(&mut states, |_| true).await;
            proxy.cut_off();
            let stale = states.wait_for(|state| matches!(state, SharedState::Stale { last: Some(_), .. }));
            let is_stale = timeout(A_MOMENT, stale).await.is_ok();
            assert!(is_stale, "{:?} is shown without a connection", states.get());
            proxy.refuse_connections(false);
        }
        drop(states);
        ends(&world, [client]).await;
    });
}
