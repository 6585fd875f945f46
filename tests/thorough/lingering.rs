//! What locks that linger promise, where it is easily broken.

#[path = "../support/mod.rs"]
mod support;

use std::collections::HashSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use support::*;
use tokio::time::timeout;
use zk_recipes::testing::{FaultProxy, Traffic};
use zk_recipes::{
    Client, Error, InterProcessLock, InterProcessMutex, LockGuard, LockOptions, MultiLock, Owner, operate,
};
use zookeeper_client as zk;

const PATH: &str = "/locks/a";
const LONG: Duration = Duration::from_secs(600);
/// Much longer than anything takes whose turn has come.
const STUCK: Duration = Duration::from_secs(8);

fn lingering_at(client: &Client, path: &str, time: Duration) -> InterProcessMutex {
    InterProcessMutex::new(client, path).unwrap().with_options(LockOptions::new().linger(time)).unwrap()
}

fn lingering(client: &Client) -> InterProcessMutex {
    lingering_at(client, PATH, LONG)
}

/// Waits for the list, so that the node stays from now on.
async fn settled(mutex: &InterProcessMutex) -> String {
    let guard = mutex.acquire().await.unwrap();
    let node = guard.node_path().to_owned();
    guard.release().await.unwrap();
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(guard.node_path(), node);
    guard.release().await.unwrap();
    node
}

/// The first holder is asked, and gives it back; the next acquire must not hold by that node.
#[tokio::test]
async fn who_is_asked_in_the_first_hold_frees_it() {
    let server = Server::start().await.unwrap();
    let [client, operator] = connect_many(&server).await;
    let mut kept = 0;
    let rounds = 20;
    for round in 0..rounds {
        let path = format!("/asked/{round}");
        let mutex = lingering_at(&client, &path, LONG);
        let guard = mutex.acquire().await.unwrap();
        let node = guard.node_path().to_owned();
        operate::ask(&operator, &path).await.unwrap();
        within(guard.revoke_requested()).await.unwrap();
        guard.release().await.unwrap();
        let guard = mutex.acquire().await.unwrap();
        if guard.node_path() == node {
            kept += 1;
        }
    }
    assert_eq!(kept, 0, "of {rounds} were granted again by the node that was asked for");
}

/// The same for a node that has lingered before, whose attendant listens.
#[tokio::test]
async fn who_is_asked_in_a_later_hold_frees_it() {
    let server = Server::start().await.unwrap();
    let [client, operator] = connect_many(&server).await;
    let mut kept = 0;
    let rounds = 40;
    for round in 0..rounds {
        let path = format!("/asked/{round}");
        let mutex = lingering_at(&client, &path, LONG);
        settled(&mutex).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let guard = mutex.acquire().await.unwrap();
        let node = guard.node_path().to_owned();
        operate::ask(&operator, &path).await.unwrap();
        within(guard.revoke_requested()).await.unwrap();
        guard.release().await.unwrap();
        let guard = mutex.acquire().await.unwrap();
        if guard.node_path() == node {
            kept += 1;
        }
    }
    assert_eq!(kept, 0, "of {rounds} were granted again by the node that was asked for");
}

/// A lock that is in use most of the time is asked for: it must be free at the end of a hold.
#[tokio::test]
async fn a_busy_lock_hears_that_it_is_asked_for() {
    let server = Server::start().await.unwrap();
    let [client, operator] = connect_many(&server).await;
    let mutex = lingering(&client);
    let mut asked_at = None;
    let mut first = None;
    for cycle in 0..400 {
        let guard = mutex.acquire().await.unwrap();
        let node = first.get_or_insert_with(|| guard.node_path().to_owned());
        if *node != guard.node_path() {
            assert!(asked_at.is_some_and(|at| cycle - at <= 3), "late: at {cycle}, asked at {asked_at:?}");
            return;
        }
        if cycle == 100 {
            operate::ask(&operator, PATH).await.unwrap();
            asked_at = Some(cycle);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        guard.release().await.unwrap();
    }
    panic!("the same node for 300 more holds, 1.5 seconds");
}

/// Returns a mutex whose first acquire is not polled any more while it awaits the list.
async fn abandoned<'a>(
    mutexes: &'a [InterProcessMutex],
) -> Option<(&'a InterProcessMutex, Pin<Box<dyn Future<Output = zk_recipes::Result<LockGuard>> + 'a>>)> {
    for mutex in mutexes {
        let guard = mutex.acquire().await.unwrap();
        guard.release().await.unwrap();
        let mut again: Pin<Box<dyn Future<Output = _>>> = Box::pin(mutex.acquire());
        if poll_once(&mut again.as_mut()).is_pending() {
            return Some((mutex, again));
        }
    }
    None
}

