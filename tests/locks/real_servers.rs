//! What only real servers show: counters that overflow, and ensembles with a server that is silent, lags or is cut off.

use crate::prelude::*;
use crate::support::counter::server_counting_from;
use crate::support::kinds::*;

// kazoo#730, go-zk#65, and the same in Curator: past 2^31 creates several hold at once. For names made by hand see
// mutex.rs and semaphore.rs, for both sides of a read/write lock read_write.rs.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn past_the_last_number_a_mutex_has_one_holder() {
    let server = server_counting_from("/locks/a", i32::MAX - 2).await;
    let zookeeper = bystander(&server).await;
    let clients: [Client; 6] = connect_many(&server).await;
    for _ in 0..2 {
        let mut waiters = Vec::new();
        for (index, client) in clients.iter().enumerate() {
            waiters.push(acquire_in_task(&mutex(client)));
            queue_of(&zookeeper, "/locks/a", index + 1).await;
        }
        let mut last_token = 0;
        for waiter in waiters.drain(..) {
            let guard = within(waiter).await.unwrap().unwrap();
            assert!(guard.fencing_token() > last_token, "first come, first served");
            last_token = guard.fencing_token();
            for client in &clients {
                assert!(mutex(client).owned_by(&Owner::new()).try_acquire().await.unwrap().is_none());
            }
            guard.release().await.unwrap();
        }
    }
    watches_with_holders(&server, 0).await;
}

// The same for both queues of a semaphore.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn past_the_last_number_a_semaphore_has_no_more_permits() {
    for queue in ["/locks/s/locks", "/locks/s/leases"] {
        let server = server_counting_from(queue, i32::MAX - 2).await;
        let clients: [Client; 5] = connect_many(&server).await;
        let semaphores = clients.each_ref().map(|client| Semaphore::new(client, "/locks/s", 2).unwrap());
        let mut held = vec![semaphores[0].acquire().await.unwrap(), semaphores[1].acquire().await.unwrap()];
        let zookeeper = bystander(&server).await;
        let mut waiters = Vec::new();
        for (index, semaphore) in semaphores.iter().enumerate() {
            let semaphore = semaphore.clone();
            waiters.push(tokio::spawn(async move { semaphore.acquire().await }));
            queue_of(&zookeeper, "/locks/s/locks", index + 1).await;
        }
        for (index, waiter) in waiters.into_iter().enumerate() {
            assert!(semaphores[index].try_acquire().await.unwrap().is_none(), "{queue}");
            assert_eq!(semaphores[index].available_permits().await, Ok(0));
            assert!(!waiter.is_finished(), "{queue}");
            held.remove(0).release().await.unwrap();
            held.push(within(waiter).await.unwrap().unwrap());
            assert_eq!(children(&zookeeper, "/locks/s/leases").await.len(), 2, "{queue}");
        }
    }
}

