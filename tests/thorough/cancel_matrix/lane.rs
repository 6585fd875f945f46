//! Cases one after the other, on one session.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zk_recipes::testing::{Fate, FaultProxy, Intercepted, Traffic};
use zk_recipes::{Client, LockGuard, RetryPolicy};
use zookeeper_client as zk;

use super::departure::{Departure, Polled, Polls};
use super::operation::Operation;
use super::subject::{Kind, Lock};
use super::support::*;

/// When a caller goes away.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// During this request, the first one being 0.
    Request(usize),
    /// When its future was pending this often.
    Poll(usize),
    /// While it waits for the holder.
    Parked,
    /// When the holder releases.
    Granting,
}

/// How the step ends at which a caller goes away.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Succeeds,
    /// The request does not reach the server: the connection is cut.
    RequestLost,
    /// It is done, but the connection is cut before the reply.
    ReplyLost,
    /// The reply comes when the caller is gone.
    Late,
    /// The connection is cut when the caller is gone.
    Never,
}

impl End {
    pub(crate) const ALL: [Self; 5] =
        [Self::Succeeds, Self::RequestLost, Self::ReplyLost, Self::Late, Self::Never];

    pub(crate) fn fate(self) -> Fate {
        match self {
            Self::RequestLost => Fate::LoseRequest,
            Self::ReplyLost => Fate::LoseReply,
            Self::Succeeds | Self::Late | Self::Never => Fate::HoldReply,
        }
    }
}

/// What an operation does when nothing disturbs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    requests: usize,
    /// How many of them come before it waits for the holder.
    before_parked: usize,
    polls: usize,
    /// Those of a try and a release, on a path that was used before.
    probe: usize,
}

impl Plan {
    pub(crate) fn steps(&self, operation: Operation) -> Vec<(Step, &'static [End])> {
        let first = usize::from(operation == Operation::AcquireAgain);
        let mut steps: Vec<_> =
            (first..self.requests).map(|request| (Step::Request(request), &End::ALL[..])).collect();
        steps.extend((1..=self.polls).map(|polls| (Step::Poll(polls), &End::ALL[..1])));
        if operation.is_let_in() {
            steps.extend([(Step::Parked, &End::ALL[..]), (Step::Granting, &End::ALL[..])]);
        }
        steps
    }
}

/// A server, a client whose callers go away, and somebody who looks.
pub(crate) struct Lane {
    server: Server,
    proxy: FaultProxy,
    /// Until the end.
    client: Option<Client>,
    /// That of the client alone.
    runtime: Option<Runtime>,
    bystander: zk::Client,
    session: i64,
    /// How many tasks a client has that does nothing.
    tasks: usize,
    /// Locks whose queues are there.
    used: BTreeSet<Kind>,
    /// How many new paths there were.
    paths: usize,
}

/// A case before its operation begins.
struct Scene {
    path: String,
    lock: Lock,
    guards: Vec<LockGuard>,
    /// Those of the holder.
    nodes: Vec<String>,
}

impl Lane {
    pub(crate) async fn start() -> Self {
        let server = lasting_server().await;
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let address = proxy.connect_string();
        let client = runtime.spawn(async move {
            // Long, so that a session is not kept alive by requests that a case does not expect.
            let builder = builder().session_timeout(Duration::from_secs(30));
            let builder = builder.retry_policy(RetryPolicy::n_times(1000, Duration::from_millis(5)));
            builder.connect(&address).await.unwrap()
        });
        let client = client.await.unwrap();
        let bystander = bystander(&server).await;
        let session = session_id(&client).await;
        // The first hold starts what looks after all of them.
        mutex(&client).acquire().await.unwrap().release().await.unwrap();
        let tasks = runtime.metrics().num_alive_tasks();
        let (client, runtime) = (Some(client), Some(runtime));
        Self { server, proxy, client, runtime, bystander, session, tasks, used: BTreeSet::new(), paths: 0 }
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("it has not ended")
    }

