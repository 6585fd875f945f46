//! What only real servers show: counters that overflow, and ensembles with a server that is silent or cut off.

use crate::locks::every_kind::Kind;
use crate::locks::every_lock::{Scene, come_in_order, compete};
use crate::prelude::*;
use crate::support::counter::server_counting_from;
use crate::support::kinds::assert_lost;

// kazoo#730, go-zk#65, and the same in Curator: past 2^31 creates several hold at once. For names made by hand see mutex.rs
// and semaphore/in_trouble.rs, for both sides of a read/write lock read_write/last_numbers.rs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real ZooKeeper"]
async fn past_the_last_number_every_kind_of_lock_excludes_others_in_order() {
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
