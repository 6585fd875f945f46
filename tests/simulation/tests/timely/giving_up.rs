//! What callers that give up, are not polled, or panic cost the other callers of their client.

use super::kinds::Kind;
use super::prelude::*;

const MS: Duration = ms(1);
/// How long those who are on their way into a queue, and do not go on, are waited for.
const STANDSTILL: Duration = secs(1);
/// How long a client waits for a connection.
const CONNECTION: Duration = ms(500);

#[history]
async fn acquires_that_are_not_polled_keep_no_reader_out(stage: Stage) {
    let client = stage.client(0).await;
    let lock = ReadWriteLock::new(&client, "/rw").unwrap();
    lock.read().acquire().await.unwrap().release().await.unwrap();
    let readers: Vec<_> = (0..64).map(|_| lock.read().owned_by(&Owner::new())).collect();
    let mut forgotten: Vec<_> = readers.iter().map(|reader| Box::pin(reader.acquire())).collect();
    for acquire in &mut forgotten {
        assert!(poll_once(acquire).is_pending());
    }
    let start = Instant::now();
    let guard = within(lock.read().acquire()).await.unwrap();
    // Those on their way are waited for no longer.
    takes(start, STANDSTILL);
    guard.release().await.unwrap();
}

/// The 64 callers that may be on their way pause before their next attempt. A later caller gets the free lock meanwhile.
#[history]
async fn who_comes_after_an_outage_does_not_wait_for_those_who_pause(stage: Stage) {
    const PAUSE: Duration = secs(60);
    let (proxy, client) = stage.far(tries(secs(300), CONNECTION, RetryPolicy::forever(PAUSE))).await;
    let lock = mutex(&client);
    visit(&lock).await;
    proxy.cut_off();
    let pausing: Vec<_> = (0..64).map(|_| acquiring(&lock.owned_by(&Owner::new()))).collect();
    sleep(2 * CONNECTION).await;
    proxy.refuse_connections(false);
    connected(&client).await;
    let guard = lock.owned_by(&Owner::new()).try_acquire_for(PAUSE / 4).await.unwrap();
    guard.expect("it is free").release().await.unwrap();
    pausing.iter().for_each(JoinHandle::abort);
    sleep(A_MOMENT).await;
}

/// How long it takes until so many callers hear of an outage.
async fn time_of_not_connected(lock: &InterProcessMutex, callers: usize) -> Duration {
    let start = Instant::now();
    let calls = (0..callers).map(|_| acquiring(lock));
    for answer in within(join_all(calls.collect::<Vec<_>>())).await {
        assert!(answer.unwrap().is_err());
    }
    start.elapsed()
}

#[history]
async fn an_outage_is_told_to_many_as_soon_as_to_few(stage: Stage) {
    let (proxy, client) = stage.far(tries(SESSION, CONNECTION, RetryPolicy::n_times(0, MS))).await;
    let lock = mutex(&client);
    lock.acquire().await.unwrap().release().await.unwrap();
    proxy.cut_off();
    sleep(100 * MS).await;
    // Those who are not let in yet hear of it when the first ones do not go on, and not in their turn.
    for (callers, most) in [(10, CONNECTION), (1_000, 2 * CONNECTION)] {
        let took = time_of_not_connected(&lock, callers).await;
        assert!(took < most + A_MOMENT, "{callers}: {took:?}");
    }
    proxy.refuse_connections(false);
}

#[history]
async fn deletes_that_cannot_be_done_keep_no_error_away(stage: Stage) {
    const WAITERS: usize = 200;
    let (proxy, client, holder) =
        stage.far_and_near(tries(SESSION, CONNECTION, RetryPolicy::n_times(0, MS))).await;
    let held = mutex(&holder).acquire().await.unwrap();
    let lock = mutex(&client);
    let waiting: Vec<_> = (0..WAITERS).map(|_| acquiring(&lock)).collect();
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), WAITERS + 1);
    proxy.cut_off();
    sleep(100 * MS).await;
    for waiting in &waiting {
        waiting.abort();
    }
    join_all(waiting).await;
    // With a node of another form, it can take over no place that is kept for a moment.
    let newcomer = lock.with_options(LockOptions::new().node_data("newcomer")).unwrap();
    let took = time_of_not_connected(&newcomer, 1).await;
    assert!(took < CONNECTION + A_MOMENT, "{took:?}");
    proxy.refuse_connections(false);
    held.release().await.unwrap();
    sleep(2 * SESSION).await;
}

