//! A service in a simulated world: machines add to a balance under a lock. The balance is in a store that knows nothing of
//! ZooKeeper. One version of the service shows the store its fencing token, the other does not.
//!
//! cargo run --release --example balance -- 1000

use std::cell::{Cell, RefCell};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;
use zk_recipes::{Client, Error, InterProcessMutex};
use zk_recipes_simulation::chance;
use zk_recipes_simulation::log::{count, violation};
use zk_recipes_simulation::machine::Machine;
use zk_recipes_simulation::plan::{Conditions, Plan};
use zk_recipes_simulation::recipes::Recipe;
use zk_recipes_simulation::world::{self, Report, World};

const LOCK: &str = "/locks/balance";

/// What the store keeps.
#[derive(Debug, Default)]
struct Table {
    balance: u64,
    /// The greatest token that it was shown.
    token: i64,
}

#[derive(Debug)]
struct StaleToken;

/// A connection to the store.
#[derive(Clone, Default)]
struct Store(Rc<RefCell<Table>>);

impl Store {
    /// Adds one, by a read and a write. The read shows the token, too: what it returns must not be overwritten by someone
    /// who held the lock before.
    async fn add_one(&self, token: i64) -> Result<(), StaleToken> {
        let balance = self.request(token, |table| table.balance).await?;
        self.request(token, move |table| table.balance = balance + 1).await
    }

    /// Sends a request. It arrives even if its sender does not wait for it any more, and some take long.
    async fn request<T: 'static>(
        &self,
        token: i64,
        work: impl FnOnce(&mut Table) -> T + 'static,
    ) -> Result<T, StaleToken> {
        let longest = if chance(16) { 10_000 } else { 20 };
        let (table, delay) = (self.0.clone(), Duration::from_millis(fastrand::u64(1..longest)));
        let request = tokio::task::spawn_local(async move {
            sleep(delay).await;
            let mut table = table.borrow_mut();
            if token < table.token {
                count("refused", 1);
                return Err(StaleToken);
            }
            table.token = token;
            Ok(work(&mut table))
        });
        request.await.expect("an answer")
    }
}

#[derive(Clone)]
struct Service {
    store: Store,
    shows_token: bool,
    /// How often the store has confirmed that one was added.
    confirmed: Rc<Cell<u64>>,
}

impl Service {
    async fn run(self, world: World, machine: Machine) -> Client {
        let client = machine.client().await;
        let mutex = InterProcessMutex::new(&client, LOCK).expect("a valid path");
        while world.is_stormy() {
            let guard = match mutex.acquire().await {
                Ok(guard) => guard,
                Err(Error::Closed) => break,
                Err(_) => continue,
            };
            let token = if self.shows_token { guard.fencing_token() } else { 0 };
            tokio::select! {
                added = self.store.add_one(token) => if added.is_ok() {
                    self.confirmed.update(|number| number + 1);
                    count("added", 1);
                },
                _ = guard.lost() => {}
            }
        }
        client
    }
}

async fn play(world: World, shows_token: bool) {
    let service = Service { store: Store::default(), shows_token, confirmed: Rc::default() };
    let process = service.clone();
    // Returns when all have come to their end. Those that crash begin again.
    let clients = world.processes(move |world, machine| process.clone().run(world, machine)).await;
    let (balance, confirmed) = (service.store.0.borrow().balance, service.confirmed.get());
    if balance < confirmed {
        violation(format!("{confirmed} was added, and the balance is {balance}"));
    }
    // In calm weather, clients that do nothing cost nothing, and no session is left.
    world.ends(clients).await;
}

const CAREFUL: Recipe = Recipe {
    name: "balance",
    scenario: |world| Box::pin(play(world, true)),
    paths: &[LOCK], // where operators delete nodes
    operations: "added",
    ensembles: 1,
    needs_3_6: false,
};

const CARELESS: Recipe = Recipe { scenario: |world| Box::pin(play(world, false)), ..CAREFUL };

fn run(service: Recipe, seed: u64) -> Report {
    let conditions = Conditions { servers: 3, ..Conditions::default() };
    world::play(Plan::of_seed(seed, &conditions), service, false)
}

fn main() -> ExitCode {
    let seeds = std::env::args().nth(1).map_or(100, |seeds| seeds.parse().expect("a number of seeds"));
    let caught = (1..=seeds).find_map(|seed| run(CARELESS, seed).violations.pop().map(|what| (seed, what)));
    match caught {
        Some((seed, what)) => println!("ignores its tokens: caught by seed {seed}: {what}"),
        None => println!("ignores its tokens: not caught in {seeds} seeds"),
    }
    let (mut added, mut refused) = (0, 0);
    for seed in 1..=seeds {
        let Report { violations, counts, .. } = run(CAREFUL, seed);
        if !violations.is_empty() {
            println!("shows its tokens: seed {seed}: {violations:?}");
            return ExitCode::FAILURE;
        }
        added += counts.get("added").unwrap_or(&0);
        refused += counts.get("refused").unwrap_or(&0);
    }
    println!("shows its tokens: {seeds} seeds, {added} added, {refused} refused, nothing lost");
    ExitCode::SUCCESS
}

#[test]
fn who_ignores_the_tokens_is_caught() {
    assert!((1..100).any(|seed| !run(CARELESS, seed).violations.is_empty()));
}

#[test]
fn who_shows_the_tokens_loses_nothing() {
    for seed in 1..20 {
        let report = run(CAREFUL, seed);
        assert!(report.violations.is_empty(), "seed {seed}: {:?}", report.violations);
    }
}
