//! What locks that linger promise, where it is easily broken.

use tokio::runtime::Handle;

use super::prelude::*;

const LONG: Duration = secs(600);
/// Much longer than anything takes whose turn has come.
const STUCK: Duration = secs(8);
const HOLD: Duration = ms(5);

fn lingering_at(client: &Client, path: &str, time: Duration) -> InterProcessMutex {
    mutex_at(client, path).with_options(LockOptions::new().linger(time)).unwrap()
}

async fn once(mutex: &InterProcessMutex) -> String {
    let guard = within(mutex.acquire()).await.unwrap();
    let node = guard.node_path().to_owned();
    guard.release().await.unwrap();
    node
}

/// Waits for the list, so that the node stays from now on.
async fn settled(mutex: &InterProcessMutex) -> String {
    let node = once(mutex).await;
    assert_eq!(once(mutex).await, node);
    node
}

/// In the first hold of a node, or when it has lingered before and someone listens.
#[history]
async fn who_is_asked_in_a_hold_frees_it(stage: Stage) {
    let [client, operator] = stage.clients().await;
    for round in 0..40 {
        let mutex = lingering_at(&client, &format!("/asked/{round}"), LONG);
        if round % 2 == 0 {
            settled(&mutex).await;
            sleep(A_MOMENT).await;
        }
        let guard = mutex.acquire().await.unwrap();
        let node = guard.node_path().to_owned();
        operate::ask(&operator, mutex.path()).await.unwrap();
        within(guard.revoke_requested()).await.unwrap();
        guard.release().await.unwrap();
        assert_ne!(once(&mutex).await, node, "in round {round}");
    }
}

/// The lock is released and acquired again without a pause. It is freed at the end of a hold soon after it is asked for.
#[history]
async fn a_busy_lock_hears_that_it_is_asked_for(stage: Stage) {
    let [client, operator] = stage.clients().await;
    for ask_at in (0..10).chain([100]) {
        let mutex = lingering_at(&client, &format!("/busy/{ask_at}"), LONG);
        let mut first = None;
        let mut cycle = 0;
        loop {
            let guard = mutex.acquire().await.unwrap();
            let node = first.get_or_insert_with(|| guard.node_path().to_owned());
            if *node != guard.node_path() {
                break;
            }
            if cycle == ask_at {
                operate::ask(&operator, mutex.path()).await.unwrap();
            }
            sleep(HOLD).await;
            guard.release().await.unwrap();
            cycle += 1;
            // In the first hold no one listens yet.
            assert!(cycle <= ask_at.max(1) + 1, "asked in hold {ask_at}, {cycle} are over");
        }
        assert!(cycle > ask_at, "freed before it is asked for");
    }
}

/// An acquire that awaits the list, or without lingering its turn; no one polls it any more.
async fn abandoned(mutex: &InterProcessMutex) -> impl Future<Output = Result<LockGuard>> {
    once(mutex).await;
    let again = mutex.clone();
    let mut again = Box::pin(async move { again.acquire().await });
    assert!(poll_once(&mut again).is_pending());
    again
}

/// Others try, and the task itself, as in another branch of a `select!`.
#[history]
async fn an_attempt_does_not_wait_for_a_future_that_no_one_polls(stage: Stage) {
    let client = stage.client(0).await;
    for (round, other) in [false, true, false, true].into_iter().enumerate() {
        let owner = Owner::new();
        let mutex = lingering_at(&client, &format!("/unpolled/{round}"), LONG).owned_by(&owner);
        let abandoned = abandoned(&mutex).await;
        if round < 2 {
            sleep(15 * A_MOMENT).await;
        }
        let trying = if other { mutex.owned_by(&Owner::new()) } else { mutex.clone() };
        let start = Instant::now();
        let tried = timeout(STUCK, trying.try_acquire()).await;
        assert!(matches!(tried, Ok(Ok(_))), "{tried:?}");
        assert!(start.elapsed() < A_MOMENT, "{:?}", start.elapsed());
        drop(tried);
        // The servers answer all the time.
        let tried = trying.try_acquire_for(ms(500)).await;
        assert!(tried.is_ok(), "{tried:?}");
        drop((tried, abandoned));
    }
}

/// Whether acquires beside a future that no one polls end: of the same client, and of another one.
async fn acquires_beside_an_abandoned_one(mutex: InterProcessMutex, other: &Client) -> [bool; 2] {
    let mutex = mutex.owned_by(&Owner::new());
    let _abandoned = abandoned(&mutex).await;
    sleep(15 * A_MOMENT).await;
    let beside = timeout(STUCK, mutex.owned_by(&Owner::new()).acquire()).await.is_ok();
    let elsewhere = timeout(STUCK, mutex_at(other, mutex.path()).acquire()).await.is_ok();
    [beside, elsewhere]
}

