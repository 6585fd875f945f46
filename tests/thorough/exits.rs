//! Programs that just end: what they held must be free when they are gone.
//!
//! Each way to end is tried in processes of their own, one after the other: 50 times on each kind of runtime, or as often
//! as `EXITS` says. With `DROP_TIMEOUT_MS=0` the tests fail: then the drop of the last handle waits for nothing.

use std::error::Error;
use std::process::{Command, ExitCode};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use zk_recipes::blocking;
use zk_recipes::testing::TestingServer;
use zk_recipes::{
    Client, ClientBuilder, InterProcessMutex, LeaderLatch, LeaderOptions, LeaderSelector, Owner,
};
use zookeeper_client as zk;

/// Set for the processes under test: how they are to end, where, and by which server.
const WAY: &str = "EXITS_WAY";
const FLAVOR: &str = "EXITS_FLAVOR";
const SERVER: &str = "EXITS_SERVER";

/// How processes end.
const WAYS: [&str; 14] = [
    "the guard is dropped, and main returns",
    "main returns, and holds",
    "main returns an error, and holds",
    "main panics, and holds",
    "main returns, and 50 tasks wait",
    "main returns, and a task holds",
    "main returns, and a latch leads",
    "main returns, and a task works as a leader",
    "main returns, and a selector works",
    "main returns, and a selector has the client",
    "main returns, and has no runtime",
    "main returns, and holds as a thread",
    "main closes, and 50 threads wait",
    "main returns, and a thread leads",
];
const FLAVORS: [&str; 2] = ["current_thread", "multi_thread"];

const PANIC: &str = "as it is to be";

/// After the end of the process, what it held is free.
const BOUND: Duration = Duration::from_millis(100);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    match std::env::var(WAY) {
        Ok(way) => end(&way).map(|()| ExitCode::SUCCESS),
        Err(_) => Ok(watch_the_ends()),
    }
}

// --- A process that ends ---

fn end(way: &str) -> Result<(), Box<dyn Error>> {
    if !way.contains("panics") {
        // As with `panic = "abort"`, also at panics that are caught.
        std::panic::set_hook(Box::new(|panic| {
            eprintln!("{panic}");
            std::process::abort();
        }));
    }
    if way.contains("thread") {
        return run_on_threads(way);
    }
    if way.contains("no runtime") {
        return futures_executor::block_on(run(way));
    }
    runtime().block_on(run(way))
}

