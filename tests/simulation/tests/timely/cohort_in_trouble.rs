//! Cohorts among strangers and over bad connections. Also waiters whose next blocker is watched along with the list.

use super::prelude::*;

const LONG: Duration = secs(600);

fn with(client: &Client, options: LockOptions) -> InterProcessMutex {
    mutex_at(client, PATH).with_options(options).unwrap()
}

/// No one but a try, which is given up, has ever wanted the lock since it was released.
#[history]
async fn a_try_is_not_refused_for_a_try_that_is_given_up(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let mutex = with(&client, LockOptions::new().cohort(u32::MAX).cohort_time(LONG).linger(LONG));
    drop(mutex_at(&client, PATH).acquire().await.unwrap());
    for _ in 0..20 {
        let guard = mutex.acquire().await.unwrap();
        // The list of the queue is not answered yet.
        proxy.set_traffic(Traffic::pass().delay(ms(50)));
        guard.release().await.unwrap();
        let [one, other] = [(); 2].map(|()| mutex.owned_by(&Owner::new()));
        let [mut first, mut second] = [Box::pin(one.try_acquire()), Box::pin(other.try_acquire())];
        let is_pending = poll_once(&mut first).is_pending();
        let tried = poll_once(&mut second);
        let is_refused = matches!(tried, std::task::Poll::Ready(Ok(None)));
        assert!(!is_pending || !is_refused, "it says that someone has the lock, and no one has");
        drop((first, second));
        proxy.set_traffic(Traffic::pass());
        operate::ask(&client, PATH).await.ok();
    }
}

/// A try does not stand in line. One that is not polled must not keep others from the lock.
#[history]
async fn a_try_that_no_one_polls_keeps_no_one_out(stage: Stage) {
    let client = stage.client(0).await;
    let mutex = with(&client, LockOptions::new().cohort(u32::MAX).linger(LONG));
    for _ in 0..20 {
        mutex.acquire().await.unwrap().release().await.unwrap();
        let one = mutex.owned_by(&Owner::new());
        let mut first = Box::pin(one.try_acquire());
        let is_pending = poll_once(&mut first).is_pending();
        let acquired = timeout(A_MOMENT, mutex.owned_by(&Owner::new()).acquire()).await;
        assert!(!is_pending || acquired.is_ok(), "it is stuck behind a try that is not polled");
        drop(acquired);
        drop(first);
        let _ = operate::ask(&client, PATH).await;
        sleep(A_MOMENT).await;
        assert_eq!(queue(&stage, PATH), 0);
    }
}

