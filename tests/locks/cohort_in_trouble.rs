//! Cohorts in trouble: nodes that are deleted, connections that fail, callers that vanish or are not polled. Also waiters
//! whose next blocker is watched along with the list, over bad connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::cohort::{LONG, OFTEN, PATH, alone, in_line, is_up_to_date, selfish};
use crate::support::room::Room;
use crate::support::*;
use zk_recipes::testing::{Fate, FaultProxy, Traffic, kill_session};
use zk_recipes::{
    Acl, AuthId, Client, Error, InterProcessLock, InterProcessMutex, LockGuard, LockOptions, MultiLock,
    Owner, Permission, operate,
};

fn with(client: &Client, options: LockOptions) -> InterProcessMutex {
    mutex(client).with_options(options).unwrap()
}

fn seconds() -> Duration {
    Duration::from_secs(if is_thorough() { 30 } else { 5 })
}

/// The node was deleted long ago, as the client has been told by the watch on the children; a stranger holds. A new grant
/// is by a node that is known to exist, so that the stranger can have the lock only if a node is deleted afterwards.
#[tokio::test]
async fn a_node_that_is_gone_is_not_handed_on() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [client, other] = connect_many(&server).await;
    let mutex = selfish(&client);
    let mut bad = 0;
    for _ in 0..10 {
        let guard = alone(&server, &client, &mutex).await;
        let mut next = in_line(&mutex);
        let mut third = in_line(&mutex);
        zookeeper.delete(guard.node_path(), None).await.unwrap();
        let stranger = within(mutex_of(&other).acquire()).await.unwrap();
        is_up_to_date(&client).await;
        let released = guard.release().await;
        let mut count = 0;
        if let Poll::Ready(next) = poll_once(&mut next) {
            let next = next.unwrap();
            if next.is_valid() && stranger.is_valid() {
                count += 1;
            }
            next.release().await.ok();
            if let Poll::Ready(third) = poll_once(&mut third) {
                let third = third.unwrap();
                if third.is_valid() && stranger.is_valid() {
                    count += 1;
                }
                drop(third);
            } else {
                drop(third);
            }
        } else {
            drop((next, third));
        }
        eprintln!("granted while the stranger holds: {count}; the release said {released:?}");
        bad += count;
        drop(stranger);
        queue_of(&zookeeper, PATH, 0).await;
    }
    assert_eq!(bad, 0, "new grants by a node that was known to have changed and was gone");
}

fn mutex_of(client: &Client) -> InterProcessMutex {
    mutex(client)
}

/// No one but a try, which is given up, has ever wanted the lock since it was released.
#[tokio::test]
async fn a_try_is_not_refused_for_a_try_that_is_given_up() {
    let server = Server::start().await.unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let mutex = with(&client, LockOptions::new().cohort(OFTEN).cohort_time(LONG).linger(LONG));
    drop(mutex_of(&client).acquire().await.unwrap());
    let mut refused = 0;
    for _ in 0..20 {
        let guard = mutex.acquire().await.unwrap();
        // The list of the queue is not answered yet.
        proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(50)));
        guard.release().await.unwrap();
        let one = mutex.owned_by(&Owner::new());
        let mut first = Box::pin(async move { one.try_acquire().await });
        let first_polled = poll_once(&mut first);
        let other = mutex.owned_by(&Owner::new());
        let mut second = Box::pin(async move { other.try_acquire().await });
        let second_polled = poll_once(&mut second);
        if first_polled.is_pending() && matches!(second_polled, Poll::Ready(Ok(None))) {
            refused += 1;
        }
        drop((first, second));
        proxy.set_traffic(Traffic::pass());
        operate::ask(&client, PATH).await.ok();
    }
    client.close().await;
    assert_eq!(refused, 0, "tries said that somebody has the lock, and nobody had");
}

