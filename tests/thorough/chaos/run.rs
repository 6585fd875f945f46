//! Workers at work, all at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use zookeeper_client as zk;

use crate::history::History;
use crate::{ours, peers};

/// What workers share.
pub(crate) struct Run {
    pub(crate) history: History,
    pub(crate) bystander: zk::Client,
    over: CancellationToken,
}

/// Workers at work, until they are told to stop.
pub(crate) struct Crew {
    pub(crate) run: Arc<Run>,
    pub(crate) names: Vec<Arc<str>>,
    tasks: JoinSet<()>,
}

impl Run {
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    pub(crate) async fn over(&self) {
        self.over.cancelled().await;
    }
}

impl Crew {
    pub(crate) fn start(bystander: &zk::Client, ours: Vec<ours::Worker>, peers: Vec<peers::Worker>) -> Self {
        let over = CancellationToken::new();
        let run = Arc::new(Run { history: History::default(), bystander: bystander.clone(), over });
        let (mut names, mut tasks) = (Vec::new(), JoinSet::new());
        for worker in ours {
            names.push(worker.name.clone());
            tasks.spawn(worker.work(run.clone()));
        }
        for worker in peers {
            names.push(worker.name.clone());
            tasks.spawn(worker.work(run.clone()));
        }
        Self { run, names, tasks }
    }

    /// Lets them work. Whoever fails ends it all.
    pub(crate) async fn work_for(&mut self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            Some(ended) = self.tasks.join_next() => {
                ended.unwrap();
                panic!("a worker has ended");
            }
        }
    }

    /// Returns when all have left.
    pub(crate) async fn stop(&mut self, bound: Duration) {
        self.run.over.cancel();
        let ending = async {
            while let Some(ended) = self.tasks.join_next().await {
                ended.unwrap();
            }
        };
        tokio::time::timeout(bound, ending).await.expect("all workers end");
    }
}
