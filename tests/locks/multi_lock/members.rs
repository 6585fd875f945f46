//! Multi-locks of locks of all kinds, and of locks that are lost.

use super::*;

#[tokio::test]
async fn a_member_that_is_lost_while_waiting_for_a_later_one_is_acquired_again() {
    let (server, zookeeper, [own, holder, next]) = server_with_clients().await;
    let given = MultiLock::of(mutexes(&own)).unwrap();
    for (lock, is_killed) in
        [(multi(&own), false), (multi(&own), true), (given.clone(), false), (given, true)]
    {
        let held = mutex_at(&holder, B).acquire().await.unwrap();
        let waiter = acquiring(&lock);
        watches_of(&server, 1).await;
        queues_of(&zookeeper, [1, 2, 0]).await;
        let lost = format!("{A}/{}", children(&zookeeper, A).await[0]);
        let next = acquire_in_task(&mutex_at(&next, A));
        watches_of(&server, 2).await;
        if is_killed {
            kill_session(&own).await.unwrap();
        } else {
            zookeeper.delete(&lost, None).await.unwrap();
        }
        let next = within(next).await.unwrap().unwrap();
        held.release().await.unwrap();
        // Now it could have the others. It waits for what it has lost, and keeps none of them.
        queues_of(&zookeeper, [2, 0, 0]).await;
        watches_of(&server, 1).await;
        assert!(!waiter.is_finished());
        let token = next.fencing_token();
        next.release().await.unwrap();
        let guard = within(waiter).await.unwrap().unwrap();
        assert_holds(&zookeeper, &guard).await;
        assert!(guard.members()[0].fencing_token() > token);
        guard.release().await.unwrap();
        assert_eq!(lengths_of_queues(&zookeeper).await, [0; 3]);
    }
    watches_of(&server, 0).await;
}

/// While it waits; and one of those to be given back is lost, of which nothing was heard before.
#[tokio::test]
async fn locks_of_all_kinds_are_given_back_when_one_fails() {
    let (server, zookeeper, [other]) = server_with_clients().await;
    for is_timed in [false, true] {
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let own = [connect_through(&proxy).await, connect(&server).await, connect(&server).await];
        let lock = MultiLock::of(mixed(&own)).unwrap();
        let held = SemaphoreMutex::new(&other, C).unwrap().acquire().await.unwrap();
        let waiting = lock.clone();
        let waiter = tokio::spawn(async move {
            if is_timed { waiting.try_acquire_for(LONG).await } else { waiting.acquire().await.map(Some) }
        });
        watches_of(&server, 1).await;
        let lost = format!("{A}/{}", children(&zookeeper, A).await[0]);
        proxy.set_traffic(Traffic::black_hole_to_client());
        proxy.take_requests();
        zookeeper.delete(&lost, None).await.unwrap();
        own[2].close().await;
        until("it gives the first one back", || proxy.take_requests().contains(&Request::Delete)).await;
        proxy.set_traffic(Traffic::pass());
        let lost = Error::LockLost { path: lost, reason: LossReason::Deleted };
        let several = Error::Several { first: Box::new(Error::Closed), others: vec![lost] };
        assert_eq!(within(waiter).await.unwrap().unwrap_err(), several);
        only_left(&zookeeper, &[held.node_path()]).await;
        held.release().await.unwrap();
    }
    watches_of(&server, 0).await;
}

/// A multi-lock of locks that are lost as soon as they are acquired.
fn lost_at_once(client: &Client) -> MultiLock {
    let options = LockOptions::new().max_hold(Duration::from_micros(1));
    let locks =
        [A, B].map(|path| Arc::new(mutex_at(client, path).with_options(options.clone()).unwrap()) as _);
    MultiLock::of(locks).unwrap()
}

/// To acquire again what is lost at once would be a storm, and never end.
#[tokio::test]
async fn locks_that_are_lost_at_once_fail_the_acquire() {
    let (server, _, [client]) = server_with_clients().await;
    let lock = lost_at_once(&client);
    let second = secs(1);
    let outcomes = [
        within(lock.acquire()).await.map(Some),
        within(lock.try_acquire()).await,
        within(lock.try_acquire_for(second)).await,
    ];
    for outcome in outcomes {
        assert!(matches!(outcome, Err(Error::LockLost { reason: LossReason::Deadline, .. })), "{outcome:?}");
    }
    queue_of(&bystander(&server).await, A, 0).await;
}

#[tokio::test]
async fn the_watched_state_of_existing_locks_outlives_the_runtime_of_one_of_them() {
    let server = empty_server().await;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let clients = [builder().runtime(runtime.handle().clone()), builder()];
    let [first, second] = clients.map(|builder| builder.connect_lazily(&server.connect_string()).unwrap());
    let locks = [mutex_at(&first, A), mutex_at(&second, B)];
    let guard = MultiLock::of(locks.map(|lock| Arc::new(lock) as _)).unwrap().acquire().await.unwrap();
    let mut state = guard.watch_state();
    runtime.shutdown_background();
    let lost = within(state.wait_for(|state| state.is_lost())).await;
    assert_eq!(lost, Some(LockState::Lost(LossReason::Closed)));
}
