//! What goes over the wire while time goes by.

use super::prelude::*;

/// Long enough for no ping to be sent in between.
const SESSION: Duration = secs(60);
/// By which a session asks for its own ephemeral nodes.
const OWN_NODES: Request = Request::Other(103);

/// Acquires in a task of its own, for an owner of its own.
fn acquiring(mutex: &InterProcessMutex) -> tokio::task::JoinHandle<Result<LockGuard>> {
    let mutex = mutex.owned_by(&Owner::new());
    tokio::spawn(async move { mutex.acquire().await })
}

/// The requests of one client, as a proxy before the server sees them.
struct Observed {
    proxy: Proxy,
    mutex: InterProcessMutex,
    other: InterProcessMutex,
    calm: Client,
}

async fn observed(stage: &Stage, session: Duration) -> Observed {
    let (proxy, client, calm) = stage.far_and_near(|builder| builder.session_timeout(session)).await;
    let (mutex, other) = (mutex(&client), mutex(&calm));
    // The path is there, but new to the client.
    other.acquire().await.unwrap().release().await.unwrap();
    proxy.take_requests();
    Observed { proxy, mutex, other, calm }
}

#[history]
async fn a_waiter_looks_again_while_the_one_before_it_holds(stage: Stage) {
    let Observed { proxy, mutex, other, .. } = observed(&stage, SESSION).await;
    let holder = other.acquire().await.unwrap();
    let ticket = other.owned_by(&Owner::new()).enqueue().await.unwrap();
    let waiter = acquiring(&mutex);
    sleep(A_MOMENT).await;
    // The watch on its own node tells it if it has lost its place.
    assert_eq!(
        proxy.take_requests(),
        [Request::Create, Request::GetChildren, Request::GetData, Request::GetData]
    );
    holder.release().await.unwrap();
    let second = ticket.acquired().await.unwrap();
    sleep(A_MOMENT).await;
    assert_eq!(proxy.take_requests(), [Request::GetData, Request::GetChildren]);
    // So that the last hand-over takes no request.
    second.release().await.unwrap();
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(proxy.take_requests(), []);
    guard.release().await.unwrap();
}

#[history]
async fn a_predecessor_that_is_gone_before_it_is_watched_leaves_no_watch(stage: Stage) {
    let Observed { proxy, mutex, other, .. } = observed(&stage, SESSION).await;
    let holder = other.acquire().await.unwrap();
    proxy.set_traffic(Traffic::black_hole_to_client());
    let waiter = acquiring(&mutex);
    sleep(A_MOMENT).await;
    holder.release().await.unwrap();
    let before = stage.servers().watch_count();
    proxy.set_traffic(Traffic::pass());
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(
        proxy.take_requests(),
        [Request::Create, Request::GetChildren, Request::GetData, Request::GetData]
    );
    let watches = stage.servers().watch_count() - before;
    assert_eq!(watches, 1, "that on its own node");
    guard.release().await.unwrap();
}

#[history]
async fn a_grant_after_a_long_wait_takes_a_sign_that_the_session_lives(stage: Stage) {
    const SHORT: Duration = secs(9);
    let Observed { proxy, mutex, other, .. } = observed(&stage, SHORT).await;
    for is_long in [false, true] {
        let holder = other.acquire().await.unwrap();
        let waiter = acquiring(&mutex);
        sleep(A_MOMENT).await;
        proxy.take_requests();
        if is_long {
            // Then nothing vouches for it but what a leader answers by itself.
            sleep(SHORT / 3).await;
            assert_eq!(proxy.take_requests(), [], "who waits sends no signs of life");
        }
        holder.release().await.unwrap();
        let guard = within(waiter).await.unwrap().unwrap();
        assert!(guard.is_valid());
        let expected: &[Request] = if is_long { &[Request::Confirm, Request::GetChildren] } else { &[] };
        assert_eq!(proxy.take_requests(), expected);
        guard.release().await.unwrap();
        assert_eq!(queue(&stage, PATH), 0);
    }
}

