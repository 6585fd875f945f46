//! Where histories are told: servers and machines on a clock that does not wait. Nothing goes wrong but what a history does.

use std::ops::Deref;

use zk_recipes_simulation::plan::{Conditions, Fault, Plan};
use zk_recipes_simulation::world::{self, World};

use super::prelude::*;

/// The world of a history, and what connects clients in it.
#[derive(Clone)]
pub(crate) struct Stage(World);

thread_local! {
    /// All clients of a history, which is all that happens on a thread.
    static CLIENTS: RefCell<Vec<Client>> = RefCell::default();
}

/// Has a client closed in the end, and not before.
pub(crate) fn keep(client: Client) -> Client {
    CLIENTS.with_borrow_mut(|clients| clients.push(client.clone()));
    client
}

impl Deref for Stage {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

/// Plays a history, with so many ensembles of one server each.
pub(crate) fn play(ensembles: usize, history: impl AsyncFnOnce(Stage) + Send + 'static) {
    play_with(ensembles, |_| {}, history);
}

/// The same with a plan that is changed.
pub(crate) fn play_with(
    ensembles: usize,
    change: impl FnOnce(&mut Plan),
    history: impl AsyncFnOnce(Stage) + Send + 'static,
) {
    let storm = Duration::ZERO;
    let conditions = Conditions { storm, without: Fault::ALL.to_vec(), ..Conditions::default() };
    let mut plan = Plan::of_seed(1, &conditions);
    change(&mut plan);
    let scenario = async |world| {
        let stage = Stage(world);
        history(stage.clone()).await;
        stage.ends().await;
    };
    let report = world::play_scenario(plan, ensembles, &[], scenario, false);
    assert!(report.violations.is_empty(), "{:?}", report.violations);
}

/// As the plan has it.
pub(crate) fn plain(builder: ClientBuilder) -> ClientBuilder {
    builder
}

pub(crate) fn session(builder: ClientBuilder) -> ClientBuilder {
    builder.session_timeout(SESSION)
}

/// For a client that waits so long for a connection, and tries so often.
pub(crate) fn tries(
    session: Duration,
    connection: Duration,
    policy: RetryPolicy,
) -> impl FnOnce(ClientBuilder) -> ClientBuilder {
    move |builder| {
        let builder = builder.session_timeout(session).drop_timeout(Duration::ZERO);
        builder.connection_timeout(connection).retry_policy(policy)
    }
}

pub(crate) fn usual(builder: ClientBuilder) -> ClientBuilder {
    session(builder).drop_timeout(Duration::ZERO)
}

/// Makes the nodes private, so that no one else may read them.
pub(crate) fn private(builder: ClientBuilder, who: &str) -> ClientBuilder {
    let own = [Acl::new(Permission::ALL, AuthId::new("auth", ""))];
    let builder = usual(builder).auth("digest", format!("{who}:secret"));
    builder.acl_for_path(move |path| path.contains("/_c_").then(|| own.to_vec()))
}

impl Stage {
    /// No ephemeral node is left while all sessions live.
    async fn ends(self) {
        sleep(A_MOMENT).await;
        for ensemble in self.ensembles() {
            let mut left = ensemble.nodes_below("/");
            left.retain(|(_, node)| node.ephemeral_owner != 0);
            assert_eq!(left, []);
        }
        self.0.ends(CLIENTS.take()).await;
    }

    /// A client of a machine.
    pub(crate) async fn client(&self, machine: usize) -> Client {
        self.connect(machine, plain).await
    }

    pub(crate) async fn connect(
        &self,
        machine: usize,
        with: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Client {
        self.connect_to(machine, with, &self.address_of(0)).await
    }

    pub(crate) async fn connect_to(
        &self,
        machine: usize,
        with: impl FnOnce(ClientBuilder) -> ClientBuilder,
        hosts: &str,
    ) -> Client {
        let machine = &self.machines()[machine];
        keep(machine.connect(with(machine.builder()), hosts).await)
    }

    /// Clients of one machine after another.
    pub(crate) async fn clients<const N: usize>(&self) -> [Client; N] {
        let clients = (0..N).map(|number| self.client(number % self.machines().len()));
        join_all(clients).await.try_into().unwrap()
    }

    /// A client with a proxy before it.
    pub(crate) async fn far(&self, with: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Proxy, Client) {
        let proxy = self.proxy(0).await;
        let client = proxy.client(with).await;
        (proxy, client)
    }

    /// And one of another machine.
    pub(crate) async fn far_and_near(
        &self,
        with: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> (Proxy, Client, Client) {
        let (proxy, far) = self.far(with).await;
        (proxy, far, self.client(1).await)
    }

    /// Before the server of an ensemble.
    pub(crate) async fn proxy(&self, ensemble: usize) -> Proxy {
        self.proxy_of(ensemble, 1).await
    }

    /// One of several, with a number from 1.
    pub(crate) async fn proxy_of(&self, ensemble: usize, number: usize) -> Proxy {
        let servers = self.ensembles()[ensemble].clone();
        Proxy::before(self, servers, &format!("10.1.{ensemble}.{number}:2181")).await
    }
}

/// Servers of another kind, with a proxy before the first one.
pub(crate) async fn apart(
    stage: &Stage,
    servers: MemoryEnsembleBuilder,
    address: &str,
) -> (MemoryEnsemble, Proxy) {
    let servers = servers.start().unwrap();
    let proxy = Proxy::before(stage, servers.clone(), address).await;
    (servers, proxy)
}

impl Proxy {
    pub(crate) async fn client(&self, with: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
        keep(self.connect(with).await)
    }
}
