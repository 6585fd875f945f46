//! Cohorts: tasks of one client that hand a node on among themselves.

mod ends;

use crate::prelude::*;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;

use crate::locks::linger::others_with;

pub(crate) const PATH: &str = "/locks/a";

/// Longer than any test.
const LONG: Duration = secs(600);

/// More often than in any test.
const OFTEN: u32 = 1_000_000;

fn cohort(client: &Client, hand_ons: u32, time: Duration) -> InterProcessMutex {
    mutex(client).with_options(LockOptions::new().cohort(hand_ons).cohort_time(time)).unwrap()
}

/// A cohort that keeps others out for ever.
pub(crate) fn selfish(client: &Client) -> InterProcessMutex {
    cohort(client, OFTEN, LONG)
}

pub(crate) type Acquire = Pin<Box<dyn Future<Output = Result<LockGuard>> + Send>>;

/// An acquire of an owner of its own that stands in line.
pub(crate) fn in_line(mutex: &InterProcessMutex) -> Acquire {
    let mutex = mutex.owned_by(&Owner::new());
    let mut acquire: Acquire = Box::pin(async move { mutex.acquire().await });
    assert!(poll_once(&mut acquire).is_pending());
    acquire
}

/// Who was granted the lock, in this order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Acquires in a task, takes note, and releases.
    fn visit(&self, who: impl ToString, acquire: Acquire) -> JoinHandle<String> {
        let (log, who) = (self.clone(), who.to_string());
        tokio::spawn(async move {
            let guard = acquire.await.unwrap();
            let node = guard.node_path().to_owned();
            log.0.lock().unwrap().push(who);
            tokio::task::yield_now().await;
            guard.release().await.unwrap();
            node
        })
    }

    fn visits(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn stranger(mutex: &InterProcessMutex) -> Acquire {
    let mutex = mutex.clone();
    Box::pin(async move { mutex.acquire().await })
}

/// Waits until the client, which is on this runtime, has heeded what has happened in the queue so far.
pub(crate) async fn is_up_to_date(client: &Client) {
    // In the session's order, events and earlier answers come before this answer.
    client.zookeeper().await.unwrap().sync(PATH).await.unwrap();
    // Whoever was told of them is polled before this goes on.
    tokio::task::yield_now().await;
}

/// Acquires, and waits until the client knows that no one else is in the queue.
pub(crate) async fn alone(server: &Server, client: &Client, mutex: &InterProcessMutex) -> LockGuard {
    let guard = mutex.owned_by(&Owner::new()).acquire().await.unwrap();
    // That of an earlier node would have fired.
    eventually("its watch", || async { (watches_on_children(server).await > 0).then_some(()) }).await;
    is_up_to_date(client).await;
    guard
}

pub(crate) async fn all_end<T>(tasks: impl IntoIterator<Item = JoinHandle<T>>) {
    for task in tasks {
        within(task).await.unwrap();
    }
}

fn names(prefix: &str, numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("{prefix}{number}")).collect()
}

/// Each that has its turn again stands at the end of the line.
#[tokio::test]
async fn all_are_served_in_order_by_one_node_and_those_who_come_again_are_last() {
    let (_server, zookeeper, [client]) = server_with_clients().await;
    let mutex = selfish(&client);
    let served: Arc<Mutex<Vec<usize>>> = Arc::default();
    let guard = mutex.acquire().await.unwrap();
    let node = guard.node_path().to_owned();
    let first: Vec<_> = (0..8).map(|number| (number, in_line(&mutex))).collect();
    let tasks = first.into_iter().map(|(number, acquire)| {
        let (mutex, served, node) = (mutex.clone(), served.clone(), node.clone());
        tokio::spawn(async move {
            let mut guard = acquire.await.unwrap();
            for _ in 0..100 {
                assert_eq!(guard.node_path(), node);
                served.lock().unwrap().push(number);
                // The owner of the first guard is another one.
                let next = in_line(&mutex);
                guard.release().await.unwrap();
                guard = next.await.unwrap();
            }
            guard.release().await.unwrap();
        })
    });
    let tasks: Vec<_> = tasks.collect();
    guard.release().await.unwrap();
    all_end(tasks).await;
    let in_turn: Vec<usize> = (0..100).flat_map(|_| 0..8).collect();
    assert_eq!(*served.lock().unwrap(), in_turn);
    // No one is in line any more.
    queue_of(&zookeeper, PATH, 0).await;
}

/// The same lock without a cohort.
pub(crate) fn plain(client: &Client) -> InterProcessMutex {
    mutex(client)
}

