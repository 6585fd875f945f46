//! Workers of the peers.

use std::sync::Arc;

use crate::LONGEST_HOLD;
use crate::contested::Contested;
use crate::history::{Proof, Section};
use crate::peer::Actor;
use crate::run::Run;
use crate::stage::Participant;

pub(crate) struct Worker {
    pub(crate) name: Arc<str>,
    pub(crate) participant: Arc<Participant>,
    pub(crate) contested: Contested,
    actor: Actor,
}

impl Worker {
    /// One that takes the lock at `path`, whatever it is recorded for.
    pub(crate) async fn new(
        name: String,
        participant: &Arc<Participant>,
        contested: Contested,
        path: &str,
    ) -> Self {
        let peer = participant.peer.as_ref().expect("it is a peer");
        let what = match contested {
            Contested::Mutex => format!("mutex {path}"),
            Contested::ReadWrite => format!("rw {path}"),
            Contested::Leadership => format!("latch {path} data={}", participant.name),
        };
        let actor = peer.open(&name, &what).await;
        Self { name: name.into(), participant: participant.clone(), contested, actor }
    }

    /// Acquires and releases, until the run is over.
    pub(crate) async fn work(mut self, run: Arc<Run>) {
        let sides = match self.contested {
            Contested::ReadWrite => " read write",
            Contested::Mutex | Contested::Leadership => "",
        };
        self.actor.send(&format!("loop {}{sides}", LONGEST_HOLD.as_millis()));
        let mut is_told = false;
        loop {
            tokio::select! {
                section = self.actor.section() => match section {
                    Some(section) => run.history.record(self.section(&section)),
                    None => return,
                },
                () = run.over(), if !is_told => {
                    self.actor.send("stop");
                    is_told = true;
                }
            }
        }
    }

    fn section(&self, text: &str) -> Section {
        let (how, numbers) = text.split_once(' ').unwrap();
        let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
        let [asked, from, believed_until, proven_until, token, session] = numbers[..] else {
            panic!("{text}")
        };
        let proof = Proof { until: proven_until, token: token as i64, session: session as i64 };
        Section {
            participant: self.participant.clone(),
            worker: self.name.clone(),
            contested: self.contested,
            exclusive: how != "read",
            asked,
            from,
            believed_until,
            proof: (proven_until > 0).then_some(proof),
            without_node_at: None,
        }
    }
}
