//! What befalls the participants: cuts, outages, killed sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use zk_recipes::testing::Traffic;

use crate::SESSION_TIMEOUT;
use crate::aim::Locks;
use crate::stage::Participant;

/// How long it takes until it is worth to cut off somebody, or it is done without.
const LURE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) cuts: AtomicUsize,
    pub(crate) outages: AtomicUsize,
    pub(crate) kills: AtomicUsize,
}

pub(crate) struct Trouble<'a> {
    participants: Vec<Arc<Participant>>,
    aim: Locks<'a>,
    pub(crate) figures: Figures,
}

impl<'a> Trouble<'a> {
    pub(crate) fn new(participants: Vec<Arc<Participant>>, aim: Locks<'a>) -> Self {
        Self { participants, aim, figures: Figures::default() }
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
                    let is_killed = self.aim.kill_a_session().await;
                    self.figures.kills.fetch_add(is_killed.into(), SeqCst);
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

    /// For less than a session, or for more.
    async fn cut_off(&self) {
        let victim = self.anybody();
        victim.set_stays(true);
        let _ = tokio::time::timeout(LURE, self.aim.lure(victim)).await;
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

    fn anybody(&self) -> &Participant {
        &self.participants[fastrand::usize(..self.participants.len())]
    }
}

pub(crate) async fn pause(millis: std::ops::Range<u64>) {
    sleep(Duration::from_millis(fastrand::u64(millis))).await;
}
