//! What a lock is worth that is handed out after an outage which the session has outlived.

use futures_util::future::select_ok;

use super::kinds::Kind;
use super::prelude::*;

/// A lock that was just handed out is valid for half of the session at least.
async fn handed_out(acquiring: impl Future<Output = Result<LockGuard>>) -> LockGuard {
    let guard = within(acquiring).await.unwrap();
    let ahead = guard.valid_until().saturating_duration_since(Instant::now());
    assert!(ahead + A_MOMENT > SESSION / 2, "{ahead:?}: {guard:?}");
    assert_eq!(guard.loss(), None, "{guard:?}");
    guard
}

/// The server is away for this share of the session timeout.
async fn outage(stage: &Stage, share: f64) {
    stage.servers().stop(0);
    sleep(SESSION.mul_f64(share)).await;
    stage.servers().start(0);
}

/// Waiters of all kinds, candidates, and those who come after the outage.
/// The holders have lost their locks; the servers would have ended the sessions, if they had been there.
#[history(0.8, 1.05)]
async fn what_is_handed_out_after_an_outage_lasts(stage: Stage, share: f64) {
    let [holding, waiting] = [stage.connect(0, session).await, stage.connect(1, session).await];
    let session = session_id(&waiting).await;
    let mut held = Vec::new();
    let mut waiters = Vec::new();
    for kind in KINDS {
        held.push(kind.unlimited(&holding).acquire().await.unwrap());
        waiters.push(in_task(kind.rival(&waiting)));
        sleep(A_MOMENT).await;
        let length = nodes(stage.servers(), &kind.queue()).len();
        assert_eq!(length, if kind == Kind::Permit { 1 } else { 2 });
    }
    let several = |client: &Client| Semaphore::new(client, "/several", 3).unwrap().many(2).unwrap();
    held.push(several(&holding).acquire().await.unwrap());
    let several = several(&waiting);
    waiters.push(tokio::spawn(async move { several.acquire().await }));
    let latches = [&holding, &waiting]
        .map(|client| LeaderLatch::start(client, "/latch", LeaderOptions::new()).unwrap());
    sleep(A_MOMENT).await;
    assert_eq!(["/several/locks", "/latch"].map(|path| nodes(stage.servers(), path).len()), [1, 2]);

    outage(&stage, share).await;
    drop(held);
    let fresh = mutex_at(&waiting, "/fresh");
    let granted = waiters.into_iter().map(|waiter| handed_out(waiter.map(|granted| granted.unwrap())));
    let (granted, fresh) = join(join_all(granted), handed_out(fresh.acquire())).await;
    let guards: Vec<LockGuard> = granted.into_iter().chain([fresh]).collect();
    let leader = latches.each_ref().map(|latch| Box::pin(latch.await_leadership()));
    let (leadership, _) = within(select_ok(leader)).await.unwrap();
    // For longer than what one confirmation after the silence is worth.
    let lost = join_all(guards.iter().map(|guard| Box::pin(guard.lost())));
    assert!(timeout(3 * SESSION, join(lost, leadership.lost())).await.is_err());
    for guard in guards {
        assert_eq!(guard.loss(), None, "{guard:?}");
        guard.release().await.unwrap();
    }
    assert_eq!(leadership.loss(), None, "the next leader stays the leader");
    assert_eq!(session_id(&waiting).await, session, "the test is about sessions that live on");
}

/// What is handed out without a queue.
#[history]
async fn what_has_stayed_over_an_outage_is_confirmed_before_it_is_handed_out(stage: Stage) {
    const LONG: Duration = secs(60);
    let client = stage.connect(0, session).await;
    let session = session_id(&client).await;
    let lingering = mutex_at(&client, "/lingering");
    let lingering = lingering.with_options(LockOptions::new().linger(LONG)).unwrap();
    lingering.acquire().await.unwrap().release().await.unwrap();
    let ticket = mutex_at(&client, "/ticket").enqueue().await.unwrap();
    let both = ReadWriteLock::new(&client, "/both").unwrap();
    let writing = both.write().acquire().await.unwrap();

    outage(&stage, 0.55).await;
    // In one task, since a read lock is for the owner of the write lock.
    let guards = join(
        join(handed_out(lingering.acquire()), handed_out(ticket.acquired())),
        handed_out(both.read().acquire()),
    )
    .await;
    assert!(writing.is_valid());
    assert_eq!(session_id(&client).await, session);
    drop((guards, writing));
    sleep(LONG).await;
}

/// The leader has counted the session when it was continued: no second confirmation is waited for.
#[history]
async fn a_lock_that_is_free_soon_after_an_outage_is_handed_out_at_once(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let holding = stage.connect(1, session).await;
    let waiting = proxy.client(session).await;
    let session = session_id(&waiting).await;
    let held = mutex(&holding).acquire().await.unwrap();
    let waiter = waiter(&mutex(&waiting)).await;
    proxy.cut_off();
    sleep(SESSION / 2).await;
    proxy.refuse_connections(false);
    state_is(&waiting, ConnectionState::Reconnected).await;
    sleep(A_MOMENT).await;
    held.release().await.unwrap();
    let free = Instant::now();
    let guard = handed_out(async { waiter.await.unwrap() }).await;
    takes(free, Duration::ZERO);
    assert_eq!(session_id(&waiting).await, session);
    guard.release().await.unwrap();
}
