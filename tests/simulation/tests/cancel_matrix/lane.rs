//! Cases one after the other, on one session.

use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::sleep;
use zk_recipes::testing::{Fate, Intercepted, Traffic};
use zk_recipes::zookeeper_client as zk;
use zk_recipes::{Client, RetryPolicy};
use zk_recipes_simulation::world::World;

use super::departure::{Departure, Polls};
use super::operation::{Caller, Operation};
use super::proxy::Proxy;
use super::subject::Kind;
use super::{A_MOMENT, ephemerals_of, poll_times, session_id, tasks_now, within};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// One departure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    step: Step,
    end: End,
    departure: Departure,
}

/// What an operation does when nothing disturbs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    requests: usize,
    /// How many of them come before it waits for the holder.
    before_parked: usize,
    /// How often it is pending.
    polls: usize,
    /// The requests of a try and a release, on a path that was used before.
    probe: usize,
}

impl Plan {
    pub(crate) fn cases(self, operation: Operation) -> Vec<Case> {
        // That one is lost anyway.
        let first = usize::from(operation == Operation::AcquireAgain);
        let mut steps: Vec<_> = (first..self.requests).map(Step::Request).collect();
        if operation.is_let_in() {
            steps.extend([Step::Parked, Step::Granting]);
        }
        let with = |step| End::ALL.map(|end| Departure::ALL.map(|departure| Case { step, end, departure }));
        // Polls are those of a future, whoever drops it.
        let polls = (1..=self.polls).map(Step::Poll);
        let polls = polls.map(|step| Case { step, end: End::Succeeds, departure: Departure::Dropped });
        steps.into_iter().flat_map(with).flatten().chain(polls).collect()
    }
}

/// A client whose callers do one operation and go away, and somebody who keeps them out.
pub(crate) struct Lane {
    world: World,
    kind: Kind,
    operation: Operation,
    proxy: Proxy,
    client: Client,
    others: Client,
    bystander: zk::Client,
    session: i64,
    /// How many tasks there are besides the client.
    tasks_besides: usize,
    /// How many there are with a client that does nothing.
    tasks: usize,
    /// How many new paths there were.
    paths: usize,
}

/// Longer than the longest pause after which the janitor tries again.
const SETTLED: Duration = Duration::from_millis(2100);

/// After it, nodes whose creates were lost are searched for no more.
const LAST_SEARCH: Duration = Duration::from_secs(120);

impl Lane {
    pub(crate) async fn start(world: World, kind: Kind, operation: Operation) -> Self {
        let proxy = Proxy::before(&world, world.servers().clone(), "10.1.0.1:2181").await;
        let others = world.machines()[1].client().await;
        let bystander = others.zookeeper().await.unwrap();
        sleep(SETTLED).await;
        let tasks_besides = tasks_now();
        let client = proxy.connect(|builder| {
            // Long, so that a session is not kept alive by requests that a case does not expect.
            let builder = builder.session_timeout(Duration::from_secs(30));
            builder.retry_policy(RetryPolicy::n_times(1000, Duration::from_millis(5)))
        });
        let client = client.await;
        let session = session_id(&client).await;
        let (tasks, paths) = (0, 0);
        let mut lane = Self {
            world,
            kind,
            operation,
            proxy,
            client,
            others,
            bystander,
            session,
            tasks_besides,
            tasks,
            paths,
        };
        // Makes the queues, and starts what looks after all holds.
        lane.probe(&format!("/{kind:?}/lock")).await;
        sleep(SETTLED).await;
        lane.tasks = tasks_now();
        lane
    }

    /// What comes before the operation. Answers who does it, and the nodes of the holder.
    async fn begin(&mut self) -> (Caller, Vec<String>) {
        let Self { kind, operation, .. } = *self;
        let mut path = format!("/{kind:?}/lock");
        if operation == Operation::AcquireOnNewPath {
            self.paths += 1;
            path = format!("/{kind:?}/new-{}/lock", self.paths);
        }
        let client = self.client.clone();
        let lock = kind.lock(&client, &path);
        if operation == Operation::AcquireKnown {
            for _ in 0..2 {
                within(lock.acquire()).await.unwrap().release().await.unwrap();
            }
        }
        let guard = match operation.is_of_a_holder() {
            true => Some(within(lock.acquire()).await.unwrap()),
            false => None,
        };
        let nodes = match operation.holder() {
            Some(holder) => kind.occupy(holder, &self.bystander, &path).await,
            None => Vec::new(),
        };
        sleep(A_MOMENT).await;
        self.proxy.take_requests();
        (Caller { kind, client, path, lock, guard }, nodes)
    }

    fn let_in(&self, nodes: &[String]) {
        for node in nodes {
            self.world.servers().delete(node);
        }
    }

    fn lose_first_reply(&self) -> Option<Intercepted> {
        (self.operation == Operation::AcquireAgain).then(|| self.proxy.intercept_after(0, Fate::LoseReply))
    }

