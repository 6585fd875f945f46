//! What all clients of a process share: what one user does to one client costs the others nothing.

mod support;

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use zk_recipes::atomic::{CachedAtomicLong, DistributedAtomicLong};
use zk_recipes::cache::{Cache, CacheOptions, Changes};
use zk_recipes::testing::FaultProxy;
use zk_recipes::{Client, ConnectionState, Error, Locks, Owner, blocking};

use support::room::Room;
use support::runtime::*;
use support::*;

/// As that of the executor of the "Async Book", whose wakers expect that it is still there.
#[derive(Default)]
struct Gone(AtomicUsize);

impl Wake for Gone {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
        panic!("the executor is gone");
    }
}

impl Gone {
    async fn is_woken(&self) {
        eventually("it is woken", async || (self.0.load(SeqCst) > 0).then_some(())).await;
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Begins to wait, and is to be woken by that.
fn waits<W: Wake + Send + Sync + 'static>(mut future: Pin<&mut (impl Future + ?Sized)>, waker: &Arc<W>) {
    let waker = Waker::from(waker.clone());
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
}

/// These can still acquire.
async fn acquire<const N: usize>(clients: [&Client; N]) {
    for client in clients {
        let acquired = within(mutex(client).acquire()).await;
        assert!(acquired.is_ok(), "{acquired:?}");
    }
}

/// Of a request that a user of the client's `zookeeper` makes.
#[test]
fn a_waker_of_a_request_by_hand_that_panics_costs_others_nothing() {
    let (elsewhere, server) = server_elsewhere();
    let [one, other] = [(); 2].map(|()| block_on(connect(&server)));
    let zookeeper = block_on(one.zookeeper()).unwrap();
    let gone = Arc::<Gone>::default();
    server.pause().unwrap();
    // The call sends it.
    let mut asked = pin!(zookeeper.get_data("/zookeeper"));
    waits(asked.as_mut(), &gone);
    server.resume().unwrap();
    elsewhere.block_on(gone.is_woken());
    elsewhere.block_on(acquire([&other, &one]));
}

/// Of one that waits for a change of the connection.
#[test]
fn a_waker_of_a_watch_that_panics_costs_its_client_and_other_watches_nothing() {
    const OTHERS: usize = 20;
    let (elsewhere, server) = server_elsewhere();
    let client = block_on(connect(&server));
    let mut watches = [(); 1 + OTHERS].map(|()| client.watch_connection());
    let (gone, counts) = <(Arc<Gone>, Arc<Counts>)>::default();
    let mut changes = watches.each_mut().map(|states| {
        assert!(block_on(states.changed()).is_some());
        Box::pin(states.changed())
    });
    for (nth, changed) in changes.iter_mut().enumerate() {
        if nth == 0 { waits(changed.as_mut(), &gone) } else { waits(changed.as_mut(), &counts) }
    }
    let session = elsewhere.block_on(session_id(&client));
    elsewhere.block_on(server.kill_session(session)).unwrap();
    let all = async || (gone.0.load(SeqCst) > 0 && counts.0.load(SeqCst) == OTHERS).then_some(());
    elsewhere.block_on(eventually("all are woken", all));
    elsewhere.block_on(acquire([&client]));
}

/// Of one that a timer wakes.
#[test]
fn a_waker_that_panics_when_its_time_is_over_costs_others_nothing() {
    let (elsewhere, server) = server_elsewhere();
    let [one, other] = [(); 2].map(|()| block_on(connect(&server)));
    let mutex_of_one = mutex(&one);
    server.pause().unwrap();
    let gone = Arc::<Gone>::default();
    let mut acquiring = pin!(mutex_of_one.try_acquire_for(Duration::from_millis(50)));
    waits(acquiring.as_mut(), &gone);
    elsewhere.block_on(gone.is_woken());
    // No one has answered.
    let acquired = elsewhere.block_on(within(acquiring));
    assert!(matches!(acquired, Ok(None) | Err(Error::NotConnected { .. })), "{acquired:?}");
    server.resume().unwrap();
    elsewhere.block_on(acquire([&other, &one]));
}

#[test]
fn wakers_of_requests_that_panic_cost_their_client_and_others_nothing() {
    let (elsewhere, server) = server_elsewhere();
    let [client, other] = [(); 2].map(|()| block_on(connect(&server)));
    let session = elsewhere.block_on(session_id(&client));
    let number = DistributedAtomicLong::new(&client, "/numbers/a").unwrap();
    assert_eq!(block_on(number.increment()), Ok(1));
    let states = client.watch_connection();
    server.pause().unwrap();
    let gone: [Arc<Gone>; 3] = Default::default();
    let mut reads = [(); 3].map(|()| Box::pin(number.get()));
    for (read, gone) in reads.iter_mut().zip(&gone) {
        waits(read.as_mut(), gone);
    }
    server.resume().unwrap();
    for gone in gone {
        elsewhere.block_on(gone.is_woken());
    }
    for read in reads {
        assert_eq!(elsewhere.block_on(within(read)), Ok(1));
    }
    assert_eq!(states.get(), ConnectionState::Connected);
    assert_eq!(elsewhere.block_on(session_id(&client)), session);
    elsewhere.block_on(acquire([&other, &client]));
}

#[test]
fn a_waker_that_panics_costs_those_who_hear_of_the_same_end_nothing() {
    const OTHERS: usize = 20;
    let (elsewhere, server) = server_elsewhere();
    let client = block_on(connect(&server));
    let number = DistributedAtomicLong::new(&client, "/numbers/a").unwrap();
    server.pause().unwrap();
    let counts: [Arc<Counts>; OTHERS] = Default::default();
    let mut read = pin!(number.get());
    waits(read.as_mut(), &Arc::<Gone>::default());
    let mut reads = [(); OTHERS].map(|()| Box::pin(number.get()));
    for (read, counts) in reads.iter_mut().zip(&counts) {
        waits(read.as_mut(), counts);
    }
    let mut closing = Box::pin(client.close());
    // It wakes them.
    let _ = poll_once(&mut closing);
    assert!(counts.iter().all(|counts| counts.0.load(SeqCst) > 0));
    server.resume().unwrap();
    elsewhere.block_on(within(closing));
}

/// Of one that waits for a connection, and is woken also by the end of the client.
#[test]
fn a_waker_of_a_wait_for_a_connection_that_panics_costs_nobody_anything() {
    let (elsewhere, server) = server_elsewhere();
    let other = block_on(connect(&server));
    let client = Client::connect_lazily(&server.connect_string()).unwrap();
    let gone = Arc::<Gone>::default();
    let waker = Waker::from(gone.clone());
    let mut connected = pin!(client.wait_connected());
    if connected.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        elsewhere.block_on(gone.is_woken());
    }
    elsewhere.block_on(acquire([&other, &client]));
}

