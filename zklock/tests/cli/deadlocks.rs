//! `zklock deadlocks`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use zk_recipes::testing::MemoryServer;
use zk_recipes::{
    Client, InterProcessLock, InterProcessMutex, LeaderLatch, LeaderOptions, LeaderSelector, LockGuard,
    MultiLock, Owner, ReadWriteLock, Result, Semaphore,
};

use crate::installed::{Generation, Peers};
use crate::peer::Peer;
use crate::running::nested;
use crate::support::{
    Server, acquire_in_task, bystander, bystander_of, connect, connect_many, empty_server, is_thorough,
    mutex, queue_of, repeats, session_id, within,
};
use crate::zklock::{Running, UNTIL_TERM, done, done_at};

const FOUND: i32 = 119;

async fn look(server: &Server, paths: &[&str]) -> (Option<i32>, Value) {
    let options = ["deadlocks", "--json", "--confirm-after", "100ms"];
    let ended = done(server, &[&options[..], paths].concat()).await;
    assert_eq!(ended.errors, "", "{ended:?}");
    (ended.code, serde_json::from_str(&ended.output).unwrap_or_else(|_| panic!("{ended:?}")))
}

/// The only cycle, each node as its session, path, role and state.
async fn cycle(server: &Server, path: &str) -> Vec<String> {
    let (code, found) = look(server, &[path]).await;
    assert_eq!((code, found["deadlocks"].as_array().unwrap().len()), (Some(FOUND), 1), "{found:#}");
    let cycle = found["deadlocks"][0]["cycle"].as_array().unwrap();
    let text = |node: &Value, key: &str| node[key].as_str().unwrap().to_owned();
    for (index, node) in cycle.iter().enumerate() {
        assert_eq!(node["waits_for"], cycle[(index + 1) % cycle.len()]["node_path"], "{found:#}");
    }
    let mut nodes: Vec<_> = cycle
        .iter()
        .map(|node| ["session", "path", "kind", "state"].map(|key| text(node, key)).join(" "))
        .collect();
    nodes.sort();
    nodes
}

fn sorted<const N: usize>(mut nodes: [String; N]) -> Vec<String> {
    nodes.sort();
    nodes.to_vec()
}

fn in_task(lock: Arc<dyn InterProcessLock>) -> tokio::task::JoinHandle<Result<LockGuard>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// Each inner run has a session of its own.
#[tokio::test]
async fn scripts_that_cross_are_found_and_end_by_a_kick() {
    let server = MemoryServer::start().unwrap();
    let script = |own: &str, other: &str| {
        let wants = format!("until $ZKLOCK show {other}; do :; done >&2; exec $ZKLOCK run {other} -- true");
        nested(&server, &["run", own], &wants)
    };
    let scripts = [script("/a", "/b"), script("/b", "/a")];
    let zookeeper = bystander_of(&server.connect_string()).await;
    for path in ["/a", "/b"] {
        queue_of(&zookeeper, path, 2).await;
    }
    let servers = server.connect_string();
    let found = done_at(&servers, &["deadlocks", "--confirm-after", "0", "/"]).await;
    assert_eq!(found.code, Some(FOUND), "{found:?}");
    assert!(found.output.starts_with("possible deadlock of 4 sessions"), "{found:?}");
    let kick = found.output.lines().find_map(|line| line.trim().strip_prefix("zklock ")).unwrap();
    let kicked = done_at(&servers, &kick.split(' ').chain(["--yes"]).collect::<Vec<_>>()).await;
    assert_eq!(kicked.code, Some(0), "{kicked:?}");
    let [one, other] = scripts;
    let mut codes = [one.ended().await.code, other.ended().await.code];
    codes.sort();
    assert_eq!(codes, [Some(0), Some(120)]);
}

/// Who wants another permit while all are held. The way from one holder to the other and back is by the same waiter.
#[tokio::test]
async fn scripts_that_want_more_of_the_same_are_found() {
    let server = MemoryServer::start().unwrap();
    let wants =
        "until $ZKLOCK show /p | grep -q '2 holders'; do :; done; exec $ZKLOCK run --permits 2 /p -- true";
    let scripts = [(); 2].map(|()| nested(&server, &["run", "--permits=2", "/p"], wants));
    let zookeeper = bystander_of(&server.connect_string()).await;
    queue_of(&zookeeper, "/p/leases", 2).await;
    queue_of(&zookeeper, "/p/locks", 2).await;
    let found = done_at(&server.connect_string(), &["deadlocks", "--confirm-after", "0", "/"]).await;
    assert_eq!(found.code, Some(FOUND), "{found:?}");
    assert!(found.output.starts_with("possible deadlock of"), "{found:?}");
    for script in scripts {
        script.send(Signal::TERM);
        script.ended().await;
    }
}

