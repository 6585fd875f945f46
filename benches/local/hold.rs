//! Looking at a hold, entering it again, and letting go of it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use tokio::runtime::{Builder, Runtime};
use zk_recipes::testing::TestingServer;
use zk_recipes::{Client, InterProcessMutex, LockGuard, LockOptions, Owner, ReadWriteLock, blocking};

pub(crate) fn bench(criterion: &mut Criterion) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (server, client) = runtime.block_on(async {
        let server = TestingServer::start().await.expect("a ZooKeeper server");
        let client = Client::connect(&server.connect_string()).await.expect("a session");
        (server, client)
    });
    look(criterion, &runtime, &client);
    enter_again(criterion, &runtime, &client);
    let blocking = blocking::Client::connect(&server.connect_string()).expect("a session");
    enter_blocking(criterion, &runtime, &blocking);
    linger(criterion, &runtime, &client);
    cohort(criterion, &runtime, &client, "in 64 tasks");
    let one_thread = Builder::new_current_thread().enable_all().build().expect("a runtime");
    cohort(criterion, &one_thread, &client, "in 64 tasks of one thread");
    let_go(criterion, &runtime, &client);
    runtime.block_on(client.close());
}

fn look(criterion: &mut Criterion, runtime: &Runtime, client: &Client) {
    let guard = runtime.block_on(hold(client, "/look"));
    let mut group = criterion.benchmark_group("look");
    group.bench_function("is_valid", |bencher| bencher.iter(|| assert!(guard.is_valid())));
    group.bench_function("valid_until", |bencher| bencher.iter(|| guard.valid_until()));
    // For comparison: it takes a look at the clock to tell the truth.
    group.bench_function("the clock alone", |bencher| bencher.iter(tokio::time::Instant::now));
    group.finish();
}

fn enter_again(criterion: &mut Criterion, runtime: &Runtime, client: &Client) {
    let mut group = criterion.benchmark_group("enter again");
    group.bench_function("acquire, release: in a task", |bencher| {
        let mutex = mutex(client, "/again/task");
        bencher.iter_custom(|rounds| {
            let mutex = mutex.clone();
            let task = runtime.spawn(async move { acquire_again(&mutex, rounds).await });
            runtime.block_on(task).expect("no panic")
        });
    });
    group.bench_function("acquire, release: in block_on", |bencher| {
        let mutex = mutex(client, "/again/thread");
        bencher.iter_custom(|rounds| runtime.block_on(acquire_again(&mutex, rounds)));
    });
    group.bench_function("acquire for an owner, release", |bencher| {
        let mutex = mutex(client, "/again/owner");
        let owner = Owner::new();
        bencher.iter_custom(|rounds| {
            runtime.block_on(async {
                let first = mutex.owned_by(&owner).acquire().await.expect("nobody else is there");
                let start = Instant::now();
                for _ in 0..rounds {
                    let again = black_box(&mutex).owned_by(&owner).acquire().await.expect("it is held");
                    again.release().await.expect("it is held");
                }
                let elapsed = start.elapsed();
                first.release().await.expect("it is held");
                elapsed
            })
        });
    });
    group.bench_function("acquire, drop: a reader in block_on", |bencher| {
        let lock = ReadWriteLock::new(client, "/again/reader").expect("a good path");
        bencher.iter_custom(|rounds| {
            runtime.block_on(async {
                let reader = lock.read();
                let _first = reader.acquire().await.expect("nobody writes");
                let start = Instant::now();
                for _ in 0..rounds {
                    drop(black_box(&reader).acquire().await.expect("it is held"));
                }
                start.elapsed()
            })
        });
    });
    group.finish();
}

