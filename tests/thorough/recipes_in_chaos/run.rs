//! Workers at work, all at once.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::LONGEST_WAIT;

/// What workers share.
#[derive(Debug, Default)]
pub(crate) struct Run {
    over: CancellationToken,
    /// When each worker has succeeded last; `None` if never.
    successes: Mutex<HashMap<Arc<str>, Option<Instant>>>,
}

/// Workers at work, until they are told to stop.
#[derive(Default)]
pub(crate) struct Crew {
    pub(crate) run: Arc<Run>,
    tasks: JoinSet<()>,
}

impl Run {
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// What all are for: whoever never does it again waits for ever.
    pub(crate) fn succeeded(&self, name: &Arc<str>) {
        self.successes.lock().unwrap().insert(name.clone(), Some(Instant::now()));
    }

    /// Waits for something that must come, however long the trouble lasts.
    pub(crate) async fn within<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        timeout(LONGEST_WAIT, future).await.unwrap_or_else(|_| panic!("{what}: it does not come"))
    }
}

impl Crew {
    pub(crate) fn hire<W: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: String,
        work: impl FnOnce(Arc<str>, Arc<Run>) -> W,
    ) {
        let name: Arc<str> = name.into();
        self.run.successes.lock().unwrap().insert(name.clone(), None);
        self.tasks.spawn(work(name, self.run.clone()));
    }

    /// Lets them work. Whoever fails ends it all.
    pub(crate) async fn work_for(&mut self, time: Duration) {
        tokio::select! {
            () = sleep(time) => {}
            Some(ended) = self.tasks.join_next() => {
                ended.unwrap();
                panic!("a worker has ended");
            }
        }
    }

    /// Lets them work until each has succeeded once more, and answers who has not.
    pub(crate) async fn serve_all(&mut self) -> Vec<Arc<str>> {
        let start = Instant::now();
        loop {
            self.work_for(Duration::from_millis(500)).await;
            let successes = self.run.successes.lock().unwrap().clone();
            let is_unserved = |last: &Option<Instant>| last.is_none_or(|last| last < start);
            let unserved = successes.into_iter().filter(|(_, last)| is_unserved(last));
            let unserved: Vec<_> = unserved.map(|(name, _)| name).collect();
            if unserved.is_empty() || start.elapsed() > LONGEST_WAIT {
                return unserved;
            }
        }
    }

    /// Returns when all have ended.
    pub(crate) async fn stop(&mut self) {
        self.run.over.cancel();
        let ending = async {
            while let Some(ended) = self.tasks.join_next().await {
                ended.unwrap();
            }
        };
        timeout(LONGEST_WAIT, ending).await.expect("all workers end");
    }
}