#[tokio::test]
async fn one_of_the_line_is_in_the_queue() {
    let (_server, zookeeper, [client, other]) = server_with_clients().await;
    let guard = plain(&other).acquire().await.unwrap();
    let mutex = selfish(&client);
    let mut tasks: Vec<_> = (0..10).map(|_| acquire_in_task(&mutex)).collect();
    queue_of(&zookeeper, PATH, 2).await;
    // The next one takes the place of one that gives up.
    for _ in 0..5 {
        let first = tasks.remove(0);
        first.abort();
        assert!(within(first).await.unwrap_err().is_cancelled());
        queue_of(&zookeeper, PATH, 2).await;
    }
    guard.release().await.unwrap();
    for task in tasks {
        within(task).await.unwrap().unwrap().release().await.unwrap();
    }
    queue_of(&zookeeper, PATH, 0).await;
}

#[tokio::test]
async fn a_request_to_give_it_back_ends_the_handing_on() {
    let (server, zookeeper, [client, operator]) = server_with_clients_here().await;
    let mutex = selfish(&client);
    for is_held in [true, false] {
        let log = Log::default();
        let guard = alone(&server, &client, &mutex).await;
        let node = guard.node_path().to_owned();
        let mut next = in_line(&mutex);
        let guard = if is_held {
            operate::ask(&operator, PATH).await.unwrap();
            within(guard.revoke_requested()).await.unwrap();
            guard.release().await.unwrap();
            next
        } else {
            guard.release().await.unwrap();
            operate::ask(&operator, PATH).await.unwrap();
            // Although no one polls the next one.
            queue_of(&zookeeper, PATH, 0).await;
            assert!(poll_once(&mut next).is_pending());
            next
        };
        assert_ne!(within(log.visit("next", guard)).await.unwrap(), node);
    }
}

#[tokio::test]
async fn an_owner_does_not_wait_for_itself() {
    let (_server, _, [client, other]) = server_with_clients().await;
    let mutex = selfish(&client).owned_by(&Owner::new());
    // The lock is held in the same client, by a stranger, or by no one.
    for before in [Some(selfish(&client)), Some(plain(&other)), None] {
        let before = match before {
            Some(mutex) => Some(mutex.acquire().await.unwrap()),
            None => None,
        };
        let mut calls: Vec<_> = (0..3)
            .map(|_| {
                let mutex = mutex.clone();
                Box::pin(async move { mutex.acquire().await })
            })
            .collect();
        for call in &mut calls {
            assert!(poll_once(call).is_pending());
        }
        // The second one is polled again only when the others hold.
        let second = calls.remove(1);
        drop(before);
        let guards: Vec<_> = within(join_all(calls)).await.into_iter().map(|guard| guard.unwrap()).collect();
        let second = within(second).await.unwrap();
        assert_eq!(second.node_path(), guards[0].node_path());
        assert_eq!(second.hold_count(), 3);
        drop(guards);
        second.release().await.unwrap();
    }
}

#[tokio::test]
async fn an_owner_that_would_wait_for_itself_is_told() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let owner = Owner::new();
    let guard = plain(&client).owned_by(&owner).acquire().await.unwrap();
    let mutex = selfish(&client).owned_by(&owner);
    assert_would_deadlock(&mutex, &sandbox.lock_path()).await;
    drop(guard);
    within(mutex.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn attempts_do_not_wait_in_line() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let here = Client::builder().runtime(tokio::runtime::Handle::current());
    let client = here.session_timeout(secs(60)).connect(&server.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    let other = connect(&server).await;
    let mutex = selfish(&client);
    let tries = mutex.owned_by(&Owner::new());
    let guard = alone(&server, &client, &mutex).await;
    let before = server.session_packets(session).await.unwrap();
    for _ in 0..100 {
        assert!(tries.try_acquire().await.unwrap().is_none());
    }
    let sent = server.session_packets(session).await.unwrap() - before;
    assert!(sent <= 1, "{sent} requests; at most a ping was due");

    // The next in line is not polled.
    let next = in_line(&mutex);
    guard.release().await.unwrap();
    for _ in 0..100 {
        assert!(within(tries.try_acquire()).await.unwrap().is_none());
    }
    drop(next);
    queue_of(&zookeeper, PATH, 0).await;
    within(tries.try_acquire()).await.unwrap().expect("it is free").release().await.unwrap();

    // The first in line is in the queue.
    let guard = plain(&other).acquire().await.unwrap();
    let first = acquire_in_task(&mutex);
    queue_of(&zookeeper, PATH, 2).await;
    assert!(within(tries.try_acquire()).await.unwrap().is_none());
    guard.release().await.unwrap();
    within(first).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_cohort_may_linger() {
    let (server, zookeeper, [client, other]) = server_with_clients_here().await;
    let options = LockOptions::new().cohort(3).cohort_time(LONG).linger(LONG);
    let mutex = mutex(&client).with_options(options).unwrap();
    let guard = alone(&server, &client, &mutex).await;
    let node = guard.node_path().to_owned();
    let log = Log::default();
    let tasks: Vec<_> = (0..20).map(|number| log.visit(number, in_line(&mutex))).collect();
    guard.release().await.unwrap();
    join_all(tasks).await;
    assert_eq!(log.visits(), names("", 0..20));
    // It stays for those who come later, also if the last in line gives up.
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(guard.node_path(), node);
    let gives_up = in_line(&mutex);
    guard.release().await.unwrap();
    drop(gives_up);
    let shown = mutex.holder().await.unwrap().unwrap();
    assert!(shown.node_path() == node && shown.is_lingering());
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(guard.node_path(), node);

    // Others end that.
    let stranger = log.visit("stranger", stranger(&plain(&other)));
    queue_of(&zookeeper, PATH, 2).await;
    is_up_to_date(&client).await;
    let last = log.visit("last", in_line(&mutex));
    guard.release().await.unwrap();
    within(last).await.unwrap();
    within(stranger).await.unwrap();
    assert_eq!(log.visits()[20..], ["last", "stranger"]);
    drop(mutex);
    queue_of(&zookeeper, PATH, 0).await;
}

/// Or have a lock that lingers.
#[test]
fn threads_form_a_cohort_as_well() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start()).unwrap();
    let client = Client::builder().connect_blocking(&server.connect_string()).unwrap();
    for options in [LockOptions::new().cohort(10), LockOptions::new().linger(LONG)] {
        let mutex = zk_recipes::blocking::InterProcessMutex::new(&client, PATH).unwrap();
        let mutex = mutex.with_options(options).unwrap();
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (mutex, inside) = (&mutex, &inside);
                scope.spawn(move || {
                    for _ in 0..100 {
                        let guard = mutex.acquire().unwrap();
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        if thread % 2 == 0 { guard.release().unwrap() } else { drop(guard) }
                    }
                });
            }
        });
    }
}

