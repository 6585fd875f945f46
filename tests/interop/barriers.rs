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
    // Whoever comes last, of either library, lets the others in.
    for is_ours_last in [true, false] {
        let open = async |name| {
            java.open(&format!("{name}-{is_ours_last}"), &format!("double_barrier {PATH} members=3")).await
        };
        let (mut first, mut second) = (open("first").await, open("second").await);
        let enter = || {
            let ours = DoubleBarrier::new(&client, PATH, 3).unwrap();
            tokio::spawn(async move { ours.enter().await })
        };
        first.send("acquire");
        queue_of(&stage.zookeeper, PATH, 1).await;
        let mut entering = None;
        if is_ours_last {
            second.send("acquire");
        } else {
            entering = Some(enter());
        }
        queue_of(&stage.zookeeper, PATH, 2).await;
        first.assert_waiting().await;
        assert!(!entering.as_ref().is_some_and(JoinHandle::is_finished));
        if !is_ours_last {
            second.send("acquire");
        }
        let entered = within(entering.unwrap_or_else(enter)).await.unwrap().unwrap();
        first.answer().await;
        second.answer().await;

        // All three want to leave before any of them has left.
        first.send("release");
        if !is_ours_last {
            second.send("release");
        }
        first.assert_waiting().await;
        let leaving = tokio::spawn(entered.leave());
        if is_ours_last {
            first.assert_waiting().await;
            assert!(!leaving.is_finished());
            second.send("release");
        }
        within(leaving).await.unwrap().unwrap();
        first.answer().await;
        second.answer().await;
        queue_of(&stage.zookeeper, PATH, 0).await;
    }
}
