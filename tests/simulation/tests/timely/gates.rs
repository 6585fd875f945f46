//! The gate of a semaphore, and who gets how many leases behind it.

use zk_recipes::shared::SharedCount;

use super::permits::{GATE, LEASES, PATH, nothing_left};
use super::prelude::*;

const COUNT: &str = "/counts/a";

fn semaphore(client: &Client, permits: u32) -> Semaphore {
    Semaphore::new(client, PATH, permits).unwrap()
}

/// So many permits, in a task.
fn many(semaphore: &Semaphore, permits: u32) -> JoinHandle<Result<LockGuard>> {
    acquiring(&semaphore.many(permits).unwrap())
}

/// Waits for a moment, until so many are at the gate, and so many leases are out.
async fn are(stage: &Stage, expected: [usize; 2]) {
    sleep(A_MOMENT).await;
    assert_eq!([GATE, LEASES].map(|path| queue(stage, path)), expected);
}

/// How often leases have come and gone.
async fn changes(client: &Client) -> i32 {
    client.zookeeper().await.unwrap().check_stat(LEASES).await.unwrap().unwrap().cversion
}

#[history]
async fn first_come_first_served_whoever_wants_how_many(stage: Stage) {
    let [holding, other] = stage.clients().await;
    let held = semaphore(&holding, 3).many(2).unwrap().acquire().await.unwrap();
    are(&stage, [0, 2]).await;
    let order = Rc::new(RefCell::new(Vec::new()));
    let mut waiters = Vec::new();
    for (number, wanted) in [3, 1, 2, 3, 1].into_iter().enumerate() {
        let (semaphore, order) = (semaphore(&other, 3).many(wanted).unwrap(), order.clone());
        waiters.push(spawn_local(async move {
            let guard = semaphore.acquire().await.unwrap();
            order.borrow_mut().push((guard.fencing_token(), number));
            guard
        }));
        // Everybody is at the gate before the next one comes.
        are(&stage, [number + 1, 2]).await;
    }
    let semaphore = semaphore(&holding, 3);
    assert_eq!(semaphore.available_permits().await, Ok(1));
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "the free one is kept for who came first");
    let mut leaving = held;
    // The second and the third get along.
    for (waiter, inside) in [(0, 1), (1, 3), (2, 3), (3, 4), (4, 5)] {
        leaving.release().await.unwrap();
        leaving = within(&mut waiters[waiter]).await.unwrap();
        sleep(A_MOMENT).await;
        assert_eq!(order.borrow().len(), inside);
    }
    assert!(order.borrow().is_sorted(), "tokens grow: {order:?}");
    assert!(order.borrow().iter().map(|(_, number)| *number).eq(0..5), "{order:?}");
    leaving.release().await.unwrap();
    are(&stage, [0, 0]).await;
}

#[history]
async fn whoever_passes_the_gate_while_it_is_listed_is_not_overlooked(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(session).await;
    let (observer, other) = (semaphore(&client, 1), semaphore(&other, 1));
    let held = other.acquire().await.unwrap();
    let waiting = acquiring(&other);
    sleep(A_MOMENT).await;
    // The first queue is listed.
    let listed = proxy.intercept(Request::GetChildren, Fate::HoldReply);
    let listing = spawn_local(async move { observer.participants().await.unwrap() });
    within(listed.happened()).await;
    held.release().await.unwrap();
    let guard = granted(waiting).await;
    are(&stage, [0, 1]).await;
    listed.release();
    let participants = within(listing).await.unwrap();
    assert_eq!(participants.iter().map(Participant::node_path).collect::<Vec<_>>(), [guard.node_path()]);
}

#[history]
async fn a_failed_try_makes_no_lease_and_sets_no_watch(stage: Stage) {
    use Request::{Create, Delete, Exists, GetChildren};
    let (proxy, client, other) = stage.far_and_near(session).await;
    let semaphore = semaphore(&client, 2);
    let held = semaphore.acquire().await.unwrap();
    are(&stage, [0, 1]).await;
    let before = changes(&other).await;
    proxy.take_requests();
    assert!(semaphore.many(2).unwrap().try_acquire().await.unwrap().is_none());
    assert_eq!(proxy.take_requests(), [Exists, Create, GetChildren, GetChildren, Delete]);
    // The same behind somebody who waits: also if there are enough for the one who tries.
    let waiting = many(&Semaphore::new(&other, PATH, 2).unwrap(), 2);
    sleep(A_MOMENT).await;
    let watches = stage.servers().watch_count();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert_eq!(proxy.take_requests(), [Create, GetChildren, GetChildren, Delete]);
    assert_eq!((changes(&other).await, stage.servers().watch_count()), (before, watches));
    held.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
    // If too few are free, a client that knows the gate does not try for leases along with it, either.
    for _ in 0..2 {
        once(&semaphore).await;
    }
    let held = semaphore.acquire().await.unwrap();
    are(&stage, [0, 1]).await;
    let before = changes(&other).await;
    proxy.take_requests();
    assert!(semaphore.many(2).unwrap().try_acquire().await.unwrap().is_none());
    assert!(!proxy.take_requests().contains(&Request::Multi));
    assert_eq!(changes(&other).await, before);
    held.release().await.unwrap();
}

