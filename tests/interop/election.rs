//! What is true of elections of both recipes.

use uuid::Uuid;

use crate::interop::prelude::*;

/// First come, first served; and everybody sees who stands and who leads. The others are candidates of other libraries.
pub(crate) async fn lead_in_order(stage: &Stage, recipe: Recipe, [other_a, other_b]: [Contender; 2]) {
    let java = stage.curator("java").await;
    let client = stage.client("rust").await;
    let looker = stage.client("looker").await;
    let observer = LeaderObserver::new(&looker, PATH).unwrap();
    let mut seen = observer.watch_leader();
    within(seen.wait_for(|seen| *seen == Observation::Nobody)).await.unwrap();
    let mut java_looker = java.open("looker", &recipe.open("")).await;
    assert_eq!(java_looker.call("participants").await, "");
    assert_eq!(java_looker.call("leader").await, "");

    let ours = recipe.start(&client, id("rust-1"));
    queue_of(&stage.zookeeper, PATH, 1).await;
    let mut line = Line::new(stage, PATH);
    let open = recipe.open("");
    let cast = Cast::new(&open).peer("java", &java).ours("rust", |name, how| {
        recipe.ours(name, &client, if name == "rust by default" { LeaderOptions::new() } else { id(how) })
    });
    line.enter(&cast, "java a data=java-a, rust 2 how=rust-2, rust without id how=").await;
    line.enters(other_a).await;
    line.enter(&cast, "java by default, rust by default, java without id data=").await;
    line.enters(other_b).await;
    line.enter(&cast, "rust 3 how=rust-3, java d data=java-d").await;

    // Of Curator, only a selector without an id takes the client's data.
    let [by_default, without] = if recipe == Recipe::Latch { ["-", "-"] } else { ["java", "java"] };
    let expected =
        format!("rust-1 java-a rust-2 - other-a {by_default} rust {without} other-b rust-3 java-d");
    let mut expected: Vec<_> = expected.split(' ').collect();
    assert_nodes(stage, recipe, &ours.participants().await, session_id(&client).await).await;
    let mut first = Some(ours);
    while let Some(leader) = expected.first() {
        match &first {
            Some(ours) => {
                ours.leads().await;
                line.only_holders_are(&[]).await;
            }
            None => line.only_holders_are(&[line.first().unwrap()]).await,
        }
        let all = expected.join(" ");
        assert_eq!(ids(&observer.participants().await.unwrap()), all);
        assert_eq!(java_looker.call("participants").await, all);
        assert_eq!(ids(&observer.leader().await.unwrap()), *leader);
        assert_eq!(java_looker.call("leader").await, *leader);
        let is_it = |seen: &Observation| matches!(seen, Observation::Leader(it) if ids([it]) == *leader);
        within(seen.wait_for(is_it)).await.unwrap();
        match first.take() {
            Some(ours) => {
                assert_eq!(ids(&ours.participants().await), all);
                assert_eq!(ids(&ours.leader().await), *leader);
                ours.close().await.unwrap();
            }
            None => line.releases(line.first().unwrap()).await,
        }
        expected.remove(0);
    }
    assert!(line.first().is_none());
    within(seen.wait_for(|seen| *seen == Observation::Nobody)).await.unwrap();
}

/// The nodes of ours look as those of Curator.
async fn assert_nodes(stage: &Stage, recipe: Recipe, participants: &[Participant], our_session: i64) {
    for (place, participant) in participants.iter().enumerate() {
        let identity = participant.identity().unwrap();
        assert_eq!(participant.is_holder(), place == 0);
        let (data, stat) = stage.zookeeper.get_data(participant.node_path()).await.unwrap();
        assert_eq!((&*data, stat.ephemeral_owner), (identity, participant.session_id()));
        let is_ours = identity.starts_with(b"rust") || place == 3;
        assert_eq!(stat.ephemeral_owner == our_session, is_ours, "{participant:?}");
        assert!(stat.ephemeral_owner != 0);
        let name = participant.node_path().strip_prefix(&format!("{PATH}/")).unwrap();
        if let Some(name) = name.strip_prefix("_c_") {
            let (uuid, sequence) = name.split_at(36);
            assert_eq!(Uuid::try_parse(uuid).unwrap().to_string(), uuid);
            assert_eq!(sequence, format!("{}{place:010}", recipe.marker()));
        } else {
            assert!(identity.starts_with(b"other"), "{participant:?}");
        }
    }
}