/// A try does not stand in line. One that is not polled must not keep others from the lock.
#[tokio::test]
async fn a_try_that_no_one_polls_keeps_no_one_out() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let mutex = with(&client, LockOptions::new().cohort(OFTEN).linger(LONG));
    let mut stuck = 0;
    for _ in 0..20 {
        let guard = mutex.acquire().await.unwrap();
        guard.release().await.unwrap();
        let one = mutex.owned_by(&Owner::new());
        let mut first = Box::pin(async move { one.try_acquire().await });
        let pending = poll_once(&mut first).is_pending();
        let acquire =
            tokio::time::timeout(Duration::from_secs(3), mutex.owned_by(&Owner::new()).acquire()).await;
        if pending && acquire.is_err() {
            stuck += 1;
            break;
        }
        drop(acquire);
        drop(first);
        // Until it has let go: a try that does not find a node that stays stands in the queue.
        let _ = operate::ask(&client, PATH).await;
        queue_of(&zookeeper, PATH, 0).await;
    }
    assert_eq!(stuck, 0, "an acquire is stuck behind a try that is not polled");
}

async fn visit(room: &Room, guard: LockGuard) {
    let stay = room.enter(&guard);
    tokio::time::sleep(Duration::from_micros(fastrand::u64(..200))).await;
    drop(stay);
    if fastrand::bool() { guard.release().await.unwrap() } else { drop(guard) }
}

/// Everything at once, on one path: cohorts of 1, 2, 1000, with and without lingering, plain objects, tickets, tries,
/// multi-locks, revocations, objects that come and go, and callers that vanish at any poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_storm_of_all() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [client, other, operator] = connect_many(&server).await;
    let room = Arc::new(Room::default());
    let until = Instant::now() + seconds();
    let done = Arc::new(AtomicUsize::new(0));
    let storms: Vec<_> = (0..24)
        .map(|number| {
            let (client, room, done) =
                (if number % 4 == 3 { other.clone() } else { client.clone() }, room.clone(), done.clone());
            tokio::spawn(async move {
                while Instant::now() < until {
                    let options = LockOptions::new();
                    let options = match fastrand::u32(..7) {
                        0 => options.cohort(1),
                        1 => options.cohort(2).cohort_time(Duration::from_millis(3)),
                        2 | 3 => options.cohort(1000).cohort_time(Duration::from_millis(20)),
                        4 => options.cohort(2).linger(Duration::from_millis(5)),
                        5 => options.linger(Duration::from_millis(5)),
                        _ => options,
                    };
                    let mutex = with(&client, options).owned_by(&Owner::new());
                    let (room, done) = (room.clone(), done.clone());
                    let run = async move {
                        match fastrand::u32(..8) {
                            0 => {
                                if let Some(guard) = mutex.try_acquire().await.unwrap() {
                                    visit(&room, guard).await;
                                }
                            }
                            1 => {
                                match mutex.try_acquire_for(Duration::from_millis(fastrand::u64(1..20))).await
                                {
                                    Ok(Some(guard)) => visit(&room, guard).await,
                                    Ok(None) | Err(Error::NotConnected { .. }) => {}
                                    Err(error) => panic!("{error}"),
                                }
                            }
                            2 => visit(&room, mutex.enqueue().await.unwrap().acquired().await.unwrap()).await,
                            3 => {
                                let both =
                                    MultiLock::of([Arc::new(mutex) as Arc<dyn InterProcessLock>]).unwrap();
                                drop(both.acquire().await.unwrap());
                            }
                            _ => visit(&room, mutex.acquire().await.unwrap()).await,
                        }
                        done.fetch_add(1, SeqCst);
                    };
                    match fastrand::u32(..4) {
                        0 => drop(poll_times(run, fastrand::usize(1..8)).await),
                        1 => {
                            let _ =
                                tokio::time::timeout(Duration::from_micros(fastrand::u64(..4000)), run).await;
                        }
                        2 => {
                            let task = tokio::spawn(run);
                            tokio::time::sleep(Duration::from_micros(fastrand::u64(..3000))).await;
                            task.abort();
                            if let Err(error) = task.await
                                && error.is_panic()
                            {
                                std::panic::resume_unwind(error.into_panic());
                            }
                        }
                        _ => within(run).await,
                    }
                }
            })
        })
        .collect();
    let asks = tokio::spawn(async move {
        while Instant::now() < until {
            let _ = operate::ask(&operator, PATH).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    for storm in storms {
        within(storm).await.unwrap();
    }
    asks.await.unwrap();
    eprintln!("{} visits", done.load(SeqCst));
    within(mutex_of(&client).acquire()).await.unwrap().release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, PATH).await;
}

/// Waiters behind several strangers, whose connection is cut or silent now and then, while their blockers' data are written.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_chain_of_strangers_with_bad_connections() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let mut clients = Vec::new();
    for number in 0..6 {
        clients.push(if number % 2 == 0 { connect(&server).await } else { connect_through(&proxy).await });
    }
    let until = Instant::now() + seconds();
    let room = Arc::new(Room::default());
    let slowest = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = clients
        .iter()
        .enumerate()
        .map(|(number, client)| {
            let mutex =
                if number < 4 { mutex_of(client) } else { with(client, LockOptions::new().cohort(2)) };
            let (room, slowest) = (room.clone(), slowest.clone());
            tokio::spawn(async move {
                let mut got = 0;
                while Instant::now() < until {
                    let start = Instant::now();
                    match within(mutex.acquire()).await {
                        Ok(guard) => {
                            got += 1;
                            let took = start.elapsed();
                            slowest.fetch_max(took.as_millis() as usize, SeqCst);
                            if guard.is_valid() {
                                let stay = room.enter(&guard);
                                tokio::time::sleep(Duration::from_micros(fastrand::u64(..300))).await;
                                drop(stay);
                            }
                            drop(guard);
                        }
                        Err(error) => eprintln!("{number}: {error}"),
                    }
                }
                got
            })
        })
        .collect();
    let mut cuts = 0;
    while Instant::now() < until {
        match fastrand::u32(..4) {
            0 => {
                proxy.cut();
                cuts += 1;
            }
            1 => {
                proxy.set_traffic(Traffic::black_hole());
                tokio::time::sleep(Duration::from_millis(fastrand::u64(..20))).await;
                proxy.cut();
                proxy.set_traffic(Traffic::pass());
                cuts += 1;
            }
            _ => {
                for child in children(&zookeeper, PATH).await {
                    let _ = zookeeper.set_data(&format!("{PATH}/{child}"), b"written", None).await;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..60))).await;
    }
    for task in tasks {
        eprintln!("visits {}", within(task).await.unwrap());
    }
    let slowest = slowest.load(SeqCst);
    eprintln!("{cuts} cuts, slowest {slowest} ms");
    assert!(slowest < 15_000);
    queue_of(&zookeeper, PATH, 0).await;
    for client in clients {
        client.close().await;
    }
}

