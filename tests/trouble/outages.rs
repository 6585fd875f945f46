//! Servers and connections that fail for a while: restarts, cuts without end, an ensemble with a silent server.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::kinds::*;
use crate::support::*;
use futures_util::future::{join, join_all};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_recipes::testing::{Fate, FaultProxy, Request, TestingCluster, Traffic};
use zk_recipes::{
    Client, ConnectionState, InterProcessLock, InterProcessMutex, KeepAlive, LockGuard, LockState,
    LossReason, ReadWriteLock, RetryPolicy, Semaphore,
};
use zookeeper_client as zk;

async fn is(guard: &LockGuard, wanted: LockState) {
    within(guard.watch_state().wait_for(|state| *state == wanted)).await.map(|_| ()).unwrap();
}

#[tokio::test]
async fn a_hold_survives_a_restart_of_the_server() {
    let mut server = empty_server().await;
    let [holding, waiting] = connect_many(&server).await;
    let sessions = [session_id(&holding).await, session_id(&waiting).await];
    let zookeeper = bystander(&server).await;
    let mut held = Vec::new();
    let mut waiters = Vec::new();
    for kind in KINDS {
        let guard = kind.unlimited(&holding).acquire().await.unwrap();
        held.push((guard.fencing_token(), guard));
        waiters.push(in_task(kind.rival(&waiting)));
        queue_of(&zookeeper, &kind.queue(), if kind == Kind::Permit { 1 } else { 2 }).await;
    }
    server.kill().await.unwrap();
    for (_, guard) in &held {
        is(guard, LockState::Suspect).await;
        assert!(guard.is_valid());
    }
    server.restart().await.unwrap();
    for ((kind, (token, guard)), waiter) in KINDS.into_iter().zip(held).zip(waiters) {
        is(&guard, LockState::Held).await;
        assert_eq!((guard.fencing_token(), guard.loss()), (token, None), "{kind:?}");
        assert!(!waiter.is_finished(), "{kind:?}");
        within(guard.release()).await.unwrap();
        let next = within(waiter).await.unwrap().unwrap();
        assert!(next.fencing_token() > token, "{kind:?}");
        within(next.release()).await.unwrap();
    }
    assert_eq!([session_id(&holding).await, session_id(&waiting).await], sessions);
    watches_of(&server, 0).await;
}

// --- Cuts without end ---

/// Those who hold at this moment.
#[derive(Default)]
struct Room {
    inside: Vec<(Arc<LockGuard>, bool)>,
    last_token: i64,
    last_exclusive_token: i64,
    grants: usize,
    lost: usize,
}

impl Room {
    /// Lets a holder in. Whoever is inside and has not lost the lock by now is beside it.
    fn enter(&mut self, guard: &Arc<LockGuard>, exclusive: bool, capacity: usize) {
        let beside: Vec<_> = self.inside.iter().filter(|(other, _)| other.is_valid()).collect();
        assert!(beside.len() < capacity, "{guard:?} beside {beside:?}");
        if let Some(other) = beside.iter().find(|(_, other_exclusive)| exclusive || *other_exclusive) {
            panic!("{guard:?} beside {other:?}");
        }
        // Those who share are let in side by side, in no order. Those who do not are between the others.
        let token = guard.fencing_token();
        let before = if exclusive { self.last_token } else { self.last_exclusive_token };
        assert!(before < token, "{token} after {before}");
        self.last_token = self.last_token.max(token);
        if exclusive {
            self.last_exclusive_token = token;
        }
        self.grants += 1;
        self.inside.push((guard.clone(), exclusive));
    }

    fn leave(&mut self, guard: &Arc<LockGuard>) {
        self.inside.retain(|(other, _)| !Arc::ptr_eq(other, guard));
    }
}

/// One who acquires and releases, and how.
struct Visitor {
    lock: Arc<dyn InterProcessLock>,
    exclusive: bool,
}

