//! Where threads may block, and with whom they share a client.

use super::*;

/// Something that blocks, and what comes of it.
fn asks(mutex: &InterProcessMutex) -> bool {
    match mutex.try_acquire_for(BOUND) {
        Ok(guard) => {
            guard.unwrap().release().unwrap();
            true
        }
        Err(Error::WithinRuntime) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Asks when it is dropped.
struct AsksAtLast(InterProcessMutex, mpsc::Sender<bool>);

impl Drop for AsksAtLast {
    fn drop(&mut self) {
        self.1.send(asks(&self.0)).unwrap();
    }
}

#[test]
fn a_thread_of_a_runtime_is_not_blocked() {
    let (_, client) = sandbox_with_client();
    let mutex = lock(&client);
    let (workers, caller) = (workers(), caller());
    let own = || mutex.clone();
    for runtime in [&workers, &caller] {
        let (in_future, in_task) = (own(), own());
        let refused = runtime.block_on(async move {
            let task = tokio::spawn(async move {
                let before = asks(&in_task);
                tokio::task::yield_now().await;
                before || asks(&in_task)
            });
            asks(&in_future) || task.await.unwrap()
        });
        assert!(!refused);
        let (dropped, drops) = mpsc::channel();
        let at_last = AsksAtLast(own(), dropped);
        runtime.block_on(async move {
            let task = tokio::spawn(async move {
                let _at_last = at_last;
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
            task.abort();
            task.await.unwrap_err()
        });
        assert!(!drops.recv().unwrap(), "in a drop");
    }
    let local = LocalSet::new();
    let in_local = own();
    assert!(!local.block_on(&caller, async move {
        tokio::task::spawn_local(async move { asks(&in_local) }).await.unwrap()
    }));
    let in_local = own();
    assert!(!workers.block_on(async move {
        let local = LocalSet::new();
        local.run_until(async move { asks(&in_local) }).await
    }));
    // As has a task that has done a lot already.
    let busy = own();
    assert!(!caller.block_on(async move {
        for _ in 0..100 {
            tokio::task::coop::consume_budget().await;
        }
        asks(&busy)
    }));
    // What is refused has no effect.
    caller.block_on(async {
        assert_eq!(client.close(), Err(Error::WithinRuntime));
        assert!(!client.is_closed());
        let guard = LockGuard::from(mutex.as_async().acquire().await.unwrap());
        assert_eq!(guard.release(), Err(Error::WithinRuntime));
        eventually("released in the background", async || {
            (!mutex.as_async().is_locked().await.unwrap()).then_some(())
        })
        .await;
        assert!(matches!(Client::connect(&servers()), Err(Error::WithinRuntime)));
    });
}

#[test]
fn a_thread_that_may_block_is_let() {
    let (_, client) = sandbox_with_client();
    let mutex = lock(&client);
    let (workers, caller) = (workers(), caller());
    let own = || mutex.clone();
    assert!(asks(&mutex), "on the test's thread");
    for runtime in [&workers, &caller] {
        let mutex = own();
        assert!(runtime.block_on(async move { spawn_blocking(move || asks(&mutex)).await.unwrap() }));
    }
    let in_place = own();
    assert!(workers.block_on(async move {
        tokio::spawn(async move { block_in_place(|| asks(&in_place)) }).await.unwrap()
    }));
    assert!(asks(&mutex), "after block_on");
    let entered = caller.enter();
    assert!(asks(&mutex), "within the context");
    drop(entered);
    assert!(futures_executor::block_on(async { asks(&mutex) }), "another executor");
    // Here it cannot be told, and is no panic.
    assert!(caller.block_on(tokio::task::unconstrained(async { asks(&mutex) })));
}

#[test]
fn threads_and_tasks_share_a_client() {
    let sandbox = Sandbox::new();
    let workers = workers();
    let client = Client::from(workers.block_on(sandbox.client()));
    let mutex = lock(&client);
    let held = workers.block_on(mutex.as_async().owned_by(&Owner::new()).acquire()).unwrap();
    assert!(mutex.try_acquire().unwrap().is_none());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| mutex.acquire().unwrap());
        while mutex.participants().unwrap().len() < 2 {}
        workers.block_on(held.release()).unwrap();
        let guard = waiter.join().unwrap();
        // Here and there.
        workers.block_on(zk_recipes::LockGuard::from(guard).release()).unwrap();
    });
    // Between two `block_on`, and in one, the owner is the thread.
    let guard = mutex.acquire().unwrap();
    let again = workers.block_on(mutex.as_async().acquire()).unwrap();
    assert_eq!(guard.hold_count(), 2);
    drop((guard, again));
    client.close().unwrap();
    assert_eq!(mutex.acquire().unwrap_err(), Error::Closed);
}

#[test]
fn a_client_on_a_given_runtime_can_be_used_from_threads() {
    let sandbox = Sandbox::new();
    let workers = workers();
    let builder = sandbox.builder().runtime(workers.handle().clone());
    let client = builder.connect_blocking(&servers()).unwrap();
    let mutex = lock(&client);
    let held = mutex.acquire().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| assert!(is_in_vain(|| mutex.try_acquire_for(BRIEFLY))));
    });
    assert_eq!(held.lost_within(BRIEFLY).unwrap(), None);
    // Its end is no panic.
    workers.shutdown_background();
    assert!(held.lost_within(BOUND).unwrap().is_some());
    assert!(mutex.try_acquire_for(BRIEFLY).is_err());
    assert!(held.release().is_err());
}
