//! `LeaderSelector`.

use std::convert::Infallible;

use tokio::sync::mpsc;

use crate::interop::election;
use crate::interop::prelude::*;

pub(crate) async fn selectors_lead_in_order(generation: Generation) {
    let stage = Stage::set(generation).await;
    let python = stage.kazoo("python").await;
    let [python_a, python_b] = ["other-a", "other-b"].map(|id| Recipe::Selector.open(&format!("data={id}")));
    let others = [
        Contender::peer("python a", python.open("a", &python_a).await),
        Contender::peer("python b", python.open("b", &python_b).await),
    ];
    election::lead_in_order(&stage, Recipe::Selector, others).await;
}

pub(crate) async fn selectors_outlive_the_death_of_others(generation: Generation) {
    election::outlives_the_death_of_others(generation, Recipe::Selector).await;
}

pub(crate) async fn selectors_are_asked_and_evicted(generation: Generation) {
    election::leaders_are_asked_and_evicted(generation, Recipe::Selector).await;
}

pub(crate) async fn selectors_take_turns(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, client) = (stage.curator("java").await, stage.client("rust").await);
    let mut java_a = java.open("a", &Recipe::Selector.open("")).await;
    let (lead, mut terms) = mpsc::unbounded_channel();
    let work = move |leadership: Leadership| {
        let (end, ended) = mpsc::unbounded_channel::<()>();
        lead.send((leadership, end)).unwrap();
        async move {
            let mut ended = ended;
            ended.recv().await;
            Ok::<(), Infallible>(())
        }
    };
    let ours = LeaderSelector::start_once(&client, PATH, id("rust"), work).unwrap();

    // Both lead as long as their work lasts, and stand again when they are told to.
    let (mut leadership, mut end) = within(terms.recv()).await.unwrap();
    for _ in 0..3 {
        java_a.send("acquire");
        queue_of(&stage.zookeeper, PATH, 2).await;
        java_a.assert_waiting().await;
        assert!(ours.has_leadership() && leadership.is_valid());
        drop(end);
        java_a.answer().await;
        assert!(!ours.has_leadership() && !leadership.is_valid());
        queue_of(&stage.zookeeper, PATH, 1).await;
        within(ours.watch_state().wait_for(|state| matches!(state, zk_recipes::LeaderState::Idle)))
            .await
            .unwrap();
        assert!(ours.requeue());
        queue_of(&stage.zookeeper, PATH, 2).await;
        java_a.assert_waiting().await;
        assert_eq!(java_a.call("leads").await, "true");
        assert!(!ours.has_leadership());
        java_a.call("release").await;
        (leadership, end) = within(terms.recv()).await.unwrap();
    }
    drop(end);
    within(ours.close()).await.unwrap();

    // One that stands by a mutex of Curator can be asked to resign.
    let mut java_b = java.open("b", &format!("mutex {PATH} data=ignored")).await;
    java_b.call("revocable").await;
    java_b.call("acquire").await;
    let ours = Recipe::Selector.start(&client, id("rust"));
    queue_of(&stage.zookeeper, PATH, 2).await;
    // It has no id as long as it listens.
    assert_eq!(ids(&ours.transfer().await), "-");
    java_b.revoked().await;
    java_b.call("release").await;
    ours.leads().await;
    within(ours.close()).await.unwrap();
}
