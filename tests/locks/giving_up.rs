//! What callers that give up, are polled late or never, panic, or lose their runtime cost the other callers of their client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::kinds::{KINDS, Kind, in_task};
use crate::support::*;
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};
use zk_recipes::testing::{FaultProxy, MemoryServer, Traffic};
use zk_recipes::{Client, Error, InterProcessMutex, LockOptions, Owner, ReadWriteLock, RetryPolicy};

const MS: Duration = Duration::from_millis(1);

/// The wrong answer: nobody has the lock, the server is silent.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_is_not_taken_for_a_lock_that_is_held_few() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let lock = mutex(&client);
    lock.acquire().await.unwrap().release().await.unwrap();
    server.pause().unwrap();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let lock = lock.clone();
        callers.spawn(async move {
            let mut wrong = 0;
            for _ in 0..5 {
                match lock.try_acquire_for(50 * MS).await {
                    Ok(None) => wrong += 1,
                    Ok(Some(_)) => panic!("silent"),
                    Err(Error::NotConnected { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            wrong
        });
    }
    let mut wrong = 0;
    while let Some(n) = callers.join_next().await {
        wrong += n.unwrap();
    }
    server.resume().unwrap();
    assert_eq!(wrong, 0, "of 50 answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_is_not_taken_for_a_lock_that_is_held_many() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let lock = mutex(&client);
    lock.acquire().await.unwrap().release().await.unwrap();
    server.pause().unwrap();
    let calls = (0..200).map(|_| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.try_acquire_for(200 * MS).await })
    });
    let answers = join_all(calls.collect::<Vec<_>>()).await;
    let wrong = answers.iter().filter(|a| matches!(a.as_ref().unwrap(), Ok(None))).count();
    server.resume().unwrap();
    assert_eq!(wrong, 0, "of 200 answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn acquires_that_are_not_polled_keep_no_reader_out() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let lock = ReadWriteLock::new(&client, "/rw").unwrap();
    lock.read().acquire().await.unwrap().release().await.unwrap();
    let readers: Vec<_> = (0..64).map(|_| lock.read().owned_by(&Owner::new())).collect();
    let mut forgotten: Vec<_> = readers.iter().map(|reader| Box::pin(reader.acquire())).collect();
    for f in &mut forgotten {
        assert!(futures_util::poll!(f.as_mut()).is_pending());
    }
    let got = timeout(Duration::from_secs(10), lock.read().acquire()).await;
    assert!(got.is_ok(), "a reader is kept out by those that nobody polls");
}

async fn time_of_not_connected(lock: &InterProcessMutex, callers: usize) -> Duration {
    let began = Instant::now();
    let calls = (0..callers).map(|_| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire().await.err() })
    });
    for answer in join_all(calls.collect::<Vec<_>>()).await {
        assert!(answer.unwrap().is_some());
    }
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_told_to_many_as_soon_as_to_few() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let builder = Client::builder()
        .session_timeout(Duration::from_secs(10))
        .connection_timeout(500 * MS)
        .retry_policy(RetryPolicy::n_times(0, MS));
    let client = connected(builder, &proxy.connect_string()).await;
    mutex(&client).acquire().await.unwrap().release().await.unwrap();
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    sleep(100 * MS).await;
    let few = time_of_not_connected(&mutex(&client), 10).await;
    let many = time_of_not_connected(&mutex(&client), 1000).await;
    assert!(many < few * 3, "few {few:?} many {many:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_that_cannot_be_done_keep_no_error_away() {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let builder = Client::builder()
        .session_timeout(Duration::from_secs(10))
        .connection_timeout(500 * MS)
        .retry_policy(RetryPolicy::n_times(0, MS));
    let client = connected(builder, &proxy.connect_string()).await;
    let holder = connect(&server).await;
    let _held = mutex(&holder).acquire().await.unwrap();
    let bystander = bystander(&server).await;
    let lock = mutex(&client);
    let waiting: Vec<_> = (0..200)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    queue_of(&bystander, "/locks/a", 201).await;
    proxy.refuse_connections(true).unwrap();
    proxy.cut();
    sleep(100 * MS).await;
    for waiting in &waiting {
        waiting.abort();
    }
    join_all(waiting).await;
    // With a node of another form, it can take over no place that is kept for a moment.
    let newcomer = lock.with_options(LockOptions::new().node_data("newcomer")).unwrap();
    let took = time_of_not_connected(&newcomer, 1).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// All who waited have given up before.
#[tokio::test(flavor = "multi_thread")]
async fn a_try_after_all_others_have_given_up_succeeds() {
    const CALLERS: usize = 10;
    let server = empty_server().await;
    let client = connect(&server).await;
    let bystander = bystander(&server).await;
    let lock = mutex(&client);
    for _ in 0..20 {
        let held = lock.acquire().await.unwrap();
        let waiting = (0..CALLERS).map(async |_| lock.owned_by(&Owner::new()).acquire().await);
        let mut waiting = Box::pin(join_all(waiting));
        tokio::select! {
            _ = &mut waiting => panic!("it is held"),
            _ = queue_of(&bystander, "/locks/a", CALLERS + 1) => {}
        }
        // The replies to their creates are there, too.
        client.zookeeper().await.unwrap().sync("/").await.unwrap();
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop((waiting, held));
        lock.try_acquire().await.unwrap().expect("nobody else wants it").release().await.unwrap();
    }
}

/// While another client holds the lock, one of two callers stays, and the other gives up and comes again at once.
#[tokio::test]
async fn the_place_of_one_of_two_callers_passes_on() {
    const TIMES: i32 = 40;
    let server = MemoryServer::start().unwrap();
    let connect = async || Client::connect(&server.connect_string()).await.unwrap();
    let (holder, client, bystander) = (connect().await, connect().await, connect().await);
    let bystander = bystander.zookeeper().await.unwrap();
    let held = mutex(&holder).acquire().await.unwrap();
    let lock = mutex(&client);
    let stays = acquire_in_task(&lock);
    queue_of(&bystander, "/locks/a", 2).await;
    let come = || {
        let lock = lock.owned_by(&Owner::new());
        Box::pin(async move { lock.acquire().await })
    };
    let mut comes = come();
    tokio::select! {
        biased;
        _ = &mut comes => panic!("it is held"),
        _ = queue_of(&bystander, "/locks/a", 3) => {}
    }
    let changes = async || bystander.check_stat("/locks/a").await.unwrap().unwrap().cversion;
    let before = changes().await;
    for _ in 0..TIMES {
        drop(comes);
        comes = come();
        assert!(futures_util::poll!(&mut comes).is_pending());
        // What it has sent, if anything, is done.
        client.zookeeper().await.unwrap().check_stat("/").await.unwrap();
    }
    let made = changes().await - before;
    // On a busy machine, the moment for which a place is kept may pass in between at times.
    assert!(made < TIMES / 2, "{made} creates and deletes for {TIMES} who came and went");
    drop(comes);
    queue_of(&bystander, "/locks/a", 2).await;
    stays.abort();
    queue_of(&bystander, "/locks/a", 1).await;
    held.release().await.unwrap();
    lock.try_acquire().await.unwrap().expect("nobody else wants it").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_follows_a_ticket_hears_of_its_end() {
    let server = empty_server().await;
    let [client, holder] = connect_many(&server).await;
    let lock = mutex(&client);
    let held = mutex(&holder).acquire().await.unwrap();
    let others: Vec<_> = (0..10)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    let b = bystander(&server).await;
    queue_of(&b, "/locks/a", 11).await;
    let ticket = lock.owned_by(&Owner::new()).enqueue().await.unwrap();
    let mut positions = ticket.watch_position();
    assert!(timeout(100 * MS, ticket.acquired()).await.is_err());
    // Takes the place over.
    let taker = {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire().await })
    };
    let ended = timeout(3000 * MS, async { while positions.changed().await.is_ok() {} }).await;
    assert!(ended.is_ok(), "the wait is over, and still followed");
    drop((held, taker, others));
}

