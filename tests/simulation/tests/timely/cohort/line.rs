//! The line of a cohort: its order, and its end.

use super::*;

/// Who was granted the lock, and by which node, in this order.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<(String, String)>>>);

impl Log {
    /// Acquires in a task, takes note, and releases.
    fn visit(
        &self,
        who: impl ToString,
        acquire: impl Future<Output = Result<LockGuard>> + 'static,
    ) -> JoinHandle<()> {
        let (log, who) = (self.clone(), who.to_string());
        spawn_local(async move {
            let guard = within(acquire).await.unwrap();
            log.0.borrow_mut().push((who, guard.node_path().to_owned()));
            yield_now().await;
            guard.release().await.unwrap();
        })
    }

    /// So many of the line.
    fn visits(&self, mutex: &InterProcessMutex, count: usize) -> Vec<JoinHandle<()>> {
        (0..count).map(|number| self.visit(number, in_line(mutex))).collect()
    }

    /// Who it was since the last call, and by how many nodes.
    fn take(&self) -> (Vec<String>, usize) {
        let (who, mut nodes): (Vec<_>, Vec<_>) = self.0.take().into_iter().unzip();
        nodes.dedup();
        (who, nodes.len())
    }
}

fn names(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

async fn all_end(tasks: impl IntoIterator<Item = JoinHandle<()>>) {
    for task in tasks {
        within(task).await.unwrap();
    }
}

/// Nothing is left in the queue, while the client and its lock objects live.
async fn empty(stage: &Stage) {
    sleep(A_MOMENT).await;
    assert_eq!(queue(stage, PATH), 0);
}

/// Each that has its turn again stands at the end of the line. The first lock object is gone.
#[history]
async fn all_are_served_in_order_by_one_node_and_those_who_come_again_are_last(stage: Stage) {
    let client = stage.client(0).await;
    let mutex = selfish(&client);
    let guard = alone(&mutex).await;
    let log = Log::default();
    let tasks = (0..8).map(|number| {
        let (log, mutex) = (log.clone(), selfish(&client));
        let mut acquire = in_line(&mutex);
        spawn_local(async move {
            for _ in 0..50 {
                let guard = within(acquire).await.unwrap();
                log.0.borrow_mut().push((number.to_string(), guard.node_path().to_owned()));
                acquire = in_line(&mutex);
                guard.release().await.unwrap();
            }
            within(acquire).await.unwrap().release().await.unwrap();
        })
    });
    let tasks: Vec<_> = tasks.collect();
    drop(mutex);
    guard.release().await.unwrap();
    all_end(tasks).await;
    let in_turn = (0..50).flat_map(|_| names(0..8)).collect();
    assert_eq!(log.take(), (in_turn, 1));
    empty(&stage).await;
}

/// The next one takes the place of one that gives up.
#[history]
async fn one_of_the_line_is_in_the_queue(stage: Stage) {
    let [client, other] = stage.clients().await;
    let guard = mutex_at(&other, PATH).acquire().await.unwrap();
    let mut waiting: Vec<_> = (0..10).map(|_| acquiring(&selfish(&client))).collect();
    for first in waiting.drain(..5) {
        sleep(A_MOMENT).await;
        assert_eq!(queue(&stage, PATH), 2);
        first.abort();
    }
    guard.release().await.unwrap();
    for waiting in waiting {
        granted(waiting).await.release().await.unwrap();
    }
    empty(&stage).await;
}

#[history(true, false)]
async fn a_request_to_give_it_back_ends_the_handing_on(stage: Stage, is_held: bool) {
    let [client, operator] = stage.clients().await;
    let mutex = selfish(&client);
    let guard = alone(&mutex).await;
    let node = guard.node_path().to_owned();
    let mut next = in_line(&mutex);
    if is_held {
        operate::ask(&operator, PATH).await.unwrap();
        within(guard.revoke_requested()).await.unwrap();
        guard.release().await.unwrap();
    } else {
        guard.release().await.unwrap();
        operate::ask(&operator, PATH).await.unwrap();
        // Although no one polls the next one.
        empty(&stage).await;
        assert!(poll_once(&mut next).is_pending());
    }
    assert_ne!(within(next).await.unwrap().node_path(), node);
}

/// The lock is held in the same client, by a stranger, or by no one.
#[history(0, 1, 2)]
async fn an_owner_does_not_wait_for_itself(stage: Stage, who: usize) {
    let [client, other] = stage.clients().await;
    let held = match who {
        0 => Some(selfish(&client).acquire().await.unwrap()),
        1 => Some(mutex_at(&other, PATH).acquire().await.unwrap()),
        _ => None,
    };
    let mutex = selfish(&client).owned_by(&Owner::new());
    let mut calls: Vec<_> = (0..3).map(|_| Box::pin(mutex.acquire())).collect();
    for call in &mut calls {
        assert!(poll_once(call).is_pending());
    }
    // The second one is polled again only when the others hold.
    let second = calls.remove(1);
    drop(held);
    let guards = within(try_join_all(calls)).await.unwrap();
    let second = within(second).await.unwrap();
    assert_eq!((second.node_path(), second.hold_count()), (guards[0].node_path(), 3));
    drop(guards);
    second.release().await.unwrap();
}

#[history]
async fn attempts_do_not_wait_in_line(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(session).await;
    let mutex = selfish(&client);
    let tries = mutex.owned_by(&Owner::new());
    let is_in_vain = async || assert!(within(tries.try_acquire()).await.unwrap().is_none());
    let guard = alone(&mutex).await;
    proxy.take_requests();
    for _ in 0..100 {
        is_in_vain().await;
    }
    assert_eq!(proxy.take_requests(), []);
    // The next in line is not polled.
    let next = in_line(&mutex);
    guard.release().await.unwrap();
    for _ in 0..100 {
        is_in_vain().await;
    }
    drop(next);
    empty(&stage).await;
    within(tries.try_acquire()).await.unwrap().expect("it is free").release().await.unwrap();
    // The first in line is in the queue.
    let guard = mutex_at(&other, PATH).acquire().await.unwrap();
    let first = acquiring(&mutex);
    sleep(A_MOMENT).await;
    is_in_vain().await;
    guard.release().await.unwrap();
    granted(first).await.release().await.unwrap();
}

#[history]
async fn a_cohort_may_linger(stage: Stage) {
    let [client, other] = stage.clients().await;
    let options = LockOptions::new().cohort(3).cohort_time(LONG).linger(LONG);
    let mutex = mutex_at(&client, PATH).with_options(options).unwrap();
    let guard = alone(&mutex).await;
    let node = guard.node_path().to_owned();
    let log = Log::default();
    let tasks = log.visits(&mutex, 20);
    guard.release().await.unwrap();
    all_end(tasks).await;
    assert_eq!(log.take(), (names(0..20), 1));
    // It stays for those who come later, also if the last in line gives up.
    let guard = mutex.acquire().await.unwrap();
    let gives_up = in_line(&mutex);
    guard.release().await.unwrap();
    drop(gives_up);
    let shown = mutex.holder().await.unwrap().unwrap();
    assert!(shown.node_path() == node && shown.is_lingering());
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(guard.node_path(), node);
    // Others end that.
    let stranger = mutex_at(&other, PATH);
    let stranger = log.visit("stranger", async move { stranger.acquire().await });
    sleep(A_MOMENT).await;
    let last = log.visit("last", in_line(&mutex));
    guard.release().await.unwrap();
    all_end([last, stranger]).await;
    assert_eq!(log.take(), (vec!["last".to_owned(), "stranger".to_owned()], 2));
}

/// Those of another client, another lock object, or a ticket.
#[history((1, 0), (5, 0), (2, 1), (2, 2))]
async fn others_have_their_turn_after_so_many_holds(stage: Stage, hand_ons: usize, from: usize) {
    let [client, other] = stage.clients().await;
    let options = LockOptions::new().cohort(hand_ons as u32).cohort_time(LONG);
    let mutex = mutex_at(&client, PATH).with_options(options).unwrap();
    let log = Log::default();
    let guard = alone(&mutex).await;
    let beside = match from {
        2 => log.visit("beside", mutex.owned_by(&Owner::new()).enqueue().await.unwrap().acquired()),
        from => {
            let stranger = mutex_at([&other, &client][from], PATH).owned_by(&Owner::new());
            log.visit("beside", async move { stranger.acquire().await })
        }
    };
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), 2);
    let tasks = log.visits(&mutex, 10);
    guard.release().await.unwrap();
    all_end(tasks.into_iter().chain([beside])).await;
    let mut expected = names(0..10);
    expected.insert(hand_ons, "beside".to_owned());
    assert_eq!(log.take().0, expected);
    empty(&stage).await;
}