/// The first try fails as a whole. The next ones are made once the numbers have come as expected for a while.
#[history]
async fn a_client_that_is_not_alone_stops_to_try_for_a_while(stage: Stage) {
    let (proxy, client, near) = stage.far_and_near(session).await;
    let [one, other] = [&client, &near].map(|client| SemaphoreMutex::new(client, PATH).unwrap());
    // Whether a cycle begins with a transaction, and how many it takes.
    let cycle = async || {
        sleep(A_MOMENT).await;
        proxy.take_requests();
        let guard = within(one.acquire()).await.unwrap();
        let requests = proxy.take_requests();
        guard.release().await.unwrap();
        let transactions = requests.iter().filter(|request| **request == Request::Multi).count();
        (requests[0] == Request::Multi, transactions)
    };
    for _ in 0..3 {
        once(&one).await;
    }
    assert_eq!(cycle().await, (true, 1));
    once(&other).await;
    let before = changes(&near).await;
    assert_eq!(cycle().await, (true, 2), "a try in vain, and then as usual");
    assert_eq!(changes(&near).await - before, 2, "the try has created nothing");
    once(&other).await;
    for expected in [false, false, false, true, true] {
        assert_eq!(cycle().await, (expected, 1));
    }
}

/// Its leases are counted by their numbers: neither the gate nor they are listed.
#[history]
async fn a_client_that_is_alone_takes_permits_by_one_transaction(stage: Stage) {
    let (proxy, client, near) = stage.far_and_near(session).await;
    let semaphore = Semaphore::new(&client, PATH, 4).unwrap();
    for _ in 0..3 {
        once(&semaphore).await;
    }
    let mut guards = Vec::new();
    for permits in [1, 2, 1] {
        sleep(A_MOMENT).await;
        proxy.take_requests();
        guards.push(within(semaphore.many(permits).unwrap().acquire()).await.unwrap());
        assert_eq!(proxy.take_requests()[0], Request::Multi);
    }
    sleep(A_MOMENT).await;
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    drop(guards);
    once(&semaphore).await;
    nothing_left(stage.servers()).await;
    proxy.take_requests();
    within(semaphore.many(4).unwrap().acquire()).await.unwrap().release().await.unwrap();
    // One deletes the node at the gate.
    sleep(A_MOMENT).await;
    let mut requests = proxy.take_requests();
    requests.retain(|request| *request != Request::Other(11));
    assert_eq!(requests, [Request::Multi, Request::Delete, Request::Multi], "no list");
    near.close().await;
}

/// One of Curator's takes its lease though its place at the gate is gone; where the leases are may have been made again.
#[history]
async fn a_lease_that_did_not_pass_the_gate_is_noticed(stage: Stage) {
    let (_, client, near) = stage.far_and_near(session).await;
    let zookeeper = near.zookeeper().await.unwrap();
    for is_made_again in [false, true] {
        let mutex = SemaphoreMutex::new(&client, PATH).unwrap();
        for _ in 0..4 {
            once(&mutex).await;
        }
        queue_of(stage.servers(), LEASES, 0).await;
        let last = i64::from(changes(&near).await / 2 - 1);
        if is_made_again {
            zookeeper.delete(LEASES, None).await.unwrap();
            let container = zk::CreateMode::Container.with_acls(zk::Acls::anyone_all());
            zookeeper.create(LEASES, b"", &container).await.unwrap();
        }
        // It gets the number that is known to be the next one, or the one before.
        let lease = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
        let name = format!("{LEASES}/_c_{}-lease-", "0123456789abcdef0123456789abcdef0123");
        let (_, mut number) = zookeeper.create(&name, b"", &lease).await.unwrap();
        while number.into_i64() < last {
            zookeeper.delete(&format!("{name}{number}"), None).await.unwrap();
            (_, number) = zookeeper.create(&name, b"", &lease).await.unwrap();
        }
        assert!(mutex.try_acquire().await.unwrap().is_none(), "made again: {is_made_again}");
        zookeeper.delete(&format!("{name}{number}"), None).await.unwrap();
        once(&mutex).await;
    }
    client.close().await;
}