/// A stranger that comes and goes must not keep a third one out.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn strangers_that_come_and_go_starve_no_one() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [client, comer, third] = connect_many(&server).await;
    let over = Arc::new(AtomicBool::new(false));
    let holds = Arc::new(AtomicUsize::new(0));
    let mutex = with(&client, LockOptions::new().cohort(5).cohort_time(LONG));
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let (mutex, over, holds) = (mutex.clone(), over.clone(), holds.clone());
            tokio::spawn(async move {
                while !over.load(SeqCst) {
                    let guard = mutex.acquire().await.unwrap();
                    holds.fetch_add(1, SeqCst);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    let comes = {
        let over = over.clone();
        tokio::spawn(async move {
            while !over.load(SeqCst) {
                drop(poll_times(mutex_of(&comer).acquire(), 3).await);
                let _ = tokio::time::timeout(Duration::from_millis(2), mutex_of(&comer).acquire()).await;
            }
        })
    };
    let mut most = 0;
    for _ in 0..30 {
        let ticket = mutex_of(&third).enqueue().await.unwrap();
        let before = holds.load(SeqCst);
        let guard = within(ticket.acquired()).await.unwrap();
        most = most.max(holds.load(SeqCst) - before);
        guard.release().await.unwrap();
    }
    over.store(true, SeqCst);
    for task in tasks {
        within(task).await.unwrap();
    }
    comes.await.unwrap();
    eprintln!("at most {most} holds before the third");
    // Those on their way when it came, and those before the notification.
    assert!(most <= 5 + 4, "{most}");
    queue_of(&zookeeper, PATH, 0).await;
}

/// Two cohorts that compete.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cohorts_that_compete_make_few_requests() {
    let server = Server::start().await.unwrap();
    for hand_ons in [0, 1, 10] {
        let [client, other] = connect_many(&server).await;
        let until = Instant::now() + Duration::from_secs(3);
        let holds = Arc::new(AtomicUsize::new(0));
        let before = server.packets_received().await.unwrap();
        let tasks: Vec<_> = (0..16)
            .map(|number| {
                let client = if number % 2 == 0 { &client } else { &other };
                let mutex = match hand_ons {
                    0 => mutex_of(client),
                    _ => with(client, LockOptions::new().cohort(hand_ons)),
                };
                let holds = holds.clone();
                tokio::spawn(async move {
                    while Instant::now() < until {
                        let guard = mutex.acquire().await.unwrap();
                        holds.fetch_add(1, SeqCst);
                        guard.release().await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            within(task).await.unwrap();
        }
        let sent = server.packets_received().await.unwrap() - before;
        let holds = holds.load(SeqCst);
        let each = sent as f64 / holds as f64;
        eprintln!(
            "cohort({hand_ons}): {holds} holds, {each:.2} requests each, {:.2} per node",
            each * f64::from(hand_ons + 1)
        );
        assert!(each * f64::from(hand_ons + 1) < 12.0);
        client.close().await;
        other.close().await;
    }
}

/// Many locks at once whose nodes are handed on, more than watch at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_locks_hand_on_over_a_bad_connection() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let count = 500;
    let locks: Vec<_> = (0..count)
        .map(|number| {
            let options = LockOptions::new().cohort(OFTEN).cohort_time(LONG);
            InterProcessMutex::new(&client, &format!("/many/{number}"))
                .unwrap()
                .with_options(options)
                .unwrap()
        })
        .collect();
    let tasks: Vec<_> = locks
        .iter()
        .flat_map(|lock| (0..3).map(|_| lock.clone()))
        .map(|lock| {
            tokio::spawn(async move {
                for _ in 0..6 {
                    if let Ok(guard) = lock.acquire().await {
                        tokio::time::sleep(Duration::from_millis(fastrand::u64(..300))).await;
                        drop(guard);
                    }
                }
            })
        })
        .collect();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        proxy.cut();
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    for number in 0..count {
        queue_of(&zookeeper, &format!("/many/{number}"), 0).await;
    }
    drop(locks);
    watches_with_holders(&server, 0).await;
    client.close().await;
}

/// All lock objects are dropped, and the client is closed, while the next in line is not polled.
#[tokio::test]
async fn closing_while_the_next_is_not_polled() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    for number in 0..5 {
        let client = connect(&server).await;
        let mutex = selfish(&client);
        let guard = alone(&server, &client, &mutex).await;
        let line: Vec<_> = (0..100).map(|_| in_line(&mutex)).collect();
        if number % 2 == 0 {
            guard.release().await.unwrap();
        } else {
            drop(guard);
        }
        drop(mutex);
        within(client.close()).await;
        for acquire in line {
            assert_eq!(within(acquire).await.unwrap_err(), Error::Closed);
        }
        queue_of(&zookeeper, PATH, 0).await;
    }
}

/// The runtime of the next in line ends.
#[tokio::test]
async fn the_runtime_of_the_next_in_line_ends() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let mutex = selfish(&client);
    for _ in 0..20 {
        let guard = alone(&server, &client, &mutex).await;
        let inner =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        for _ in 0..10 {
            let mutex = mutex.owned_by(&Owner::new());
            inner.spawn(async move { mutex.acquire().await.unwrap().release().await });
        }
        let last = in_line(&mutex);
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..3))).await;
        guard.release().await.unwrap();
        inner.shutdown_background();
        within(last).await.unwrap().release().await.unwrap();
        queue_of(&zookeeper, PATH, 0).await;
    }
}