    async fn begin(&mut self, kind: Kind, operation: Operation) -> Scene {
        let mut path = format!("/{kind:?}/lock");
        if operation == Operation::AcquireOnNewPath {
            self.paths += 1;
            path = format!("/{kind:?}/new-{}/lock", self.paths);
        }
        let lock = kind.lock(self.client(), &path);
        if operation != Operation::AcquireOnNewPath && self.used.insert(kind) {
            // Makes the queues.
            release(within(lock.acquire()).await.unwrap()).await;
        }
        if operation == Operation::AcquireKnown {
            for _ in 0..2 {
                release(within(lock.acquire()).await.unwrap()).await;
            }
        }
        let mut guards = Vec::new();
        if operation.is_of_a_holder() {
            guards = within(lock.acquire()).await.unwrap();
        }
        let nodes = match operation.holder() {
            Some(holder) => kind.occupy(holder, &self.bystander, &path).await,
            None => Vec::new(),
        };
        self.quiet().await;
        Scene { path, lock, guards, nodes }
    }

    /// What went before shows no more.
    async fn quiet(&self) {
        self.fence().await;
        eventually("the tasks of earlier holds end", || async {
            (self.tasks_now() <= self.tasks + 3).then_some(())
        })
        .await;
        self.proxy.take_requests();
    }

    fn tasks_now(&self) -> usize {
        self.runtime.as_ref().map_or(0, |runtime| runtime.metrics().num_alive_tasks())
    }

    /// Whatever the client has sent is done when this returns.
    async fn fence(&self) {
        eventually("the session is served", || async {
            let zookeeper = self.client().zookeeper().await.ok()?;
            assert_eq!(zookeeper.session_id().0, self.session, "the session was replaced");
            zookeeper.check_stat("/").await.ok()
        })
        .await;
    }

    async fn let_in(&self, scene: &Scene) {
        for node in &scene.nodes {
            match self.bystander.delete(node, None).await {
                Ok(()) | Err(zk::Error::NoNode) => {}
                Err(error) => panic!("{node}: {error}"),
            }
        }
    }

    fn lose_first_reply(&self, operation: Operation) -> Option<Intercepted> {
        (operation == Operation::AcquireAgain).then(|| self.proxy.intercept_after(0, Fate::LoseReply))
    }

    /// Does the operation without any disturbance. What an earlier case still has to send may show among the requests,
    /// but not each time.
    pub(crate) async fn plan(&mut self, kind: Kind, operation: Operation) -> Plan {
        let mut plan = self.try_plan(kind, operation).await;
        for _ in 0..3 {
            let other = self.try_plan(kind, operation).await;
            plan = if other.requests < plan.requests { other } else { plan };
        }
        plan
    }

    async fn try_plan(&mut self, kind: Kind, operation: Operation) -> Plan {
        let mut scene = self.begin(kind, operation).await;
        let _again = self.lose_first_reply(operation);
        let polls = Polls::default();
        let guards = std::mem::take(&mut scene.guards);
        let doing = operation.of(scene.lock.clone(), guards, self.client().clone(), false);
        let task = tokio::spawn(Polled { future: Box::pin(doing), polls: polls.clone() });
        let mut before_parked = 0;
        if operation.is_let_in() {
            eventually("it waits for the holder", || async {
                let replies = self.proxy.replies_seen();
                tokio::time::sleep(Duration::from_millis(50)).await;
                let is_parked = watches(&self.server).await > 0;
                (is_parked && self.proxy.replies_seen() == replies).then_some(())
            })
            .await;
            before_parked = self.proxy.requests_seen();
            self.let_in(&scene).await;
        }
        let guards = within(task).await.unwrap().unwrap();
        self.fence().await;
        let requests = self.proxy.take_requests().len() - 1;
        let polls = polls.now() - 1;
        release(guards).await;
        self.let_in(&scene).await;
        self.quiet().await;
        // Something of what went before may still be among the first ones.
        let mut probe = usize::MAX;
        for _ in 0..5 {
            probe = probe.min(self.probe(&scene.lock).await);
        }
        Plan { requests, before_parked, polls, probe }
    }

    /// The lock can be had at once, and is free afterwards. Answers how many requests that took.
    async fn probe(&self, lock: &Lock) -> usize {
        self.proxy.take_requests();
        let guards = within(lock.try_acquire()).await.expect("an acquire right afterwards");
        assert!(!guards.is_empty(), "the lock is taken");
        release(guards).await;
        self.fence().await;
        self.proxy.take_requests().len()
    }