/// One of several leases is gone, so the transaction that gives them back is refused, and each is deleted by itself.
#[history(false, true)]
async fn leases_whose_release_was_refused_are_counted(stage: Stage, is_awaited: bool) {
    let (_, client, near) = stage.far_and_near(session).await;
    let semaphores = [&client, &near].map(|client| semaphore(client, 3));
    for _ in 0..4 {
        once(&semaphores[0]).await;
    }
    nothing_left(stage.servers()).await;
    let all = semaphores[0].many(3).unwrap();
    let guard = within(all.acquire()).await.unwrap();
    sleep(A_MOMENT).await;
    assert!(stage.servers().delete(&nodes(stage.servers(), LEASES)[0]));
    sleep(A_MOMENT).await;
    let mut releasing = Box::pin(guard.release());
    assert!(poll_once(&mut releasing).is_pending());
    if is_awaited {
        let _ = releasing.as_mut().await;
    }
    sleep(A_MOMENT).await;
    let again = within(all.try_acquire()).await.unwrap();
    sleep(A_MOMENT).await;
    // Those that are still to be deleted are not beside those of another guard.
    assert!(queue(&stage, LEASES) <= 3);
    assert_eq!(again.is_some(), is_awaited);
    if !is_awaited {
        let _ = releasing.await;
    }
    drop(again);
    nothing_left(stage.servers()).await;
}

/// They may be created, and not deleted. The client acquires again at once, or after a while.
#[history(false, true)]
async fn leases_that_may_not_be_deleted_are_counted(stage: Stage, is_later: bool) {
    let (_, client, near) = stage.far_and_near(session).await;
    let semaphore = semaphore(&client, 1);
    for _ in 0..4 {
        once(&semaphore).await;
    }
    nothing_left(stage.servers()).await;
    let operator = near.zookeeper().await.unwrap();
    let but_delete =
        zk::Permission::READ | zk::Permission::WRITE | zk::Permission::CREATE | zk::Permission::ADMIN;
    operator.set_acl(LEASES, &[zk::Acl::new(but_delete, zk::AuthId::anyone())], None).await.unwrap();
    for _ in 0..5 {
        let tried = timeout(secs(20), semaphore.try_acquire()).await;
        if is_later {
            drop(tried);
            sleep(A_MOMENT).await;
        } else if let Ok(Ok(Some(guard))) = tried {
            let _ = guard.release().await;
        }
    }
    assert!(queue(&stage, LEASES) <= 2);
    client.close().await;
}

/// Between its look at what is free and its leases, another has passed the gate.
#[history]
async fn without_a_place_at_the_gate_no_permit_is_taken(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(session).await;
    let (evicted, other) = (semaphore(&client, 1), semaphore(&other, 1));
    once(&evicted).await;
    are(&stage, [0, 0]).await;
    proxy.set_traffic(Traffic::black_hole_to_client());
    let waiting = acquiring(&evicted);
    are(&stage, [1, 0]).await;
    let place = nodes(stage.servers(), GATE).remove(0);
    assert!(stage.servers().delete(&place));
    let guard = within(other.acquire()).await.unwrap();
    are(&stage, [0, 1]).await;
    proxy.take_requests();
    proxy.set_traffic(Traffic::pass());
    sleep(SOON).await;
    are(&stage, [1, 1]).await;
    assert!(number(&nodes(stage.servers(), GATE)[0]) > number(&place));
    assert!(proxy.take_requests().contains(&Request::Multi), "it has tried");
    assert_eq!(nodes(stage.servers(), LEASES), [guard.node_path()]);
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
    nothing_left(stage.servers()).await;
}

/// There the order takes a question more. Meanwhile the leases may have changed.
#[history]
async fn past_the_last_number_the_count_is_not_exceeded_either(stage: Stage) {
    const LEASE: &str = "/semaphores/a/leases/_c_other-lease-0000000000";
    const LAST: &str = "/semaphores/a/locks/_c_other-lock-2147483647";
    let (proxy, client) = stage.far(session).await;
    let semaphore = semaphore(&client, 1);
    once(&semaphore).await;
    are(&stage, [0, 0]).await;
    assert!(stage.servers().create(LAST, b"", false));
    proxy.set_traffic(Traffic::black_hole_to_client());
    let waiting = acquiring(&semaphore);
    are(&stage, [2, 0]).await;
    // The other takes the permit and is gone before anybody asks when it came to the gate.
    assert!(stage.servers().create(LEASE, b"", false) && stage.servers().delete(LAST));
    proxy.set_traffic(Traffic::pass());
    are(&stage, [1, 1]).await;
    assert!(!waiting.is_finished());
    assert!(stage.servers().delete(LEASE));
    granted(waiting).await.release().await.unwrap();
    nothing_left(stage.servers()).await;
}