/// Lets clients compete, each behind a proxy of its own, whose connections are cut all the time: for this many cycles, and
/// until there were enough cuts.
async fn compete(name: &str, capacity: usize, cycles: usize, visitors: impl Fn(&Client) -> Vec<Visitor>) {
    const CLIENTS: usize = 4;
    const CUTS: usize = 20;
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let room = Arc::new(Mutex::new(Room::default()));
    let cycles = repeats(cycles);
    let left = Arc::new(AtomicUsize::new(cycles));
    let cuts = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let mut workers = JoinSet::new();
    let mut saboteurs = JoinSet::new();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let client = Client::builder()
            // Long enough that a session survives any cut, on a busy machine too.
            .session_timeout(Duration::from_secs(20))
            .retry_policy(RetryPolicy::forever(Duration::from_millis(5)))
            .connect(&proxy.connect_string())
            .await
            .unwrap();
        clients.push((client.clone(), session_id(&client).await));
        for Visitor { lock, exclusive } in visitors(&client) {
            let (room, left, cuts) = (room.clone(), left.clone(), cuts.clone());
            workers.spawn(async move {
                while left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
                    || cuts.load(SeqCst) < CUTS
                {
                    let guard = Arc::new(within(lock.acquire()).await.unwrap());
                    room.lock().unwrap().enter(&guard, exclusive, capacity);
                    // Long enough for another to come in, if one is let in.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    room.lock().unwrap().leave(&guard);
                    let released = within(Arc::into_inner(guard).unwrap().release()).await;
                    room.lock().unwrap().lost += usize::from(released.is_err());
                }
            });
        }
        let (done, cuts) = (done.clone(), cuts.clone());
        saboteurs.spawn(async move {
            while !done.load(SeqCst) {
                tokio::time::sleep(Duration::from_millis(fastrand::u64(50..=200))).await;
                cuts.fetch_add(proxy.connections().len(), SeqCst);
                proxy.cut();
            }
            proxy
        });
    }
    let start = Instant::now();
    // Each acquire has its own bound; this one is for a busy machine.
    let all = tokio::time::timeout(Duration::from_secs(240), async {
        while let Some(outcome) = workers.join_next().await {
            outcome.unwrap();
        }
    });
    all.await
        .unwrap_or_else(|_| panic!("{name}: a wake-up was lost: {:?} cycles are left", left.load(SeqCst)));
    let elapsed = start.elapsed();
    done.store(true, SeqCst);
    let _proxies = within(saboteurs.join_all()).await;
    let mut lost_sessions = 0;
    for (client, session) in &clients {
        lost_sessions += usize::from(session_id(client).await != *session);
    }
    let Room { grants, lost, .. } = *room.lock().unwrap();
    let cuts = cuts.load(SeqCst);
    println!(
        "{name}: {grants} cycles of {CLIENTS} clients in {elapsed:.1?}, {cuts} cuts, {lost_sessions} sessions and {lost} \
         locks lost"
    );
    assert!(grants >= cycles && cuts >= CUTS, "{grants} of {cycles} cycles, {cuts} of {CUTS} cuts");
    assert_eq!((lost_sessions, lost), (0, 0), "a cut is no loss");
    eventually("nothing is left", async || {
        ephemerals_below(&zookeeper, "/locks").await.is_empty().then_some(())
    })
    .await;
    watches_of(&server, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mutex_works_under_cuts_without_end() {
    compete("mutex", 1, 1000, |client| vec![Visitor { lock: Arc::new(mutex(client)), exclusive: true }])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_semaphore_works_under_cuts_without_end() {
    compete("semaphore with 2 permits", 2, 300, |client| {
        let lock = Arc::new(Semaphore::new(client, "/locks/s", 2).unwrap());
        vec![Visitor { lock, exclusive: false }]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_write_lock_works_under_cuts_without_end() {
    compete("read/write lock", usize::MAX, 400, |client| {
        let lock = ReadWriteLock::new(client, "/locks/rw").unwrap();
        let reader = Visitor { lock: Arc::new(lock.read().clone()), exclusive: false };
        vec![reader, Visitor { lock: Arc::new(lock.write().clone()), exclusive: true }]
    })
    .await;
}

// --- An ensemble ---

/// Three servers and a proxy before each.
struct Ensemble {
    cluster: TestingCluster,
    proxies: Vec<FaultProxy>,
    leader: usize,
    followers: [usize; 2],
}

impl Ensemble {
    async fn start() -> Self {
        let cluster = TestingCluster::start(3).await.unwrap();
        let leader = cluster.leader().await.unwrap();
        let proxies = join_all(
            cluster
                .servers()
                .iter()
                .map(async |server| FaultProxy::start(server.connect_string()).await.unwrap()),
        )
        .await;
        Self { cluster, proxies, leader, followers: [(leader + 1) % 3, (leader + 2) % 3] }
    }

    /// A client that has only this server to talk to, from a point that can be cut.
    async fn client_of(&self, server: usize, session_timeout: Duration) -> Client {
        let builder = Client::builder().session_timeout(session_timeout);
        builder.connect(&self.proxies[server].connect_string()).await.unwrap()
    }

    /// A client that talks to the first of these servers, and may turn to the second.
    async fn client_of_both(&self, [first, second]: [usize; 2], session_timeout: Duration) -> Client {
        self.proxies[second].refuse_connections(true).unwrap();
        let both = [first, second].map(|server| self.proxies[server].connect_string()).join(",");
        let client = Client::builder().session_timeout(session_timeout).connect(&both).await.unwrap();
        self.proxies[second].refuse_connections(false).unwrap();
        client
    }

    async fn bystander(&self) -> zk::Client {
        let connector = zk::Client::connector().with_session_timeout(Duration::from_secs(30));
        connector.connect(&self.cluster.servers()[self.leader].connect_string()).await.unwrap()
    }
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_silent_server_costs_the_lock_only_when_it_is_silent_for_too_long() {
    let ensemble = Ensemble::start().await;
    let zookeeper = ensemble.bystander().await;
    let [silent, _] = ensemble.followers;
    let timeout = Duration::from_secs(8);
    let holding = ensemble.client_of(silent, timeout).await;
    let other = ensemble.client_of(ensemble.leader, Duration::from_secs(20)).await;
    let session = session_id(&holding).await;
    let guards = join_all(KINDS.map(async |kind| kind.unlimited(&holding).acquire().await.unwrap())).await;

    // For less than the session. It is suspect before the connection is given up, and held again after.
    let start = Instant::now();
    ensemble.cluster.pause(silent).unwrap();
    join_all(guards.iter().map(|guard| is(guard, LockState::Suspect))).await;
    assert!(start.elapsed() < timeout * 2 / 3, "{:?}", start.elapsed());
    ensemble.cluster.resume(silent).unwrap();
    join_all(guards.iter().map(|guard| is(guard, LockState::Held))).await;
    assert_eq!(session_id(&holding).await, session);

    // For longer.
    let waiting = KINDS.map(|kind| kind.rival(&other));
    ensemble.cluster.pause(silent).unwrap();
    within(join_all(KINDS.into_iter().zip(&guards).zip(waiting).map(async |((kind, guard), rival)| {
        let heard = async {
            assert_eq!(guard.lost().await, LossReason::Expired, "{kind:?}");
            Instant::now()
        };
        let granted = async {
            let next = rival.acquire().await.unwrap();
            assert!(!guard.is_valid(), "{kind:?}: two holders");
            (Instant::now(), next)
        };
        let (heard, (granted, next)) = join(heard, granted).await;
        assert!(heard < granted, "{kind:?}: {:?} after the other's grant", heard - granted);
        next.release().await.unwrap();
    })))
    .await;
    ensemble.cluster.resume(silent).unwrap();
    for (kind, guard) in KINDS.into_iter().zip(guards) {
        assert_lost(&within(guard.release()).await.unwrap_err(), LossReason::Expired);
        within(kind.unlimited(&holding).acquire()).await.unwrap().release().await.unwrap();
    }
    assert_ne!(session_id(&holding).await, session);
    eventually("nothing is left", async || {
        ephemerals_below(&zookeeper, "/locks").await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_client_of_a_silent_server_turns_to_another_in_time() {
    let ensemble = Ensemble::start().await;
    let [silent, other] = ensemble.followers;
    let client = ensemble.client_of_both([silent, other], Duration::from_secs(10)).await;
    let session = session_id(&client).await;
    let guards = join_all(KINDS.map(async |kind| kind.unlimited(&client).acquire().await.unwrap())).await;
    ensemble.cluster.pause(silent).unwrap();
    // A client that tries the silent one first, which is up to chance, would wait for it for too long.
    ensemble.proxies[silent].refuse_connections(true).unwrap();
    join_all(guards.iter().map(|guard| is(guard, LockState::Suspect))).await;
    join_all(guards.iter().map(|guard| is(guard, LockState::Held))).await;
    assert_eq!(ensemble.proxies[other].connections().len(), 1);
    for guard in guards {
        within(guard.release()).await.unwrap();
    }
    assert_eq!(session_id(&client).await, session);
    ensemble.cluster.resume(silent).unwrap();
}

/// The new leader gives all sessions their time again: a holder that has lost the lock has lost it long before.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_silent_leader_makes_no_second_holder() {
    let ensemble = Ensemble::start().await;
    let leader = ensemble.leader;
    let holding = ensemble.client_of(leader, Duration::from_secs(3)).await;
    let other = ensemble.client_of(ensemble.followers[0], Duration::from_secs(20)).await;
    let guard = mutex(&holding).acquire().await.unwrap();
    let lock = mutex(&other);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    queue_of(&ensemble.bystander().await, "/locks/a", 2).await;
    ensemble.cluster.pause(leader).unwrap();
    assert_eq!(within(guard.lost()).await, LossReason::Expired);
    assert!(!waiter.is_finished(), "the loss is heard of first");
    let next = within(waiter).await.unwrap().unwrap();
    assert!(next.is_valid() && next.fencing_token() > guard.fencing_token());
    ensemble.cluster.resume(leader).unwrap();
    assert_lost(&within(guard.release()).await.unwrap_err(), LossReason::Expired);
    within(next.release()).await.unwrap();
}

/// An isolated leader goes on to answer `sync`, reads and pings by itself, for `syncLimit` ticks; here that is two
/// minutes, longer than the others need for a leader of their own. What it cannot do is commit.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn an_isolated_leader_vouches_for_no_holder() {
    let builder = TestingCluster::builder(3).isolatable().property("syncLimit", "1200");
    let mut cluster = builder.system_property("zookeeper.cnxTimeout", "300").start().await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let followers = [(leader + 1) % 3, (leader + 2) % 3];
    let at_leader = cluster.servers()[leader].connect_string();
    let at_followers = followers.map(|follower| cluster.servers()[follower].connect_string()).join(",");
    let short = || Client::builder().session_timeout(Duration::from_secs(3));
    let strict = short().connect(&at_leader).await.unwrap();
    let lenient = short().keep_alive(KeepAlive::Leader).connect(&at_leader).await.unwrap();
    let at_risk = InterProcessMutex::new(&lenient, "/locks/b").unwrap().acquire().await.unwrap();
    let guard = mutex(&strict).acquire().await.unwrap();
    let zookeeper = zk::Client::connect(&at_leader).await.unwrap();

    cluster.isolate(leader);
    for follower in followers {
        // Launched again, they only look for a leader when they see that theirs does not answer.
        cluster.kill(follower).await.unwrap();
    }
    for follower in followers {
        let _ = timeout(Duration::from_millis(500), cluster.restart(follower)).await;
    }
    let check = |path: &'static str| {
        let mut check = zookeeper.new_multi_writer();
        check.add_check_version(path, -1).unwrap();
        check.commit()
    };
    let answered = async |check| timeout(Duration::from_millis(500), check).await.is_ok();
    zookeeper.sync("/").await.unwrap();
    assert!(!answered(check("/")).await, "what only checks is committed by a quorum");
    assert!(!answered(check("/missing")).await, "so is what is refused");

    let rival = within(async {
        loop {
            if let Ok(rival) = short().connect(&at_followers).await {
                return rival;
            }
        }
    })
    .await;
    let next = within(mutex(&rival).acquire()).await.unwrap();
    assert!(next.is_valid() && !guard.is_valid(), "two holders");
    assert_eq!(guard.loss(), Some(LossReason::Expired));
    let next_to_it = within(InterProcessMutex::new(&rival, "/locks/b").unwrap().acquire()).await.unwrap();
    assert!(next_to_it.is_valid() && at_risk.is_valid(), "the test cannot tell a good rule from a bad one");
}

/// A follower that hears from a client again tells its leader half a tick later. If it is cut off before that, the leader
/// goes by what it heard before the silence, although it has committed a write of the client since.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn the_first_answer_after_a_silence_counts_from_what_was_heard_before() {
    let session_timeout = Duration::from_secs(10);
    // With half a tick of 1.5 s.
    let cluster =
        TestingCluster::builder(3).isolatable().tick_time(Duration::from_secs(3)).start().await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let follower = (leader + 1) % 3;
    let proxy = FaultProxy::start(cluster.servers()[follower].connect_string()).await.unwrap();
    let long = || Client::builder().session_timeout(session_timeout);
    let rival = long().connect(&cluster.servers()[leader].connect_string()).await.unwrap();
    let client = long().connect(&proxy.connect_string()).await.unwrap();
    mutex(&client).acquire().await.unwrap().release().await.unwrap();
    let pings = proxy.pings_seen();
    eventually("a sign of life", || async { (proxy.pings_seen() > pings).then_some(()) }).await;
    let heard = Instant::now();

    // Almost for as long as the client keeps a connection on which it hears nothing.
    proxy.set_traffic(Traffic::black_hole_to_server());
    tokio::time::sleep(session_timeout.mul_f64(0.37)).await;
    proxy.set_traffic(Traffic::pass());
    let guard = mutex(&client).acquire().await.unwrap();
    cluster.isolate(follower);
    assert!(guard.is_valid() && heard.elapsed() > session_timeout / 3, "{:?}", heard.elapsed());
    assert!(guard.valid_until() < (heard + session_timeout).into(), "the leader may know of nothing later");
    // With a session that ends when it should, the next holder is granted after that.
    assert!(within(mutex(&rival).acquire()).await.unwrap().is_valid() && !guard.is_valid(), "two holders");
}

/// A create is done through one server, its reply is lost, and the client goes on at another that has slept.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_lost_create_is_found_at_a_server_that_lags_behind() {
    let ensemble = Ensemble::start().await;
    let zookeeper = ensemble.bystander().await;
    let [first, second] = ensemble.followers;
    let client = ensemble.client_of_both([first, second], Duration::from_secs(20)).await;
    let writer = ensemble.client_of(ensemble.leader, Duration::from_secs(20)).await;
    let session = session_id(&client).await;
    let lock = mutex(&client);
    let (mut here, mut there) = (first, second);
    lock.acquire().await.unwrap().release().await.unwrap();
    for round in 0..6 {
        let held = if round % 2 == 0 { None } else { Some(mutex(&writer).acquire().await.unwrap()) };
        ensemble.cluster.pause(there).unwrap();
        let lost = ensemble.proxies[here].intercept(Request::Create, Fate::LoseReply);
        ensemble.proxies[there].refuse_connections(false).unwrap();
        let acquiring = acquire_in_task(&lock);
        within(lost.happened()).await;
        ensemble.proxies[here].refuse_connections(true).unwrap();
        // What the sleeping server has to catch up with.
        for _ in 0..200 {
            zookeeper.set_data("/locks", b"", None).await.unwrap();
        }
        ensemble.cluster.resume(there).unwrap();
        let before = usize::from(held.is_some());
        let queue = queue_of(&zookeeper, "/locks/a", before + 1).await;
        let participants = eventually("the same is seen there", async || {
            let participants = lock.participants().await.ok()?;
            (participants.len() == queue.len()).then_some(participants)
        })
        .await;
        assert_eq!(participants[before].session_id(), session);
        if let Some(held) = held {
            assert!(!acquiring.is_finished());
            within(held.release()).await.unwrap();
        }
        let guard = within(acquiring).await.unwrap().unwrap();
        assert_eq!(guard.node_path(), participants[before].node_path(), "round {round}: made once");
        assert_eq!(children(&zookeeper, "/locks/a").await.len(), 1, "round {round}");
        within(guard.release()).await.unwrap();
        std::mem::swap(&mut here, &mut there);
    }
    assert_eq!(session_id(&client).await, session);
    assert_eq!(*client.watch_connection().borrow(), ConnectionState::Reconnected);
    queue_of(&zookeeper, "/locks/a", 0).await;
}

/// A waiter at a server that sleeps hears late, but hears.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_waiter_at_a_server_that_lags_behind_gets_its_turn() {
    let ensemble = Ensemble::start().await;
    let [asleep, _] = ensemble.followers;
    let long = Duration::from_secs(20);
    let [lagging, writer] =
        [ensemble.client_of(asleep, long).await, ensemble.client_of(ensemble.leader, long).await];
    let session = session_id(&lagging).await;
    let zookeeper = ensemble.bystander().await;
    let lock = InterProcessMutex::new(&writer, "/locks/a").unwrap();
    for _ in 0..5 {
        let held = lock.acquire().await.unwrap();
        let waiter = acquire_in_task(&mutex(&lagging));
        queue_of(&zookeeper, "/locks/a", 2).await;
        ensemble.cluster.pause(asleep).unwrap();
        within(held.release()).await.unwrap();
        // First come, first served, though it cannot know yet.
        assert!(lock.try_acquire().await.unwrap().is_none());
        assert!(!waiter.is_finished());
        ensemble.cluster.resume(asleep).unwrap();
        let guard = within(waiter).await.unwrap().unwrap();
        assert!(guard.is_valid());
        let stat = zookeeper.check_stat(guard.node_path()).await.unwrap().unwrap();
        assert_eq!((stat.czxid, stat.ephemeral_owner), (guard.fencing_token(), session));
        within(guard.release()).await.unwrap();
    }
    queue_of(&zookeeper, "/locks/a", 0).await;
}