/// The first in line is behind the ticket in the queue.
#[history]
async fn a_ticket_that_is_granted_before_the_line_does_not_stop_it(stage: Stage) {
    let client = stage.client(0).await;
    let mutex = selfish(&client);
    let ticket = mutex.owned_by(&Owner::new()).enqueue().await.unwrap();
    let log = Log::default();
    let tasks = log.visits(&mutex, 3);
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), 2);
    within(ticket.acquired()).await.unwrap().release().await.unwrap();
    all_end(tasks).await;
    assert_eq!(log.take().0, names(0..3));
    empty(&stage).await;
}

#[history]
async fn all_in_line_learn_that_the_session_is_over_for_good(stage: Stage) {
    let session = own_session(&stage.address_of(0)).await;
    let client = Client::from_zookeeper(session.clone()).unwrap();
    let mutex = selfish(&client);
    let _guard = mutex.acquire().await.unwrap();
    let waiting: Vec<_> = (0..10).map(|_| spawn_local(in_line(&mutex))).collect();
    assert!(stage.servers().end_session(session.session_id().0));
    for waiting in waiting {
        let error = within(waiting).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::SessionOver { .. }), "{error}");
    }
}

#[history]
async fn an_unknown_outcome_ends_the_handing_on(stage: Stage) {
    let client = stage.client(0).await;
    let mutex = selfish(&client);
    let guard = alone(&mutex).await;
    let node = guard.node_path().to_owned();
    let next = in_line(&mutex);
    assert!(poll_times(guard.transaction().commit(), 1).await.is_none());
    drop(guard);
    assert_ne!(within(next).await.unwrap().node_path(), node);
}