fn runtime() -> Runtime {
    let mut builder = match std::env::var(FLAVOR).as_deref() {
        Ok("current_thread") => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.enable_all().build().unwrap()
}

fn builder() -> Result<ClientBuilder, Box<dyn Error>> {
    let builder = Client::builder().session_timeout(Duration::from_secs(20));
    Ok(match std::env::var("DROP_TIMEOUT_MS") {
        Ok(timeout) => builder.drop_timeout(Duration::from_millis(timeout.parse()?)),
        // More than the default, which a machine that stands still for a moment may exceed.
        Err(_) => builder.drop_timeout(Duration::from_secs(10)),
    })
}

fn run_on_threads(way: &str) -> Result<(), Box<dyn Error>> {
    let client = builder()?.connect_blocking(&std::env::var(SERVER)?)?;
    if way.contains("leads") {
        let (works, working) = mpsc::channel();
        let work = move |leadership: blocking::Leadership| {
            works.send(()).unwrap();
            leadership.resign_requested()
        };
        let _selector = blocking::LeaderSelector::start(&client, PATH, LeaderOptions::new(), work)?;
        return Ok(working.recv()?);
    }
    let mutex = blocking::InterProcessMutex::new(&client, PATH)?;
    let _guard = mutex.acquire()?;
    if way.contains("wait") {
        for _ in 0..50 {
            let mutex = mutex.clone();
            std::thread::spawn(move || mutex.acquire());
        }
        while mutex.participants()?.len() < 51 {}
        client.close()?;
    }
    Ok(())
}

async fn run(way: &str) -> Result<(), Box<dyn Error>> {
    let client = builder()?.connect(&std::env::var(SERVER)?).await?;
    let mutex = InterProcessMutex::new(&client, PATH)?;
    match way {
        "main returns, and a latch leads" => {
            let latch = LeaderLatch::start(&client, PATH, LeaderOptions::new())?;
            latch.await_leadership().await?;
            return Ok(());
        }
        "main returns, and a task works as a leader" => {
            let latch = LeaderLatch::start(&client, PATH, LeaderOptions::new())?;
            let leadership = latch.await_leadership().await?;
            tokio::spawn(async move { leadership.run(std::future::pending::<()>()).await });
            tokio::task::yield_now().await;
            return Ok(());
        }
        "main returns, and a selector works" | "main returns, and a selector has the client" => {
            let (works, working) = tokio::sync::oneshot::channel();
            let mut works = Some(works);
            let own = way.contains("has the client").then(|| client.clone());
            let _selector = LeaderSelector::start(&client, PATH, LeaderOptions::new(), move |_| {
                let _ = works.take().map(|works| works.send(()));
                let own = own.clone();
                async move {
                    let _own = own;
                    std::future::pending::<Result<(), std::io::Error>>().await
                }
            })?;
            return Ok(working.await?);
        }
        _ => {}
    }
    let guard = mutex.acquire().await?;
    match way {
        "the guard is dropped, and main returns" => drop(guard),
        "main returns an error, and holds" => Err("as it is to be")?,
        "main panics, and holds" => panic!("{PANIC}"),
        "main returns, and 50 tasks wait" => {
            for _ in 0..50 {
                let mutex = mutex.clone();
                tokio::spawn(async move { mutex.owned_by(&Owner::new()).acquire().await });
            }
            while mutex.participants().await?.len() < 51 {}
        }
        "main returns, and a task holds" => {
            drop((client, mutex));
            tokio::spawn(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
        }
        _ => {}
    }
    Ok(())
}

// --- Those who watch ---

const PATH: &str = "/locks/of-a-process";

/// How the processes of one way have ended.
#[derive(Default)]
struct Ends {
    tried: usize,
    free_late: usize,
    slowest: Duration,
    /// What else was wrong with them.
    wrong: Vec<String>,
}

fn watch_the_ends() -> ExitCode {
    let times = std::env::var("EXITS").map_or(50, |times| times.parse().expect("EXITS is a number"));
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, zookeeper) = runtime.block_on(async {
        let server = TestingServer::start().await.unwrap();
        let zookeeper = zk::Client::connect(&server.connect_string()).await.unwrap();
        (server, zookeeper)
    });
    let mut is_clean = true;
    println!("{:43} {:>14} {:>6} {:>10} {:>9}", "end", "runtime", "ends", "free late", "slowest");
    for way in WAYS {
        for flavor in FLAVORS {
            let mut ends = Ends::default();
            for _ in 0..times {
                ends.watch(way, flavor, &server, || {
                    let list = runtime.block_on(zookeeper.list_children(PATH));
                    list.map_or(0, |children| children.len())
                });
            }
            let Ends { tried, free_late, slowest, wrong } = &ends;
            println!("{way:43} {flavor:>14} {tried:>6} {free_late:>10} {slowest:>9.0?}");
            wrong.iter().for_each(|wrong| println!("    {wrong}"));
            is_clean &= *free_late == 0 && wrong.is_empty();
        }
    }
    drop(zookeeper);
    runtime.block_on(async move { drop(server) });
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Ends {
    /// Has a process end in that way.
    fn watch(&mut self, way: &str, flavor: &str, server: &TestingServer, nodes: impl Fn() -> usize) {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.env(WAY, way).env(FLAVOR, flavor).env(SERVER, server.connect_string());
        let ended = process.output().unwrap();
        let gone = Instant::now();
        let mut after = Duration::ZERO;
        // What counts is when it was asked.
        while nodes() > 0 && after < 60 * BOUND {
            after = gone.elapsed();
        }
        self.tried += 1;
        self.slowest = self.slowest.max(after);
        self.free_late += usize::from(after > BOUND);
        let (code, printed) = match way {
            "main returns an error, and holds" => (1, Some("Error: \"as it is to be\"")),
            "main panics, and holds" => (101, Some(PANIC)),
            _ => (0, None),
        };
        let stderr = String::from_utf8_lossy(&ended.stderr);
        if ended.status.code() != Some(code) {
            self.wrong.push(format!("{}: {stderr}", ended.status));
        }
        let is_as_printed = printed.map_or(stderr.is_empty(), |printed| stderr.contains(printed));
        if !is_as_printed || stderr.matches("panicked").count() > usize::from(code == 101) {
            self.wrong.push(format!("it printed: {stderr}"));
        }
    }
}
