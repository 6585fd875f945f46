//! Candidates for one leadership, and what is done to those who lead.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use zookeeper_client as zk;

use crate::candidate::{Candidate, Origin, Race};
use crate::clock;
use crate::history::{Deed, History, Library, Story, Term};
use crate::installed::Generation;
use crate::report::Command;
use crate::stage::{Recipe, Stage};
use crate::support::{Server, children};
use crate::witness::Witness;

/// What must happen at last, happens within this time even on a busy machine. Whether it was in time is judged later.
const BOUND: Duration = Duration::from_secs(90);

pub(crate) struct Group {
    race: Race,
    candidates: Vec<Candidate>,
    started: usize,
    bystander: zk::Client,
    pub(crate) witness: Witness,
}

/// What is still to be done to leaders of a library.
#[derive(Debug)]
struct Plan {
    library: Library,
    deeds: Vec<Deed>,
}

impl Group {
    pub(crate) fn start(stage: &Stage, recipe: Recipe, origins: Vec<Origin>) -> Self {
        let path = format!("/election/{}", recipe.word());
        let race = Race {
            recipe,
            connect_string: stage.server.connect_string(),
            history: Arc::new(History::default()),
            path,
        };
        let witness = Witness::of(&stage.bystander, &race.path, &race.history);
        let bystander = stage.bystander.clone();
        let mut group = Self { race, candidates: Vec::new(), started: 0, bystander, witness };
        for origin in origins {
            group.add(origin);
        }
        group
    }

    fn add(&mut self, origin: Origin) {
        self.started += 1;
        let kind = match &origin {
            Origin::Here => "ours".to_owned(),
            Origin::Child => "ours-in-a-process".to_owned(),
            Origin::Curator(Generation::Debian, _) => "curator-5.4".to_owned(),
            Origin::Curator(Generation::Current, _) => "curator-5.9".to_owned(),
        };
        let name = format!("{kind}-{}-{}", self.race.recipe.word(), self.started);
        self.candidates.push(Candidate::start(&self.race, origin, name));
    }

    pub(crate) fn history(&self) -> &History {
        &self.race.history
    }

    pub(crate) fn path(&self) -> &str {
        &self.race.path
    }

    /// Waits until somebody leads.
    pub(crate) async fn leader(&self) -> Term {
        self.wait_for("a leader", |story| story.leader().cloned()).await
    }

    /// Waits until somebody leads after that time.
    pub(crate) async fn leader_later_than(&self, time: u64) -> Term {
        self.wait_for("a leader", |story| story.leader().filter(|leader| leader.until > time).cloned()).await
    }

    /// Does everything that is to be done, once to a leader of each library, and has leaders resign then until one of
    /// this library leads.
    pub(crate) async fn change_leaders(&mut self, until_led_by: Library, server: &Server) {
        let mut plans = Library::ALL.map(|library| {
            let is_here = self.candidates.iter().any(|candidate| candidate.origin.library() == library);
            let deeds = [Deed::Resign, Deed::Renew, Deed::KillSession, Deed::KillProcess];
            Plan { library, deeds: if is_here { deeds.to_vec() } else { Vec::new() } }
        });
        let change = async {
            self.carry_out(&mut plans, server).await;
            self.have_led_by(until_led_by, server).await;
        };
        if tokio::time::timeout(BOUND, change).await.is_err() {
            let group = self.race.recipe.word();
            panic!("{group}: nobody leads to whom it could be done, {plans:?}, or who is {until_led_by:?}");
        }
    }

    async fn carry_out(&mut self, plans: &mut [Plan], server: &Server) {
        while plans.iter().any(|plan| !plan.deeds.is_empty()) {
            let leader = self.leader().await;
            let plan = plans.iter_mut().find(|plan| plan.library == leader.library);
            let deeds = &mut plan.expect("one for each library").deeds;
            let can_be_killed = self.candidate(&leader).can_be_killed();
            let possible =
                (0..deeds.len()).filter(|index| deeds[*index] != Deed::KillProcess || can_be_killed);
            let deed = fastrand::choice(possible.collect::<Vec<_>>());
            let deed = deed.map_or(Deed::Resign, |index| deeds.swap_remove(index));
            self.change(leader, deed, server).await;
        }
    }