/// Members with cohorts, whose callers vanish.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn members_with_cohorts_and_callers_that_vanish() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [client, other] = connect_many(&server).await;
    let until = Instant::now() + seconds();
    let paths = ["/locks/a", "/locks/b", "/locks/c"];
    let tasks: Vec<_> = (0..12)
        .map(|number| {
            let client = if number % 3 == 2 { other.clone() } else { client.clone() };
            tokio::spawn(async move {
                while Instant::now() < until {
                    let members = paths.map(|path| -> Arc<dyn InterProcessLock> {
                        let options = LockOptions::new()
                            .cohort(fastrand::u32(1..3))
                            .cohort_time(Duration::from_millis(10));
                        let lock =
                            InterProcessMutex::new(&client, path).unwrap().with_options(options).unwrap();
                        Arc::new(lock)
                    });
                    let both = MultiLock::of(members).unwrap();
                    match fastrand::u32(..3) {
                        0 => drop(poll_times(both.acquire(), fastrand::usize(1..20)).await),
                        1 => {
                            let time = Duration::from_micros(fastrand::u64(..10000));
                            let _ = tokio::time::timeout(time, both.acquire()).await;
                        }
                        _ => within(both.acquire()).await.unwrap().release().await.unwrap(),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        within(task).await.unwrap();
    }
    for path in paths {
        queue_of(&zookeeper, path, 0).await;
    }
    watches_of(&server, 0).await;
}

/// The pair of token and turn grows with every grant, also if an operator has freed the lock in between.
#[tokio::test]
async fn tokens_and_turns_grow_after_a_forced_release() {
    let server = Server::start().await.unwrap();
    let [client, other, operator] = connect_many(&server).await;
    let mutex = selfish(&client);
    let mut shrunk = 0;
    for _ in 0..10 {
        let guard = alone(&server, &client, &mutex).await;
        let next = in_line(&mutex);
        operate::force_release(&operator, PATH).await.unwrap();
        let stranger = within(mutex_of(&other).acquire()).await.unwrap();
        let between = (stranger.fencing_token(), stranger.turn());
        // The stranger's hold is over, and the client has been told of everything.
        stranger.release().await.unwrap();
        is_up_to_date(&client).await;
        drop(guard);
        let next = within(next).await.unwrap();
        if (next.fencing_token(), next.turn()) < between {
            shrunk += 1;
        }
        drop(next);
    }
    assert_eq!(shrunk, 0, "later grants with smaller pairs of token and turn");
}

/// Each request in turn is lost, or its reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whichever_request_of_a_cohort_is_lost() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let other = connect(&server).await;
    let room = Arc::new(Room::default());
    for index in 0..26 {
        for fate in [Fate::LoseRequest, Fate::LoseReply] {
            let start = Instant::now();
            let lost = proxy.intercept_after(index, fate);
            let mutex = with(&client, LockOptions::new().cohort(2).cohort_time(LONG));
            let mut tasks: Vec<_> = (0..6).map(|_| mutex.clone()).collect();
            tasks.extend((0..2).map(|_| mutex_of(&other)));
            let tasks: Vec<_> = tasks
                .into_iter()
                .map(|mutex| {
                    let room = room.clone();
                    tokio::spawn(async move {
                        for _ in 0..2 {
                            let guard = mutex.acquire().await.unwrap();
                            if guard.is_valid() {
                                let stay = room.enter(&guard);
                                tokio::task::yield_now().await;
                                drop(stay);
                            }
                            guard.release().await.ok();
                        }
                    })
                })
                .collect();
            for task in tasks {
                within(task).await.unwrap();
            }
            queue_of(&zookeeper, PATH, 0).await;
            assert!(start.elapsed() < Duration::from_secs(9), "{index} {fate:?}: {:?}", start.elapsed());
            drop(lost);
        }
    }
    client.close().await;
    watches_of(&server, 0).await;
}

/// The same for one who waits behind two strangers.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whichever_request_of_a_waiter_is_lost() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let [one, two, three] = connect_many(&server).await;
    for index in 0..8 {
        for fate in [Fate::LoseRequest, Fate::LoseReply] {
            for writes in [false, true] {
                for order in 0..3 {
                    let a = mutex_of(&one).acquire().await.unwrap();
                    let b = mutex_of(&two).enqueue().await.unwrap();
                    let c = mutex_of(&three).enqueue().await.unwrap();
                    let waiter = acquire_in_task(&mutex_of(&client));
                    queue_of(&zookeeper, PATH, 4).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    let lost = proxy.intercept_after(index, fate);
                    let start = Instant::now();
                    if writes {
                        for child in children(&zookeeper, PATH).await {
                            zookeeper.set_data(&format!("{PATH}/{child}"), b"written", None).await.unwrap();
                        }
                    }
                    match order {
                        0 => {
                            a.release().await.unwrap();
                            let b = within(b.acquired()).await.unwrap();
                            b.release().await.unwrap();
                            within(c.acquired()).await.unwrap().release().await.unwrap();
                        }
                        1 => {
                            drop(b);
                            a.release().await.unwrap();
                            drop(c);
                        }
                        _ => {
                            drop(c);
                            tokio::time::sleep(Duration::from_millis(5)).await;
                            drop(b);
                            a.release().await.unwrap();
                        }
                    }
                    let guard = within(waiter).await.unwrap().unwrap();
                    assert!(
                        start.elapsed() < Duration::from_secs(5),
                        "{index} {fate:?} {writes} {order}: {:?}",
                        start.elapsed()
                    );
                    drop(lost);
                    drop(guard);
                    queue_of(&zookeeper, PATH, 0).await;
                }
            }
        }
    }
    client.close().await;
    watches_of(&server, 0).await;
}

/// Sessions are killed, nodes deleted and holds run out of time; no one is stuck, and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_one_is_stuck_whatever_is_killed() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let [client, other] = connect_many(&server).await;
    let until = Instant::now() + seconds();
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let client = if number % 4 == 3 { other.clone() } else { client.clone() };
            tokio::spawn(async move {
                let (mut visits, mut failures) = (0, 0);
                while Instant::now() < until {
                    let options = LockOptions::new().cohort(if number % 2 == 0 { 3 } else { 1000 });
                    let options = match number % 3 {
                        0 => options.max_hold(Duration::from_millis(5)),
                        1 => options.linger(Duration::from_millis(10)),
                        _ => options,
                    };
                    let mutex = with(&client, options).owned_by(&Owner::new());
                    // One session after the other may be killed for longer than the retry policy allows.
                    let Ok(guard) = within(mutex.acquire()).await else {
                        failures += 1;
                        continue;
                    };
                    visits += 1;
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(..8))).await;
                    if fastrand::bool() {
                        guard.release().await.ok();
                    } else {
                        drop(guard);
                    }
                }
                (visits, failures)
            })
        })
        .collect();
    while Instant::now() < until {
        match fastrand::u32(..4) {
            // It may be over already.
            0 => drop(kill_session(&client).await),
            1 => drop(kill_session(&other).await),
            _ => {
                for child in children(&zookeeper, PATH).await {
                    if fastrand::bool() {
                        let _ = zookeeper.delete(&format!("{PATH}/{child}"), None).await;
                    }
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..100))).await;
    }
    let (mut visits, mut failures) = (0, 0);
    for task in tasks {
        let (more, failed) = within(task).await.unwrap();
        (visits, failures) = (visits + more, failures + failed);
    }
    eprintln!("{visits} visits, {failures} failures");
    assert!(failures < visits / 10, "{failures} failures, {visits} visits");
    queue_of(&zookeeper, PATH, 0).await;
    drop((client, other));
    watches_of(&server, 0).await;
}