/// Has a cache, at which it looks where it is woken, and counts how often it has.
struct Looks(Cache, AtomicUsize);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        let _ = (self.0.current(), self.0.changes(), self.0.watch_state());
        self.1.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_waker_that_looks_at_its_cache_blocks_nobody() {
    let (elsewhere, server) = server_elsewhere();
    let proxy = elsewhere.block_on(FaultProxy::start(server.connect_string())).unwrap();
    let (client, other) = (block_on(connect_through(&proxy)), block_on(connect(&server)));
    let cache = Cache::start(&client, "/locks", CacheOptions::tree()).unwrap();
    elsewhere.block_on(within(cache.wait_current())).unwrap();
    let (mut states, mut changes) = (cache.watch_state(), cache.changes());
    assert!(block_on(states.changed()).is_some() && block_on(changes.next()).is_some());
    let looks = Arc::new(Looks(cache, AtomicUsize::new(0)));
    let looked = || {
        let looked = async || (looks.1.swap(0, SeqCst) > 0).then_some(());
        elsewhere.block_on(eventually("it looks", looked));
    };
    {
        let mut next = pin!(changes.next());
        waits(next.as_mut(), &looks);
        // It makes a node.
        elsewhere.block_on(acquire([&other]));
        looked();
    }
    let mut changed = pin!(states.changed());
    waits(changed.as_mut(), &looks);
    proxy.cut();
    looked();
    elsewhere.block_on(acquire([&other]));
}