    /// Does the operation without any disturbance.
    pub(crate) async fn plan(&mut self) -> Plan {
        let (caller, nodes) = self.begin().await;
        let path = caller.path.clone();
        let _again = self.lose_first_reply();
        let polls = Polls::default();
        let task = spawn_local(polls.clone().count(self.operation.of(caller, false)));
        let mut before_parked = 0;
        if self.operation.is_let_in() {
            sleep(A_MOMENT).await;
            assert!(!task.is_finished(), "it waits");
            before_parked = self.proxy.requests_seen();
            self.let_in(&nodes);
        }
        let guard = within(task).await.unwrap().unwrap();
        sleep(A_MOMENT).await;
        let (requests, polls) = (self.proxy.take_requests().len(), polls.now() - 1);
        if self.operation.is_in_vain() {
            assert!(guard.is_none(), "it is taken");
        }
        if let Some(guard) = guard {
            within(guard.release()).await.unwrap();
        }
        self.let_in(&nodes);
        sleep(SETTLED).await;
        self.probe(&path).await;
        let probe = self.probe(&path).await;
        Plan { requests, before_parked, polls, probe }
    }

    /// The lock can be had at once, and is free afterwards. Answers how many requests that took.
    async fn probe(&self, path: &str) -> usize {
        self.proxy.take_requests();
        let guard = within(self.kind.lock(&self.client, path).try_acquire()).await;
        let guard = guard.expect("an acquire right afterwards").expect("the lock is free");
        within(guard.release()).await.unwrap();
        sleep(A_MOMENT).await;
        self.proxy.take_requests().len()
    }

    pub(crate) async fn case(&mut self, plan: Plan, case: Case) {
        let Case { step, departure, .. } = case;
        let (caller, nodes) = self.begin().await;
        let path = caller.path.clone();
        let _again = self.lose_first_reply();
        let doing = self.operation.of(caller, departure == Departure::Deadline);
        if let Step::Poll(times) = step {
            let task = spawn_local(poll_times(doing, times));
            if self.operation.is_let_in() {
                sleep(A_MOMENT).await;
                self.let_in(&nodes);
            }
            // When it was planned, a sign of life of the session may have woken it once more.
            let is_left = within(task).await.unwrap().is_none();
            assert!(is_left || times + 1 >= plan.polls, "it is pending less often");
        } else {
            self.take_away(plan, case, doing, &nodes).await;
        }
        self.assert_nothing_left(plan, &path, &nodes).await;
    }

    async fn take_away<T: 'static>(
        &self,
        plan: Plan,
        case: Case,
        doing: impl Future<Output = T> + 'static,
        nodes: &[String],
    ) {
        let Case { step, end, departure } = case;
        let polls = Polls::default();
        let mut struck = match step {
            Step::Request(request) => Some(self.proxy.intercept_after(request, end.fate())),
            _ => None,
        };
        let is_to_go = async {
            if let (Step::Request(request), Some(intercepted)) = (step, &struck) {
                if self.operation.is_let_in() && request >= plan.before_parked {
                    sleep(A_MOMENT).await;
                    self.let_in(nodes);
                }
                intercepted.happened().await;
                if end == End::Succeeds {
                    let next = polls.now() + 1;
                    struck = None;
                    polls.reach(next).await;
                }
                return;
            }
            sleep(A_MOMENT).await;
            if matches!(end, End::Late | End::Never) {
                self.proxy.set_traffic(Traffic::black_hole_to_client());
            }
            if matches!(step, Step::Granting) {
                self.let_in(nodes);
            }
            if end == End::RequestLost {
                self.proxy.cut();
            }
        };
        let doing = polls.clone().count(doing);
        departure.take_away(doing, self.operation.has_deadline(), is_to_go).await;
        let is_at_the_holder = matches!(step, Step::Parked | Step::Granting);
        if end == End::Never || is_at_the_holder && end == End::ReplyLost {
            self.proxy.cut();
        }
        drop(struck);
        self.proxy.set_traffic(Traffic::pass());
    }

    async fn assert_nothing_left(&self, plan: Plan, path: &str, nodes: &[String]) {
        sleep(SETTLED).await;
        assert_eq!(session_id(&self.client).await, self.session, "the session was replaced");
        let servers = self.world.servers();
        let left = || ephemerals_of(servers, self.session);
        assert_eq!(left(), [""; 0], "nodes are left");
        assert_eq!(servers.watch_count(), 0, "watches are left");
        assert_eq!(tasks_now(), self.tasks, "tasks are left");
        self.let_in(nodes);
        // The first one may have to learn again what is in the queues, and among another one may be the late search for a
        // node whose create was lost.
        let probes = [self.probe(path).await, self.probe(path).await, self.probe(path).await];
        assert!(probes.contains(&plan.probe), "requests of tries and releases: {probes:?}");
        assert_eq!(left(), [""; 0], "nodes are left after a release");
    }

    /// Ends the client, of which nothing may be left.
    pub(crate) async fn end(self) {
        let Self { world, client, proxy, .. } = self;
        sleep(LAST_SEARCH).await;
        assert_eq!(tasks_now(), self.tasks, "tasks are left");
        proxy.take_requests();
        sleep(SETTLED).await;
        assert_eq!(proxy.take_requests(), [], "somebody still sends");
        drop(client);
        sleep(SETTLED).await;
        assert_eq!(tasks_now(), self.tasks_besides, "tasks of the client are left");
        assert_eq!(world.servers().watch_count(), 0, "watches are left");
        world.ends([self.others]).await;
    }
}