/// An event may have told of the turn at the gate, and no reply. Then the server of the next connection may be further
/// back than that, and would show leases of the past.
#[history]
async fn a_count_on_another_connection_than_the_grant_is_preceded_by_a_confirmation(stage: Stage) {
    let (proxy, late, holding) = stage.far_and_near(session).await;
    let next = stage.client(2).await;
    let held = semaphore(&holding, 1).acquire().await.unwrap();
    are(&stage, [0, 1]).await;
    let acquires = acquiring(&semaphore(&next, 1));
    are(&stage, [1, 1]).await;
    let waiting = acquiring(&semaphore(&late, 1));
    are(&stage, [2, 1]).await;
    proxy.take_requests();
    let cut = proxy.intercept(Request::GetChildren, Fate::LoseRequest);
    held.release().await.unwrap();
    let guard = granted(acquires).await;
    within(cut.happened()).await;
    sleep(SOON).await;
    let requests = proxy.take_requests();
    let mut counts = requests.iter().enumerate().filter(|(_, request)| **request == Request::GetChildren);
    let [lost, counted] = [(); 2].map(|()| counts.next().unwrap().0);
    // One is that of the connection itself.
    let confirms = requests[lost + 1..counted].iter().filter(|request| **request == Request::Confirm);
    assert!(confirms.count() > 1, "{requests:?}");
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
    nothing_left(stage.servers()).await;
}

/// It comes with the create, when another contender of the client is before it at the gate, or on the way. That one takes all
/// permits before this one is polled again and finds itself first.
#[history(false, true)]
async fn a_count_from_before_the_turn_at_the_gate_is_not_believed(stage: Stage, is_at_gate: bool) {
    let [client, other] = stage.clients().await;
    let (ours, theirs) = (semaphore(&client, 2), semaphore(&other, 2));
    // Afterwards it knows the gate, and does not try to take permits along with the create.
    for _ in 0..4 {
        once(&ours).await;
    }
    let held = theirs.acquire().await.unwrap();
    once(&ours).await;
    are(&stage, [0, 1]).await;
    let all = ours.many(2).unwrap();
    let (mut first, mut late) = (Box::pin(all.acquire()), Box::pin(ours.acquire()));
    if is_at_gate {
        assert!(timeout(A_MOMENT, &mut first).await.is_err());
    } else {
        assert!(poll_once(&mut first).is_pending());
    }
    assert!(poll_once(&mut late).is_pending());
    are(&stage, [2, 1]).await;
    held.release().await.unwrap();
    let all = within(first).await.unwrap();
    assert!(timeout(SOON, &mut late).await.is_err());
    are(&stage, [1, 2]).await;
    all.release().await.unwrap();
    within(late).await.unwrap().release().await.unwrap();
    nothing_left(stage.servers()).await;
}

/// It comes with the first create, which finds no gate.
#[history]
async fn a_count_from_before_there_was_a_gate_is_not_believed(stage: Stage) {
    let [ours, theirs] = stage.clients().await.map(|client| semaphore(&client, 1));
    let mut late = Box::pin(ours.acquire());
    assert!(poll_once(&mut late).is_pending());
    sleep(A_MOMENT).await;
    let held = theirs.acquire().await.unwrap();
    assert!(timeout(SOON, &mut late).await.is_err());
    are(&stage, [1, 1]).await;
    held.release().await.unwrap();
    within(late).await.unwrap().release().await.unwrap();
    nothing_left(stage.servers()).await;
}

/// Those behind it in the same client watch nothing but the line, and may want fewer permits than it does.
#[history]
async fn the_loss_of_the_place_at_the_gate_lets_the_next_one_of_its_client_on(stage: Stage) {
    let [holding, waiting] = stage.clients().await;
    let held = semaphore(&holding, 2).acquire().await.unwrap();
    are(&stage, [0, 1]).await;
    let ours = semaphore(&waiting, 2);
    let both = many(&ours, 2);
    are(&stage, [1, 1]).await;
    let place = nodes(stage.servers(), GATE).remove(0);
    let one = many(&ours, 1);
    are(&stage, [2, 1]).await;
    assert!(stage.servers().delete(&place));
    let guard = timeout(A_MOMENT, granted(one)).await.expect("it is told at once");
    assert!(!both.is_finished());
    guard.release().await.unwrap();
    held.release().await.unwrap();
    granted(both).await.release().await.unwrap();
    nothing_left(stage.servers()).await;
}

