//! Cohorts in trouble: nodes that are deleted, callers that vanish or are not polled.

use crate::prelude::*;
use std::task::Poll;

use crate::locks::cohort::{PATH, alone, in_line, is_up_to_date, plain, selfish};

fn with(client: &Client, options: LockOptions) -> InterProcessMutex {
    mutex(client).with_options(options).unwrap()
}

/// The node was deleted long ago, as the client has been told by the watch on the children; a stranger holds. A new grant
/// is by a node that is known to exist, so that the stranger can have the lock only if a node is deleted afterwards.
#[tokio::test]
async fn a_node_that_is_gone_is_not_handed_on() {
    let (server, zookeeper, [client, other]) = server_with_clients_here().await;
    let mutex = selfish(&client);
    for _ in 0..10 {
        let guard = alone(&server, &client, &mutex).await;
        let line = [in_line(&mutex), in_line(&mutex)];
        zookeeper.delete(guard.node_path(), None).await.unwrap();
        let stranger = within(plain(&other).acquire()).await.unwrap();
        is_up_to_date(&client).await;
        let released = guard.release().await;
        for mut next in line {
            let Poll::Ready(next) = poll_once(&mut next) else { break };
            let next = next.unwrap();
            assert!(!(next.is_valid() && stranger.is_valid()), "two hold; the release said {released:?}");
            next.release().await.ok();
        }
        drop(stranger);
        queue_of(&zookeeper, PATH, 0).await;
    }
}

/// All lock objects are dropped, and the client is closed, while no one in line is polled: behind a hold that is released,
/// dropped or kept, or behind a stranger's.
#[tokio::test]
async fn closing_while_the_next_is_not_polled() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let other = connect(&server).await;
    for number in 0..8 {
        let client = connect_here(&server).await;
        let mutex = selfish(&client);
        let is_foreign = number % 4 == 3;
        let guard = match is_foreign {
            true => plain(&other).acquire().await.unwrap(),
            false => alone(&server, &client, &mutex).await,
        };
        let line: Vec<_> = (0..100).map(|_| in_line(&mutex)).collect();
        let mut kept = None;
        match number % 4 {
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
        queue_of(&zookeeper, PATH, 0).await;
    }
}

/// The runtime of the next in line ends.
#[tokio::test]
async fn the_runtime_of_the_next_in_line_ends() {
    let (server, zookeeper, [client]) = server_with_clients_here().await;
    let mutex = selfish(&client);
    for _ in 0..20 {
        let guard = alone(&server, &client, &mutex).await;
        let inner =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
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

/// The pair of token and turn grows with every grant, also if an operator has freed the lock in between.
#[tokio::test]
async fn tokens_and_turns_grow_after_a_forced_release() {
    let (server, _, [client, other, operator]) = server_with_clients_here().await;
    let mutex = selfish(&client);
    for _ in 0..10 {
        let guard = alone(&server, &client, &mutex).await;
        let next = in_line(&mutex);
        operate::force_release(&operator, PATH).await.unwrap();
        let stranger = within(plain(&other).acquire()).await.unwrap();
        let between = (stranger.fencing_token(), stranger.turn());
        // The stranger's hold is over, and the client has been told of everything.
        stranger.release().await.unwrap();
        is_up_to_date(&client).await;
        drop(guard);
        let next = within(next).await.unwrap();
        assert!((next.fencing_token(), next.turn()) >= between, "a later grant with a smaller pair");
    }
}

/// A guard whose node was deleted, as the client has been told, is not released as if nothing had happened.
#[tokio::test]
async fn a_release_tells_of_a_deleted_node_as_without_a_cohort() {
    let (server, zookeeper, [client]) = server_with_clients_here().await;
    let guard = plain(&client).acquire().await.unwrap();
    zookeeper.delete(guard.node_path(), None).await.unwrap();
    let plain = guard.release().await;
    let mutex = selfish(&client);
    let guard = alone(&server, &client, &mutex).await;
    zookeeper.delete(guard.node_path(), None).await.unwrap();
    is_up_to_date(&client).await;
    let next = in_line(&mutex);
    let cohort = guard.release().await;
    drop(next);
    assert!(plain.is_ok() || cohort.is_err(), "plain: {plain:?}, cohort: {cohort:?}");
}

/// Behind strangers whose nodes may not be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn behind_strangers_that_may_not_be_read() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let private = async |who| private(builder(), who).connect(&server.connect_string()).await.unwrap();
    let (one, two) = (private("one").await, private("two").await);
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    let comer = connect(&server).await;
    for number in 0..20 {
        let a = with(&one, LockOptions::new().cohort(3)).acquire().await.unwrap();
        let b = plain(&two).enqueue().await.unwrap();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let mutex = with(&client, LockOptions::new().cohort(3));
                tokio::spawn(async move { mutex.acquire().await.unwrap().release().await })
            })
            .collect();
        queue_of(&zookeeper, PATH, 3).await;
        let come = plain(&comer).enqueue().await.unwrap();
        drop(come);
        let next = with(&one, LockOptions::new().cohort(3));
        let next = tokio::spawn(async move { next.acquire().await.unwrap().release().await });
        if number % 2 == 0 {
            proxy.cut();
        }
        a.release().await.unwrap();
        within(b.acquired()).await.unwrap().release().await.unwrap();
        for waiter in waiters {
            within(waiter).await.unwrap().unwrap();
        }
        within(next).await.unwrap().unwrap();
        queue_of(&zookeeper, PATH, 0).await;
    }
    client.close().await;
}

/// "Within the client, it is first come, first served", also if the task of the first has used up its budget.
#[tokio::test]
async fn who_comes_first_is_first_even_without_a_budget() {
    let (_server, _, [client]) = server_with_clients().await;
    let mutex = selfish(&client);
    let guard = mutex.acquire().await.unwrap();
    let (mut first, second) = {
        let mutex = mutex.clone();
        tokio::spawn(async move {
            while poll_once(&mut Box::pin(tokio::task::coop::consume_budget())).is_ready() {}
            let first = in_line(&mutex);
            // On a thread of its own, afterwards.
            let second = std::thread::spawn(move || in_line(&mutex)).join().unwrap();
            (first, second)
        })
        .await
        .unwrap()
    };
    let mut second = second;
    assert!(poll_once(&mut first).is_pending());
    guard.release().await.unwrap();
    let (got, is_first) = within(async {
        tokio::select! {
            got = &mut first => (got, true),
            got = &mut second => (got, false),
        }
    })
    .await;
    drop(got);
    assert!(is_first, "the second was served first");
}