/// The node was deleted, as the client has been told by its watch on the queue; a stranger holds.
#[history]
async fn a_node_that_is_gone_is_not_handed_on(stage: Stage) {
    let [client, other] = stage.clients().await;
    let mutex = selfish(&client);
    let guard = alone(&mutex).await;
    let line = [in_line(&mutex), in_line(&mutex)];
    assert!(stage.servers().delete(guard.node_path()));
    let stranger = within(mutex_at(&other, PATH).acquire()).await.unwrap();
    sleep(A_MOMENT).await;
    assert_lost(&guard.release().await.unwrap_err(), LossReason::Deleted);
    let line = line.map(spawn_local);
    sleep(LONG).await;
    assert!(stranger.is_valid() && line.iter().all(|next| !next.is_finished()), "two hold");
    let before = (stranger.fencing_token(), stranger.turn());
    drop(stranger);
    for next in line {
        let next = granted(next).await;
        assert!((next.fencing_token(), next.turn()) > before);
        next.release().await.unwrap();
    }
}

/// All lock objects are dropped, and the client is closed, while no one in line is polled: behind a hold that is released,
/// dropped or kept, or behind a stranger's.
#[history(0, 1, 2, 3)]
async fn closing_while_the_next_is_not_polled(stage: Stage, how: usize) {
    let [client, other] = stage.clients().await;
    let mutex = selfish(&client);
    let guard = match how {
        3 => mutex_at(&other, PATH).acquire().await.unwrap(),
        _ => alone(&mutex).await,
    };
    let line: Vec<_> = (0..100).map(|_| in_line(&mutex)).collect();
    let mut kept = None;
    match how {
        0 => guard.release().await.unwrap(),
        1 => drop(guard),
        _ => kept = Some(guard),
    }
    drop(mutex);
    within(client.close()).await;
    for acquire in line {
        assert_eq!(within(acquire).await.unwrap_err(), Error::Closed);
    }
    drop(kept);
    empty(&stage).await;
}