    /// Has leaders resign until one of this library leads, if there is any.
    async fn have_led_by(&mut self, library: Library, server: &Server) {
        if self.candidates.iter().all(|candidate| candidate.origin.library() != library) {
            return;
        }
        loop {
            let leader = self.leader().await;
            if leader.library == library {
                return;
            }
            self.change(leader, Deed::Resign, server).await;
        }
    }

    /// Has leaders resign until all have led once more.
    pub(crate) async fn have_all_led(&mut self, server: &Server) {
        let start = clock::now();
        let unserved = |story: &Story| -> Vec<Arc<str>> {
            let names = self.candidates.iter().map(|candidate| candidate.name.clone());
            names.filter(|name| !story.has_led_since(name, start)).collect()
        };
        let all_lead = async {
            loop {
                let leader = self.leader().await;
                if self.history().look(unserved).is_empty() {
                    return;
                }
                self.change_in_place(leader, Deed::Resign, server).await;
            }
        };
        if tokio::time::timeout(BOUND, all_lead).await.is_err() {
            panic!("did not lead after the trouble: {:?}", self.history().look(unserved));
        }
    }

    /// Lets the leader lead for a moment, and has another one lead.
    async fn change(&mut self, leader: Term, deed: Deed, server: &Server) {
        if deed == Deed::KillProcess {
            lead_for_a_moment().await;
            self.history().record_event(deed, &leader.node);
            let index = self.candidates.iter().position(|candidate| candidate.name == leader.candidate);
            let victim = self.candidates.swap_remove(index.expect("it is a candidate"));
            let origin = victim.origin.clone();
            victim.kill().await;
            self.add(origin);
            self.wait_for_another(&leader).await;
        } else {
            self.change_in_place(leader, deed, server).await;
        }
    }

    async fn change_in_place(&self, leader: Term, deed: Deed, server: &Server) {
        lead_for_a_moment().await;
        let candidate = self.candidate(&leader);
        match deed {
            Deed::KillSession => {
                let node = |story: &Story| match self.witness.node(&leader.node) {
                    None if story.leader().is_some_and(|present| present.node == leader.node) => None,
                    node => Some(node),
                };
                // Unless it has lost its node by itself, and is no leader any more.
                let Some(node) = self.wait_for("its node to be seen", node).await else { return };
                self.history().record_event(deed, &leader.node);
                match server.kill_session(node.session).await {
                    Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
                    _ => {}
                }
            }
            Deed::Resign | Deed::Renew => {
                self.history().record_event(deed, &leader.node);
                candidate.tell(if deed == Deed::Resign { Command::Resign } else { Command::Renew });
            }
            Deed::Start | Deed::KillProcess | Deed::Restart => unreachable!("not in place"),
        }
        self.wait_for_another(&leader).await;
    }

    async fn wait_for_another(&self, than: &Term) {
        self.wait_for("another leader", |story| {
            story.leader().filter(|leader| leader.node != than.node).map(|_| ())
        })
        .await
    }

    fn candidate(&self, leader: &Term) -> &Candidate {
        let mut candidates = self.candidates.iter();
        candidates.find(|candidate| candidate.name == leader.candidate).expect("it is a candidate")
    }

    async fn wait_for<T>(&self, what: &str, find: impl FnMut(&Story) -> Option<T>) -> T {
        match tokio::time::timeout(BOUND, self.history().wait_for(find)).await {
            Ok(found) => found,
            Err(_) => {
                let queue = children(&self.bystander, self.path()).await;
                panic!("{} waits for {what} in vain; in the queue: {queue:?}", self.race.recipe.word());
            }
        }
    }

    /// Has all close, at once, and waits until they have. Answers what has happened.
    pub(crate) async fn end(self) -> (Story, Witness) {
        let Self { race, candidates, witness, .. } = self;
        futures_util::future::join_all(candidates.into_iter().map(Candidate::end)).await;
        (race.history.take(), witness)
    }
}

async fn lead_for_a_moment() {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
}