#[history]
async fn waiting_in_the_line_of_a_known_queue_takes_a_create_and_a_watch(stage: Stage) {
    let Observed { proxy, mutex, .. } = observed(&stage, SESSION).await;
    for _ in 0..2 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    let holder = mutex.acquire().await.unwrap();
    proxy.take_requests();
    let waiters = [acquiring(&mutex), acquiring(&mutex)];
    sleep(A_MOMENT).await;
    let mut requests = proxy.take_requests();
    requests.sort_unstable_by_key(|request| *request == Request::GetData);
    assert_eq!(requests, [Request::Create, Request::Create, Request::GetData, Request::GetData]);
    holder.release().await.unwrap();
    for waiter in waiters {
        within(waiter).await.unwrap().unwrap().release().await.unwrap();
    }
    assert_eq!(proxy.take_requests(), [Request::Delete; 3]);
}

/// Behind another client, and behind a holder of their own.
#[history(true, false)]
async fn many_waiters_of_a_client_join_with_few_lists(stage: Stage, is_foreign: bool) {
    const WAITERS: usize = 500;
    let Observed { proxy, mutex, other, .. } = observed(&stage, SESSION).await;
    let held = if is_foreign { &other } else { &mutex }.owned_by(&Owner::new()).acquire().await.unwrap();
    let lists = || proxy.take_requests().iter().filter(|request| **request == Request::GetChildren).count();
    lists();
    let waiters: Vec<_> = (0..WAITERS).map(|_| acquiring(&mutex)).collect();
    queue_of(stage.servers(), PATH, WAITERS + 1).await;
    sleep(A_MOMENT).await;
    let joining = lists();
    drop(held);
    for waiter in waiters {
        drop(granted(waiter).await);
    }
    let passing = lists();
    assert!(joining <= 10 && passing <= 10, "{joining} lists to join, and then {passing}");
}

/// The first of the line is watched by one for all.
#[history]
async fn a_long_wait_in_the_line_costs_one_watch(stage: Stage) {
    let Observed { proxy, mutex, .. } = observed(&stage, SESSION).await;
    let holder = mutex.owned_by(&Owner::new()).acquire().await.unwrap();
    let waiters: Vec<_> = (0..5).map(|_| acquiring(&mutex)).collect();
    // Until the holder is watched, too.
    sleep(ms(1500)).await;
    proxy.take_requests();
    sleep(secs(3)).await;
    let mut asked = proxy.take_requests();
    asked.retain(|request| !matches!(request, Request::Sync | Request::Confirm));
    assert!(asked.len() <= 1, "{asked:?}");
    holder.release().await.unwrap();
    for waiter in waiters {
        within(waiter).await.unwrap().unwrap().release().await.unwrap();
    }
}

/// The replies come when all have given up, and name the nodes; or they are lost, so that the nodes are looked for.
#[history(false, true)]
async fn many_tries_that_time_out_in_their_create_are_removed_together(stage: Stage, is_reply_lost: bool) {
    const TRIES: usize = 200;
    /// Of one client, at a time.
    const UNDER_WAY: usize = 64;
    const SHORT: Duration = secs(2);
    let Observed { proxy, mutex, calm, .. } = observed(&stage, SHORT).await;
    for _ in 0..2 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    let zookeeper = calm.zookeeper().await.unwrap();
    let changes = async || zookeeper.get_children(PATH).await.unwrap().1.cversion;
    let before = changes().await;
    proxy.set_traffic(Traffic::black_hole_to_client());
    proxy.take_requests();
    let tries = (0..TRIES).map(|_| {
        let mutex = mutex.owned_by(&Owner::new());
        async move { mutex.try_acquire_for(ms(50)).await }
    });
    for tried in join_all(tries).await {
        // Some were in the queue, and others waited for those; none has heard of it.
        let error = tried.unwrap_err();
        assert!(matches!(error, Error::NotConnected { .. }), "{error}");
    }
    assert_eq!(queue(&stage, PATH), UNDER_WAY);
    if is_reply_lost {
        proxy.cut();
    }
    proxy.set_traffic(Traffic::pass());
    sleep(2 * SHORT).await;
    assert_eq!(queue(&stage, PATH), 0);
    // Both creates and deletes count.
    assert_eq!(changes().await - before, 2 * UNDER_WAY as i32);
    let requests = proxy.take_requests();
    let looks = requests.iter().filter(|request| [Request::GetChildren, OWN_NODES].contains(request)).count();
    assert!(looks < 20, "{looks} looks for {UNDER_WAY} nodes");
}

