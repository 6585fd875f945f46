//! Writes of one client that wait for each other, and share a transaction.

use futures_util::future::LocalBoxFuture;

use super::prelude::*;

/// So many are sent by themselves.
const FEW: usize = 4;
const MANY: usize = 20;

fn path_of(lock: usize) -> String {
    format!("/locks/{lock}")
}

/// Locks of paths of their own whose queues the client knows.
async fn used(client: &Client) -> Vec<InterProcessMutex> {
    let locks: Vec<_> = (0..MANY).map(|lock| mutex_at(client, &path_of(lock))).collect();
    for lock in &locks {
        visit(lock).await;
        visit(lock).await;
    }
    locks
}

/// What all have been granted has the token of its node, and a node that is the only one of its queue.
async fn all_hold(servers: &MemoryEnsemble, waiting: Vec<JoinHandle<Result<LockGuard>>>) -> Vec<LockGuard> {
    let guards = join_all(waiting.into_iter().map(granted)).await;
    for guard in &guards {
        assert_eq!(guard.fencing_token(), servers.node(guard.node_path()).unwrap().czxid);
        let (queue, _) = guard.node_path().rsplit_once('/').unwrap();
        assert_eq!(nodes(servers, queue), [guard.node_path()]);
    }
    guards
}

async fn release(guards: Vec<LockGuard>) {
    for released in join_all(guards.into_iter().map(LockGuard::release)).await {
        released.unwrap();
    }
}

/// Polls it once, which sends or has it wait.
fn polled<'a, T>(future: impl Future<Output = T> + 'a) -> LocalBoxFuture<'a, T> {
    let mut future = Box::pin(future);
    assert!(poll_once(&mut future).is_pending());
    future
}

fn polled_all(locks: &[InterProcessMutex]) -> Vec<LocalBoxFuture<'_, Result<LockGuard>>> {
    locks.iter().map(|lock| polled(lock.acquire())).collect()
}

#[history]
async fn acquires_and_releases_of_one_moment_share_transactions(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let locks = used(&client).await;
    let start = Instant::now();
    visit(&locks[0]).await;
    let round_trip = start.elapsed() / 2;
    proxy.take_requests();
    let start = Instant::now();
    let mut guards = all_hold(stage.servers(), locks.iter().map(acquiring).collect()).await;
    assert_eq!(start.elapsed(), round_trip, "while few are under way, none waits");
    let requests = proxy.take_requests();
    let [alone, together] =
        [Request::Create, Request::Multi].map(|kind| requests.iter().filter(|it| **it == kind).count());
    assert_eq!((alone, together, requests.len()), (FEW, 1, FEW + 1));
    // In one go: what is dropped does not wait for a task of its own.
    guards.drain(..).for_each(drop);
    sleep(A_MOMENT).await;
    let requests = proxy.take_requests();
    let [alone, together] =
        [Request::Delete, Request::Multi].map(|kind| requests.iter().filter(|it| **it == kind).count());
    assert_eq!((alone, together, requests.len()), (FEW, 1, FEW + 1));
    nothing_is_left(stage.servers()).await;
    // And who is alone is not held up.
    took(Duration::ZERO, visit(&locks[0])).await;
    assert_eq!(proxy.take_requests(), [Request::Create, Request::Delete]);
}

/// A server that does not answer holds nothing back for long.
#[history]
async fn what_waits_is_sent_within_a_moment_whatever_is_under_way(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let locks = used(&client).await;
    proxy.set_traffic(Traffic::black_hole_to_client());
    let mut waiting = Vec::new();
    for lock in &locks {
        waiting.push(acquiring(lock));
        sleep(ms(5)).await;
    }
    for lock in 0..MANY {
        assert_eq!(nodes(stage.servers(), &path_of(lock)).len(), 1, "{lock}");
    }
    proxy.set_traffic(Traffic::pass());
    release(all_hold(stage.servers(), waiting).await).await;
}

