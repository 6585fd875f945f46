//! Cases in which the session ends: with a client of its own each.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use zk_recipes::testing::{Request, Traffic};
use zk_recipes::zookeeper_client as zk;
use zk_recipes::{Client, Error, LockGuard, LossReason, Result, RetryPolicy};
use zk_recipes_simulation::world::World;

use super::departure::{Departure, Polls};
use super::every_kind::Lock;
use super::lane::End;
use super::proxy::Proxy;
use super::subject::{Holder, Kind};
use super::{A_MOMENT, ephemerals_of, session_id, tasks_now, within};

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
    /// What runs it ends.
    ShutDown,
}

/// One client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    life: Life,
    ending: Ending,
    end: End,
}

/// After it, whatever is left of a client is gone.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// The request by which a session is closed.
const CLOSE_SESSION: Request = Request::Other(-11);

/// What the cases of one kind of lock share.
pub(crate) struct Stage {
    world: World,
    kind: Kind,
    proxy: Proxy,
    others: Client,
    bystander: zk::Client,
    /// How many tasks there are besides those of a case.
    tasks: usize,
}

/// A client, and its lock.
struct Scene {
    /// Its tasks end with it, as those of a runtime.
    runtime: CancellationToken,
    client: Client,
    session: i64,
    lock: Lock,
}

impl Stage {
    pub(crate) async fn start(world: World, kind: Kind) -> Self {
        let proxy = Proxy::before(&world, world.servers().clone(), "10.1.0.1:2181").await;
        let others = world.machines()[1].client().await;
        let bystander = others.zookeeper().await.unwrap();
        sleep(SESSION_TIMEOUT).await;
        Self { world, kind, proxy, others, bystander, tasks: tasks_now() }
    }

    fn path(&self) -> String {
        format!("/{:?}/lock", self.kind)
    }

    async fn scene(&self) -> Scene {
        let runtime = CancellationToken::new();
        let its = runtime.clone();
        let client = self.proxy.connect(|builder| {
            builder
                .wrap_tasks(move |task| Box::pin(its.clone().run_until_cancelled_owned(task).map(drop)))
                .session_timeout(SESSION_TIMEOUT)
                .connection_timeout(2 * SESSION_TIMEOUT)
                .retry_policy(RetryPolicy::n_times(1000, Duration::from_millis(5)))
        });
        let client = client.await;
        let lock = self.kind.lock(&client, &self.path());
        // Makes the queues.
        within(lock.acquire()).await.unwrap().release().await.unwrap();
        let session = session_id(&client).await;
        sleep(A_MOMENT).await;
        self.proxy.take_requests();
        Scene { runtime, client, session, lock }
    }

    /// At each request of an acquire, a client can end.
    pub(crate) async fn cases(&self) -> Vec<Case> {
        let scene = self.scene().await;
        within(scene.lock.acquire()).await.unwrap().release().await.unwrap();
        sleep(A_MOMENT).await;
        let releases = 1;
        let acquiring = (0..self.proxy.take_requests().len() - releases).map(Life::Acquiring);
        within(scene.client.close()).await;
        let mut cases = Vec::new();
        for life in [Life::Holding, Life::Waiting].into_iter().chain(acquiring) {
            for end in End::ALL {
                cases.push(Case { life, ending: Ending::ShutDown, end });
                if !matches!(life, Life::Acquiring(1..)) {
                    let closed = Departure::ALL.map(Ending::Closed);
                    cases.extend(closed.map(|ending| Case { life, ending, end }));
                }
            }
        }
        cases
    }

    pub(crate) async fn case(&self, Case { life, ending, end }: Case) {
        let scene = self.scene().await;
        let nodes = match life {
            Life::Waiting => self.kind.occupy(Holder::Last, &self.bystander, &self.path()).await,
            Life::Holding | Life::Acquiring(_) => Vec::new(),
        };
        let mut guard = None;
        let mut acquiring = None;
        let mut struck = None;
        match life {
            Life::Holding => {
                let held = within(scene.lock.acquire()).await.unwrap();
                // So that its node is watched.
                drop(held.watch_state());
                guard = Some(held);
            }
            Life::Waiting => {
                acquiring = Some(scene.acquire());
                sleep(A_MOMENT).await;
            }
            Life::Acquiring(request) => {
                let intercepted = self.proxy.intercept_after(request, end.fate());
                acquiring = Some(scene.acquire());
                within(intercepted.happened()).await;
                struck = Some(intercepted).filter(|_| end != End::Succeeds);
            }
        }
        let Scene { runtime, client, session, lock } = scene;
        match ending {
            Ending::Closed(departure) => {
                let closing = self.proxy.intercept(CLOSE_SESSION, end.fate());
                let polls = Polls::default();
                let closed = client.clone();
                let close = polls.clone().count(async move { closed.close().await });
                let is_to_go = async {
                    polls.reach(1).await;
                    if end != End::Never {
                        struck = None;
                    }
                    // It is not sent where there is no connection, or replies are outstanding.
                    let _ = timeout(Duration::from_millis(100), closing.happened()).await;
                };
                departure.take_away(close, false, is_to_go).await;
                assert!(client.is_closed());
                if end == End::Never {
                    self.proxy.cut();
                }
            }
            Ending::ShutDown => {
                match end {
                    End::RequestLost | End::ReplyLost => self.proxy.cut(),
                    End::Late | End::Never => self.proxy.set_traffic(Traffic::black_hole_to_client()),
                    End::Succeeds => {}
                }
                runtime.cancel();
                sleep(A_MOMENT).await;
                if end == End::Never {
                    self.proxy.cut();
                }
                self.proxy.set_traffic(Traffic::pass());
            }
        }
        drop(struck);
        // Whoever waits for the client hears that nothing will come.
        if let Some(acquiring) = acquiring {
            guard = match within(acquiring).await.unwrap() {
                // Whoever had it before keeps the guard, which is lost.
                Ok(guard) => Some(guard),
                Err(Error::Closed) => None,
                Err(error) => panic!("{error}"),
            };
        }
        if let Some(guard) = guard {
            assert_eq!(guard.loss(), Some(LossReason::Closed));
        }
        drop((client, lock));
        sleep(2 * SESSION_TIMEOUT).await;
        let servers = self.world.servers();
        assert_eq!(tasks_now(), self.tasks, "tasks are left");
        assert_eq!(ephemerals_of(servers, session), [""; 0], "nodes are left");
        assert!(!servers.session_ids().contains(&session), "the session is left");
        assert_eq!(servers.watch_count(), 0, "watches are left");
        for node in nodes {
            assert!(servers.delete(&node));
        }
    }

    pub(crate) async fn end(self) {
        self.world.ends([self.others]).await;
    }
}

impl Scene {
    fn acquire(&self) -> JoinHandle<Result<LockGuard>> {
        let lock = self.lock.clone();
        spawn_local(async move { lock.acquire().await })
    }
}