#[history]
async fn before_a_lost_create_is_looked_for_the_server_catches_up(stage: Stage) {
    let Observed { proxy, mutex, .. } = observed(&stage, SESSION).await;
    for _ in 0..2 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    proxy.take_requests();
    // The connection stays, so that it is only the look that can have the server catch up.
    let create = proxy.intercept(Request::Create, Fate::HoldReply);
    let cancelled = acquiring(&mutex);
    within(create.happened()).await;
    cancelled.abort();
    // For so long the reply is waited for, which would tell the name.
    let mut requests = Vec::new();
    let look = within(async {
        loop {
            sleep(A_MOMENT).await;
            requests.extend(proxy.take_requests());
            if let Some(look) = requests.iter().position(|request| *request == OWN_NODES) {
                return look;
            }
        }
    })
    .await;
    create.release();
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), 0);
    // What a majority commits: a leader that the others have replaced must not say that there is no such node.
    assert_eq!(requests[..look].last(), Some(&Request::Confirm), "{requests:?}");
}

#[history]
async fn the_warnings_of_many_waiters_take_one_look(stage: Stage) {
    let (proxy, client) = stage.far(|builder| builder.session_timeout(SESSION)).await;
    let mutex = mutex(&client);
    let held = mutex.owned_by(&Owner::new()).acquire().await.unwrap();
    let mutex = mutex.with_options(LockOptions::new().warn_after(ms(200), None)).unwrap();
    let waiters: Vec<_> = (0..200).map(|_| acquiring(&mutex)).collect();
    sleep(ms(100)).await;
    assert_eq!(queue(&stage, PATH), 201);
    proxy.take_requests();
    // Each warns four times: after 0.2 s, 0.4 s, 0.8 s and 1.6 s.
    sleep(ms(1700)).await;
    let requests = proxy.take_requests();
    let looks = requests.iter().filter(|request| **request == Request::GetChildren).count();
    assert!((1..=3).contains(&looks), "{looks} lists");
    waiters.iter().for_each(JoinHandle::abort);
    drop(held);
    sleep(SOON).await;
}

#[history]
async fn a_hold_that_is_over_leaves_no_warning_to_come(stage: Stage) {
    const LONG: Duration = secs(600);
    let client = stage.client(0).await;
    let options = LockOptions::new().warn_after(None, LONG);
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for options in [options.clone(), options.linger(LONG)] {
        let mutex = mutex(&client).with_options(options).unwrap();
        once(&mutex).await;
        sleep(SOON).await;
        let before = alive();
        for _ in 0..100 {
            once(&mutex).await;
        }
        sleep(SOON).await;
        assert!(alive() <= before + 10, "{} tasks, {before} before", alive());
    }
}

#[history]
async fn a_release_lets_the_next_in_the_line_in_before_the_server_answers(stage: Stage) {
    let Observed { proxy, mutex, .. } = observed(&stage, SESSION).await;
    for _ in 0..2 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    let holder = mutex.acquire().await.unwrap();
    let waiter = acquiring(&mutex);
    sleep(A_MOMENT).await;
    proxy.set_traffic(Traffic::black_hole());
    let releasing = tokio::spawn(holder.release());
    let guard = timeout(A_MOMENT, waiter).await.unwrap().unwrap().unwrap();
    assert!(guard.is_valid() && !releasing.is_finished());
    proxy.set_traffic(Traffic::pass());
    within(releasing).await.unwrap().unwrap();
    guard.release().await.unwrap();
}