/// A guard whose node was deleted, as the client has been told, is not released as if nothing had happened.
#[tokio::test]
async fn a_release_tells_of_a_deleted_node_as_without_a_cohort() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let guard = mutex_of(&client).acquire().await.unwrap();
    zookeeper.delete(guard.node_path(), None).await.unwrap();
    let plain = guard.release().await;
    let mutex = selfish(&client);
    let guard = alone(&server, &client, &mutex).await;
    zookeeper.delete(guard.node_path(), None).await.unwrap();
    is_up_to_date(&client).await;
    let next = in_line(&mutex);
    let cohort = guard.release().await;
    drop(next);
    assert!(plain.is_ok() || cohort.is_err(), "plain: {plain:?}, cohort: {cohort:?}");
}

/// A cohort that never ends gives the lock back on request.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_ends_a_selfish_cohort() {
    let server = Server::start().await.unwrap();
    let [client, other, operator] = connect_many(&server).await;
    let mutex = selfish(&client);
    let over = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (mutex, over) = (mutex.clone(), over.clone());
            tokio::spawn(async move {
                while !over.load(SeqCst) {
                    mutex.acquire().await.unwrap().release().await.unwrap();
                }
            })
        })
        .collect();
    for _ in 0..20 {
        let waits = mutex_of(&other).enqueue().await.unwrap();
        assert!(!operate::ask(&operator, PATH).await.unwrap().is_empty());
        let guard = tokio::time::timeout(Duration::from_secs(10), waits.acquired()).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
    over.store(true, SeqCst);
    for task in tasks {
        within(task).await.unwrap();
    }
}