/// A caller on a runtime of its own, whose timers nobody drives when it has given up.
fn caller_on_its_own_runtime(
    client: &Client,
    drop_runtime: bool,
    patience: Duration,
) -> Option<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lock = mutex(client);
    if drop_runtime {
        // Gives up by the shut-down.
        runtime.spawn(async move { lock.owned_by(&Owner::new()).acquire().await });
        runtime.block_on(sleep(patience));
        drop(runtime);
        return None;
    }
    let gave_up =
        runtime.block_on(async { timeout(patience, lock.owned_by(&Owner::new()).acquire()).await.is_err() });
    assert!(gave_up);
    Some(runtime)
}

async fn give_up_elsewhere(drop_runtime: bool, crowd: usize) {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = Client::builder()
        .session_timeout(Duration::from_secs(20))
        .connection_timeout(5000 * MS)
        .retry_policy(RetryPolicy::forever(700 * MS))
        .connect(&proxy.connect_string())
        .await
        .unwrap();
    let b = bystander(&server).await;
    let lock = mutex(&client);
    lock.acquire().await.unwrap().release().await.unwrap();
    // Its create is cut off, and it pauses.
    proxy.set_traffic(Traffic::black_hole());
    let cutter = async {
        sleep(200 * MS).await;
        proxy.cut();
        proxy.set_traffic(Traffic::pass());
    };
    let mut kept = Vec::new();
    let parked = {
        let client = client.clone();
        let elsewhere =
            tokio::task::spawn_blocking(move || caller_on_its_own_runtime(&client, drop_runtime, 500 * MS));
        let crowd: Vec<_> = (0..crowd)
            .map(|_| {
                let lock = lock.clone();
                tokio::spawn(
                    async move { lock.owned_by(&Owner::new()).acquire().await.unwrap().release().await },
                )
            })
            .collect();
        let (runtime, ()) = tokio::join!(elsewhere, cutter);
        kept.push(runtime.unwrap());
        crowd
    };
    let late: Vec<_> = (0..5)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.owned_by(&Owner::new()).acquire().await.unwrap().release().await })
        })
        .collect();
    for c in parked.into_iter().chain(late) {
        timeout(Duration::from_secs(10), c).await.expect("waits for ever").expect("panics").unwrap();
    }
    queue_of(&b, "/locks/a", 0).await;
    // What it began is seen through, or given up, by now. The janitor still works: it finds a node that was not answered for.
    sleep(1500 * MS).await;
    server.pause().unwrap();
    assert!(poll_times(lock.acquire(), 1).await.is_none());
    sleep(1500 * MS).await;
    server.resume().unwrap();
    sleep(300 * MS).await;
    timeout(Duration::from_secs(10), queue_of(&b, "/locks/a", 0)).await.expect("an orphan");
    drop(kept.into_iter().flatten().map(|r| r.shutdown_background()).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_needs_the_runtime_of_one_who_gave_up_when_it_was_shut_down() {
    give_up_elsewhere(true, 0).await
}
#[tokio::test(flavor = "multi_thread")]
async fn nobody_needs_the_runtime_of_one_who_gave_up_and_that_nobody_drives() {
    give_up_elsewhere(false, 0).await
}
#[tokio::test(flavor = "multi_thread")]
async fn no_crowd_needs_the_runtime_of_one_who_gave_up_when_it_was_shut_down() {
    give_up_elsewhere(true, 10).await
}
#[tokio::test(flavor = "multi_thread")]
async fn no_crowd_needs_the_runtime_of_one_who_gave_up_and_that_nobody_drives() {
    give_up_elsewhere(false, 10).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_handle_ends_the_session_after_a_storm() {
    let server = empty_server().await;
    let [client, holder] = connect_many(&server).await;
    let b = bystander(&server).await;
    for kind in [Kind::Mutex, Kind::Permit, Kind::Multi, Kind::Read] {
        let lock = kind.unlimited(&client);
        let _held = kind.rival(&holder).acquire().await.unwrap();
        let calls = (0..200).map(|i| {
            let lock = lock.clone();
            async move { timeout(Duration::from_micros(300 * (i % 40)), lock.acquire()).await.map(drop) }
        });
        join_all(calls).await;
    }
    let session = session_id(&client).await;
    drop(client);
    let began = Instant::now();
    eventually("the session ends", async || {
        let cons = server.four_letter_word("cons").await.unwrap();
        (!cons.contains(&format!("{session:x}"))).then_some(())
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(5));
    for kind in [Kind::Mutex, Kind::Permit, Kind::Multi, Kind::Read] {
        eventually("all gone", async || (ephemerals_below(&b, kind.path()).await.is_empty()).then_some(()))
            .await;
    }
}

/// The client's runtime is shut down while a caller of another one pauses.
#[test]
fn a_caller_elsewhere_hears_that_the_runtime_of_the_client_is_gone() {
    let other = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _in_it = other.enter();
    for round in 0..3 {
        let (server, proxy) = other.block_on(async {
            let s = empty_server().await;
            let p = FaultProxy::start(s.connect_string()).await.unwrap();
            (s, p)
        });
        let home = if round == 0 {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
        } else {
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
        };
        let client = home.block_on(async {
            let c = Client::builder()
                .runtime(tokio::runtime::Handle::current())
                .session_timeout(Duration::from_secs(20))
                .connection_timeout(10000 * MS)
                .retry_policy(RetryPolicy::forever(3000 * MS))
                .connect(&proxy.connect_string())
                .await
                .unwrap();
            mutex(&c).acquire().await.unwrap().release().await.unwrap();
            c
        });
        proxy.set_traffic(Traffic::black_hole());
        let lock = mutex(&client);
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let lock = lock.clone();
                other.spawn(async move { lock.acquire().await.map(drop) })
            })
            .collect();
        std::thread::sleep(200 * MS);
        proxy.refuse_connections(true).unwrap();
        proxy.cut();
        home.block_on(sleep(500 * MS));
        home.shutdown_timeout(Duration::from_secs(1));
        other.block_on(async {
            for call in calls {
                let answer = timeout(Duration::from_secs(15), call).await.expect("stuck").expect("panics");
                assert!(answer.is_err());
                if round == 1 {}
            }
        });
        drop(server);
    }
}

/// What the user gives panics once; the janitor must go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_users_does_not_stop_the_janitor() {
    let server = empty_server().await;
    let b = bystander(&server).await;
    let panics = Arc::new(AtomicBool::new(false));
    let client = {
        let panics = panics.clone();
        Client::builder()
            .session_timeout(Duration::from_secs(20))
            .acl_for_path(move |_| {
                assert!(!panics.swap(false, SeqCst), "on purpose");
                None
            })
            .connect(&server.connect_string())
            .await
            .unwrap()
    };
    for kind in [Kind::Mutex, Kind::Permit, Kind::Multi] {
        let lock = kind.unlimited(&client);
        lock.acquire().await.unwrap().release().await.unwrap();
        panics.store(true, SeqCst);
        assert!(in_task(lock.clone()).await.unwrap_err().is_panic());
        // A create with unknown outcome is the janitor's.
        let m = zk_recipes::InterProcessMutex::new(&client, "/other").unwrap();
        server.pause().unwrap();
        assert!(poll_times(m.acquire(), 1).await.is_none());
        sleep(1500 * MS).await;
        server.resume().unwrap();
        within(lock.acquire()).await.unwrap().release().await.unwrap();
        sleep(300 * MS).await;
        eventually("swept", async || children(&b, "/other").await.is_empty().then_some(())).await;
        within(m.acquire()).await.unwrap().release().await.unwrap();
    }
}

#[test]
fn an_acquire_under_way_may_be_dropped_outside_of_any_runtime() {
    let home = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (server, client) = home.block_on(async {
        let s = empty_server().await;
        let c = connect(&s).await;
        (s, c)
    });
    for kind in KINDS {
        let lock = kind.unlimited(&client);
        home.block_on(async { lock.acquire().await.unwrap().release().await.unwrap() });
        server.pause().unwrap();
        let mut acquire = lock.acquire();
        home.block_on(async { assert!(futures_util::poll!(acquire.as_mut()).is_pending()) });
        drop(acquire);
        server.resume().unwrap();
        home.block_on(async { within(lock.acquire()).await.unwrap().release().await.unwrap() });
    }
}