fn many(client: &Client, lingers: bool) -> Vec<InterProcessMutex> {
    let of = |n: usize| {
        let mutex = InterProcessMutex::new(client, &format!("/unpolled/{lingers}{n}")).unwrap();
        let mutex = mutex.owned_by(&Owner::new());
        if lingers { mutex.with_options(LockOptions::new().linger(LONG)).unwrap() } else { mutex }
    };
    (0..50).map(of).collect()
}

async fn tries_beside_an_abandoned_one(lingers: bool) {
    let server = Server::start().await.unwrap();
    let client = connect(&server).await;
    let mutexes = many(&client, lingers);
    let (mutex, _abandoned) = abandoned(&mutexes).await.expect("never pending");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let other = mutex.owned_by(&Owner::new());
    let tried = timeout(STUCK, other.try_acquire()).await;
    assert!(tried.is_ok(), "an attempt that does not wait is stuck");
}

#[tokio::test]
async fn an_attempt_does_not_wait_for_a_future_that_no_one_polls() {
    tries_beside_an_abandoned_one(true).await;
}

async fn tries_for_a_time_beside_an_abandoned_one(lingers: bool) {
    let server = Server::start().await.unwrap();
    let client = connect(&server).await;
    let mutexes = many(&client, lingers);
    let (mutex, _abandoned) = abandoned(&mutexes).await.expect("never pending");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let other = mutex.owned_by(&Owner::new());
    let tried = other.try_acquire_for(Duration::from_millis(500)).await;
    assert!(tried.is_ok(), "the servers answer all the time: {tried:?}");
}

#[tokio::test]
async fn an_attempt_beside_a_future_that_no_one_polls_is_not_told_of_an_outage() {
    tries_for_a_time_beside_an_abandoned_one(true).await;
}

/// One task polls an acquire in a `select!`, and tries in another branch.
#[tokio::test]
async fn a_task_that_tries_while_it_waits_is_not_stuck() {
    let server = Server::start().await.unwrap();
    let client = connect(&server).await;
    let mutexes = many(&client, true);
    let mut hit = 0;
    for mutex in &mutexes {
        mutex.acquire().await.unwrap().release().await.unwrap();
        let mut waiting = pin!(mutex.acquire());
        tokio::select! {
            biased;
            guard = &mut waiting => drop(guard),
            () = tokio::task::yield_now() => {
                hit += 1;
                let tried = timeout(STUCK, mutex.try_acquire()).await;
                assert!(tried.is_ok(), "stuck, after {hit}");
            }
        }
    }
}

/// A transaction of an earlier guard whose future was dropped is not carried out under the next guard.
#[tokio::test]
async fn a_dropped_transaction_is_not_carried_out_under_the_next_holder() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    zookeeper
        .create("/data", b"", &zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all()))
        .await
        .unwrap();
    let mutex = lingering(&client);
    for polls in 1..6 {
        proxy.set_traffic(Traffic::pass());
        settled(&mutex).await;
        let guard = mutex.acquire().await.unwrap();
        let node = guard.node_path().to_owned();
        proxy.set_traffic(Traffic::pass().delay_to_server(Duration::from_millis(200)));
        let commit = guard.transaction().set_data("/data", b"early".as_slice(), None).commit();
        let done = poll_times(commit, polls).await;
        if polls % 2 == 0 {
            drop(guard)
        } else {
            guard.release().await.unwrap()
        }
        let guard = within(mutex.acquire()).await.unwrap();
        let before = zookeeper.get_data("/data").await.unwrap().1.version;
        assert!(done.is_some() || guard.node_path() != node, "granted again after {polls} polls");
        tokio::time::sleep(Duration::from_millis(600)).await;
        let after = zookeeper.get_data("/data").await.unwrap().1.version;
        assert_eq!(before, after, "after {polls} polls");
    }
    client.close().await;
}

#[derive(Default)]
struct Seen {
    inside: AtomicUsize,
    /// (token, turn) of the last valid holder.
    last: Mutex<(i64, u64)>,
    grants: AtomicUsize,
    again: AtomicUsize,
}