#[tokio::test]
async fn crossing_mutexes_are_found_and_end_by_a_kick() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [first, second] = connect_many(&server).await;
    let mutex = |client, path| InterProcessMutex::new(client, path).unwrap();
    let _a = mutex(&first, "/locks/a").acquire().await.unwrap();
    let b = mutex(&second, "/locks/b").acquire().await.unwrap();
    let waits_for_b = acquire_in_task(&mutex(&first, "/locks/b"));
    queue_of(&zookeeper, "/locks/b", 2).await;
    assert_eq!(look(&server, &["/locks"]).await.0, Some(0));
    let waits_for_a = acquire_in_task(&mutex(&second, "/locks/a"));
    queue_of(&zookeeper, "/locks/a", 2).await;

    let [one, two] = [session_id(&first).await, session_id(&second).await];
    let expected = sorted([
        format!("{one:#x} /locks/a lock holder"),
        format!("{one:#x} /locks/b lock waiting"),
        format!("{two:#x} /locks/b lock holder"),
        format!("{two:#x} /locks/a lock waiting"),
    ]);
    assert_eq!(cycle(&server, "/").await, expected);
    // Paths may be given one by one, and twice. With one of them only, there is no cycle.
    assert_eq!(look(&server, &["/locks/a", "/locks/b", "/locks"]).await.0, Some(FOUND));
    assert_eq!(look(&server, &["/locks/a"]).await.0, Some(0));

    // What it says to do can be done.
    let text = done(&server, &["deadlocks", "--confirm-after", "0", "/locks"]).await;
    assert_eq!(text.code, Some(FOUND), "{text:?}");
    assert!(text.output.starts_with("possible deadlock of 2 sessions"), "{text:?}");
    let kick = text.output.lines().find_map(|line| line.trim().strip_prefix("zklock ")).unwrap();
    let kick: Vec<_> = kick.split(' ').chain(["--yes"]).collect();
    let kicked = done(&server, &kick).await;
    assert_eq!(kicked.code, Some(0), "{kicked:?}");
    // It was the younger hold.
    within(b.lost()).await;
    let _b = within(waits_for_b).await.unwrap().unwrap();
    assert_eq!(look(&server, &["/locks"]).await.0, Some(0));
    waits_for_a.abort();
}