/// Looks where it is woken whether a cache that is current has its first change, and whether those who wait for it are told.
struct LooksWhenCurrent(Cache, Mutex<Changes>, Mutex<Option<(bool, bool)>>);

impl Wake for LooksWhenCurrent {
    fn wake(self: Arc<Self>) {
        if self.0.state().is_current() {
            let is_told = self.0.wait_current().now_or_never().is_some();
            let has_change = self.1.lock().unwrap().try_next().is_some();
            self.2.lock().unwrap().get_or_insert((has_change, is_told));
        }
    }
}

#[test]
fn a_waker_that_finds_a_cache_current_finds_its_first_change() {
    let (elsewhere, server) = server_elsewhere();
    let client = block_on(connect(&server));
    // Some may be current before they are followed.
    let found = (0..100).find_map(|number| {
        let cache = Cache::start(&client, &format!("/{number}"), CacheOptions::tree()).unwrap();
        let looks = Arc::new(LooksWhenCurrent(cache.clone(), Mutex::new(cache.changes()), Mutex::default()));
        let waker = Waker::from(looks.clone());
        let mut states = cache.watch_state();
        assert!(block_on(states.changed()).is_some());
        let mut changed = pin!(states.changed());
        let _ = changed.as_mut().poll(&mut Context::from_waker(&waker));
        elsewhere.block_on(within(cache.wait_current())).unwrap();
        *looks.2.lock().unwrap()
    });
    assert_eq!(found, Some((true, true)));
}

#[test]
fn a_waker_that_panics_costs_those_whose_operations_are_written_together_nothing() {
    let (elsewhere, server) = server_elsewhere();
    let number = DistributedAtomicLong::new(&block_on(connect(&server)), "/numbers/a").unwrap();
    assert_eq!(block_on(number.increment()), Ok(1));
    server.pause().unwrap();
    let mut first = pin!(number.fetch_add(10));
    waits(first.as_mut(), &Arc::<Gone>::default());
    let mut second = pin!(number.fetch_add(100));
    assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    server.resume().unwrap();
    assert_eq!(elsewhere.block_on(within(second)), Ok(11));
    assert_eq!(block_on(number.get()), Ok(111));
}

#[test]
fn a_waker_that_panics_costs_those_who_wait_for_the_same_ids_nothing() {
    const OTHERS: usize = 20;
    let (elsewhere, server) = server_elsewhere();
    let number = DistributedAtomicLong::new(&block_on(connect(&server)), "/numbers/a").unwrap();
    assert_eq!(block_on(number.increment()), Ok(1));
    let ids = CachedAtomicLong::new(&number, 100).unwrap();
    server.pause().unwrap();
    let mut first = pin!(ids.next());
    waits(first.as_mut(), &Arc::<Gone>::default());
    let counts = Arc::<Counts>::default();
    let mut others = [(); OTHERS].map(|()| Box::pin(ids.next()));
    for other in &mut others {
        waits(other.as_mut(), &counts);
    }
    server.resume().unwrap();
    let all = async || (counts.0.load(SeqCst) == OTHERS).then_some(());
    elsewhere.block_on(eventually("all others are woken", all));
    for (nth, other) in others.into_iter().enumerate() {
        assert_eq!(elsewhere.block_on(within(other)), Ok(1 + nth as i64));
    }
}

/// Has a call, which it drops where it is woken.
struct Drops(Mutex<Option<BoxFuture<'static, ()>>>);

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        let call = self.0.lock().unwrap().take();
        drop(call);
    }
}

#[test]
fn a_call_that_is_dropped_where_it_is_woken_blocks_nobody() {
    let (elsewhere, server) = server_elsewhere();
    let [one, other] =
        [(); 2].map(|()| DistributedAtomicLong::new(&block_on(connect(&server)), "/numbers/a").unwrap());
    assert_eq!(block_on(one.increment()), Ok(1));
    server.pause().unwrap();
    let task = Arc::new(Drops(Mutex::new(None)));
    let mut call = async move { drop(one.increment().await) }.boxed();
    waits(call.as_mut(), &task);
    *task.0.lock().unwrap() = Some(call);
    server.resume().unwrap();
    let is_woken = async || task.0.lock().unwrap().is_none().then_some(());
    elsewhere.block_on(eventually("it is woken", is_woken));
    assert_eq!(elsewhere.block_on(within(other.increment())), Ok(3));
}

