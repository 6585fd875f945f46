//! Locks whose node goes from one holder to the next of the same client: those that linger, and cohorts. In time and in
//! trouble they are in the simulation.

use crate::prelude::*;
use std::future::Future;
use std::pin::Pin;

const PATH: &str = "/locks/a";

/// Longer than any test.
const LONG: Duration = secs(600);

fn lingering(client: &Client) -> InterProcessMutex {
    mutex(client).with_options(LockOptions::new().linger(LONG)).unwrap()
}

/// A cohort that keeps others out for ever.
fn selfish(client: &Client) -> InterProcessMutex {
    let options = LockOptions::new().cohort(1_000_000).cohort_time(LONG);
    mutex(client).with_options(options).unwrap()
}

type Acquire = Pin<Box<dyn Future<Output = Result<LockGuard>> + Send>>;

/// An acquire of an owner of its own that stands in line.
fn in_line(mutex: &InterProcessMutex) -> Acquire {
    let mutex = mutex.owned_by(&Owner::new());
    let mut acquire: Acquire = Box::pin(async move { mutex.acquire().await });
    assert!(poll_once(&mut acquire).is_pending());
    acquire
}

/// Acquires and releases. Returns the node, which stays.
async fn leave_a_node(mutex: &InterProcessMutex) -> String {
    let guard = mutex.acquire().await.unwrap();
    let node = guard.node_path().to_owned();
    guard.release().await.unwrap();
    // Awaits the list.
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(guard.node_path(), node, "it has not stayed");
    guard.release().await.unwrap();
    node
}

#[tokio::test]
async fn a_node_that_lingers_is_shown_and_taken_by_any_owner_and_any_lock_object() {
    let (sandbox, [client, other]) = sandbox_with_clients().await;
    let (one, another) = (lingering(&client), lingering(&client).owned_by(&Owner::new()));
    let node = leave_a_node(&one).await;
    let shown = one.holder().await.unwrap().unwrap();
    assert_eq!((shown.node_path(), shown.is_holder(), shown.is_lingering()), (&*node, true, true));
    // An object with other options shows it, another client cannot know.
    assert!(mutex(&client).participants().await.unwrap()[0].is_lingering());
    let theirs = mutex(&other).holder().await.unwrap().unwrap();
    assert!(theirs.is_holder() && !theirs.is_lingering());
    let guard = within(acquire_in_task(&another)).await.unwrap().unwrap();
    assert_eq!(guard.node_path(), node);
    assert!(!one.holder().await.unwrap().unwrap().is_lingering());
    let again = another.acquire().await.unwrap();
    assert_eq!((again.hold_count(), again.turn(), again.node_path()), (2, guard.turn(), &*node));
    drop(guard);
    assert!(another.is_acquired_in_this_process());
    again.release().await.unwrap();
    assert!(!another.is_acquired_in_this_process() && another.is_locked().await.unwrap());
    // While it is held, others wait for it as ever.
    let guard = another.acquire().await.unwrap();
    assert_eq!(guard.node_path(), node);
    assert!(one.try_acquire().await.unwrap().is_none());
    drop((guard, one, another));
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn a_loop_without_a_pause_lets_others_in() {
    let (server, _, [other]) = server_with_clients().await;
    // On the runtime of the loop, the client would starve if the loop never let it run.
    for client in [connect(&server).await, connect_here(&server).await] {
        let lock = lingering(&client);
        leave_a_node(&lock).await;
        let cycles = async {
            for _ in 0..10_000 {
                visit(&lock, 1).await;
            }
        };
        assert_eq!(poll_times(cycles, 1).await, None, "it does not use up the budget of its task");
        let stranger = mutex(&other);
        let stranger = tokio::spawn(async move { visit(&stranger, 1).await });
        let start = Instant::now();
        while !stranger.is_finished() {
            visit(&lock, 1).await;
            assert!(start.elapsed() < BOUND, "the stranger waits");
        }
        client.close().await;
    }
}

#[test]
fn threads_form_a_cohort_or_have_a_lock_that_lingers() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(empty_server());
    let client = Client::builder().connect_blocking(&server.connect_string()).unwrap();
    for options in [LockOptions::new().cohort(10), LockOptions::new().linger(LONG)] {
        let mutex = zk_recipes::blocking::InterProcessMutex::new(&client, PATH).unwrap();
        let mutex = mutex.with_options(options).unwrap();
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (mutex, inside) = (&mutex, &inside);
                scope.spawn(move || {
                    for _ in 0..20 {
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
    client.close().unwrap();
}

/// "Within the client, it is first come, first served", also if the task of the first has used up its budget.
#[tokio::test]
async fn who_comes_first_is_first_even_without_a_budget() {
    let (_server, _, [client]) = server_with_clients().await;
    let mutex = selfish(&client);
    let guard = mutex.acquire().await.unwrap();
    let lines = tokio::spawn(async move {
        while poll_once(&mut Box::pin(tokio::task::coop::consume_budget())).is_ready() {}
        let first = in_line(&mutex);
        // On a thread of its own, afterwards.
        let second = std::thread::spawn(move || in_line(&mutex)).join().unwrap();
        (first, second)
    });
    let (mut first, mut second) = lines.await.unwrap();
    assert!(poll_once(&mut first).is_pending());
    guard.release().await.unwrap();
    within(async {
        tokio::select! {
            _ = &mut first => {}
            _ = &mut second => panic!("the second was served first"),
        }
    })
    .await;
}

#[tokio::test]
async fn the_runtime_of_the_next_in_line_ends() {
    let (_server, zookeeper, [client]) = server_with_clients_here().await;
    let mutex = selfish(&client);
    for _ in 0..repeats(20) {
        let guard = mutex.owned_by(&Owner::new()).acquire().await.unwrap();
        let inner = tokio::runtime::Runtime::new().unwrap();
        for _ in 0..10 {
            let mutex = mutex.owned_by(&Owner::new());
            inner.spawn(async move { mutex.acquire().await.unwrap().release().await });
        }
        let last = in_line(&mutex);
        sleep(ms(fastrand::u64(..3))).await;
        guard.release().await.unwrap();
        inner.shutdown_background();
        within(last).await.unwrap().release().await.unwrap();
        queue_of(&zookeeper, PATH, 0).await;
    }
}

/// In line, and where a node lingers.
#[test]
fn the_end_of_the_runtime_of_the_client_ends_it() {
    let around = tokio::runtime::Runtime::new().unwrap();
    let server = around.block_on(empty_server());
    let inner = tokio::runtime::Runtime::new().unwrap();
    let client = inner.block_on(connect_here(&server));
    let (cohort, lingers) = (selfish(&client), mutex_at(&client, "/locks/b"));
    let lingers = lingers.with_options(LockOptions::new().linger(LONG)).unwrap();
    inner.block_on(leave_a_node(&lingers));
    let guard = inner.block_on(cohort.acquire()).unwrap();
    let entered = around.enter();
    let waiting = tokio::spawn(in_line(&cohort));
    drop((entered, inner));
    let waited = around.block_on(within(waiting)).unwrap();
    assert!(waited.is_err(), "{waited:?}");
    for tries in [cohort.owned_by(&Owner::new()), lingers] {
        let tried = around.block_on(within(tries.try_acquire_for(ms(100))));
        assert!(tried.is_err(), "{tried:?}");
    }
    drop(guard);
}