/// While another client holds the lock, one of two callers stays, and the other gives up and comes again at once.
#[history]
async fn the_place_of_one_of_two_callers_passes_on(stage: Stage) {
    let [holder, client] = stage.clients().await;
    let held = mutex(&holder).acquire().await.unwrap();
    let lock = mutex(&client);
    let stays = acquiring(&lock);
    sleep(A_MOMENT).await;
    let come = || {
        let lock = lock.owned_by(&Owner::new());
        spawn_local(async move { lock.acquire().await })
    };
    let mut comes = come();
    sleep(A_MOMENT).await;
    let places = stage.servers().children(PATH).unwrap();
    assert_eq!(places.len(), 3);
    for _ in 0..40 {
        comes.abort();
        sleep(MS).await;
        comes = come();
        sleep(MS).await;
        assert!(!comes.is_finished());
        assert_eq!(stage.servers().children(PATH).as_ref(), Some(&places));
    }
    comes.abort();
    sleep(SESSION).await;
    assert_eq!(queue(&stage, PATH), 2);
    stays.abort();
    sleep(SESSION).await;
    assert_eq!(queue(&stage, PATH), 1);
    held.release().await.unwrap();
    lock.try_acquire().await.unwrap().expect("no one else wants it").release().await.unwrap();
}

#[history]
async fn who_follows_a_ticket_hears_of_its_end(stage: Stage) {
    let [holder, client] = stage.clients().await;
    let lock = mutex(&client);
    let _held = mutex(&holder).acquire().await.unwrap();
    let _others: Vec<_> = (0..10).map(|_| acquiring(&lock)).collect();
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), 11);
    let ticket = lock.owned_by(&Owner::new()).enqueue().await.unwrap();
    let mut positions = ticket.watch_position();
    assert!(timeout(100 * MS, ticket.acquired()).await.is_err());
    // Takes the place over.
    let _taker = acquiring(&lock);
    let ended = timeout(A_MOMENT, async { while positions.changed().await.is_some() {} }).await;
    assert!(ended.is_ok(), "the wait is over, and still followed");
}

#[history]
async fn the_last_handle_ends_the_session_after_a_storm(stage: Stage) {
    let holder = stage.client(1).await;
    // The stage has no handle of it.
    let machine = &stage.machines()[0];
    let client = machine.connect(machine.builder().drop_timeout(Duration::ZERO), &stage.address_of(0)).await;
    let kinds = [Kind::Mutex, Kind::Permit, Kind::Multi, Kind::Read];
    for kind in kinds {
        let lock = kind.unlimited(&client);
        let _held = kind.rival(&holder).acquire().await.unwrap();
        let calls = (0..200).map(|number| {
            let lock = lock.clone();
            async move { timeout(Duration::from_micros(300 * (number % 40)), lock.acquire()).await.map(drop) }
        });
        join_all(calls).await;
    }
    let session = session_id(&client).await;
    assert!(stage.servers().session_ids().contains(&session));
    drop(client);
    sleep(A_MOMENT).await;
    assert!(!stage.servers().session_ids().contains(&session));
    for kind in kinds {
        assert_eq!(queue(&stage, &kind.queue()), 0, "{kind:?}");
    }
}

/// What the user gives panics once; the janitor must go on.
#[history]
async fn a_panic_of_the_users_does_not_stop_the_janitor(stage: Stage) {
    const OTHER: &str = "/other";
    let panics = Arc::new(AtomicBool::new(false));
    let proxy = stage.proxy(0).await;
    let client = proxy.client(|builder| {
        let panics = panics.clone();
        builder.session_timeout(2 * SESSION).acl_for_path(move |_| {
            assert!(!panics.swap(false, SeqCst), "on purpose");
            None
        })
    });
    let client = client.await;
    for kind in [Kind::Mutex, Kind::Permit, Kind::Multi] {
        let lock = kind.unlimited(&client);
        lock.acquire().await.unwrap().release().await.unwrap();
        panics.store(true, SeqCst);
        assert!(in_task(lock.clone()).await.unwrap_err().is_panic());
        // A create with unknown outcome is the janitor's.
        let other = mutex_at(&client, OTHER);
        stage.servers().set_paused(0, true);
        assert!(poll_once(&mut Box::pin(other.acquire())).is_pending());
        sleep(1500 * MS).await;
        stage.servers().set_paused(0, false);
        within(lock.acquire()).await.unwrap().release().await.unwrap();
        sleep(300 * MS).await;
        assert_eq!(queue(&stage, OTHER), 0);
        within(other.acquire()).await.unwrap().release().await.unwrap();
    }
}
