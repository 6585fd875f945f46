//! Whoever loses its lock knows it before another has it, by how much, and what it costs to know.

use tokio::time::interval;
use zk_recipes_simulation::machine::Machine;
use zk_recipes_simulation::network::Listener;

use super::prelude::*;

/// From this on, a hold is watched.
const UNWATCHED: Duration = secs(1);

type Next = JoinHandle<Option<(Instant, LockGuard)>>;

/// One holds a lock for which the next one waits, who says when it was granted.
async fn hold_before_next(
    servers: &MemoryEnsemble,
    machine: &Machine,
    [holding, waiting]: [&Client; 2],
    lock: &str,
) -> (LockGuard, Next) {
    let guard = mutex_at(holding, lock).acquire().await.unwrap();
    let next = mutex_at(waiting, lock);
    let next = machine.spawn(async move {
        let guard = next.acquire().await.unwrap();
        (Instant::now(), guard)
    });
    queue_of(servers, lock, 2).await;
    (guard, next)
}

/// The network cuts a holder off without a word, at any point between two signs of life.
async fn is_cut_off(stage: &Stage, waiting: &Client, holder: usize, traffic: Traffic) -> [Instant; 3] {
    let proxy = Proxy::before(stage, stage.servers().clone(), &format!("10.3.0.{holder}:2181")).await;
    let client = proxy.client(session).await;
    let (servers, machine) = (stage.servers(), &stage.machines()[1]);
    let lock = format!("/black-hole/{holder}");
    let (guard, next) = hold_before_next(servers, machine, [&client, waiting], &lock).await;
    sleep(SESSION.mul_f64(fastrand::f64() / 3.0)).await;
    assert!(guard.is_valid());
    proxy.set_traffic(traffic);
    let mut state = client.watch_connection();
    let lost = async { (guard.lost().await, Instant::now()) };
    let suspended = async {
        state.wait_for(|state| *state == ConnectionState::Suspended).await.unwrap();
        Instant::now()
    };
    let ((reason, lost), suspended, next) = within(async { tokio::join!(lost, suspended, next) }).await;
    let (granted, next) = next.unwrap().unwrap();
    assert_eq!(reason, LossReason::Expired);
    assert!(next.fencing_token() > guard.fencing_token());
    next.release().await.unwrap();
    proxy.set_traffic(Traffic::pass());
    client.close().await;
    // Curator says `LOST` a session timeout after the connection was noticed to be gone.
    [lost, suspended + SESSION, granted]
}

#[history]
async fn a_holder_in_a_black_hole_knows_of_its_loss_before_the_next_holds(stage: Stage) {
    let waiting = stage.client(1).await;
    for (ways, (traffic, is_unheard)) in [
        (Traffic::black_hole(), true),
        (Traffic::black_hole_to_server(), true),
        // The servers hear its attempts to connect again, and keep the session that long.
        (Traffic::black_hole_to_client(), false),
    ]
    .into_iter()
    .enumerate()
    {
        let holders = (0..40).map(|holder| is_cut_off(&stage, &waiting, 40 * ways + holder, traffic));
        for [lost, lost_by_curator, granted] in join_all(holders).await {
            assert!(lost < granted, "another had the lock for {:?}", lost - granted);
            let tells_apart = lost_by_curator >= granted || !is_unheard;
            assert!(tells_apart, "a bad rule has done as well, by {:?}", granted - lost_by_curator);
        }
    }
}

/// Shorter than the time for which a follower goes on without its leader.
const SHORT_SESSION: Duration = ms(1500);
const TICK: Duration = ms(500);
const SYNC_LIMIT: u32 = 4;

/// Reads for as long as the server answers; says when the last answered request was sent.
async fn read_until_suspended(reader: &zk::Client, path: &str) -> Instant {
    let mut last = Instant::now();
    let mut ticks = interval(SHORT_SESSION / 20);
    loop {
        ticks.tick().await;
        let sent = Instant::now();
        if reader.check_stat(path).await.is_err() {
            return last;
        }
        last = sent;
    }
}

/// One that asks nothing of the leader.
async fn reader(server: String) -> zk::Client {
    zk::Client::connector().with_session_timeout(SHORT_SESSION).connect(&server).await.unwrap()
}

/// Three servers, at addresses of their own.
pub(super) fn ensemble(network: u8, sync_limit: u32) -> (MemoryEnsemble, impl Fn(usize) -> String) {
    let servers = MemoryEnsemble::builder().tick_time(TICK).sync_limit(sync_limit).start().unwrap();
    let address = move |server: usize| format!("10.{network}.0.{server}:2181");
    for server in 0..3 {
        let (servers, mut listener) = (servers.clone(), Listener::bind(&address(server)));
        spawn_local(async move {
            loop {
                spawn_local(servers.serve(server, listener.accept().await));
            }
        });
    }
    (servers, address)
}