#[history]
async fn acquires_beside_a_future_that_no_one_polls_fare_no_worse_than_without_linger(stage: Stage) {
    let [client, other] = stage.clients().await;
    let without = acquires_beside_an_abandoned_one(mutex_at(&client, "/beside/a"), &other).await;
    let with = acquires_beside_an_abandoned_one(lingering_at(&client, "/beside/b", LONG), &other).await;
    let is_no_worse = with.iter().zip(&without).all(|(with, without)| with >= without);
    assert!(is_no_worse, "[the same client, another one]: {with:?} instead of {without:?}");
}

/// A transaction of an earlier guard whose future was dropped is not carried out under the next guard.
#[history]
async fn a_dropped_transaction_is_not_carried_out_under_the_next_holder(stage: Stage) {
    const DELAY: Duration = ms(200);
    stage.servers().create("/data", b"", false);
    let (proxy, client) = stage.far(plain).await;
    let mutex = lingering_at(&client, PATH, LONG);
    for polls in 1..6 {
        proxy.set_traffic(Traffic::pass());
        settled(&mutex).await;
        let guard = mutex.acquire().await.unwrap();
        let node = guard.node_path().to_owned();
        proxy.set_traffic(Traffic::pass().delay_to_server(DELAY));
        let commit = guard.transaction().set_data("/data", b"early".as_slice(), None).commit();
        let done = poll_times(commit, polls).await;
        if polls % 2 == 0 {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        let guard = within(mutex.acquire()).await.unwrap();
        let before = stage.servers().node("/data");
        assert!(done.is_some() || guard.node_path() != node, "granted again after {polls} polls");
        sleep(3 * DELAY).await;
        assert_eq!(stage.servers().node("/data"), before, "after {polls} polls");
    }
    drop(mutex);
    sleep(DELAY).await;
}

/// Waiters that were polled once come first, in their order.
#[history]
async fn local_waiters_are_served_in_order(stage: Stage) {
    let [client, other] = stage.clients().await;
    let mutex = lingering_at(&client, PATH, LONG);
    let owners: Vec<_> = (0..6).map(|_| mutex.owned_by(&Owner::new())).collect();
    for round in 0..100 {
        let served: Rc<RefCell<Vec<usize>>> = Rc::default();
        let guard = within(owners[0].acquire()).await.unwrap();
        let mut tasks = Vec::new();
        for (number, owner) in owners.iter().enumerate().skip(1) {
            if number == round % 6 + 1 {
                tokio::task::yield_now().await;
            }
            let (owner, served) = (owner.clone(), served.clone());
            let mut waiting = Box::pin(async move { owner.acquire().await.unwrap() });
            assert!(poll_once(&mut waiting).is_pending());
            tasks.push(stage.machines()[0].spawn(async move {
                let guard = waiting.await;
                served.borrow_mut().push(number);
                guard.release().await.unwrap();
            }));
        }
        if round % 3 == 0 {
            sleep(A_MOMENT).await;
        }
        guard.release().await.unwrap();
        for task in tasks {
            within(task).await.unwrap();
        }
        assert_eq!(*served.borrow(), [1, 2, 3, 4, 5], "in round {round}");
        if round % 5 == 0 {
            once(&mutex_at(&other, PATH)).await;
        }
    }
}

/// Takes a lock that lingers for a time, in one of eight ways.
async fn use_once(stage: &Stage, client: &Client, other: &Client, round: usize) {
    let time = [LONG, ms(2), Duration::from_micros(1)][round % 3];
    let mutex = lingering_at(client, PATH, time);
    let guard = within(mutex.acquire()).await.unwrap();
    match round % 8 {
        0 => guard.release().await.unwrap(),
        1 => {
            drop(mutex);
            guard.release().await.unwrap();
        }
        2 => {
            stage.servers().delete(guard.node_path());
            within(guard.lost()).await;
        }
        3 => drop(poll_times(guard.transaction().commit(), 1).await),
        4 => {
            let state = guard.watch_state();
            drop(guard);
            drop(state);
        }
        5 => {
            drop(guard);
            once(&mutex_at(other, PATH)).await;
        }
        6 => {
            drop(guard);
            for _ in 0..3 {
                once(&mutex).await;
            }
        }
        _ => {
            guard.release().await.unwrap();
            drop(poll_times(mutex.acquire(), 2).await);
        }
    }
    if round.is_multiple_of(2) {
        sleep(HOLD).await;
    }
}

/// Background tasks end with what they attend to, and watches do, too.
#[history]
async fn nothing_accumulates(stage: Stage) {
    let [client, other] = stage.clients().await;
    let figures = || {
        let tasks = Handle::current().metrics().num_alive_tasks();
        (stage.servers().children(PATH).unwrap_or_default(), tasks, stage.servers().watch_count())
    };
    let mut first = None;
    for _ in 0..4 {
        for round in 0..40 {
            use_once(&stage, &client, &other, round).await;
        }
        // What is watched but held no longer is told by the delete.
        sleep(2 * secs(1)).await;
        let now = figures();
        assert_eq!(now.0, Vec::<String>::new());
        assert_eq!(*first.get_or_insert(now.clone()), now);
    }
}