/// The servers are far away.
#[history]
async fn while_two_transactions_are_under_way_others_wait_for_more(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let locks = used(&client).await;
    proxy.take_requests();
    proxy.set_traffic(Traffic::pass().delay(ms(10)));
    let mut waiting = Vec::new();
    for lock in &locks {
        waiting.push(acquiring(lock));
        for _ in 0..4 {
            yield_now().await;
        }
    }
    release(all_hold(stage.servers(), waiting).await).await;
    let requests = proxy.take_requests();
    let creates = requests.iter().position(|it| *it == Request::Multi).unwrap();
    assert_eq!(requests[..creates], [Request::Create; FEW + 2], "what is alone is no transaction");
    assert!(!requests[creates..].contains(&Request::Create));
}

/// The servers are far away.
#[history]
async fn transactions_under_way_count_as_writes(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let locks = used(&client).await;
    proxy.take_requests();
    proxy.set_traffic(Traffic::pass().delay(ms(10)));
    let mut waiting: Vec<_> = locks[..FEW].iter().map(acquiring).collect();
    for lock in &locks[FEW..FEW + 2] {
        sleep(ms(8)).await;
        waiting.push(acquiring(lock));
    }
    // By then, those that were alone are answered.
    sleep(ms(8)).await;
    waiting.extend(locks[FEW + 2..FEW + 7].iter().map(acquiring));
    release(all_hold(stage.servers(), waiting).await).await;
    let requests = proxy.take_requests();
    let creates = requests.iter().position(|it| *it == Request::Multi).unwrap();
    assert_eq!(requests[..creates], [Request::Create; FEW + 2 + 2]);
}

/// Others have been answered meanwhile, so few are under way.
#[history]
async fn what_waits_is_not_overtaken(stage: Stage) {
    let client = stage.connect(0, session).await;
    let locks = used(&client).await;
    let [first, second, third] = [(); 3].map(|()| locks[FEW].owned_by(&Owner::new()));
    let alone = polled_all(&locks[..FEW]);
    sleep(A_MOMENT).await;
    let first = polled(first.acquire());
    let alone = join_all(alone).await;
    let others = [polled(second.acquire()), polled(third.acquire())];
    let seen = within(locks[FEW].participants()).await.unwrap();
    assert_eq!(seen.len(), 3, "by a list that was asked for after them");
    let first = within(first).await.unwrap();
    assert_eq!(first.node_path(), seen[0].node_path());
    drop((first, others, alone));
}

/// Those of one transaction would have the same token.
#[history]
async fn contenders_of_one_queue_have_tokens_of_their_own(stage: Stage) {
    let client = stage.connect(0, session).await;
    let lock = mutex(&client);
    visit(&lock).await;
    visit(&lock).await;
    let held = lock.owned_by(&Owner::new()).acquire().await.unwrap();
    let owners: Vec<_> = (0..MANY).map(|_| lock.owned_by(&Owner::new())).collect();
    let waiting: Vec<_> = owners.iter().map(acquiring).collect();
    let mut names = queue_of(stage.servers(), PATH, MANY + 1).await;
    let czxid = |name: &String| stage.servers().node(&format!("{PATH}/{name}")).unwrap().czxid;
    names.sort_by_key(czxid);
    names.dedup_by_key(|name| czxid(name));
    assert_eq!(names.len(), MANY + 1);
    let mut token = held.fencing_token();
    held.release().await.unwrap();
    for waiting in waiting {
        let guard = granted(waiting).await;
        assert!(std::mem::replace(&mut token, guard.fencing_token()) < guard.fencing_token());
        guard.release().await.unwrap();
    }
}

/// Its queue was deleted, which the client does not know.
#[history]
async fn one_that_is_refused_fails_no_other(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let locks = used(&client).await;
    for is_lost in [false, true] {
        let guards = all_hold(stage.servers(), locks.iter().map(acquiring).collect()).await;
        // The node of a holder, too: its delete is refused.
        let gone = guards[MANY - 1].node_path().to_owned();
        let kept = proxy.intercept(Request::Delete, Fate::HoldReply);
        let releasing: Vec<_> = guards.into_iter().map(|guard| spawn_local(guard.release())).collect();
        stage.servers().delete(&gone);
        drop(kept);
        for released in join_all(releasing).await {
            let _ = released.unwrap();
        }
        nothing_is_left(stage.servers()).await;
        for lock in [5, MANY - 2] {
            stage.servers().delete(&path_of(lock));
        }
        // So is the reply that tells of it.
        let lost = is_lost.then(|| proxy.intercept(Request::Multi, Fate::LoseReply));
        let guards = all_hold(stage.servers(), locks.iter().map(acquiring).collect()).await;
        if let Some(lost) = lost {
            within(lost.happened()).await;
        }
        release(guards).await;
        nothing_is_left(stage.servers()).await;
    }
}

