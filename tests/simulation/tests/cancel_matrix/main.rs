//! Whoever goes away, at whichever step of whatever it does: nothing of it stays.
//!
//! Each lock, with each of its operations, at each request and each pending poll, for each way to go and each end of
//! the step.

mod departure;
mod ending;
#[path = "../../../support/every_kind.rs"]
#[allow(dead_code, unreachable_pub, reason = "others use the rest")]
mod every_kind;
mod lane;
mod operation;
#[path = "../timely/poll_times.rs"]
mod poll_times;
#[path = "../timely/proxy.rs"]
#[allow(dead_code, reason = "others use the rest")]
mod proxy;
mod subject;

use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::time::timeout;
use zk_recipes::Client;
use zk_recipes::testing::MemoryEnsemble;
use zk_recipes_simulation::network::faults;
use zk_recipes_simulation::plan::{Conditions, Fault, Plan};
use zk_recipes_simulation::world::{self, World};

use self::ending::Stage;
use self::lane::Lane;
use self::operation::Operation;
use self::poll_times::poll_times;
use self::subject::Kind;

/// Longer than some requests and events take.
const A_MOMENT: Duration = Duration::from_millis(20);

/// What must happen, happens within this time.
const BOUND: Duration = Duration::from_secs(60);

/// How many cases there were, or which one failed.
type Outcome = Result<usize, String>;

/// Tests each kind of lock, which has at least so many cases while the session lives, and when it ends.
macro_rules! each_kind {
    ($($name:ident: $kind:ident, $living:literal, $ending:literal;)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn nothing_stays_while_the_session_lives() {
                let kind = Kind::$kind;
                let operations = Operation::all_of(kind).into_iter();
                let outcomes = operations.map(|operation| {
                    let outcome = play(async move |world| of_one_operation(world, kind, operation).await);
                    outcome.map_err(|why| format!("{operation:?}, {why}"))
                });
                tell(kind, outcomes.collect(), $living);
            }

            #[test]
            fn nothing_stays_when_the_session_ends() {
                let kind = Kind::$kind;
                tell(kind, vec![play(async move |world| of_ending_sessions(world, kind).await)], $ending);
            }
        })*
    };
}

each_kind! {
    mutex: Mutex, 900, 80;
    reader: Reader, 900, 80;
    writer: Writer, 900, 80;
    downgraded: Downgraded, 1000, 90;
    permit: Permit, 2000, 90;
    permits: Permits, 2000, 90;
    shared_count: SharedCount, 2500, 100;
    semaphore_mutex: SemaphoreMutex, 2000, 90;
    joint: Joint, 2500, 100;
    mixed: Mixed, 3200, 140;
}

/// Shows how many cases there were, and the first one of each operation that failed.
fn tell(kind: Kind, outcomes: Vec<Outcome>, least: usize) {
    let cases: usize = outcomes.iter().flatten().sum();
    let failures: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{kind:?}: {}", failures.join("\n"));
    // Past the capture of the test harness.
    let _ = writeln!(std::io::stderr(), "{kind:?}: {cases} cases");
    assert!(cases >= least, "{kind:?} had at least {least} cases, and has {cases}");
}

async fn of_one_operation(world: World, kind: Kind, operation: Operation) -> Outcome {
    let mut lane = Lane::start(world, kind, operation).await;
    let plan = lane.plan().await;
    let cases = plan.cases(operation);
    for case in &cases {
        let played = AssertUnwindSafe(lane.case(plan, *case)).catch_unwind().await;
        played.map_err(|panic| format!("{case:?} of {plan:?}: {}", why(&*panic)))?;
    }
    let ended = AssertUnwindSafe(lane.end()).catch_unwind().await;
    ended.map_err(|panic| format!("in the end: {}", why(&*panic)))?;
    Ok(cases.len())
}

async fn of_ending_sessions(world: World, kind: Kind) -> Outcome {
    let stage = Stage::start(world, kind).await;
    let cases = stage.cases().await;
    for case in &cases {
        let played = AssertUnwindSafe(stage.case(*case)).catch_unwind().await;
        played.map_err(|panic| format!("{case:?}: {}", why(&*panic)))?;
    }
    stage.end().await;
    Ok(cases.len())
}

fn play(scenario: impl AsyncFnOnce(World) -> Outcome + Send + 'static) -> Outcome {
    // One in which nothing goes wrong, so long that there is time for all cases.
    let storm = Duration::from_secs(3600);
    let conditions = Conditions { storm, without: Fault::ALL.to_vec(), ..Conditions::default() };
    let (tell, told) = mpsc::channel();
    let scenario = async move |world| {
        // So that a future is polled as often each time.
        faults::slow(200..=200);
        tell.send(scenario(world).await).unwrap();
    };
    let mut plan = Plan::of_seed(1, &conditions);
    // Queues stay.
    plan.reap_interval = 10 * storm;
    let report = world::play_scenario(plan, 1, &[], scenario, false);
    match told.recv().map_err(|_| "it does not end".to_owned())? {
        Ok(_) if !report.violations.is_empty() => Err(report.violations.join("\n")),
        outcome => outcome,
    }
}

/// Why something panicked.
fn why(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or(panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(BOUND, what).await.expect("it does not come")
}

/// The session of a client.
async fn session_id(client: &Client) -> i64 {
    within(client.zookeeper()).await.unwrap().session_id().0
}

/// How many tasks there are.
fn tasks_now() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// The nodes of a session.
fn ephemerals_of(servers: &MemoryEnsemble, session: i64) -> Vec<String> {
    let nodes = servers.nodes_below("/").into_iter();
    nodes.filter(|(_, node)| node.ephemeral_owner == session).map(|(path, _)| path).collect()
}
