//! Cohorts in outages.

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;
use zk_recipes::testing::Traffic;
use zk_recipes::{
    InterProcessMutex, LockGuard, LockOptions, LossReason, Owner, Result, RetryPolicy, SuspectPolicy,
};
use zk_recipes_simulation::world::World;

use super::{A_MOMENT, Proxy, ends, play, poll_once, within};

const PATH: &str = "/locks/a";
const SESSION: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(600);

/// An acquire of an owner of its own that stands in line.
fn in_line(mutex: &InterProcessMutex) -> Pin<Box<dyn Future<Output = Result<LockGuard>>>> {
    let mutex = mutex.owned_by(&Owner::new());
    let mut acquire = Box::pin(async move { mutex.acquire().await });
    assert!(poll_once(&mut acquire).is_pending());
    acquire
}

/// A hold is given up as suspect while others are in line, and its guard is kept or not.
async fn is_suspect_while_handing_on(world: World, is_held: bool) {
    let proxy = Proxy::before(&world, 0).await;
    let client = proxy.client(&world, |builder| builder.session_timeout(SESSION)).await;
    let other = world.machines()[1].client().await;
    let options = LockOptions::new().cohort(u32::MAX).cohort_time(LONG).suspect_policy(SuspectPolicy::GiveUp);
    let mutex = InterProcessMutex::new(&client, PATH).unwrap().with_options(options).unwrap();
    let guard = mutex.owned_by(&Owner::new()).acquire().await.unwrap();
    let node = guard.node_path().to_owned();
    // It has listed the queue.
    sleep(A_MOMENT).await;
    let mut line: Vec<_> = (0..5).map(|_| in_line(&mutex)).collect();
    let stranger = InterProcessMutex::new(&other, PATH).unwrap();
    let stranger = world.machines()[1].spawn(async move { stranger.acquire().await });
    let guard = if is_held {
        Some(guard)
    } else {
        guard.release().await.unwrap();
        None
    };
    proxy.set_traffic(Traffic::black_hole());
    sleep(SESSION * 2 / 3 - A_MOMENT).await;
    match &guard {
        Some(guard) => assert_eq!(guard.loss(), Some(LossReason::Suspect)),
        None => assert!(poll_once(&mut line[0]).is_pending(), "granted while silent"),
    }
    proxy.set_traffic(Traffic::pass());
    let stranger = within(stranger).await.unwrap().unwrap().unwrap();
    assert!(stranger.is_valid());
    stranger.release().await.unwrap();
    for got in within(join_all(line.into_iter().map(async |acquire| {
        let got = acquire.await?;
        assert_ne!(got.node_path(), node);
        got.release().await
    })))
    .await
    {
        got.unwrap();
    }
    drop(guard);
    ends(&world, [client, other]).await;
}

#[test]
fn suspicion_while_handing_on() {
    play(|world| Box::pin(is_suspect_while_handing_on(world, true)));
    play(|world| Box::pin(is_suspect_while_handing_on(world, false)));
}

/// "No outage ends it while its session lives", says the retry policy of an acquire that waits in its queue.
async fn waits_through_an_outage(world: World, options: LockOptions) {
    let proxy = Proxy::before(&world, 0).await;
    let client = proxy.client(&world, |builder| {
        let builder = builder.session_timeout(3 * SESSION).drop_timeout(Duration::ZERO);
        builder.connection_timeout(SESSION / 10).retry_policy(RetryPolicy::n_times(0, Duration::ZERO))
    });
    let client = client.await;
    let mutex = InterProcessMutex::new(&client, PATH).unwrap().with_options(options).unwrap();
    let guard = mutex.acquire().await.unwrap();
    let waiting = in_line(&mutex);
    let waiting = world.machines()[0].spawn(waiting);
    sleep(A_MOMENT).await;
    proxy.refuse_connections(true);
    proxy.cut();
    sleep(SESSION).await;
    assert!(!waiting.is_finished());
    proxy.refuse_connections(false);
    let mut connection = client.watch_connection();
    within(connection.wait_for(|state| state.is_connected())).await.unwrap();
    assert!(guard.is_valid(), "the session has lived on");
    guard.release().await.unwrap();
    within(waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
    ends(&world, [client]).await;
}

#[test]
fn an_outage_ends_no_wait_in_line_while_the_session_lives() {
    play(|world| Box::pin(waits_through_an_outage(world, LockOptions::new())));
    play(|world| Box::pin(waits_through_an_outage(world, LockOptions::new().cohort(1_000))));
}
