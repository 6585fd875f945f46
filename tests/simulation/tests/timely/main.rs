//! Behaviour in time, step by step, on a clock that does not wait. Nothing goes wrong but what a test does.

mod barriers;
mod caches;
mod closing;
mod cohort;
mod cohort_in_trouble;
mod connections;
mod crowds;
mod deadlines;
#[path = "../../../support/every_kind.rs"]
#[allow(dead_code, unreachable_pub, reason = "others use the rest")]
mod every_kind;
mod every_lock;
mod giving_up;
mod grants;
mod holding;
mod hostile;
mod jobs;
mod kept;
#[path = "../../../support/kinds.rs"]
#[allow(dead_code, unreachable_pub, reason = "others use the rest")]
mod kinds;
mod known_in_time;
mod leaders;
mod lingering;
mod lingering_attacks;
mod losses;
mod lost_places;
mod lost_replies;
mod new_paths;
mod omitted;
mod permits;
mod pitfalls;
mod policies;
mod poll_times;
mod proxy;
mod queue;
mod quorum;
mod removal;
mod requests;
mod restarts;
#[path = "../../../support/room.rs"]
#[allow(dead_code, unreachable_pub, reason = "others use the rest")]
mod room;
mod takes;
mod tickets;
mod tries;
mod unanswered;
mod values;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zk_recipes::testing::MemoryEnsemble;
use zk_recipes::{Client, ClientBuilder};
use zk_recipes_simulation::plan::{Conditions, Fault, Plan};
use zk_recipes_simulation::world::{self, World};

use self::poll_times::poll_times;
use self::proxy::Proxy;

/// Longer than some requests and events take.
const A_MOMENT: Duration = Duration::from_millis(20);

/// The session timeout of most clients.
const SESSION: Duration = Duration::from_secs(10);

/// What must happen, happens within this time.
const BOUND: Duration = Duration::from_secs(120);

fn play(scenario: impl AsyncFnOnce(World) + Send + 'static) {
    play_on(1, scenario);
}

/// Plays with several ensembles, of one server each.
fn play_on(ensembles: usize, scenario: impl AsyncFnOnce(World) + Send + 'static) {
    play_with(ensembles, |_| {}, scenario);
}

/// The same with a plan that is changed.
fn play_with(
    ensembles: usize,
    change: impl FnOnce(&mut Plan),
    scenario: impl AsyncFnOnce(World) + Send + 'static,
) {
    let storm = Duration::ZERO;
    let conditions = Conditions { storm, without: Fault::ALL.to_vec(), ..Conditions::default() };
    let mut plan = Plan::of_seed(1, &conditions);
    change(&mut plan);
    let report = world::play_scenario(plan, ensembles, &[], scenario, false);
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

/// It has taken so long, and a moment at most.
fn takes(from: Instant, time: Duration) {
    let took = from.elapsed();
    assert!(took >= time && took < time + A_MOMENT, "{took:?}, not {time:?}");
}

/// The session of a client.
async fn session_id(client: &Client) -> i64 {
    client.zookeeper().await.unwrap().session_id().0
}

/// How many stand in a queue.
fn queue(world: &World, path: &str) -> usize {
    world.servers().children(path).unwrap_or_default().len()
}

/// Polls once, without ever being woken.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits until there are so many nodes.
async fn queue_of(servers: &MemoryEnsemble, path: &str, length: usize) -> Vec<String> {
    within(async {
        loop {
            let children = servers.children(path).unwrap_or_default();
            if children.len() == length {
                return children;
            }
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await
}

/// A client of each of two machines.
async fn two(world: &World) -> [Client; 2] {
    let [one, other, ..] = world.machines() else { panic!("two machines") };
    [one.client().await, other.client().await]
}

fn usual(builder: ClientBuilder) -> ClientBuilder {
    builder.session_timeout(SESSION).drop_timeout(Duration::ZERO)
}

async fn through(proxy: &Proxy, world: &World) -> Client {
    proxy.client(world, |builder| builder.session_timeout(SESSION)).await
}