async fn is(guard: &LockGuard, wanted: LockState) {
    within(guard.watch_state().wait_for(|state| *state == wanted)).await.map(|_| ()).unwrap();
}

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
        mend(&self.proxies[second]);
        client
    }

    async fn bystander(&self) -> zk::Client {
        let connector = zk::Client::connector().with_session_timeout(secs(30));
        connector.connect(&self.cluster.servers()[self.leader].connect_string()).await.unwrap()
    }
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_silent_server_costs_the_lock_only_when_it_is_silent_for_too_long() {
    let ensemble = Ensemble::start().await;
    let zookeeper = ensemble.bystander().await;
    let [silent, _] = ensemble.followers;
    let timeout = secs(8);
    let holding = ensemble.client_of(silent, timeout).await;
    let other = ensemble.client_of(ensemble.leader, secs(20)).await;
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

/// The new leader gives all sessions their time again: a holder that has lost the lock has lost it long before.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_silent_leader_makes_no_second_holder() {
    let ensemble = Ensemble::start().await;
    let leader = ensemble.leader;
    let holding = ensemble.client_of(leader, secs(3)).await;
    let other = ensemble.client_of(ensemble.followers[0], secs(20)).await;
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
    let short = || Client::builder().session_timeout(secs(3));
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
        let _ = timeout(ms(500), cluster.restart(follower)).await;
    }
    let check = |path: &'static str| {
        let mut check = zookeeper.new_multi_writer();
        check.add_check_version(path, -1).unwrap();
        check.commit()
    };
    let answered = async |check| timeout(ms(500), check).await.is_ok();
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
    let session_timeout = secs(10);
    // With half a tick of 1.5 s.
    let cluster = TestingCluster::builder(3).isolatable().tick_time(secs(3)).start().await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let follower = (leader + 1) % 3;
    let proxy = FaultProxy::start(cluster.servers()[follower].connect_string()).await.unwrap();
    let long = || Client::builder().session_timeout(session_timeout);
    let rival = long().connect(&cluster.servers()[leader].connect_string()).await.unwrap();
    let client = long().connect(&proxy.connect_string()).await.unwrap();
    mutex(&client).acquire().await.unwrap().release().await.unwrap();
    let pings = proxy.pings_seen();
    until("a sign of life", || proxy.pings_seen() > pings).await;
    let heard = Instant::now();

    // Almost for as long as the client keeps a connection on which it hears nothing.
    proxy.set_traffic(Traffic::black_hole_to_server());
    sleep(session_timeout.mul_f64(0.37)).await;
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
    let client = ensemble.client_of_both([first, second], secs(20)).await;
    let writer = ensemble.client_of(ensemble.leader, secs(20)).await;
    let session = session_id(&client).await;
    let lock = mutex(&client);
    let (mut here, mut there) = (first, second);
    lock.acquire().await.unwrap().release().await.unwrap();
    for round in 0..6 {
        let held = if round % 2 == 0 { None } else { Some(mutex(&writer).acquire().await.unwrap()) };
        ensemble.cluster.pause(there).unwrap();
        let lost = ensemble.proxies[here].intercept(Request::Create, Fate::LoseReply);
        mend(&ensemble.proxies[there]);
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
    assert_eq!(client.watch_connection().get(), ConnectionState::Reconnected);
    queue_of(&zookeeper, "/locks/a", 0).await;
}

// CURATOR-264: a create that comes to an end after it was looked for, at another server, leaves an orphan.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_create_that_was_given_up_leaves_nothing_if_it_is_done_later() {
    let cluster = TestingCluster::start(3).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let zookeeper = bystander_of(&cluster.servers()[leader].connect_string()).await;
    let old = FaultProxy::start(cluster.servers()[(leader + 1) % 3].connect_string()).await.unwrap();
    let new = FaultProxy::start(cluster.servers()[(leader + 2) % 3].connect_string()).await.unwrap();
    new.refuse_connections(true).unwrap();
    let hosts = [old.connect_string(), new.connect_string()].join(",");
    let client = Client::builder().session_timeout(secs(10)).connect(&hosts).await.unwrap();
    let session = session_id(&client).await;
    let lock = mutex(&client);
    lock.acquire().await.unwrap().release().await.unwrap();
    // The create is on its way, and the client turns to the other server.
    old.set_traffic(Traffic::black_hole());
    let requests = old.requests_seen();
    let acquiring = acquire_in_task(&lock);
    until("it is sent", || old.requests_seen() > requests).await;
    assert!(children(&zookeeper, "/locks/a").await.is_empty());
    mend(&new);
    let guard = within(acquiring).await.unwrap().unwrap();
    assert_eq!(session_id(&client).await, session);
    // Now it arrives, at a server that does not have the session any more; or has it again, if the client has knocked
    // there a second time in vain: then the node is there for a while.
    let replies = old.replies_seen();
    old.set_traffic(Traffic::pass());
    until("the old server is done with it", || old.connections().is_empty() || old.replies_seen() > replies)
        .await;
    zookeeper.sync("/locks").await.unwrap();
    let node = guard.node_path().rsplit_once('/').unwrap().1;
    eventually("its node is alone", async || {
        (children(&zookeeper, "/locks/a").await == [node]).then_some(())
    })
    .await;
    guard.release().await.unwrap();
    queue_of(&zookeeper, "/locks/a", 0).await;
}