#[tokio::test]
async fn readers_that_want_to_write_are_found() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let clients: [_; 2] = connect_many(&server).await;
    let locks = clients.each_ref().map(|client| ReadWriteLock::new(client, "/locks/rw").unwrap());
    let mut readers = Vec::new();
    for lock in &locks {
        readers.push(lock.read().acquire().await.unwrap());
    }
    // The library refuses it to the owner that reads.
    let write = |lock: &ReadWriteLock| Arc::new(lock.owned_by(&Owner::new()).write().clone());
    let first = in_task(write(&locks[0]));
    queue_of(&zookeeper, "/locks/rw", 3).await;
    // It waits for a reader that may go on.
    assert_eq!(look(&server, &["/locks"]).await.0, Some(0));
    let second = in_task(write(&locks[1]));
    queue_of(&zookeeper, "/locks/rw", 4).await;
    let found = cycle(&server, "/locks").await;
    assert!(found.iter().any(|node| node.ends_with("read holder")), "{found:?}");
    assert!(found.iter().any(|node| node.ends_with("write waiting")), "{found:?}");
    drop(readers);
    within(first).await.unwrap().unwrap().release().await.unwrap();
    within(second).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn deadlocks_between_libraries_are_found() {
    let Some(peers) = Peers::if_installed(Generation::Debian) else { return };
    const LASTING: Duration = Duration::from_secs(30);
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let connect_string = server.connect_string();
    let curator = Peer::curator(&peers, &connect_string, LASTING, "java").await;
    let other_curator = Peer::curator(&peers, &connect_string, LASTING, "java").await;
    let kazoo = Peer::kazoo(&peers, &connect_string, LASTING, "python").await;

    // Each of three holds one, and wants the next.
    let mut java = curator.open("a", "mutex /ring/a").await;
    java.call("acquire").await;
    let mut python = kazoo.open("b", "mutex /ring/b naming=kazoo").await;
    python.call("acquire").await;
    let client = connect(&server).await;
    let ours = InterProcessMutex::new(&client, "/ring/c").unwrap().acquire().await.unwrap();
    let mut java_too = curator.open("b2", "mutex /ring/b").await;
    java_too.send("acquire");
    queue_of(&zookeeper, "/ring/b", 2).await;
    let mut python_too = kazoo.open("c", "mutex /ring/c naming=kazoo").await;
    python_too.send("acquire");
    queue_of(&zookeeper, "/ring/c", 2).await;
    assert_eq!(look(&server, &["/ring"]).await.0, Some(0));
    let waiting = acquire_in_task(&InterProcessMutex::new(&client, "/ring/a").unwrap());
    queue_of(&zookeeper, "/ring/a", 2).await;
    assert_eq!(cycle(&server, "/ring").await.len(), 6);
    java.call("release").await;
    within(waiting).await.unwrap().unwrap().release().await.unwrap();
    ours.release().await.unwrap();
    python_too.answer().await;
    python.call("release").await;
    java_too.answer().await;

    // Curator's multi-locks in two orders: both wait until the locks are free at once.
    let [a, b] = ["/multi/a", "/multi/b"].map(|path| InterProcessMutex::new(&client, path).unwrap());
    let (a, b) = (a.acquire().await.unwrap(), b.acquire().await.unwrap());
    let one = curator.open("multi", "multi /multi/a,/multi/b").await;
    let two = other_curator.open("multi", "multi /multi/b,/multi/a").await;
    one.send("acquire");
    queue_of(&zookeeper, "/multi/a", 2).await;
    two.send("acquire");
    queue_of(&zookeeper, "/multi/b", 2).await;
    a.release().await.unwrap();
    queue_of(&zookeeper, "/multi/b", 3).await;
    b.release().await.unwrap();
    queue_of(&zookeeper, "/multi/a", 2).await;
    queue_of(&zookeeper, "/multi/b", 2).await;
    assert_eq!(cycle(&server, "/multi").await.len(), 4);

    // Each has one of two permits, and wants another. Curator's first waiter has a lease already.
    let [mut one, mut two] = [
        curator.open("s", "semaphore /s permits=2").await,
        other_curator.open("s", "semaphore /s permits=2").await,
    ];
    one.call("acquire 1").await;
    two.call("acquire 1").await;
    one.send("acquire 1");
    queue_of(&zookeeper, "/s/leases", 3).await;
    assert_eq!(look(&server, &["/s"]).await.0, Some(0));
    two.send("acquire 1");
    queue_of(&zookeeper, "/s/locks", 2).await;
    let (code, found) = look(&server, &["/s"]).await;
    assert_eq!((code, found["deadlocks"].as_array().unwrap().len()), (Some(FOUND), 1), "{found:#}");

    // A reader of Curator that wants to write waits for itself and another one.
    let mut java_reads = curator.open("rw", "rw /rw").await;
    java_reads.call("acquire read").await;
    let mut python_reads = kazoo.open("rw", "rw /rw").await;
    python_reads.call("acquire read").await;
    java_reads.send("acquire write");
    queue_of(&zookeeper, "/rw", 3).await;
    let python_writes = kazoo.open("rw2", "rw /rw").await;
    python_writes.send("acquire write");
    queue_of(&zookeeper, "/rw", 4).await;
    let (code, found) = look(&server, &["/rw"]).await;
    assert_eq!((code, found["deadlocks"].as_array().unwrap().len()), (Some(FOUND), 1), "{found:#}");
}

/// Each leads one election and stands for the other. Their nodes are those of mutexes, so the report can only say so.
#[tokio::test]
async fn leader_selectors_may_look_like_a_deadlock() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let clients: [_; 2] = connect_many(&server).await;
    let mut selectors = Vec::new();
    for (first, path) in [(0, "/leaders/a"), (1, "/leaders/b")] {
        for (length, client) in [&clients[first], &clients[1 - first]].into_iter().enumerate() {
            let work = |_| std::future::pending::<Result<()>>();
            selectors.push(LeaderSelector::start(client, path, LeaderOptions::new(), work).unwrap());
            queue_of(&zookeeper, path, length + 1).await;
        }
    }
    let text = done(&server, &["deadlocks", "--confirm-after", "0", "/leaders"]).await;
    assert_eq!(text.code, Some(FOUND), "{text:?}");
    assert!(text.output.contains("if these are leader selectors, it is none"), "{text:?}");
}