    pub(crate) async fn case(
        &mut self,
        kind: Kind,
        operation: Operation,
        plan: Plan,
        step: Step,
        end: End,
        departure: Departure,
    ) {
        let mut scene = self.begin(kind, operation).await;
        let replies = self.proxy.replies_seen();
        let _again = self.lose_first_reply(operation);
        let polls = Polls::default();
        let guards = std::mem::take(&mut scene.guards);
        let is_in_a_hurry = departure == Departure::Deadline;
        let doing = operation.of(scene.lock.clone(), guards, self.client().clone(), is_in_a_hurry);
        let doing = Polled { future: Box::pin(doing), polls: polls.clone() };
        // In the caller's task it is polled along with this, else it must be asked.
        let has_own_task = matches!(departure, Departure::Aborted | Departure::ShutDown);
        let mut struck = match step {
            Step::Request(request) => Some(self.proxy.intercept_after(request, end.fate())),
            Step::Poll(_) | Step::Parked | Step::Granting => None,
        };
        let is_to_go = async {
            let parked = || async {
                eventually("it waits for the holder", || async {
                    (self.proxy.replies_seen() >= replies + plan.before_parked).then_some(())
                })
                .await
            };
            match step {
                Step::Request(request) => {
                    if operation.is_let_in() && request >= plan.before_parked {
                        parked().await;
                        self.let_in(&scene).await;
                    }
                    if let Some(intercepted) = &struck {
                        intercepted.happened().await;
                    }
                    if matches!(end, End::Succeeds) {
                        let next = polls.now() + 1;
                        drop(struck.take());
                        polls.reach(next, has_own_task).await;
                    }
                }
                Step::Poll(times) => polls.reach(times, has_own_task).await,
                Step::Parked | Step::Granting => {
                    parked().await;
                    let goes_silent = matches!(end, End::Late | End::Never);
                    if goes_silent {
                        self.proxy.set_traffic(Traffic::black_hole_to_client());
                    }
                    if matches!(step, Step::Granting) {
                        self.let_in(&scene).await;
                    }
                    if matches!(end, End::RequestLost) {
                        self.proxy.cut();
                    }
                }
            }
        };
        within(departure.take_away(doing, operation.has_deadline(), is_to_go)).await;
        let is_at_the_holder = matches!(step, Step::Parked | Step::Granting);
        if matches!(end, End::Never) || is_at_the_holder && matches!(end, End::ReplyLost) {
            self.proxy.cut();
        }
        drop(struck);
        self.proxy.set_traffic(Traffic::pass());
        self.assert_nothing_left(kind, &scene, plan).await;
    }

    async fn assert_nothing_left(&self, kind: Kind, scene: &Scene, plan: Plan) {
        self.fence().await;
        self.assert_no_nodes_but(kind, scene, &scene.nodes).await;
        watches_of(&self.server, 0).await;
        eventually("no task is left", || async { (self.tasks_now() == self.tasks).then_some(()) }).await;
        self.assert_no_nodes_but(kind, scene, &scene.nodes).await;
        self.let_in(scene).await;
        eventually("nobody sends what the lock does not need", || async {
            (self.probe(&scene.lock).await == plan.probe).then_some(())
        })
        .await;
        self.assert_no_nodes_but(kind, scene, &[]).await;
    }

    async fn assert_no_nodes_but(&self, kind: Kind, scene: &Scene, nodes: &[String]) {
        for queue in kind.queues(&scene.path) {
            eventually(&format!("nothing of it is in {queue}"), || async {
                let children = children(&self.bystander, &queue).await;
                let is_known = |name: &String| nodes.contains(&format!("{queue}/{name}"));
                children.iter().all(is_known).then_some(())
            })
            .await;
        }
    }

    /// Ends the client, of which nothing may be left.
    pub(crate) async fn end(mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        eventually("no task is left", || async {
            (runtime.metrics().num_alive_tasks() == self.tasks).then_some(())
        })
        .await;
        eventually("nobody sends anything any more", || async {
            self.proxy.take_requests();
            // Longer than the longest pause after which the janitor tries again.
            tokio::time::sleep(Duration::from_millis(2100)).await;
            self.proxy.take_requests().is_empty().then_some(())
        })
        .await;
        self.client.take();
        eventually("all tasks of the client end", || async {
            (runtime.metrics().num_alive_tasks() == 0).then_some(())
        })
        .await;
        watches_of(&self.server, 0).await;
        runtime.shutdown_background();
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // It does not wait, as one that is just dropped.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn release(guards: Vec<LockGuard>) {
    for guard in guards {
        within(guard.release()).await.unwrap();
    }
}
