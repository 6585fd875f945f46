//! `LeaderLatch`.

use crate::interop::election;
use crate::interop::prelude::*;

/// A lock of `zookeeper-client` that stands for election.
fn other(name: &'static str, id: &'static str, client: &zk::Client) -> Contender {
    let client = client.clone();
    Contender::acting(name, async move {
        let prefix = zk::LockPrefix::new_curator(PATH, "latch-").unwrap();
        let options = zk::LockOptions::new(zk::Acls::anyone_all());
        let options = options.with_ancestor_options(anyone(CreateMode::Container));
        let lock = client.lock(prefix, id.as_bytes(), options.unwrap()).await.unwrap().into_owned();
        Release::by(async { drop(lock) })
    })
}

pub(crate) async fn latches_lead_in_order(generation: Generation) {
    let stage = Stage::set(generation).await;
    let zookeeper = bystander(&stage.server).await;
    let others = [other("other a", "other-a", &zookeeper), other("other b", "other-b", &zookeeper)];
    election::lead_in_order(&stage, Recipe::Latch, others).await;

    // Curator's leaves again in time, and one that comes later leads.
    let (java, client) = (stage.curator("java").await, stage.client("rust").await);
    let mut java = java.open("a", &Recipe::Latch.open("")).await;
    for first in [Recipe::Latch.ours("rust", &client, id("")), other("other", "", &zookeeper)] {
        let mut line = Line::new(&stage, PATH);
        line.enters(first).await;
        line.only_holders_are(&[line.first().unwrap()]).await;
        for attempt in ["try 0", "try 300"] {
            assert_eq!(java.call(attempt).await, "false");
        }
        line.is_served_in_order().await;
        queue_of(&stage.zookeeper, PATH, 0).await;
        assert_eq!(java.call("try 30000").await, "true");
        java.call("release").await;
        queue_of(&stage.zookeeper, PATH, 0).await;
    }
}

pub(crate) async fn latches_outlive_the_death_of_others(generation: Generation) {
    election::outlives_the_death_of_others(generation, Recipe::Latch).await;
}

pub(crate) async fn latches_are_asked_and_evicted(generation: Generation) {
    election::leaders_are_asked_and_evicted(generation, Recipe::Latch).await;
}

/// Curator's latch waits for the end of the one before it by one watch, which a write to that one's node uses up.
pub(crate) async fn curator_sleeps_through_the_end_of_a_leader_whose_node_was_written_to(
    generation: Generation,
) {
    let stage = Stage::set(generation).await;
    let java_peer = stage.curator("java").await;
    let (client, operator) = (stage.client("rust").await, stage.client("operator").await);
    let mut java = java_peer.open("a", &Recipe::Latch.open("data=java")).await;
    let ours = Recipe::Latch.start(&client, id("rust"));
    // So it is not written to by us.
    let leadership = ours.leads().await;
    election::stands(&stage, &mut java).await;
    assert_eq!(ids(&operate::ask(&operator, PATH).await.unwrap()), "rust");
    assert_eq!(within(leadership.lost()).await, LossReason::Resigned);
    java.answer().await;
    java.call("release").await;
    // But perhaps by others, such as Curator's Revoker.
    let leadership = ours.leads().await;
    election::stands(&stage, &mut java).await;
    let mut java_operator = java_peer.open("operator", &Recipe::Latch.open("")).await;
    java_operator.call(&format!("revoke {}", leadership.node_path())).await;
    assert_eq!(within(leadership.lost()).await, LossReason::Resigned);
    eventually("it stands again, behind Curator", || async {
        (ids(&ours.participants().await) == "java rust").then_some(())
    })
    .await;
    for _ in 0..3 {
        java.assert_waiting().await;
        assert!(!ours.has_leadership());
    }
    // An operator can help.
    assert_eq!(ids(&operate::force_release(&operator, PATH).await.unwrap()), "java");
    ours.leads().await;
    java.assert_waiting().await;
    within(ours.close()).await.unwrap();
}

pub(crate) async fn latches_stand_in_containers(generation: Generation) {
    let stage = Stage::set_reaping(generation).await;
    let (java, client) = (stage.curator("java").await, stage.client("rust").await);
    let contenders = [
        Recipe::Latch.ours("rust", &client, id("")),
        Contender::peer("java", java.open("a", &Recipe::Latch.open("")).await),
    ];
    for contender in contenders {
        let mut line = Line::new(&stage, PATH);
        line.enters(contender).await;
        line.is_served_in_order().await;
        eventually("nothing is left", || async {
            let is_left = stage.zookeeper.check_stat("/leaders").await.unwrap().is_some();
            (!is_left).then_some(())
        })
        .await;
    }
}
