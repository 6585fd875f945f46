//! Behaviour in time, step by step, on a clock that does not wait. Nothing goes wrong but what a test does.

mod barriers;
mod caches;
mod cohort;
mod connections;
mod deadlines;
mod holding;
mod jobs;
mod kept;
#[path = "../../../support/kinds.rs"]
#[allow(dead_code, unreachable_pub, reason = "others use the rest")]
mod kinds;
mod leaders;
mod lingering;
mod policies;
mod quorum;
mod removal;
mod requests;
mod values;

use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use zk_recipes::testing::FaultProxy;
use zk_recipes::{Client, ClientBuilder};
use zk_recipes_simulation::network::{Listener, faults};
use zk_recipes_simulation::plan::{Conditions, Fault, Plan};
use zk_recipes_simulation::recipes::Recipe;
use zk_recipes_simulation::world::{self, Scenario, World};

/// Longer than some requests and events take.
const A_MOMENT: Duration = Duration::from_millis(20);

/// What must happen, happens within this time.
const BOUND: Duration = Duration::from_secs(120);

fn play(scenario: Scenario) {
    play_on(1, scenario);
}

/// Plays with several ensembles, of one server each.
fn play_on(ensembles: usize, scenario: Scenario) {
    let recipe = Recipe { name: "timely", scenario, paths: &[], operations: "", ensembles };
    let storm = Duration::ZERO;
    let conditions = Conditions { storm, without: Fault::ALL.to_vec(), ..Conditions::default() };
    let report = world::play(Plan::of_seed(1, &conditions), recipe, false);
    assert!(report.violations.is_empty(), "{:?}", report.violations);
}

/// Ends a scenario. No ephemeral node may be left.
async fn ends(world: &World, clients: impl IntoIterator<Item = Client>) {
    sleep(A_MOMENT).await;
    for ensemble in world.ensembles() {
        let mut left = ensemble.nodes_below("/");
        left.retain(|(_, node)| node.ephemeral_owner != 0);
        assert_eq!(left, []);
    }
    world.ends(clients).await;
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(BOUND, what).await.expect("it does not come")
}

/// Polls once, without ever being woken.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A proxy before the server of an ensemble.
struct Proxy {
    proxy: Rc<FaultProxy>,
    address: String,
}

impl Proxy {
    async fn before(world: &World, ensemble: usize) -> Self {
        Self::one_of(world, ensemble, 1).await
    }

    /// One of several, with a number from 1.
    async fn one_of(world: &World, ensemble: usize, number: usize) -> Self {
        let (proxy, address) =
            (Rc::new(FaultProxy::start("").await.unwrap()), format!("10.1.{ensemble}.{number}:2181"));
        let mut listener = Listener::bind(&address);
        let (connections, servers) = (proxy.clone(), world.ensembles()[ensemble].clone());
        spawn_local(async move {
            loop {
                let client = listener.accept().await;
                let (near, far) = tokio::io::duplex(1 << 20);
                spawn_local(servers.serve(0, far));
                spawn_local(connections.serve(client, near));
            }
        });
        Self { proxy, address }
    }

    async fn client(&self, world: &World, builder: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
        let machine = &world.machines()[0];
        machine.connect(builder(machine.builder()), &self.address).await
    }

    fn refuse_connections(&self, refuse: bool) {
        faults::refuse(&self.address, refuse);
    }
}

impl Deref for Proxy {
    type Target = FaultProxy;

    fn deref(&self) -> &FaultProxy {
        &self.proxy
    }
}