impl Seen {
    /// Checks one hold.
    async fn hold(&self, guard: &LockGuard, who: &str, time: Duration) {
        let now = (guard.fencing_token(), guard.turn());
        assert_eq!(self.inside.fetch_add(1, SeqCst), 0, "{who}: two hold, {now:?}");
        {
            let mut last = self.last.lock().unwrap();
            assert!(now > *last, "{who}: {now:?} after {last:?}");
            *last = now;
        }
        self.grants.fetch_add(1, SeqCst);
        if guard.turn() > 0 {
            self.again.fetch_add(1, SeqCst);
        }
        tokio::time::sleep(time).await;
        assert!(guard.is_valid(), "{who}");
        assert_eq!((guard.fencing_token(), guard.turn()), now, "{who}: changed during the hold");
        assert_eq!(self.inside.fetch_sub(1, SeqCst), 1);
    }
}

async fn contend(client: Client, who: String, mutex: InterProcessMutex, seen: Arc<Seen>, until: Instant) {
    let mut mutex = mutex;
    let remake = {
        let client = client.clone();
        move |n: u64| {
            let time = [Duration::from_micros(300), Duration::from_millis(3), LONG][n as usize % 3];
            let brief = Duration::from_millis(10);
            let options = match n % 5 {
                0 | 1 => LockOptions::new().linger(time),
                2 => LockOptions::new().linger(time).cohort(2).cohort_time(brief),
                _ => LockOptions::new().cohort(3).cohort_time(brief),
            };
            let options = if n.is_multiple_of(2) { options.max_hold(LONG) } else { options };
            let mutex = InterProcessMutex::new(&client, PATH).unwrap();
            let mutex = if n.is_multiple_of(7) { mutex } else { mutex.with_options(options).unwrap() };
            mutex.owned_by(&Owner::new())
        }
    };
    while Instant::now() < until {
        match fastrand::u32(..20) {
            0 => mutex = remake(fastrand::u64(..)),
            1 => {
                drop(poll_times(mutex.acquire(), fastrand::usize(1..6)).await);
                continue;
            }
            2 => {
                let _ = timeout(Duration::from_micros(fastrand::u64(..2000)), mutex.acquire()).await;
                continue;
            }
            3 | 4 => tokio::time::sleep(Duration::from_millis(fastrand::u64(..40))).await,
            _ => {}
        }
        let mut is_multi = false;
        let guard = match fastrand::u32(..6) {
            0 => within(mutex.try_acquire()).await.unwrap(),
            1 => match within(mutex.try_acquire_for(Duration::from_millis(fastrand::u64(1..50)))).await {
                Err(Error::NotConnected { .. }) => None,
                tried => tried.unwrap(),
            },
            2 => {
                let locks: [Arc<dyn InterProcessLock>; 1] = [Arc::new(mutex.clone())];
                let multi = MultiLock::of(locks).unwrap();
                is_multi = true;
                Some(within(multi.acquire()).await.unwrap())
            }
            3 if fastrand::u32(..4) == 0 => {
                let ticket = within(mutex.enqueue()).await.unwrap();
                if fastrand::bool() {
                    continue;
                }
                Some(within(ticket.acquired()).await.unwrap())
            }
            _ => Some(within(mutex.acquire()).await.unwrap()),
        };
        let Some(guard) = guard else { continue };
        let time = Duration::from_micros(if fastrand::u32(..3) == 0 { fastrand::u64(..2000) } else { 0 });
        seen.hold(if is_multi { &guard.members()[0] } else { &guard }, &who, time).await;
        match fastrand::u32(..8) {
            0 => drop(guard),
            1 => {
                let _ = poll_times(guard.release(), 1).await;
            }
            2 => {
                drop(poll_times(guard.transaction().commit(), 1).await);
                drop(guard);
            }
            3 if !is_multi => {
                let again = mutex.acquire().await.unwrap();
                drop(guard);
                drop(again);
            }
            _ => guard.release().await.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn by_chance_no_two_hold_and_nothing_stays() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let clients: [Client; 3] = connect_many(&server).await;
    let seen = Arc::new(Seen::default());
    let until = Instant::now() + Duration::from_secs(if is_thorough() { 45 } else { 12 });
    let mut tasks = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        for task in 0..1 {
            let mutex = lingering(client).owned_by(&Owner::new());
            let who = format!("client {number} task {task}");
            tasks.push(tokio::spawn(contend(client.clone(), who, mutex, seen.clone(), until)));
        }
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    queue_of(&zookeeper, PATH, 0).await;
}

/// Two clients whose tasks form cohorts, and one without.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn by_chance_in_cohorts_no_two_hold_and_nothing_stays() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let clients: [Client; 3] = connect_many(&server).await;
    let seen = Arc::new(Seen::default());
    let until = Instant::now() + Duration::from_secs(if is_thorough() { 45 } else { 12 });
    let mut tasks = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        for task in 0..[6, 6, 1][number] {
            let options = LockOptions::new().cohort(5).cohort_time(Duration::from_millis(20));
            let mutex = if number < 2 { mutex(client).with_options(options).unwrap() } else { mutex(client) };
            let who = format!("client {number} task {task}");
            let mutex = mutex.owned_by(&Owner::new());
            tasks.push(tokio::spawn(contend(client.clone(), who, mutex, seen.clone(), until)));
        }
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    queue_of(&zookeeper, PATH, 0).await;
}

/// One client, many of its tasks with pauses: mostly grants by nodes that stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn by_chance_in_one_client_no_two_hold_and_nothing_stays() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let seen = Arc::new(Seen::default());
    let until = Instant::now() + Duration::from_secs(if is_thorough() { 45 } else { 12 });
    let mut tasks = Vec::new();
    for task in 0..2 {
        let mutex = lingering(&client).owned_by(&Owner::new());
        tasks.push(tokio::spawn(contend(client.clone(), format!("{task}"), mutex, seen.clone(), until)));
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    queue_of(&zookeeper, PATH, 0).await;
}

/// The client lives on the runtime of the caller, which is busy with the lock most of the time: it releases, and acquires
/// again without a pause. The operator asks; a hold ends soon after that, and so does the lingering. Returns after how many
/// holds, which is up to how fast the request arrives.
async fn cycles_until_freed(
    client: &Client,
    operator: &Client,
    path: &str,
    ask_at: usize,
    most: usize,
) -> Option<usize> {
    let mutex = lingering_at(client, path, LONG);
    let mut first = None;
    for cycle in 0..most {
        let guard = mutex.acquire().await.unwrap();
        let node = first.get_or_insert_with(|| guard.node_path().to_owned());
        if *node != guard.node_path() {
            return Some(cycle - ask_at);
        }
        if cycle == ask_at {
            operate::ask(operator, path).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        guard.release().await.unwrap();
    }
    None
}

#[tokio::test]
async fn a_busy_lock_on_the_runtime_of_the_caller_hears_that_it_is_asked_for() {
    let server = Server::start().await.unwrap();
    let operator = connect(&server).await;
    let client = connect_here(&server).await;
    for ask_at in [0, 100] {
        let freed = cycles_until_freed(&client, &operator, &format!("/busy/{ask_at}"), ask_at, 1000).await;
        assert!(freed.is_some_and(|cycles| cycles <= 50), "asked in cycle {ask_at}: {freed:?}");
    }
}

#[tokio::test]
async fn a_busy_lock_hears_that_it_is_asked_for_in_its_first_holds() {
    let server = Server::start().await.unwrap();
    let [client, operator] = connect_many(&server).await;
    let mut worst = Some(0);
    for ask_at in 0..10 {
        let freed = cycles_until_freed(&client, &operator, &format!("/busy/{ask_at}"), ask_at, 1000).await;
        worst = worst.max(freed).filter(|_| freed.is_some());
    }
    assert!(worst.is_some_and(|cycles| cycles <= 50), "{worst:?}");
}

/// Acquires of others beside a future that no one polls: of the same client, and of another one.
async fn acquires_beside_an_abandoned_one(lingers: bool) -> [bool; 2] {
    let server = Server::start().await.unwrap();
    let [client, other] = connect_many(&server).await;
    let mutexes = many(&client, lingers);
    let (mutex, _abandoned) = abandoned(&mutexes).await.expect("never pending");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let beside = mutex.owned_by(&Owner::new());
    let beside = timeout(STUCK, beside.acquire()).await.is_ok();
    let elsewhere = InterProcessMutex::new(&other, mutex.path()).unwrap();
    let elsewhere = timeout(STUCK, elsewhere.acquire()).await.is_ok();
    [beside, elsewhere]
}

#[tokio::test]
async fn acquires_beside_a_future_that_no_one_polls_fare_no_worse_than_without_linger() {
    let [without, with] =
        [acquires_beside_an_abandoned_one(false).await, acquires_beside_an_abandoned_one(true).await];
    assert!(with >= without, "[the same client, another one]: {with:?} instead of {without:?}");
}

/// The pair of token and turn, the guard, and which client it belongs to.
type Holder = ((i64, u64), Arc<LockGuard>, usize);

/// Whose node was removed by others. Such a holder may hear of it after the next one holds: it may have no connection.
#[derive(Default)]
struct Removed {
    /// The tokens of the nodes that were deleted.
    tokens: Mutex<HashSet<i64>>,
    /// For each client, all tokens below this one.
    before: [AtomicI64; 2],
}

impl Removed {
    fn contains(&self, token: i64, client: usize) -> bool {
        token < self.before[client].load(SeqCst) || self.tokens.lock().unwrap().contains(&token)
    }
}

/// By chance, with long pauses, through connections that are cut, sessions that are killed, and queues that are removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn by_chance_in_trouble_no_two_hold_and_nothing_stays() {
    // Empty queues are removed at once: numbers begin again and again.
    let often = Server::builder().container_check_interval(Duration::from_millis(20));
    let server = often.start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let proxies = [
        FaultProxy::start(server.connect_string()).await.unwrap(),
        FaultProxy::start(server.connect_string()).await.unwrap(),
    ];
    let clients = [connect_through(&proxies[0]).await, connect_through(&proxies[1]).await];
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)]);
    let until = Instant::now() + Duration::from_secs(if is_thorough() { 45 } else { 20 });
    let holders: Arc<Mutex<Vec<Holder>>> = Arc::default();
    let removed = Arc::new(Removed::default());
    zookeeper
        .create("/clock", b"", &zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all()))
        .await
        .unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|number| {
            let client = number % 2;
            let mutex = lingering(&clients[client]).owned_by(&Owner::new());
            let (counts, holders, removed) = (counts.clone(), holders.clone(), removed.clone());
            tokio::spawn(async move {
                while Instant::now() < until {
                    for _ in 0..fastrand::usize(1..30) {
                        let Ok(guard) = within(mutex.acquire()).await else { continue };
                        let guard = Arc::new(guard);
                        let now = (guard.fencing_token(), guard.turn());
                        {
                            let mut holders = holders.lock().unwrap();
                            holders.push((now, guard.clone(), client));
                            holders.sort_by_key(|(pair, _, _)| *pair);
                            // Of two, the one of the smaller pair must be lost by now.
                            for (index, (newer, guard, _)) in holders.iter().enumerate() {
                                for (older, theirs, client) in &holders[..index] {
                                    assert_ne!(older, newer);
                                    // The newer one first: if it is valid, the older one was lost before.
                                    if guard.is_valid() && theirs.is_valid() {
                                        assert!(
                                            removed.contains(older.0, *client),
                                            "two hold: {older:?}, {newer:?}"
                                        );
                                    }
                                }
                            }
                        }
                        counts[usize::from(now.1 > 0)].fetch_add(1, SeqCst);
                        if fastrand::u32(..4) == 0 {
                            tokio::time::sleep(Duration::from_micros(fastrand::u64(..3000))).await;
                        }
                        holders.lock().unwrap().retain(|(of, _, _)| *of != now);
                        let guard = Arc::into_inner(guard).unwrap();
                        let _ = within(guard.release()).await;
                    }
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(..60))).await;
                }
            })
        })
        .collect();
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(50..700))).await;
        let number = fastrand::usize(..2);
        counts[2].fetch_add(1, SeqCst);
        match fastrand::u32(..4) {
            0 => proxies[number].cut(),
            1 => {
                proxies[number].set_traffic(Traffic::black_hole());
                tokio::time::sleep(Duration::from_millis(fastrand::u64(..1000))).await;
                proxies[number].cut();
                proxies[number].set_traffic(Traffic::pass());
            }
            2 => {
                if let Some(node) = children(&zookeeper, PATH).await.first() {
                    let node = format!("{PATH}/{node}");
                    if let Some(stat) = zookeeper.check_stat(&node).await.unwrap() {
                        removed.tokens.lock().unwrap().insert(stat.czxid);
                        let _ = zookeeper.delete(&node, None).await;
                    }
                }
            }
            _ => {
                let session = timeout(Duration::from_secs(1), session_id(&clients[number])).await;
                if let Ok(session) = session {
                    removed.before[number].store(i64::MAX, SeqCst);
                    let _ = server.kill_session(session).await;
                    let stat = zookeeper.set_data("/clock", b"", None).await.unwrap();
                    removed.before[number].store(stat.mzxid, SeqCst);
                }
            }
        }
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    queue_of(&zookeeper, PATH, 0).await;
    for client in clients {
        client.close().await;
    }
}