#[history]
async fn a_transaction_that_is_lost_is_settled_for_each(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let locks = used(&client).await;
    for fate in [Fate::LoseReply, Fate::LoseRequest, Fate::OmitReply] {
        for on_release in [false, true] {
            let losing = (!on_release).then(|| proxy.intercept(Request::Multi, fate));
            let guards = all_hold(stage.servers(), locks.iter().map(acquiring).collect()).await;
            drop(losing);
            let _losing = on_release.then(|| proxy.intercept(Request::Multi, fate));
            release(guards).await;
            nothing_is_left(stage.servers()).await;
        }
    }
}

#[history]
async fn a_connection_that_ends_under_transactions_keeps_no_one_waiting(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let locks = used(&client).await;
    for polls in 0..8 {
        proxy.set_traffic(Traffic::black_hole_to_client());
        let mut waiting = Vec::new();
        for lock in &locks {
            waiting.push(acquiring(lock));
            for _ in 0..polls {
                yield_now().await;
            }
        }
        proxy.set_traffic(Traffic::pass());
        proxy.cut();
        let guards = timeout(SOON, all_hold(stage.servers(), waiting)).await.expect("they are told");
        release(guards).await;
    }
}

#[history]
async fn callers_that_go_while_they_wait_leave_nothing(stage: Stage) {
    let client = stage.connect(0, session).await;
    let locks = used(&client).await;
    let servers = stage.servers();
    for polls in 0..4 {
        let waiting: Vec<_> = locks.iter().map(acquiring).collect();
        for _ in 0..polls {
            yield_now().await;
        }
        let mut kept = Vec::new();
        for (nth, waiting) in waiting.into_iter().enumerate() {
            match nth % 3 {
                0 => waiting.abort(),
                _ => kept.push(waiting),
            }
        }
        let guards = join_all(kept.into_iter().map(granted)).await;
        sleep(SOON).await;
        assert_eq!(ephemerals(servers, "/locks").len(), guards.len());
        release(guards).await;
        nothing_is_left(servers).await;
    }
}

/// A delete that waits arrives before what its client does next.
#[history]
async fn who_gives_back_and_tries_finds_the_lock_free(stage: Stage) {
    let client = stage.connect(0, session).await;
    let locks = used(&client).await;
    let guards = all_hold(stage.servers(), locks.iter().map(acquiring).collect()).await;
    guards.into_iter().for_each(drop);
    let tried = locks.iter().map(|lock| {
        let again = mutex_at(&client, lock.path());
        async move { again.owned_by(&Owner::new()).try_acquire().await.unwrap() }
    });
    let tried = join_all(tried).await;
    assert!(tried.iter().all(Option::is_some));
    // By a client that knows nothing, too.
    let other = stage.connect(1, session).await;
    tried.into_iter().for_each(drop);
    client.close().await;
    for lock in 0..MANY {
        let guard = mutex_at(&other, &path_of(lock)).try_acquire().await.unwrap().expect("free");
        guard.release().await.unwrap();
    }
}

#[history(MemoryVersion::V3_5, MemoryVersion::V3_6)]
async fn old_servers_are_asked_once_for_the_date_of_a_transaction(stage: Stage, version: MemoryVersion) {
    let (servers, proxy) = apart(&stage, MemoryEnsemble::builder().version(version), "10.2.0.1:2181").await;
    let client = proxy.client(session).await;
    let locks = used(&client).await;
    proxy.take_requests();
    let guards = all_hold(&servers, locks.iter().map(acquiring).collect()).await;
    let requests = proxy.take_requests();
    let dated = requests.iter().filter(|request| **request == Request::Exists).count();
    assert_eq!((dated, requests.len()), (1, 6), "{requests:?}");
    release(guards).await;
}