pub(crate) async fn outlives_the_death_of_others(generation: Generation, recipe: Recipe) {
    let stage = Stage::set(generation).await;
    let (java, doomed_java) = tokio::join!(stage.curator("java"), stage.mortal_curator("java"));
    let client = stage.client("rust").await;
    let (doomed_client, wire) = stage.mortal_client("rust").await;
    let open = recipe.open("");

    // Curator dies while it leads, and while it waits.
    let mut line = Line::new(&stage, PATH);
    let cast = Cast::new(&open).peer("java", &java).peer("doomed java", &doomed_java);
    let cast = cast.ours("rust", |name, how| recipe.ours(name, &client, id(how)));
    line.enter(&cast, "doomed java a, rust 1, doomed java b, rust 2, java").await;
    line.only_holders_are(&["doomed java a"]).await;
    line.die(&["doomed java a", "doomed java b"]);
    doomed_java.kill().await;
    line.only_holders_are(&["rust 1"]).await;
    queue_of(&stage.zookeeper, PATH, 3).await;
    line.is_served_in_order().await;
    queue_of(&stage.zookeeper, PATH, 0).await;

    // Ours dies while it leads.
    let doomed = recipe.start(&doomed_client, id("doomed"));
    let leadership = doomed.leads().await;
    let mut java_looker = java.open("looker", &open).await;
    line.enter(&cast, "java b data=java-b, rust how=rust, java c data=java-c").await;
    line.only_holders_are(&[]).await;
    cut_off(&wire);
    line.only_holders_are(&["java b"]).await;
    // It has known before.
    assert_eq!(leadership.loss(), Some(LossReason::Expired));
    assert!(!doomed.has_leadership());
    assert!(matches!(leadership.run(async {}).await, Err(Error::LockLost { .. })));
    queue_of(&stage.zookeeper, PATH, 3).await;
    // Back to life, it stands again, behind all who are there.
    mend(&wire);
    queue_of(&stage.zookeeper, PATH, 4).await;
    assert_eq!(java_looker.call("participants").await, "java-b rust java-c doomed");
    line.is_served_in_order().await;
    let next = doomed.leads().await;
    assert!(next.fencing_token() > leadership.fencing_token());
    assert_eq!(java_looker.call("leader").await, "doomed");
    within(doomed.close()).await.unwrap();
    queue_of(&stage.zookeeper, PATH, 0).await;
}

pub(crate) async fn leaders_are_asked_and_evicted(generation: Generation, recipe: Recipe) {
    let stage = Stage::set(generation).await;
    let java = stage.curator("java").await;
    let (client, operator) = (stage.client("rust").await, stage.client("operator").await);
    let mut java_a = java.open("a", &recipe.open("data=java-a")).await;
    let mut java_b = java.open("b", &recipe.open("data=java-b")).await;

    // Nobody is asked as long as nobody waits.
    let ours = recipe.start(&client, id("rust"));
    let leadership = ours.leads().await;
    assert_eq!(ours.transfer().await, None);
    stands(&stage, &mut java_a).await;
    assert_eq!(ids(&ours.transfer().await), "rust");
    java_a.answer().await;
    assert_eq!(leadership.loss(), Some(LossReason::Resigned));
    queue_of(&stage.zookeeper, PATH, 2).await;
    assert_eq!(java_b.call("participants").await, "java-a rust");

    // We ask Curator, which does not listen: all that comes of it is that the id of a selector is gone.
    let its_id = if recipe == Recipe::Latch { "java-a" } else { "__REVOKE__" };
    assert_eq!(ids(&ours.transfer().await), "java-a");
    assert_eq!(ids(&operate::ask(&operator, PATH).await.unwrap()), its_id);
    java_a.assert_waiting().await;
    assert_eq!(java_a.call("leads").await, "true");
    assert!(!ours.has_leadership());
    assert_eq!(java_b.call("participants").await, format!("{its_id} rust"));
    java_a.call("release").await;
    let leadership = ours.leads().await;

    // Curator asks ours, which resigns and goes to the end of the queue.
    let second = recipe.start(&operator, id("rust-2"));
    queue_of(&stage.zookeeper, PATH, 2).await;
    java_b.call(&format!("revoke {}", leadership.node_path())).await;
    second.leads().await;
    assert_eq!(leadership.loss(), Some(LossReason::Resigned));
    queue_of(&stage.zookeeper, PATH, 2).await;
    assert_eq!(java_b.call("participants").await, "rust-2 rust");
    within(second.close()).await.unwrap();
    let leadership = ours.leads().await;

    // An operator evicts ours, which stands again behind the next.
    stands(&stage, &mut java_a).await;
    assert_eq!(ids(&operate::force_release(&operator, PATH).await.unwrap()), "rust");
    java_a.answer().await;
    assert_eq!(within(leadership.lost()).await, LossReason::Deleted);
    queue_of(&stage.zookeeper, PATH, 2).await;
    assert_eq!(java_b.call("participants").await, "java-a rust");

    // An operator evicts Curator, which does not notice: it must be stopped by other means.
    assert_eq!(ids(&operate::force_release(&operator, PATH).await.unwrap()), "java-a");
    let leadership = ours.leads().await;
    java_a.assert_waiting().await;
    assert_eq!(java_a.call("leads").await, "true");
    java_a.call("release").await;
    assert!(leadership.is_valid());
    within(ours.close()).await.unwrap();
    queue_of(&stage.zookeeper, PATH, 0).await;
}

/// Has a second candidate stand, and waits until it watches the first.
pub(crate) async fn stands(stage: &Stage, candidate: &mut Actor) {
    candidate.send("acquire");
    queue_of(&stage.zookeeper, PATH, 2).await;
    watches_of(&stage.server, 1).await;
    candidate.assert_waiting().await;
}