/// Behind strangers whose nodes may not be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn behind_strangers_that_may_not_be_read() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let own = [Acl::new(Permission::ALL, AuthId::new("auth", ""))];
    let private = |who: &str| {
        let own = own.clone();
        let builder =
            builder().session_timeout(Duration::from_secs(10)).auth("digest", format!("{who}:secret"));
        builder.acl_for_path(move |path| path.contains("/_c_").then(|| own.to_vec()))
    };
    let one = private("one").connect(&server.connect_string()).await.unwrap();
    let two = private("two").connect(&server.connect_string()).await.unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let comer = connect(&server).await;
    for number in 0..20 {
        let a = with(&one, LockOptions::new().cohort(3)).acquire().await.unwrap();
        let b = mutex_of(&two).enqueue().await.unwrap();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let mutex = with(&client, LockOptions::new().cohort(3));
                tokio::spawn(async move { mutex.acquire().await.unwrap().release().await })
            })
            .collect();
        queue_of(&zookeeper, PATH, 3).await;
        let come = mutex_of(&comer).enqueue().await.unwrap();
        drop(come);
        let next = with(&one, LockOptions::new().cohort(3));
        let next = tokio::spawn(async move { next.acquire().await.unwrap().release().await });
        if number % 2 == 0 {
            proxy.cut();
        }
        a.release().await.unwrap();
        within(b.acquired()).await.unwrap().release().await.unwrap();
        for waiter in waiters {
            within(waiter).await.unwrap().unwrap();
        }
        within(next).await.unwrap().unwrap();
        queue_of(&zookeeper, PATH, 0).await;
    }
    client.close().await;
}

/// "Within the client, it is first come, first served", also if the task of the first has used up its budget.
#[tokio::test]
async fn who_comes_first_is_first_even_without_a_budget() {
    let server = Server::start().await.unwrap();
    let client = connect(&server).await;
    let mutex = selfish(&client);
    let guard = mutex.acquire().await.unwrap();
    let (mut first, second) = {
        let mutex = mutex.clone();
        tokio::spawn(async move {
            while poll_once(&mut Box::pin(tokio::task::coop::consume_budget())).is_ready() {}
            let first = in_line(&mutex);
            // On a thread of its own, afterwards.
            let second = std::thread::spawn(move || in_line(&mutex)).join().unwrap();
            (first, second)
        })
        .await
        .unwrap()
    };
    let mut second = second;
    assert!(poll_once(&mut first).is_pending());
    guard.release().await.unwrap();
    let (got, is_first) = within(async {
        tokio::select! {
            got = &mut first => (got, true),
            got = &mut second => (got, false),
        }
    })
    .await;
    drop(got);
    assert!(is_first, "the second was served first");
}
