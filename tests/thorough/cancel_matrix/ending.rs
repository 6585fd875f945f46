//! Cases in which the session ends: with a client of its own each.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures_util::future::select;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use zk_recipes::testing::{FaultProxy, Request, Traffic};
use zk_recipes::{Client, Error, LockGuard, LossReason, Result, RetryPolicy};
use zookeeper_client as zk;

use super::departure::{Departure, Polled, Polls};
use super::lane::End;
use super::subject::{Holder, Kind, Lock};
use super::support::*;

/// What a client does when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Life {
    Holding,
    Waiting,
    /// It is at this request of an acquire.
    Acquiring(usize),
}

/// How it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// It is closed, and who closes it goes away.
    Closed(Departure),
    /// Its runtime is shut down.
    ShutDown,
}

/// After it, whatever is left of a client is gone. A busy machine must not end a session before.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// The request by which a session is closed.
const CLOSE_SESSION: Request = Request::Other(-11);

/// What the cases share.
pub(crate) struct Stage {
    server: Server,
    bystander: zk::Client,
    paths: AtomicUsize,
}

/// A client, and where its lock is.
struct Scene {
    proxy: FaultProxy,
    runtime: Runtime,
    client: Client,
    path: String,
    lock: Lock,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        let server = lasting_server().await;
        let bystander = bystander(&server).await;
        Self { server, bystander, paths: AtomicUsize::new(0) }
    }

    async fn scene(&self, kind: Kind) -> Scene {
        let proxy = FaultProxy::start(self.server.connect_string()).await.unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let builder = Client::builder()
            .runtime(runtime.handle().clone())
            .session_timeout(SESSION_TIMEOUT)
            .connection_timeout(2 * SESSION_TIMEOUT)
            .retry_policy(RetryPolicy::n_times(1000, Duration::from_millis(5)));
        let address = proxy.connect_string();
        let client = runtime.spawn(async move { builder.connect(&address).await.unwrap() }).await.unwrap();
        let number = self.paths.fetch_add(1, SeqCst);
        let path = format!("/{kind:?}-{number}/lock");
        let lock = kind.lock(&client, &path);
        // Makes the queues.
        for guard in within(lock.acquire()).await.unwrap() {
            within(guard.release()).await.unwrap();
        }
        client.zookeeper().await.unwrap().check_stat("/").await.unwrap();
        proxy.take_requests();
        Scene { proxy, runtime, client, path, lock }
    }

    /// How many requests an acquire takes.
    pub(crate) async fn requests_of(&self, kind: Kind) -> usize {
        let scene = self.scene(kind).await;
        let guards = within(scene.lock.acquire()).await.unwrap();
        scene.client.zookeeper().await.unwrap().check_stat("/").await.unwrap();
        let requests = scene.proxy.take_requests().len() - 1;
        drop(guards);
        scene.runtime.shutdown_background();
        requests
    }

    pub(crate) async fn case(&self, kind: Kind, life: Life, ending: Ending, end: End) {
        let scene = self.scene(kind).await;
        let nodes = match life {
            Life::Waiting => kind.occupy(Holder::Last, &self.bystander, &scene.path).await,
            Life::Holding | Life::Acquiring(_) => Vec::new(),
        };
        let mut guards = Vec::new();
        let mut acquiring: Option<JoinHandle<Result<Vec<LockGuard>>>> = None;
        let mut struck = None;
        match life {
            Life::Holding => {
                guards = within(scene.lock.acquire()).await.unwrap();
                // So that its node is watched.
                drop(guards[0].watch_state());
            }
            Life::Waiting => {
                acquiring = Some(scene.acquire());
                eventually("it waits", || async {
                    let replies = scene.proxy.replies_seen();
                    sleep(Duration::from_millis(20)).await;
                    (scene.proxy.requests_seen() > 1 && scene.proxy.replies_seen() == replies).then_some(())
                })
                .await;
            }
            Life::Acquiring(request) => {
                let intercepted = scene.proxy.intercept_after(request, end.fate());
                acquiring = Some(scene.acquire());
                within(intercepted.happened()).await;
                struck = Some(intercepted).filter(|_| !matches!(end, End::Succeeds));
            }
        }
        match ending {
            Ending::Closed(departure) => {
                let closing = scene.proxy.intercept(CLOSE_SESSION, end.fate());
                let polls = Polls::default();
                let client = scene.client.clone();
                let close =
                    Polled { future: Box::pin(async move { client.close().await }), polls: polls.clone() };
                let has_own_task = matches!(departure, Departure::Aborted | Departure::ShutDown);
                let is_to_go = async {
                    polls.reach(1, has_own_task).await;
                    if !matches!(end, End::Never) {
                        drop(struck.take());
                    }
                    // It is not sent where there is no connection, or replies are outstanding.
                    select(Box::pin(closing.happened()), Box::pin(sleep(Duration::from_millis(100)))).await;
                };
                within(departure.take_away(close, false, is_to_go)).await;
                assert!(scene.client.is_closed());
                if matches!(end, End::Never) {
                    scene.proxy.cut();
                }
                drop((struck.take(), closing));
                if let Some(acquiring) = acquiring {
                    guards = closed_or_acquired(within(acquiring).await.unwrap());
                }
                for guard in &guards {
                    assert_eq!(guard.loss(), Some(LossReason::Closed));
                }
                drop(guards);
                let Scene { client, lock, runtime, path, .. } = scene;
                drop((client, lock));
                eventually("no task is left", || async {
                    (runtime.metrics().num_alive_tasks() == 0).then_some(())
                })
                .await;
                runtime.shutdown_background();
                self.assert_nothing_left(kind, &path, &nodes).await;
            }
            Ending::ShutDown => {
                match end {
                    End::RequestLost | End::ReplyLost => scene.proxy.cut(),
                    End::Late | End::Never => scene.proxy.set_traffic(Traffic::black_hole_to_client()),
                    End::Succeeds => {}
                }
                let runtime = scene.runtime;
                let down = tokio::task::spawn_blocking(|| runtime.shutdown_timeout(Duration::from_secs(10)));
                within(down).await.unwrap();
                if matches!(end, End::Never) {
                    scene.proxy.cut();
                }
                scene.proxy.set_traffic(Traffic::pass());
                drop(struck);
                // Whoever is left on another runtime hears that nothing will come.
                if let Some(acquiring) = acquiring {
                    guards = closed_or_acquired(within(acquiring).await.unwrap());
                }
                for guard in &guards {
                    assert_eq!(guard.loss(), Some(LossReason::Closed));
                }
                drop(guards);
                self.assert_nothing_left(kind, &scene.path, &nodes).await;
            }
        }
    }

    async fn assert_nothing_left(&self, kind: Kind, path: &str, nodes: &[String]) {
        for queue in kind.queues(path) {
            eventually(&format!("nothing of it is in {queue}"), || async {
                let children = children(&self.bystander, &queue).await;
                let is_known = |name: &String| nodes.contains(&format!("{queue}/{name}"));
                children.iter().all(is_known).then_some(())
            })
            .await;
        }
        for node in nodes {
            self.bystander.delete(node, None).await.unwrap();
        }
    }

    /// All cases are over.
    pub(crate) async fn end(&self) {
        watches_of(&self.server, 0).await;
    }
}

impl Scene {
    fn acquire(&self) -> JoinHandle<Result<Vec<LockGuard>>> {
        let lock = self.lock.clone();
        tokio::spawn(async move { lock.acquire().await })
    }
}

/// Whoever had it before keeps the guards, which are lost.
fn closed_or_acquired(acquired: Result<Vec<LockGuard>>) -> Vec<LockGuard> {
    match acquired {
        Ok(guards) => guards,
        Err(Error::Closed) => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}
