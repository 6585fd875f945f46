//! Shows that a double grant would be seen: one worker of each library goes in without the lock.

use std::time::Duration;

use crate::contested::Contested;
use crate::ours;
use crate::peers;
use crate::run::Crew;
use crate::stage::{Library, Stage};
use crate::support::BOUND;
use crate::verdict::{Conflict, judge};

const DURATION: Duration = Duration::from_secs(2);

/// A path that nobody else wants.
const ELSEWHERE: &str = "/chaos/elsewhere";

pub(crate) async fn detects_saboteurs(stage: &Stage) {
    let mutex = Contested::Mutex;
    let mut ours = Vec::new();
    for (participant, client) in &stage.ours {
        let name = format!("{}-honest", participant.name);
        ours.push(ours::Worker::new(name, (participant, client), mutex, mutex.path()));
    }
    let mut saboteurs = vec!["rust-saboteur".to_owned()];
    let (participant, client) = &stage.ours[0];
    ours.push(ours::Worker::new(saboteurs[0].clone(), (participant, client), mutex, ELSEWHERE));
    let mut peers = Vec::new();
    for library in [Library::Curator, Library::Kazoo] {
        if let Some(peer) = stage.peers.iter().find(|peer| peer.library == library) {
            let name = format!("{}-saboteur", peer.name);
            let path = format!("{ELSEWHERE}-{}", peer.name);
            peers.push(peers::Worker::new(name.clone(), peer, mutex, &path).await);
            saboteurs.push(name);
        }
    }
    let mut crew = Crew::start(&stage.bystander, ours, peers);
    crew.work_for(DURATION).await;
    crew.stop(BOUND).await;
    let (sections, kills) = crew.run.history.take();
    let verdict = judge(&sections, &kills);
    for saboteur in &saboteurs {
        let caught = verdict.double_grants.iter().filter(|conflict| conflict.involves(saboteur)).count();
        assert!(caught > 0, "{saboteur} goes in without the lock, and nobody sees it");
        println!("self-check: {saboteur} goes in without the lock, seen {caught} times");
    }
    let is_honest = |conflict: &&Conflict<'_>| !saboteurs.iter().any(|saboteur| conflict.involves(saboteur));
    assert_eq!(verdict.double_grants.iter().filter(is_honest).count(), 0, "the others take the lock");
}