/// Where a blocking call has to check whether its thread runs tasks, and where it need not.
fn enter_blocking(criterion: &mut Criterion, runtime: &Runtime, client: &blocking::Client) {
    let mut group = criterion.benchmark_group("enter again");
    for (name, in_runtime) in [("on a thread", false), ("in spawn_blocking", true)] {
        group.bench_function(format!("blocking acquire, release: {name}"), |bencher| {
            let mutex = blocking::InterProcessMutex::new(client, "/again/blocking").expect("a good path");
            bencher.iter_custom(|rounds| {
                let mutex = mutex.clone();
                let again = move || {
                    let first = mutex.acquire().expect("nobody else is there");
                    let start = Instant::now();
                    for _ in 0..rounds {
                        black_box(&mutex).acquire().expect("it is held").release().expect("it is held");
                    }
                    let elapsed = start.elapsed();
                    first.release().expect("it is held");
                    elapsed
                };
                if in_runtime {
                    runtime.block_on(runtime.spawn_blocking(again)).expect("no panic")
                } else {
                    std::thread::spawn(again).join().expect("no panic")
                }
            });
        });
    }
    group.finish();
}

/// The time of that many rounds for the owner that runs this.
async fn acquire_again(mutex: &InterProcessMutex, rounds: u64) -> Duration {
    let first = mutex.acquire().await.expect("nobody else is there");
    let start = Instant::now();
    for _ in 0..rounds {
        let again = black_box(mutex).acquire().await.expect("it is held");
        again.release().await.expect("it is held");
    }
    let elapsed = start.elapsed();
    first.release().await.expect("it is held");
    elapsed
}

/// By a node that stays.
fn linger(criterion: &mut Criterion, runtime: &Runtime, client: &Client) {
    criterion.bench_function("linger/acquire, release: in a task", |bencher| {
        let options = LockOptions::new().linger(Duration::from_secs(60));
        let mutex = mutex(client, "/linger").with_options(options).expect("good options");
        bencher.iter_custom(|rounds| {
            let mutex = mutex.clone();
            let task = runtime.spawn(async move {
                let start = Instant::now();
                for _ in 0..rounds {
                    let guard = black_box(&mutex).acquire().await.expect("nobody else is there");
                    guard.release().await.expect("it is held");
                }
                start.elapsed()
            });
            runtime.block_on(task).expect("no panic")
        });
    });
}

/// By a node that is handed on, from one of 64 tasks to the next.
fn cohort(criterion: &mut Criterion, runtime: &Runtime, client: &Client, whose: &str) {
    criterion.bench_function(&format!("cohort/acquire, release: {whose}"), |bencher| {
        let options = LockOptions::new().cohort(1_000_000);
        let mutex = mutex(client, "/cohort").with_options(options).expect("good options");
        bencher.iter_custom(|rounds| {
            let round = || {
                let mutex = mutex.clone();
                async move {
                    for _ in 0..rounds.div_ceil(64) {
                        let guard = mutex.acquire().await.expect("no outage");
                        guard.release().await.expect("it is held");
                    }
                }
            };
            let start = Instant::now();
            let tasks: Vec<_> = (0..64).map(|_| runtime.spawn(round())).collect();
            for task in tasks {
                runtime.block_on(task).expect("no panic");
            }
            start.elapsed()
        });
    });
}

/// What the caller pays for the last guard: the delete is sent, and its answer is waited for by others.
///
/// Each one needs a hold of its own, which takes a round trip that is not counted. So they are few, and what wakes the
/// session's task is counted with the sleep that it finds it in: it is what a caller pays who drops a guard now and
/// then, not in a row.
fn let_go(criterion: &mut Criterion, runtime: &Runtime, client: &Client) {
    criterion.bench_function("let go/drop the last guard", |bencher| {
        let mutex = mutex(client, "/let-go");
        bencher.iter_custom(|rounds| {
            runtime.block_on(async {
                let mut paid = Duration::ZERO;
                for _ in 0..rounds {
                    let guard = mutex.acquire().await.expect("nobody else is there");
                    let start = Instant::now();
                    drop(guard);
                    paid += start.elapsed();
                }
                paid
            })
        });
    });
}

async fn hold(client: &Client, path: &str) -> LockGuard {
    mutex(client, path).acquire().await.expect("nobody else is there")
}

fn mutex(client: &Client, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path).expect("a good path")
}
