//! What only real servers show: counters that overflow, and ensembles with a server that is silent, lags or is cut off.

use crate::locks::every_kind::{Kind, take};
use crate::locks::every_lock::{Scene, come_in_order, compete};
use crate::prelude::*;
use crate::support::counter::server_counting_from;
use crate::support::kinds::assert_lost;

// kazoo#730, go-zk#65, and the same in Curator: past 2^31 creates several hold at once. For names made by hand see mutex.rs
// and gates.rs of the histories, for both sides of a read/write lock read_write/last_numbers.rs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real ZooKeeper"]
async fn past_the_last_number_every_kind_of_queue_excludes_others_in_order() {
    for (kind, queue) in [
        (Kind::Mutex, ""),
        (Kind::Writer, ""),
        (Kind::Reader, ""),
        (Kind::Downgraded, ""),
        (Kind::Permit, "/locks"),
        (Kind::Permit, "/leases"),
        (Kind::Paths, ""),
    ] {
        println!("{kind:?}{queue}");
        let server = server_counting_from(&format!("{}{queue}", kind.path()), i32::MAX - 2).await;
        let scene = Scene::on(server.into()).await;
        come_in_order(&scene, kind).await;
        compete(&scene, kind).await;
        scene.assert_nothing_left(kind).await;
    }
}

/// The new leader gives all sessions their time again: a holder that has lost the lock has lost it long before.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_silent_leader_makes_no_second_holder() {
    let cluster = TestingCluster::start(3).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let client_of = async |server: usize, session| {
        let builder = Client::builder().session_timeout(session);
        builder.connect(&cluster.servers()[server].connect_string()).await.unwrap()
    };
    let (holding, other) = (client_of(leader, secs(3)).await, client_of((leader + 1) % 3, secs(20)).await);
    let guard = mutex(&holding).acquire().await.unwrap();
    let lock = mutex(&other);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    queue_of(&other.zookeeper().await.unwrap(), "/locks/a", 2).await;
    cluster.pause(leader).unwrap();
    assert_eq!(within(guard.lost()).await, LossReason::Expired);
    assert!(!waiter.is_finished(), "the loss is heard of first");
    let next = within(waiter).await.unwrap().unwrap();
    assert!(next.is_valid() && next.fencing_token() > guard.fencing_token());
    cluster.resume(leader).unwrap();
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
    let cluster = TestingCluster::start(3).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let followers = [1, 2].map(|next| &cluster.servers()[(leader + next) % 3]);
    let proxies =
        try_join_all(followers.map(|server| FaultProxy::start(server.connect_string()))).await.unwrap();
    let builder = || Client::builder().session_timeout(secs(20));
    let writer = builder().connect(&cluster.servers()[leader].connect_string()).await.unwrap();
    let zookeeper = writer.zookeeper().await.unwrap();
    proxies[1].refuse_connections(true).unwrap();
    let both = [0, 1].map(|follower| proxies[follower].connect_string()).join(",");
    let client = builder().connect(&both).await.unwrap();
    let session = session_id(&client).await;
    let lock = mutex(&client);
    let (mut here, mut there) = (0, 1);
    lock.acquire().await.unwrap().release().await.unwrap();
    for round in 0..2 {
        let held = if round % 2 == 0 { None } else { Some(mutex(&writer).acquire().await.unwrap()) };
        cluster.pause((leader + 1 + there) % 3).unwrap();
        let lost = proxies[here].intercept(Request::Create, Fate::LoseReply);
        mend(&proxies[there]);
        let acquiring = acquire_in_task(&lock);
        within(lost.happened()).await;
        proxies[here].refuse_connections(true).unwrap();
        // What the sleeping server has to catch up with.
        for _ in 0..200 {
            zookeeper.set_data("/locks", b"", None).await.unwrap();
        }
        cluster.resume((leader + 1 + there) % 3).unwrap();
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
    let client = Client::builder()
        .session_timeout(secs(10))
        .connect(&[old.connect_string(), new.connect_string()].join(","))
        .await
        .unwrap();
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

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_waiter_keeps_its_place_over_a_restart_of_the_server() {
    // However long the restart takes.
    let server = Server::builder().session_timeout_bounds(secs(1), secs(600));
    let mut server = server.start().await.unwrap();
    let (holder, other) = (quiet(&server.connect_string()).await, quiet(&server.connect_string()).await);
    let zookeeper = holder.zookeeper().await.unwrap();
    let mut waiting = Vec::new();
    for kind in [Kind::Mutex, Kind::Writer, Kind::Reader, Kind::Permit] {
        let held = kind.occupy(&holder).await;
        let waiter = tokio::spawn(take(kind.lock(&other)));
        watches_of(&server, waiting.len() as u64 + 1).await;
        waiting.push((kind, held, waiter, ephemerals_below(&zookeeper, &kind.root()).await));
    }
    let both_are = async |wanted| {
        for client in [&holder, &other] {
            within(client.watch_connection().wait_for(|state| *state == wanted)).await.unwrap();
        }
    };
    server.kill().await.unwrap();
    both_are(ConnectionState::Suspended).await;
    server.restart().await.unwrap();
    both_are(ConnectionState::Reconnected).await;
    let zookeeper = holder.zookeeper().await.unwrap();
    for (kind, held, waiter, before) in waiting {
        let nodes = async || ephemerals_below(&zookeeper, &kind.root()).await;
        assert_eq!(nodes().await, before, "{kind:?}");
        assert!(!waiter.is_finished(), "{kind:?}");
        for guard in held {
            within(guard.release()).await.unwrap();
        }
        let guards = within(waiter).await.unwrap();
        // A permit is a node of its own, behind that in the queue.
        let is_kept = before.iter().any(|(node, _)| node == guards[0].node_path());
        assert_eq!(is_kept, kind != Kind::Permit, "{kind:?}: {guards:?}");
        for guard in guards {
            within(guard.release()).await.unwrap();
        }
        no_ephemerals_below(&zookeeper, &kind.root()).await;
    }
}