/// Waiters that were polled once come first, in their order.
#[tokio::test]
async fn local_waiters_are_served_in_order() {
    let server = Server::start().await.unwrap();
    let [client, other] = connect_many(&server).await;
    let owners: Vec<_> = (0..6).map(|_| lingering(&client).owned_by(&Owner::new())).collect();
    for round in 0..100 {
        let served: Arc<Mutex<Vec<usize>>> = Arc::default();
        let guard = within(owners[0].acquire()).await.unwrap();
        let mut tasks = Vec::new();
        for (number, owner) in owners.iter().enumerate().skip(1) {
            if number == round % 6 + 1 {
                tokio::task::yield_now().await;
            }
            let served = served.clone();
            let mut waiting = Box::pin({
                let owner = owner.clone();
                async move { owner.acquire().await.unwrap() }
            });
            assert!(poll_once(&mut waiting.as_mut()).is_pending());
            tasks.push(tokio::spawn(async move {
                let guard = waiting.await;
                served.lock().unwrap().push(number);
                guard.release().await.unwrap();
            }));
        }
        if round % 3 == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        guard.release().await.unwrap();
        for task in tasks {
            within(task).await.unwrap();
        }
        assert_eq!(*served.lock().unwrap(), [1, 2, 3, 4, 5], "in round {round}");
        if round % 5 == 0 {
            within(mutex(&other).acquire()).await.unwrap().release().await.unwrap();
        }
    }
}