#[tokio::test]
async fn those_that_just_wait_are_no_deadlock() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let mut holder = Running::script(&server, &["/locks/a"], UNTIL_TERM);
    holder.says("started").await;
    let clients: [_; 3] = connect_many(&server).await;
    let mut waiting = Vec::new();
    for client in clients.iter().cycle().take(60) {
        let mutex = InterProcessMutex::new(client, "/locks/a").unwrap().owned_by(&Owner::new());
        waiting.push(tokio::spawn(async move { mutex.acquire().await?.release().await }));
    }
    queue_of(&zookeeper, "/locks/a", 61).await;
    // Two that lead one election each, and stand for the other.
    let mut latches = Vec::new();
    for path in ["/leaders/a", "/leaders/b"] {
        for client in &clients[..2] {
            latches.push(LeaderLatch::start(client, path, LeaderOptions::new()).unwrap());
        }
    }
    for path in ["/leaders/a", "/leaders/b"] {
        queue_of(&zookeeper, path, 2).await;
    }
    let (code, found) = look(&server, &[]).await;
    assert_eq!((code, &found["deadlocks"]), (Some(0), &serde_json::json!([])), "{found:#}");
    let text = done(&server, &["deadlocks"]).await;
    assert_eq!(text.output, "no deadlock: 3 locks in use, waiters at 1 of them\n", "{text:?}");
    holder.send(rustix::process::Signal::TERM);
    for waiting in waiting {
        within(waiting).await.unwrap().unwrap();
    }
}

/// Programs of several tasks, of which one waits while another one holds: at a moment that looks like a deadlock, but not
/// for long.
#[tokio::test]
async fn independent_tasks_that_take_turns_are_no_deadlock() {
    let server = empty_server().await;
    let clients: [_; 3] = connect_many(&server).await;
    let tasks: Vec<_> = (0..9)
        .map(|number| {
            let client = clients[number % 3].clone();
            let mutex = move |path| InterProcessMutex::new(&client, path).unwrap();
            tokio::spawn(async move {
                loop {
                    let first =
                        if number < 6 { Some(mutex("/locks/a").acquire().await.unwrap()) } else { None };
                    mutex("/locks/b").acquire().await.unwrap().release().await.unwrap();
                    if let Some(first) = first {
                        first.release().await.unwrap();
                    }
                }
            })
        })
        .collect();
    for _ in 0..repeats(50) {
        // The default for when to look again.
        let looked = done(&server, &["deadlocks", "/locks"]).await;
        assert_eq!(looked.code, Some(0), "{looked:?}");
    }
    for task in tasks {
        assert!(!task.is_finished());
        task.abort();
    }
}

/// Locks that change hands while they are read. Each session is one task, and all take locks in the same order: so
/// there is no deadlock. Sessions end in between.
#[tokio::test]
async fn convoys_are_no_deadlock() {
    let server = empty_server().await;
    let clients: [_; 6] = connect_many(&server).await;
    // So that the path is there.
    within(mutex(&clients[0]).acquire()).await.unwrap().release().await.unwrap();
    let tasks: Vec<_> =
        clients.iter().enumerate().map(|(i, client)| tokio::spawn(convoy(i, client.clone()))).collect();
    let mut found_waiters = 0;
    let seconds = std::env::var("ZK_RECIPES_DEADLOCK_CHAOS").ok().map(|seconds| seconds.parse().unwrap());
    let seconds = seconds.unwrap_or(if is_thorough() { 20 } else { 4 });
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        for client in &clients {
            let (code, found) = look(&server, &["/locks"]).await;
            assert_eq!(code, Some(0), "{found:#}");
            let text = done(&server, &["deadlocks", "--confirm-after", "100ms", "/locks"]).await;
            assert_eq!(text.code, Some(0), "{text:?}");
            found_waiters += usize::from(!text.output.contains("waiters at 0 of them"));
            // It may have just ended.
            let _ = server.kill_session(session_id(client).await).await;
        }
    }
    assert!(found_waiters > 0);
    for task in tasks {
        assert!(!task.is_finished());
        task.abort();
    }
}

async fn convoy(number: usize, client: Client) {
    let path = |name: &str| format!("/locks/{name}");
    let mutex = |name| Arc::new(InterProcessMutex::new(&client, &path(name)).unwrap());
    let rw = ReadWriteLock::new(&client, &path("c")).unwrap();
    let rw: Arc<dyn InterProcessLock> = match number % 2 {
        0 => Arc::new(rw.read().clone()),
        _ => Arc::new(rw.write().clone()),
    };
    let semaphore = Arc::new(Semaphore::new(&client, &path("d"), 2).unwrap());
    let locks: Vec<Arc<dyn InterProcessLock>> = match number % 3 {
        0 => vec![Arc::new(MultiLock::new(&client, [path("a"), path("b")]).unwrap()), rw, semaphore],
        1 => vec![mutex("a"), mutex("b"), rw, semaphore],
        _ => vec![mutex("b"), rw, semaphore],
    };
    loop {
        let mut held = Vec::new();
        for lock in &locks {
            // Its session may end in between.
            held.extend(lock.acquire().await);
        }
        for guard in held.into_iter().rev() {
            let _ = guard.release().await;
        }
    }
}