/// The server of holders is cut off from its leader, and goes on answering.
#[history]
async fn a_holder_at_a_follower_that_is_cut_off_knows_of_its_loss_before_the_next_holds(stage: Stage) {
    let (servers, address) = ensemble(4, SYNC_LIMIT);
    let [one, other, ..] = stage.machines() else { panic!("two machines") };
    let leader = servers.leader().unwrap();
    let follower = (leader + 1) % 3;
    let waiting = other.connect(other.builder(), &address(leader)).await;
    let connect =
        async || one.connect(one.builder().session_timeout(SHORT_SESSION), &address(follower)).await;
    let mut clients = Vec::new();
    for round in 0..2 {
        let mut holders = Vec::new();
        for holder in 0..20 {
            let lock = format!("/partition/{round}/{holder}");
            // Reads of one that holds would be answered only after its own signs of life, which are not.
            let (client, reader) = tokio::join!(connect(), reader(address(follower)));
            let (guard, next) = hold_before_next(&servers, other, [&client, &waiting], &lock).await;
            clients.push(client);
            holders.push((lock, reader, guard, next));
        }
        let rest = [leader, 3 - leader - follower];
        servers.partition(&[&[follower], &rest]);
        let seen = holders.into_iter().map(async |(lock, reader, guard, next)| {
            let lost = async {
                guard.lost().await;
                Instant::now()
            };
            let (lost, last_read, next) = tokio::join!(lost, read_until_suspended(&reader, &lock), next);
            let (granted, _next) = next.unwrap().unwrap();
            assert!(lost < granted, "another had the lock for {:?}", lost - granted);
            let lost_by_reads = last_read + SHORT_SESSION.mul_f64(2.0 / 3.0);
            assert!(lost_by_reads >= granted, "reads would have done as well");
        });
        within(join_all(seen)).await;
        servers.heal();
        sleep(SESSION).await;
    }
    clients.push(waiting);
}

/// A leader stands still for longer than a session lasts, and the others wait for it. It has not asked them meanwhile
/// which sessions they have heard from.
#[history]
async fn who_acquires_while_a_leader_stands_still_knows_of_its_loss_before_the_next_holds(stage: Stage) {
    let session = 2 * TICK;
    let (servers, address) = ensemble(5, 20);
    let [one, other, ..] = stage.machines() else { panic!("two machines") };
    let leader = servers.leader().unwrap();
    let next = other.connect(other.builder().session_timeout(10 * session), &address((leader + 1) % 3)).await;
    let follower = (leader + 2) % 3;
    for round in 0..40 {
        let at = address(follower);
        let clients = (0..10).map(|_| one.connect(one.builder().session_timeout(session), &at));
        let clients = join_all(clients).await;
        let lock = |holder: usize| format!("/stands-still/{round}/{holder}");
        for holder in 0..clients.len() {
            // So that an acquire is one request.
            mutex_at(&next, &lock(holder)).acquire().await.unwrap().release().await.unwrap();
        }
        sleep(session.mul_f64(1.0 + fastrand::f64())).await;
        servers.set_paused(leader, true);
        let pause = session.mul_f64(1.0 + 0.5 * fastrand::f64());
        let holders = clients.iter().enumerate().map(|(holder, client)| {
            let (mutex, next) = (mutex_at(client, &lock(holder)), mutex_at(&next, &lock(holder)));
            let pause = pause.mul_f64(fastrand::f64());
            async move {
                sleep(pause).await;
                let guard = mutex.acquire().await.unwrap();
                if let Some(_next) = next.try_acquire_for(2 * session).await.unwrap() {
                    assert!(!guard.is_valid(), "{guard:?} is valid beside the next one");
                }
            }
        });
        let goes_on = async {
            sleep(pause).await;
            servers.set_paused(leader, false);
            sleep(ms(10)).await;
            // Nor is the holder told, from then on.
            servers.partition(&[&[follower], &[leader, 3 - leader - follower]]);
            sleep(session).await;
            servers.heal();
        };
        within(async { tokio::join!(join_all(holders), goes_on) }).await;
        join_all(clients.into_iter().map(|client| async move { client.close().await })).await;
    }
    next.close().await;
}

/// A client that has nothing to do costs as much for a thousand locks as for one.
#[history]
async fn an_idle_client_costs_no_more_for_a_thousand_locks(stage: Stage) {
    const SPAN: Duration = secs(30);
    let proxy = stage.proxy(0).await;
    let mut beats = Vec::new();
    for locks in [0, 1, 1000] {
        let client = proxy.client(session).await;
        let held = join_all((0..locks).map(|lock| {
            let mutex = mutex_at(&client, &format!("/idle/{lock}"));
            async move { mutex.acquire().await.unwrap() }
        }))
        .await;
        sleep(2 * UNWATCHED).await;
        assert_eq!(stage.servers().watch_count(), locks);
        proxy.take_requests();
        let pings = proxy.pings_seen();
        sleep(SPAN).await;
        let (requests, pings) = (proxy.take_requests(), proxy.pings_seen() - pings);
        assert!(requests.iter().all(|request| *request == Request::Confirm), "{requests:?}");
        assert!(held.iter().all(LockGuard::is_valid));
        beats.push((requests.len(), pings));
        join_all(held.into_iter().map(LockGuard::release)).await;
        client.close().await;
    }
    // One every seventh of the session timeout. If nobody depends on the session, it is a ping.
    let most = (SPAN.as_secs_f64() * 7.0 / SESSION.as_secs_f64()).ceil() as usize;
    let [(0, pings), (confirms, 0), (confirms_of_many, 0)] = beats[..] else { panic!("{beats:?}") };
    let counts = [pings, confirms, confirms_of_many];
    assert!(counts.iter().all(|count| (most - 1..=most).contains(count)), "{counts:?}, at most {most}");
    sleep(A_MOMENT).await;
}