/// Background tasks end with what they attend to, and watches do, too.
#[tokio::test]
async fn nothing_accumulates() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect_here(&server).await;
    let other = connect(&server).await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut first = None;
    for _ in 0..4 {
        for round in 0..40u64 {
            let time = [LONG, Duration::from_millis(2), Duration::from_micros(1)][round as usize % 3];
            let mutex = lingering_at(&client, PATH, time);
            let guard = within(mutex.acquire()).await.unwrap();
            match round % 8 {
                0 => guard.release().await.unwrap(),
                1 => {
                    drop(mutex);
                    guard.release().await.unwrap();
                    continue;
                }
                2 => {
                    zookeeper.delete(guard.node_path(), None).await.unwrap();
                    within(guard.lost()).await;
                    drop(guard);
                }
                3 => {
                    drop(poll_times(guard.transaction().commit(), 1).await);
                    drop(guard);
                }
                4 => {
                    let state = guard.watch_state();
                    drop(guard);
                    drop(state);
                }
                5 => {
                    drop(guard);
                    within(support::mutex(&other).acquire()).await.unwrap().release().await.unwrap();
                }
                6 => {
                    drop(guard);
                    settled_or_not(&mutex).await;
                    zookeeper.delete(&format!("{PATH}/x"), None).await.unwrap_err();
                }
                _ => {
                    guard.release().await.unwrap();
                    drop(poll_times(mutex.acquire(), 2).await);
                }
            }
            if round % 2 == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        queue_of(&zookeeper, PATH, 0).await;
        let watches = server.watch_count().await.unwrap();
        let first = *first.get_or_insert((alive(), watches));
        eventually("no more tasks and watches than the first time", || async {
            let now = (alive(), server.watch_count().await.unwrap());
            (now.0 <= first.0 && now.1 <= first.1).then_some(())
        })
        .await;
    }
}

async fn settled_or_not(mutex: &InterProcessMutex) {
    for _ in 0..3 {
        within(mutex.acquire()).await.unwrap().release().await.unwrap();
    }
}

/// An adopted session reconnects by itself, and its watches go on.
#[tokio::test]
async fn an_adopted_session_that_is_disconnected_grants_nothing() {
    let server = Server::start().await.unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let connector = zk::Client::connector().with_session_timeout(Duration::from_secs(20));
    let owned = connector.connect(&proxy.connect_string()).await.unwrap();
    let client = Client::from_zookeeper(owned.clone()).unwrap();
    let mutex = lingering(&client);
    let node = settled(&mutex).await;
    proxy.set_traffic(Traffic::black_hole());
    proxy.cut();
    eventually("it is not connected", || async {
        (!client.watch_connection().borrow().is_connected()).then_some(())
    })
    .await;
    let tried = mutex.try_acquire_for(Duration::from_millis(200)).await;
    assert!(matches!(tried, Err(Error::NotConnected { .. })), "{tried:?}");
    proxy.set_traffic(Traffic::pass());
    let guard = within(mutex.acquire()).await.unwrap();
    assert_ne!(guard.node_path(), node);
    drop(guard);
    client.close().await;
}