/// Its delete is sent twice, and the second one would be refused together with those of others.
#[history]
async fn a_release_that_is_cancelled_costs_no_other_its_place(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let locks = used(&client).await;
    proxy.set_traffic(Traffic::pass().delay(ms(2)));
    for _ in 0..2 {
        let mut guards = all_hold(stage.servers(), locks.iter().map(acquiring).collect()).await;
        proxy.take_requests();
        let last = guards.pop().unwrap();
        guards.into_iter().for_each(drop);
        assert!(timeout(Duration::ZERO, last.release()).await.is_err());
        let held = join_all(locks[..MANY - 1].iter().map(InterProcessMutex::is_locked)).await;
        assert!(held.into_iter().all(|is_held| !is_held.unwrap()), "given back before");
        sleep(A_MOMENT).await;
        let deletes = proxy.take_requests().into_iter().filter(|it| *it == Request::Delete).count();
        assert_eq!(deletes, 5, "four by themselves, and the second one of a node");
    }
}

/// The date comes with another read, or the node has gone before it.
#[history(MemoryVersion::V3_5, MemoryVersion::V3_6)]
async fn a_date_that_does_not_come_costs_no_one_the_lock(stage: Stage, version: MemoryVersion) {
    let (servers, proxy) = apart(&stage, MemoryEnsemble::builder().version(version), "10.2.0.1:2181").await;
    let client = proxy.client(session).await;
    let locks = used(&client).await;
    let lost = proxy.intercept(Request::Exists, Fate::LoseReply);
    let guards = all_hold(&servers, locks.iter().map(acquiring).collect()).await;
    within(lost.happened()).await;
    release(guards).await;
    proxy.set_traffic(Traffic::pass().delay(ms(10)));
    let trying = locks.iter().map(|lock| {
        let lock = lock.clone();
        spawn_local(async move { lock.try_acquire().await.unwrap() })
    });
    let trying: Vec<_> = trying.collect();
    // That of the first one in the transaction.
    let first = queue_of(&servers, &path_of(4), 1).await;
    servers.delete(&format!("{}/{}", path_of(4), first[0]));
    for (lock, tried) in trying.into_iter().enumerate() {
        let guard = within(tried).await.unwrap();
        assert!(guard.is_some() || lock == 4, "{lock} is free, but not granted");
    }
}

#[history]
async fn a_client_that_closes_right_after_it_has_given_back_takes_one_round_trip(stage: Stage) {
    for (nth, round_trip) in [50, 190, 300].into_iter().enumerate() {
        let proxy = stage.proxy_of(0, nth + 1).await;
        let client = proxy.connect(session).await;
        let lock = mutex(&client);
        visit(&lock).await;
        proxy.set_traffic(Traffic::pass().delay(ms(round_trip / 2)));
        drop(lock.acquire().await.unwrap());
        took(ms(round_trip), client.close()).await;
        proxy.set_traffic(Traffic::pass());
    }
}

/// The servers may be set to take small requests only.
#[history(16, 32, 60)]
async fn a_burst_of_small_writes_costs_no_one_the_connection(stage: Stage, kib: usize) {
    let servers = MemoryEnsemble::builder().max_request_size(kib * 1024);
    let (servers, proxy) = apart(&stage, servers, &format!("10.2.1.{kib}:2181")).await;
    // Each path is that much longer on its way.
    let chroot = format!("/{}", "c".repeat(200));
    assert!(servers.create(&chroot, b"", false));
    let client = stage.connect_to(0, session, &format!("{}{chroot}", proxy.address)).await;
    let lock = |lock| {
        // One is larger than a transaction.
        let data = vec![7; if lock == 100 { 9 } else { 1 } * 1024];
        mutex_at(&client, &format!("/locks/{lock}")).with_options(LockOptions::new().node_data(data)).unwrap()
    };
    let locks: Vec<_> = (0..200).map(lock).collect();
    for lock in &locks {
        visit(lock).await;
        visit(lock).await;
    }
    let strict = LockOptions::new().suspect_policy(SuspectPolicy::GiveUp);
    let held = mutex_at(&client, "/locks/held").with_options(strict).unwrap().acquire().await.unwrap();
    let waiting: Vec<_> = locks.iter().map(acquiring).collect();
    let guards = join_all(waiting.into_iter().map(granted)).await;
    guards.into_iter().for_each(drop);
    until(|| ephemerals(&servers, &format!("{chroot}/locks")).len() == 1).await;
    assert_eq!(held.loss(), None, "{kib} KiB");
}