#[history]
async fn more_permits_out_than_there_can_be_is_an_error_with_both_numbers(stage: Stage) {
    let [five, one] = stage.clients().await;
    let (five, one) = (semaphore(&five, 5), semaphore(&one, 1));
    let differ = |leases| Error::PermitsDiffer { path: PATH.into(), permits: 1, leases };
    let mut held = five.many(2).unwrap().acquire().await.unwrap().into_permits();
    // One more could be of a client of Curator that waits.
    assert!(one.try_acquire().await.unwrap().is_none());
    held.extend(five.many(3).unwrap().acquire().await.unwrap().into_permits());
    are(&stage, [0, 5]).await;
    for error in [one.try_acquire().await.unwrap_err(), within(one.acquire()).await.unwrap_err()] {
        assert_eq!(error, differ(5));
        assert!(["5", "1", PATH].iter().all(|told| error.to_string().contains(told)), "{error}");
    }
    // Nothing stays, and whoever has more may go on.
    are(&stage, [0, 5]).await;
    // One who waits hears of it, too.
    drop(held.split_off(2));
    let waiting = acquiring(&one);
    are(&stage, [1, 2]).await;
    let third = format!("{LEASES}/_c_other-lease-0000000099");
    assert!(stage.servers().create(&third, b"", false));
    assert_eq!(within(waiting).await.unwrap().unwrap_err(), differ(3));
}

// --- Shared counts ---

#[history]
async fn of_two_who_make_a_count_the_first_has_its_seed(stage: Stage) {
    let (proxy, late, early) = stage.far_and_near(session).await;
    let (late, early) =
        (SharedCount::new(&late, COUNT, 1).unwrap(), SharedCount::new(&early, COUNT, 2).unwrap());
    // It finds no node.
    let held = proxy.intercept(Request::GetData, Fate::HoldReply);
    let reading = spawn_local(async move { late.get().await });
    within(held.happened()).await;
    assert_eq!(early.get().await, Ok(2));
    held.release();
    assert_eq!(within(reading).await.unwrap(), Ok(2));
    assert_eq!(early.get().await, Ok(2));
}

#[history]
async fn the_limit_follows_the_shared_count(stage: Stage) {
    let clients = stage.clients::<2>().await;
    let counts = clients.each_ref().map(|client| SharedCount::new(client, COUNT, 2).unwrap());
    let [semaphore, other] =
        [0, 1].map(|number| Semaphore::with_shared_count(&clients[number], PATH, &counts[number]).unwrap());
    let count = &counts[1];
    let mut held = semaphore.many(2).unwrap().acquire().await.unwrap().into_permits();
    are(&stage, [0, 2]).await;
    // Raising wakes. As many as there never were are waited for, and not refused.
    let waiting = many(&other, 3);
    are(&stage, [1, 2]).await;
    assert!(stage.servers().set_data(COUNT, &4_i32.to_be_bytes()));
    are(&stage, [1, 2]).await;
    assert!(!waiting.is_finished(), "four are not enough");
    count.set(5).await.unwrap();
    let more = granted(waiting).await;
    are(&stage, [0, 5]).await;
    // Lowering revokes nothing, and keeps others out until enough are given back.
    count.set(1).await.unwrap();
    assert_eq!(semaphore.available_permits().await, Ok(0));
    let waiting = many(&other, 1);
    are(&stage, [1, 5]).await;
    more.release().await.unwrap();
    for left in [2, 1] {
        are(&stage, [1, left]).await;
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        assert_eq!((semaphore.available_permits().await, held[0].loss()), (Ok(0), None));
        assert!(!waiting.is_finished());
        held.pop().unwrap().release().await.unwrap();
    }
    granted(waiting).await.release().await.unwrap();
    // Below one nobody is let in, though nobody is inside.
    for none in [0, -1, i32::MIN] {
        count.set(none).await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        assert_eq!(semaphore.available_permits().await, Ok(0));
        let waiting = many(&semaphore, 1);
        are(&stage, [1, 0]).await;
        assert!(!waiting.is_finished());
        count.set(1).await.unwrap();
        granted(waiting).await.release().await.unwrap();
    }
    nothing_left(stage.servers()).await;
}
