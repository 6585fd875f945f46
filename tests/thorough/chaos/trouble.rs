//! What befalls the participants: cuts, outages, killed sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use zk_recipes::testing::{TestingServer, Traffic};
use zookeeper_client as zk;

use crate::history::{History, Kill};
use crate::run::Run;
use crate::stage::{Contested, Participant, Stage};
use crate::support::{children, sequence};
use crate::{SESSION_TIMEOUT, clock};

/// How long it takes until somebody who is to be cut off holds a lock, or it is done without.
const LURE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) cuts: AtomicUsize,
    pub(crate) outages: AtomicUsize,
    pub(crate) kills: AtomicUsize,
}

pub(crate) struct Trouble<'a> {
    server: &'a TestingServer,
    bystander: &'a zk::Client,
    participants: Vec<Arc<Participant>>,
    run: Arc<Run>,
    pub(crate) figures: Figures,
}

impl<'a> Trouble<'a> {
    pub(crate) fn for_all_on(stage: &'a Stage, run: Arc<Run>) -> Self {
        let Stage { server, bystander, .. } = stage;
        Self { server, bystander, participants: stage.participants(), run, figures: Figures::default() }
    }

    /// Makes trouble until it is told to end. Then all are connected again.
    pub(crate) async fn make(&self, end: &CancellationToken) {
        tokio::join!(
            end.run_until_cancelled(self.cut()),
            // Not in the middle of an outage.
            async {
                while end.run_until_cancelled(pause(1000..4000)).await.is_some() {
                    self.cut_off().await
                }
            },
            async {
                while end.run_until_cancelled(pause(500..2500)).await.is_some() {
                    self.kill_a_session().await
                }
            },
        );
    }

    async fn cut(&self) {
        loop {
            pause(50..300).await;
            let proxy = &self.anybody().proxy;
            self.figures.cuts.fetch_add(proxy.connections().len(), SeqCst);
            proxy.cut();
        }
    }

    /// For less than a session, or for more, and mostly one who holds.
    async fn cut_off(&self) {
        let victim = self.anybody();
        victim.set_stays(true);
        let path = Contested::ALL[fastrand::usize(..2)].path();
        let is_inside = async {
            while first_in(self.bystander, path).await.is_none_or(|first| first.owner != victim.name) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = tokio::time::timeout(LURE, is_inside).await;
        let length = SESSION_TIMEOUT.mul_f64(0.5 + 1.5 * fastrand::f64());
        self.figures.outages.fetch_add(1, SeqCst);
        if fastrand::bool() {
            victim.proxy.set_traffic(Traffic::black_hole());
            sleep(length).await;
            victim.proxy.set_traffic(Traffic::pass());
        } else {
            victim.proxy.refuse_connections(true).unwrap();
            victim.proxy.cut();
            sleep(length).await;
            victim.proxy.refuse_connections(false).unwrap();
        }
        victim.set_stays(false);
    }

    /// Of one who holds or waits.
    async fn kill_a_session(&self) {
        let path = Contested::ALL[fastrand::usize(..2)].path();
        let nodes = children(self.bystander, path).await;
        let Some(node) = fastrand::choice(&nodes) else { return };
        let Ok((data, stat)) = self.bystander.get_data(&format!("{path}/{node}")).await else { return };
        let victim = String::from_utf8(data).unwrap();
        let is_killed = kill_session(self.server, &self.run.history, victim, stat.ephemeral_owner).await;
        self.figures.kills.fetch_add(is_killed.into(), SeqCst);
    }

    fn anybody(&self) -> &Participant {
        &self.participants[fastrand::usize(..self.participants.len())]
    }
}

/// Answers whether it was there to be killed.
pub(crate) async fn kill_session(
    server: &TestingServer,
    history: &History,
    victim: String,
    session: i64,
) -> bool {
    let from = clock::now();
    let is_killed = server.kill_session(session).await.is_ok();
    history.record_kill(Kill { victim, session, from, until: clock::now() });
    is_killed
}

/// The first one in a queue.
pub(crate) struct First {
    pub(crate) node: String,
    /// The name of the participant.
    pub(crate) owner: String,
    pub(crate) session: i64,
}

pub(crate) async fn first_in(bystander: &zk::Client, path: &str) -> Option<First> {
    let first = children(bystander, path).await.into_iter().min_by_key(|node| sequence(node))?;
    let node = format!("{path}/{first}");
    let (data, stat) = bystander.get_data(&node).await.ok()?;
    Some(First { node, owner: String::from_utf8(data).unwrap(), session: stat.ephemeral_owner })
}

async fn pause(millis: std::ops::Range<u64>) {
    sleep(Duration::from_millis(fastrand::u64(millis))).await;
}
