//! What goes by the clock, in calm weather, on a clock that does not wait.

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::time::sleep;
use zk_recipes::{InterProcessMutex, LockOptions};
use zk_recipes_simulation::plan::{Conditions, Fault, Plan};
use zk_recipes_simulation::recipes::Recipe;
use zk_recipes_simulation::world::{self, World};

const PATH: &str = "/locks/a";
/// Longer than a request and its events take.
const SOON: Duration = Duration::from_millis(20);

fn play(scenario: fn(World) -> LocalBoxFuture<'static, ()>) {
    let recipe = Recipe { name: "timely", scenario, paths: &[], operations: "", ensembles: 1 };
    let storm = Duration::ZERO;
    let conditions = Conditions { storm, without: Fault::ALL.to_vec(), ..Conditions::default() };
    let report = world::play(Plan::of_seed(1, &conditions), recipe, false);
    assert!(report.violations.is_empty(), "{:?}", report.violations);
}

#[test]
fn a_lock_lingers_for_a_time_from_its_last_release() {
    const TIME: Duration = Duration::from_millis(500);
    play(|world| {
        Box::pin(async move {
            let client = world.machines()[0].client().await;
            let options = LockOptions::new().linger(TIME);
            let mutex = InterProcessMutex::new(&client, PATH).unwrap().with_options(options).unwrap();
            let guard = mutex.acquire().await.unwrap();
            let node = guard.node_path().to_owned();
            guard.release().await.unwrap();
            for _ in 0..5 {
                sleep(TIME - SOON).await;
                assert!(world.servers().node(&node).is_some());
                let guard = mutex.acquire().await.unwrap();
                assert_eq!(guard.node_path(), node);
                // However long it is held.
                sleep(2 * TIME).await;
                guard.release().await.unwrap();
            }
            sleep(TIME - SOON).await;
            assert!(world.servers().node(&node).is_some());
            sleep(2 * SOON).await;
            assert!(world.servers().node(&node).is_none());
            assert_ne!(mutex.acquire().await.unwrap().node_path(), node);
            world.ends([client]).await;
        })
    });
}