/// The first in line waits in the queue, behind a stranger. A ticket of the same client has held meanwhile.
async fn behind_one_in_the_queue(
    client: &Client,
    other: &Client,
    has_ticket: bool,
) -> (InterProcessMutex, LockGuard, JoinHandle<Result<LockGuard>>) {
    let lock = with(client, LockOptions::new().cohort_time(LONG));
    let tickets = lock.owned_by(&Owner::new());
    let ticket = if has_ticket { Some(tickets.enqueue().await.unwrap()) } else { None };
    let stranger = mutex(other).enqueue().await.unwrap();
    let first = waiter(&lock).await;
    if let Some(ticket) = ticket {
        within(ticket.acquired()).await.unwrap().release().await.unwrap();
    }
    let held = within(stranger.acquired()).await.unwrap();
    (lock, held, first)
}

#[history(false, true)]
async fn who_waits_behind_one_in_the_queue_is_told_none(stage: Stage, has_ticket: bool) {
    let [client, other] = stage.clients().await;
    let (lock, held, first) = behind_one_in_the_queue(&client, &other, has_ticket).await;
    let tried = lock.owned_by(&Owner::new()).try_acquire_for(secs(1)).await;
    assert!(matches!(tried, Ok(None)), "ticket: {has_ticket}: {tried:?}");
    held.release().await.unwrap();
    granted(first).await.release().await.unwrap();
}

#[history(false, true)]
async fn no_outage_ends_a_wait_in_line_behind_one_in_the_queue(stage: Stage, has_ticket: bool) {
    let (proxy, client) =
        stage.far(tries(3 * SESSION, SESSION / 10, RetryPolicy::n_times(0, Duration::ZERO))).await;
    let other = stage.client(1).await;
    let (lock, held, first) = behind_one_in_the_queue(&client, &other, has_ticket).await;
    let second = waiter(&lock).await;
    proxy.cut_off();
    sleep(SESSION).await;
    let ended = [&first, &second].map(|waiting| waiting.is_finished());
    proxy.refuse_connections(false);
    connected(&client).await;
    held.release().await.unwrap();
    let first = within(first).await.unwrap();
    drop(first);
    let second = within(second).await.unwrap();
    assert_eq!(ended, [false, false], "ticket: {has_ticket}: {second:?}");
    drop(second);
}

/// It waits in line for nearly all of its time: for a hold of its client, or for the first in line, which is in the queue.
/// Its turn comes when there is less time left than a round trip takes.
#[history(false, true)]
async fn who_has_waited_in_line_until_its_time_is_over_is_told_none(stage: Stage, is_held_here: bool) {
    let (proxy, client, other) = stage.far_and_near(session).await;
    let lock = with(&client, LockOptions::new().cohort_time(LONG));
    let tries = lock.owned_by(&Owner::new());
    let trying = async move || tries.try_acquire_for(secs(2)).await;
    if is_held_here {
        let guard = lock.acquire().await.unwrap();
        // Whose node is not handed on.
        let state = guard.watch_state();
        sleep(A_MOMENT).await;
        proxy.set_traffic(Traffic::pass().delay(ms(100)));
        let tried = spawn_local(async move { trying().await });
        sleep(ms(1900)).await;
        drop(guard);
        let tried = within(tried).await.unwrap();
        drop(state);
        assert!(matches!(tried, Ok(None)), "{tried:?}");
    } else {
        let held = mutex(&other).acquire().await.unwrap();
        let first = waiter(&lock).await;
        proxy.set_traffic(Traffic::pass().delay(ms(100)));
        let tried = spawn_local(async move { trying().await });
        sleep(ms(1900)).await;
        first.abort();
        let tried = within(tried).await.unwrap();
        proxy.set_traffic(Traffic::pass());
        held.release().await.unwrap();
        assert!(matches!(tried, Ok(None)), "{tried:?}");
    }
    proxy.set_traffic(Traffic::pass());
    sleep(secs(2)).await;
}