/// A stranger that comes and goes must not keep a third one out.
#[history]
async fn strangers_that_come_and_go_starve_no_one(stage: Stage) {
    const TIME: Duration = ms(2);
    const HAND_ONS: usize = 5;
    let [client, comer, third] = stage.clients().await;
    let (is_over, holds) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let mutex = with(&client, LockOptions::new().cohort(HAND_ONS as u32).cohort_time(LONG));
    let mut tasks: Vec<_> = (0..6)
        .map(|_| {
            let (mutex, is_over, holds) = (mutex.clone(), is_over.clone(), holds.clone());
            spawn_local(async move {
                while !is_over.get() {
                    let guard = mutex.acquire().await.unwrap();
                    holds.set(holds.get() + 1);
                    sleep(TIME).await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    let (comes, over) = (mutex_at(&comer, PATH), is_over.clone());
    tasks.push(spawn_local(async move {
        while !over.get() {
            drop(poll_once(&mut Box::pin(comes.acquire())));
            let _ = timeout(TIME, comes.acquire()).await;
        }
    }));
    for _ in 0..30 {
        let ticket = mutex_at(&third, PATH).enqueue().await.unwrap();
        let before = holds.get();
        let guard = within(ticket.acquired()).await.unwrap();
        let meanwhile = holds.get() - before;
        // Those on their way when it came, and those before the notification.
        assert!(meanwhile <= HAND_ONS + 4, "{meanwhile}");
        guard.release().await.unwrap();
    }
    is_over.set(true);
    for task in tasks {
        within(task).await.unwrap();
    }
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), 0);
}

#[history]
async fn cohorts_that_compete_make_few_requests(stage: Stage) {
    const TIME: Duration = secs(1);
    for hand_ons in [0, 1, 10] {
        let clients = [stage.client(0).await, stage.client(1).await];
        let until = Instant::now() + TIME;
        let holds = Rc::new(Cell::new(0));
        let before = stage.servers().packets();
        let tasks: Vec<_> = (0..16)
            .map(|number| {
                let client = &clients[number % 2];
                let mutex = match hand_ons {
                    0 => mutex_at(client, PATH),
                    _ => with(client, LockOptions::new().cohort(hand_ons)),
                };
                let holds = holds.clone();
                spawn_local(async move {
                    while Instant::now() < until {
                        let guard = mutex.acquire().await.unwrap();
                        holds.set(holds.get() + 1);
                        guard.release().await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            within(task).await.unwrap();
        }
        let sent = (stage.servers().packets() - before) as f64;
        let each_node = sent / f64::from(holds.get()) * f64::from(hand_ons + 1);
        assert!(each_node < 12.0, "{hand_ons}: {each_node} requests for each node");
        for client in clients {
            client.close().await;
        }
    }
}

/// Many locks at once whose nodes are handed on, more than watch at a time.
#[history]
async fn many_locks_hand_on_over_a_bad_connection(stage: Stage) {
    const LOCKS: usize = 500;
    let (proxy, client) = stage.far(session).await;
    let path = |number: usize| format!("/many/{number}");
    let tasks: Vec<_> = (0..LOCKS)
        .flat_map(|number| {
            let options = LockOptions::new().cohort(u32::MAX).cohort_time(LONG);
            let lock = InterProcessMutex::new(&client, &path(number)).unwrap();
            let lock = lock.with_options(options).unwrap();
            [(); 3].map(|()| lock.clone())
        })
        .map(|lock| {
            spawn_local(async move {
                for _ in 0..6 {
                    if let Ok(guard) = lock.acquire().await {
                        sleep(Duration::from_millis(fastrand::u64(..300))).await;
                        drop(guard);
                    }
                }
            })
        })
        .collect();
    for _ in 0..4 {
        sleep(ms(400)).await;
        proxy.cut();
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    sleep(A_MOMENT).await;
    assert!((0..LOCKS).all(|number| queue(&stage, &path(number)) == 0));
    assert_eq!(stage.servers().watch_count(), 0);
}

/// Each request in turn is lost, or its reply.
#[history]
async fn whichever_request_of_a_cohort_is_lost(stage: Stage) {
    let (proxy, client, other) = stage.far_and_near(session).await;
    let room = Rc::new(Room::default());
    for index in 0..26 {
        for fate in [Fate::LoseRequest, Fate::LoseReply] {
            let start = Instant::now();
            let lost = proxy.intercept_after(index, fate);
            let mutex = with(&client, LockOptions::new().cohort(2).cohort_time(LONG));
            let tasks: Vec<_> = (0..8)
                .map(|number| {
                    let mutex = if number < 6 { mutex.clone() } else { mutex_at(&other, PATH) };
                    let room = room.clone();
                    spawn_local(async move {
                        for _ in 0..2 {
                            let guard = mutex.acquire().await.unwrap();
                            if guard.is_valid() {
                                let stay = room.enter(&guard);
                                yield_now().await;
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
            let took = start.elapsed();
            assert!(took < WITH_A_LOSS, "{index} {fate:?}: {took:?}");
            sleep(A_MOMENT).await;
            assert_eq!(queue(&stage, PATH), 0, "{index} {fate:?}");
            drop(lost);
        }
    }
    sleep(A_MOMENT).await;
    assert_eq!(stage.servers().watch_count(), 0);
}

/// How long a wait may be put off by one lost request.
const WITH_A_LOSS: Duration = ms(250);

/// The same for one who waits behind two strangers.
#[history]
async fn whichever_request_of_a_waiter_is_lost(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let [one, two, three] = stage.clients().await;
    for round in 0..8 * 2 * 2 * 3 {
        let (index, fate, writes, order) =
            (round / 12, [Fate::LoseRequest, Fate::LoseReply][round / 6 % 2], round / 3 % 2 == 1, round % 3);
        let a = mutex_at(&one, PATH).acquire().await.unwrap();
        let b = mutex_at(&two, PATH).enqueue().await.unwrap();
        let c = mutex_at(&three, PATH).enqueue().await.unwrap();
        let mutex = mutex_at(&client, PATH);
        let waiter = spawn_local(async move { mutex.acquire().await });
        sleep(A_MOMENT).await;
        assert_eq!(queue(&stage, PATH), 4);
        let lost = proxy.intercept_after(index, fate);
        let start = Instant::now();
        if writes {
            for child in stage.servers().children(PATH).unwrap() {
                assert!(stage.servers().set_data(&format!("{PATH}/{child}"), b"written"));
            }
        }
        match order {
            0 => {
                a.release().await.unwrap();
                within(b.acquired()).await.unwrap().release().await.unwrap();
                within(c.acquired()).await.unwrap().release().await.unwrap();
            }
            1 => {
                drop(b);
                a.release().await.unwrap();
                drop(c);
            }
            _ => {
                drop(c);
                sleep(ms(5)).await;
                drop(b);
                a.release().await.unwrap();
            }
        }
        let guard = within(waiter).await.unwrap().unwrap();
        let took = start.elapsed();
        assert!(took < WITH_A_LOSS, "{index} {fate:?} {writes} {order}: {took:?}");
        drop((lost, guard));
        sleep(A_MOMENT).await;
        assert_eq!(queue(&stage, PATH), 0);
    }
    assert_eq!(stage.servers().watch_count(), 0);
}

/// Each may read its own nodes only, and the connection is lost or not.
#[history(false, true)]
async fn behind_strangers_that_may_not_be_read(stage: Stage, is_cut: bool) {
    let [one, two] = [
        stage.connect(1, |builder| private(builder, "one")).await,
        stage.connect(1, |builder| private(builder, "two")).await,
    ];
    let (proxy, client) = stage.far(session).await;
    let in_cohort = |client: &Client| with(client, LockOptions::new().cohort(3));
    let held = in_cohort(&one).acquire().await.unwrap();
    let next = mutex_at(&two, PATH).enqueue().await.unwrap();
    let mut waiters: Vec<_> = (0..3).map(|_| acquiring(&in_cohort(&client))).collect();
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), 3);
    drop(mutex_at(&stage.client(2).await, PATH).enqueue().await.unwrap());
    waiters.push(acquiring(&in_cohort(&one)));
    if is_cut {
        proxy.cut();
    }
    held.release().await.unwrap();
    within(next.acquired()).await.unwrap().release().await.unwrap();
    for waiter in waiters {
        granted(waiter).await.release().await.unwrap();
    }
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, PATH), 0);
}

/// A confirmation that fails must leave no node in the way of the one that has the turn.
#[history]
async fn a_connection_that_breaks_under_the_confirmation_leaves_no_node_in_the_way(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let mutex = with(&client, LockOptions::new().cohort(u32::MAX).cohort_time(LONG));
    let guard = mutex.owned_by(&Owner::new()).acquire().await.unwrap();
    // From now on it is only kept alive.
    sleep(SESSION).await;
    let next = waiter(&mutex).await;
    let last = waiter(&mutex).await;
    proxy.set_traffic(Traffic::black_hole());
    // Held, but not worth a grant.
    sleep(ms(2500)).await;
    drop(guard);
    sleep(A_MOMENT).await;
    proxy.set_traffic(Traffic::pass());
    proxy.cut();
    granted(next).await.release().await.unwrap();
    granted(last).await.release().await.unwrap();
}
