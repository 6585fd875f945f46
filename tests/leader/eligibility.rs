//! Candidates that stand only while they are eligible, and what probes see of them.

use tokio::sync::{mpsc, watch};

use super::*;

fn latch(client: &Client, eligible: &watch::Sender<bool>) -> LeaderLatch {
    let options = LeaderOptions::new().eligible_while(eligible.subscribe());
    LeaderLatch::start(client, PATH, options).unwrap()
}

async fn becomes(latch: &LeaderLatch, role: LeaderRole) {
    until(&format!("{role:?}"), || latch.health().role == role).await;
}

#[tokio::test]
async fn who_is_not_eligible_does_not_stand() {
    let (_server, [client], zookeeper) = server_clients_and_bystander().await;
    let eligible = watch::Sender::new(false);
    let latch = latch(&client, &eligible);
    assert_eq!(latch.health().role, LeaderRole::Ineligible);
    assert!(matches!(&latch.watch_state().get(), LeaderState::Ineligible));
    // Those that came later lead and leave, and it has not even entered.
    for _ in 0..3 {
        let other = LeaderLatch::start(&client, PATH, LeaderOptions::new()).unwrap();
        within(other.await_leadership()).await.unwrap();
        assert_eq!(queue_of(&zookeeper, PATH, 1).await.len(), 1);
        other.close(CloseMode::Silent).await.unwrap();
    }
    assert_eq!(queue_of(&zookeeper, PATH, 0).await.len(), 0);

    eligible.send_replace(true);
    within(latch.await_leadership()).await.unwrap();
    assert_eq!(latch.health().role, LeaderRole::Leader);
    // The last value of a dropped sender stays: it also stands again.
    drop(eligible);
    let term = latch.leadership().unwrap();
    term.resign().await.unwrap();
    let next = within(latch.await_leadership()).await.unwrap();
    assert!(next.fencing_token() > term.fencing_token());
    latch.close(CloseMode::Silent).await.unwrap();
    becomes(&latch, LeaderRole::Closed).await;
    let eligible = watch::Sender::new(true);
    let out = self::latch(&client, &eligible);
    becomes(&out, LeaderRole::Leader).await;
    eligible.send_replace(false);
    drop(eligible);
    becomes(&out, LeaderRole::Ineligible).await;

    // A closed client is closed, whatever comes.
    let eligible = watch::Sender::new(false);
    let late = self::latch(&client, &eligible);
    within(client.close()).await;
    eligible.send_replace(true);
    assert_eq!(within(late.await_leadership()).await.unwrap_err(), Error::Closed);
}

/// The work is told, ends by itself, and another one leads; the first stands again behind it.
#[tokio::test]
async fn a_leader_that_is_not_eligible_any_more_resigns() {
    let (_server, [one, two], zookeeper) = server_clients_and_bystander().await;
    let eligible = watch::Sender::new(true);
    let (told, mut tells) = mpsc::unbounded_channel();
    let options = LeaderOptions::new().id("a").grace(BOUND).eligible_while(eligible.subscribe());
    let selector = LeaderSelector::start(&one, PATH, options, move |leadership: Leadership| {
        let told = told.clone();
        async move {
            told.send("leads").unwrap();
            leadership.resign_requested().await;
            // The node stays until the work has ended.
            assert!(leadership.is_valid());
            told.send("ends").unwrap();
            Ok::<(), Error>(())
        }
    })
    .unwrap();
    assert_eq!(within(tells.recv()).await, Some("leads"));
    let other = LeaderSelector::start(&two, PATH, LeaderOptions::new().id("b"), until_asked).unwrap();
    queue_of(&zookeeper, PATH, 2).await;
    let term = selector.leadership().unwrap();

    eligible.send_replace(false);
    assert_eq!(within(tells.recv()).await, Some("ends"));
    let next = eventually("the other one leads", || async { other.leadership() }).await;
    assert_eq!(within(term.lost()).await, LossReason::Resigned);
    assert!(next.fencing_token() > term.fencing_token());
    until("it is out", || selector.health().role == LeaderRole::Ineligible).await;
    assert_eq!(queue_of(&zookeeper, PATH, 1).await.len(), 1);

    eligible.send_replace(true);
    queue_of(&zookeeper, PATH, 2).await;
    next.resign().await.unwrap();
    assert_eq!(within(tells.recv()).await, Some("leads"));
    selector.close().await.unwrap();
    other.close().await.unwrap();
}
