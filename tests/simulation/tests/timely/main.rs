//! What goes by the clock, in calm weather but for what a test does, on a clock that does not wait.

mod deadlines;
mod lingering;
mod removal;

use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::task::spawn_local;
use tokio::time::timeout;
use zk_recipes::testing::FaultProxy;
use zk_recipes::{Client, ClientBuilder};
use zk_recipes_simulation::network::{Listener, faults};
use zk_recipes_simulation::plan::{Conditions, Fault, Plan};
use zk_recipes_simulation::recipes::Recipe;
use zk_recipes_simulation::world::{self, World};

/// Longer than some requests and events take.
const A_MOMENT: Duration = Duration::from_millis(20);

/// What must happen, happens within this time.
const BOUND: Duration = Duration::from_secs(120);

fn play(scenario: fn(World) -> LocalBoxFuture<'static, ()>) {
    let recipe = Recipe { name: "timely", scenario, paths: &[], operations: "", ensembles: 1 };
    let storm = Duration::ZERO;
    let conditions = Conditions { storm, without: Fault::ALL.to_vec(), ..Conditions::default() };
    let report = world::play(Plan::of_seed(1, &conditions), recipe, false);
    assert!(report.violations.is_empty(), "{:?}", report.violations);
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(BOUND, what).await.expect("it does not come")
}

/// Polls once, without ever being woken.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A proxy before the server of a world.
struct Proxy(Rc<FaultProxy>);

impl Proxy {
    const ADDRESS: &str = "10.0.9.1:2181";

    async fn before(world: &World) -> Self {
        let proxy = Rc::new(FaultProxy::start("").await.unwrap());
        let mut listener = Listener::bind(Self::ADDRESS);
        let (connections, servers) = (proxy.clone(), world.servers().clone());
        spawn_local(async move {
            loop {
                let client = listener.accept().await;
                let (near, far) = tokio::io::duplex(1 << 20);
                spawn_local(servers.serve(0, far));
                spawn_local(connections.serve(client, near));
            }
        });
        Self(proxy)
    }

    async fn client(&self, world: &World, builder: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
        let machine = &world.machines()[0];
        machine.connect(builder(machine.builder()), Self::ADDRESS).await
    }

    fn refuse_connections(&self, refuse: bool) {
        faults::refuse(Self::ADDRESS, refuse);
    }
}

impl Deref for Proxy {
    type Target = FaultProxy;

    fn deref(&self) -> &FaultProxy {
        &self.0
    }
}