/// Those of another client, another lock object, or a ticket.
#[tokio::test]
async fn others_have_their_turn_after_so_many_holds() {
    let (server, zookeeper, [client, other]) = server_with_clients_here().await;
    for (hand_ons, from) in [(1, Some(&other)), (5, Some(&other)), (2, Some(&client)), (2, None)] {
        let mutex = cohort(&client, hand_ons, LONG);
        let log = Log::default();
        let guard = alone(&server, &client, &mutex).await;
        let beside = match from {
            Some(from) => log.visit("beside", stranger(&plain(from))),
            None => {
                let ticket = mutex.owned_by(&Owner::new()).enqueue().await.unwrap();
                log.visit("beside", Box::pin(ticket.acquired()))
            }
        };
        queue_of(&zookeeper, PATH, 2).await;
        is_up_to_date(&client).await;
        let tasks: Vec<_> = (0..10).map(|number| log.visit(number, in_line(&mutex))).collect();
        guard.release().await.unwrap();
        all_end(tasks.into_iter().chain([beside])).await;
        let mut expected = names("", 0..10);
        expected.insert(hand_ons as usize, "beside".to_owned());
        assert_eq!(log.visits(), expected);
        queue_of(&zookeeper, PATH, 0).await;
    }
}

#[tokio::test]
async fn a_ticket_that_is_granted_before_the_line_does_not_stop_it() {
    let (_server, zookeeper, [client]) = server_with_clients().await;
    let mutex = selfish(&client);
    let ticket = mutex.owned_by(&Owner::new()).enqueue().await.unwrap();
    let log = Log::default();
    // The first in line is behind the ticket in the queue.
    let tasks: Vec<_> = (0..3).map(|number| log.visit(number, in_line(&mutex))).collect();
    queue_of(&zookeeper, PATH, 2).await;
    let guard = within(ticket.acquired()).await.unwrap();
    guard.release().await.unwrap();
    all_end(tasks).await;
    assert_eq!(log.visits(), names("", 0..3));
    queue_of(&zookeeper, PATH, 0).await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let (_, [client]) = sandbox_with_clients().await;
    let options = || LockOptions::new().cohort(3);
    let zero = mutex(&client).with_options(LockOptions::new().cohort(0)).map(drop);
    let refused = others_with(&client, &options());
    for refused in refused.into_iter().chain([zero]) {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { argument: "cohort", .. }), "{error}");
    }
    let refused = [
        mutex(&client).with_options(options().cohort_time(Duration::ZERO)).map(drop),
        mutex(&client).with_options(LockOptions::new().cohort_time(LONG)).map(drop),
        ReadWriteLock::new(&client, PATH)
            .unwrap()
            .with_options(LockOptions::new().cohort_time(LONG))
            .map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { argument: "cohort_time", .. }), "{error}");
    }
}