/// Has the last handle of a client, which it drops where it is woken.
struct Last(Mutex<Option<Client>>);

impl Wake for Last {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn the_last_drop_in_a_waker_blocks_nobody() {
    let (elsewhere, server) = server_elsewhere();
    let patient = Client::builder().drop_timeout(BOUND);
    let one = block_on(patient.connect(&server.connect_string())).unwrap();
    let other = block_on(connect(&server));
    drop(block_on(mutex(&other).acquire()).unwrap());
    let zookeeper = block_on(one.zookeeper()).unwrap();
    server.pause().unwrap();
    // The call sends it.
    let mut asked = pin!(zookeeper.get_data("/zookeeper"));
    waits(asked.as_mut(), &Arc::new(Last(Mutex::new(Some(one)))));
    server.resume().unwrap();
    let begun = Instant::now();
    elsewhere.block_on(acquire([&other]));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// What a task has that an executor has dropped: its waker is the last to have it, and drops it where it is woken.
struct Blocks(blocking::InterProcessMutex, mpsc::Sender<zk_recipes::Result<bool>>);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.is_locked());
    }
}

#[test]
fn a_blocking_call_in_a_destructor_on_the_thread_of_all_connections_is_refused() {
    let (elsewhere, server) = server_elsewhere();
    let one = block_on(connect(&server));
    let other = block_on(connect(&server));
    drop(block_on(mutex(&other).acquire()).unwrap());
    let of_threads = blocking::Client::connect(&server.connect_string()).unwrap();
    let (tell, told) = mpsc::channel();
    let blocks = Blocks(blocking::InterProcessMutex::new(&of_threads, "/locks/a").unwrap(), tell);
    let zookeeper = block_on(one.zookeeper()).unwrap();
    server.pause().unwrap();
    {
        let waker = Waker::from(Arc::new(blocks));
        let mut asked = pin!(zookeeper.get_data("/zookeeper"));
        assert!(asked.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        server.resume().unwrap();
        thread::sleep(Duration::from_secs(2));
    }
    let outcome = told.recv_timeout(Duration::from_secs(5));
    let acquired = elsewhere
        .block_on(async { tokio::time::timeout(Duration::from_secs(5), mutex(&other).acquire()).await });
    assert!(matches!(acquired, Ok(Ok(_))), "of another client: {acquired:?}; the call: {outcome:?}");
    assert!(outcome.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_one_key_exclude_each_other_however_they_come_and_go() {
    let server = Server::start().await.unwrap();
    let [client, stranger] = connect_many(&server).await;
    let room = Arc::new(Room::default());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..12_u64 {
        let client = if task == 0 { &stranger } else { &client };
        let (client, room) = (client.clone(), room.clone());
        tasks.spawn(async move {
            for round in 0..60_u64 {
                let locks = Locks::new(&client, "/keys").unwrap();
                if (task + round) % 5 == 0 {
                    // Gives up somewhere.
                    let mutex = locks.mutex("a/b").unwrap();
                    let polls = 1 + (round % 4) as usize;
                    if let Some(guard) = poll_times(mutex.owned_by(&Owner::new()).acquire(), polls).await {
                        drop(guard);
                    }
                    continue;
                }
                let guard = locks.mutex("a/b").unwrap().acquire().await.unwrap();
                let stay = room.enter(&guard);
                // Entered again through another object of the key.
                let again = locks.clone().mutex("a/b").unwrap().acquire().await.unwrap();
                assert_eq!(again.fencing_token(), guard.fencing_token());
                drop(guard);
                tokio::task::yield_now().await;
                drop(stay);
                if round % 2 == 0 { drop(again) } else { again.release().await.unwrap() }
            }
        });
    }
    within(async {
        while let Some(done) = tasks.join_next().await {
            done.unwrap()
        }
    })
    .await;
    let zookeeper = bystander(&server).await;
    assert_nothing_left(&server, &zookeeper, "/keys/a%2Fb").await;
}
