//! Barriers.

use crate::interop::prelude::*;

pub(crate) async fn barriers_hold_back_both(generation: Generation) {
    const PATH: &str = "/barriers/b";
    let stage = Stage::set(generation).await;
    let (java, client) = (stage.curator("java").await, stage.client("rust").await);
    let mut theirs = java.open("setter", &format!("barrier {PATH}")).await;
    let mut waiter = java.open("waiter", &format!("barrier {PATH}")).await;
    let ours = Barrier::new(&client, PATH).unwrap();

    theirs.call("act close").await;
    assert!(within(ours.is_set()).await.unwrap());
    let waiting = tokio::spawn({
        let ours = ours.clone();
        async move { ours.wait().await }
    });
    theirs.assert_waiting().await;
    assert!(!waiting.is_finished());
    theirs.call("act open").await;
    within(waiting).await.unwrap().unwrap();

    within(ours.set()).await.unwrap();
    waiter.send("acquire");
    waiter.assert_waiting().await;
    within(ours.remove()).await.unwrap();
    waiter.answer().await;
    queue_of(&stage.zookeeper, "/barriers", 0).await;
}

pub(crate) async fn double_barriers_are_entered_and_left_together(generation: Generation) {
    const PATH: &str = "/barriers/d";
    let stage = Stage::set(generation).await;
    let (java, client) = (stage.curator("java").await, stage.client("rust").await);
    let ours = DoubleBarrier::new(&client, PATH, 3).unwrap();
    // Whoever comes last, of either library, lets the others in.
    for round in 0..2 {
        let mut first =
            java.open(&format!("first{round}"), &format!("double_barrier {PATH} members=3")).await;
        let mut second =
            java.open(&format!("second{round}"), &format!("double_barrier {PATH} members=3")).await;
        let enter = || {
            let ours = ours.clone();
            tokio::spawn(async move { ours.enter().await })
        };
        first.send("acquire");
        queue_of(&stage.zookeeper, PATH, 1).await;
        let entered = match round {
            0 => {
                second.send("acquire");
                queue_of(&stage.zookeeper, PATH, 2).await;
                first.assert_waiting().await;
                enter()
            }
            _ => {
                let entering = enter();
                queue_of(&stage.zookeeper, PATH, 2).await;
                first.assert_waiting().await;
                assert!(!entering.is_finished());
                second.send("acquire");
                entering
            }
        };
        let entered = within(entered).await.unwrap().unwrap();
        first.answer().await;
        second.answer().await;

        // All three want to leave before any of them has left.
        first.send("release");
        let leaving = match round {
            0 => {
                first.assert_waiting().await;
                let leaving = tokio::spawn(entered.leave());
                first.assert_waiting().await;
                assert!(!leaving.is_finished());
                second.send("release");
                leaving
            }
            _ => {
                second.send("release");
                first.assert_waiting().await;
                tokio::spawn(entered.leave())
            }
        };
        within(leaving).await.unwrap().unwrap();
        first.answer().await;
        second.answer().await;
        queue_of(&stage.zookeeper, PATH, 0).await;
    }
}
