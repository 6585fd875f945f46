//! Shows that the servers of `zk_recipes::testing` do what their documentation says, and leave nothing behind.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use rustix::process::{Pid, test_kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::support::prelude::*;

async fn connect(server: &TestingServer) -> zk::Client {
    within(bystander_of(&server.connect_string())).await
}

async fn create(server: &TestingServer, path: &str, data: &[u8]) {
    connect(server).await.create(path, data, &anyone(CreateMode::Persistent)).await.unwrap();
}

/// A znode's data, read on a session of its own.
async fn data(server: &TestingServer, path: &str) -> String {
    let (data, _) = connect(server).await.get_data(path).await.unwrap();
    String::from_utf8(data).unwrap()
}

/// Whether a process id is in use, also by a process that ended but was not reaped.
fn exists(pid: u32) -> bool {
    test_kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap()).is_ok()
}

/// Process ids of which the command line contains `text`.
fn processes_with(text: &str) -> Vec<u32> {
    let entries = Path::new("/proc").read_dir().unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(text)
    })
    .collect()
}

/// The folder of everything that a server has on disk.
fn home(server: &TestingServer) -> PathBuf {
    server.data_dir().parent().unwrap().to_owned()
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn stop_and_restart_keep_port_and_data() {
    let mut server = TestingServer::start().await.unwrap();
    let (port, pid, connect_string) = (server.port(), server.pid().unwrap(), server.connect_string());
    assert_eq!(connect_string, format!("127.0.0.1:{port}"));
    create(&server, "/kept", b"over a stop").await;

    server.stop().await.unwrap();
    assert!(!server.is_running() && server.pid().is_none() && !exists(pid));
    assert!(server.data_dir().join("version-2").is_dir());
    let refused = server.four_letter_word("srvr").await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    server.stop().await.expect("nothing to do");

    server.restart().await.unwrap();
    assert!(server.is_running());
    assert_eq!((server.port(), server.connect_string()), (port, connect_string));
    assert_eq!(data(&server, "/kept").await, "over a stop");

    // One that runs becomes another process.
    let pid = server.pid().unwrap();
    server.restart().await.unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid().unwrap(), pid);
    assert!(!exists(pid));
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn kill_and_restart_keep_what_was_acknowledged() {
    let mut server = TestingServer::start().await.unwrap();
    let pid = server.pid().unwrap();
    let client = connect(&server).await;
    for number in 0..100 {
        client.create(&format!("/{number}"), b"acknowledged", &anyone(CreateMode::Persistent)).await.unwrap();
    }
    server.kill().await.unwrap();
    assert!(!server.is_running() && !exists(pid));
    server.kill().await.expect("nothing to do");
    server.restart().await.unwrap();
    assert_eq!(data(&server, "/99").await, "acknowledged");
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_server_killed_from_outside_is_noticed() {
    let mut server = TestingServer::start().await.unwrap();
    let pid = Pid::from_raw(server.pid().unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until("not running", || !server.is_running()).await;
    assert_eq!(server.pause().unwrap_err().kind(), io::ErrorKind::NotConnected);
    server.restart().await.unwrap();
    assert!(server.is_running());
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn pause_makes_it_silent_and_resume_brings_it_back() {
    let server = TestingServer::start().await.unwrap();
    server.pause().unwrap();
    assert!(server.is_running());
    TcpStream::connect(server.connect_string()).await.expect("the system accepts for it");
    let silent = server.four_letter_word("srvr").await.unwrap_err();
    assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
    server.resume().unwrap();
    assert!(server.four_letter_word("srvr").await.unwrap().contains("Mode: standalone"));
    // At once, and each time.
    for _ in 0..200 {
        server.pause().unwrap();
        let answer = timeout(ms(5), server.four_letter_word("ruok")).await;
        assert!(answer.is_err(), "{answer:?}");
        server.resume().unwrap();
        assert_eq!(server.four_letter_word("ruok").await.unwrap(), "imok");
    }
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_paused_server_can_be_stopped_killed_and_dropped() {
    let mut server = TestingServer::start().await.unwrap();
    server.pause().unwrap();
    server.stop().await.unwrap();
    server.restart().await.unwrap();
    server.pause().unwrap();
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    assert!(server.four_letter_word("srvr").await.is_ok(), "not paused any more");
    server.pause().unwrap();
    let pid = server.pid().unwrap();
    drop(server);
    assert!(!exists(pid));
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_server_answers_words_and_counts_packets_and_watches() {
    let server = TestingServer::start().await.unwrap();
    let first = server.packets_received().await.unwrap();
    assert_eq!(
        server.packets_received().await.unwrap(),
        first + 1,
        "the question itself counts, and nothing else"
    );

    // So long a session does not ping within this test, except when it connects; the first answer comes after that.
    let connector = zk::Client::connector().with_session_timeout(secs(60));
    let client = within(connector.connect(&server.connect_string())).await.unwrap();
    let session = client.session_id().0;
    client.get_data("/").await.unwrap();
    let before = server.session_packets(session).await.unwrap();
    let other = connect(&server).await;
    for _ in 0..7 {
        client.get_data("/").await.unwrap();
        other.get_data("/").await.unwrap();
    }
    assert_eq!(server.session_packets(session).await.unwrap(), before + 7);
    let unknown = server.session_packets(session + 1000).await.unwrap_err();
    assert_eq!(unknown.kind(), io::ErrorKind::NotFound);

    assert_eq!(server.watch_count().await.unwrap(), 0);
    let (_, watcher) = client.check_and_watch_stat("/absent").await.unwrap();
    let (_, _, other) = client.get_and_watch_children("/").await.unwrap();
    assert_eq!(server.watch_count().await.unwrap(), 2, "of the node and of children");
    client.create("/absent", b"", &anyone(CreateMode::Persistent)).await.unwrap();
    let _ = tokio::join!(watcher.changed(), other.changed());
    assert_eq!(server.watch_count().await.unwrap(), 0);

    assert!(server.four_letter_word("mntr").await.unwrap().contains("zk_server_state\tstandalone"));
    assert_eq!(server.four_letter_word("ruok").await.unwrap(), "imok");
    for nonsense in ["", "mnt", "mntrs", "MNTR", "a\nb ", "äö"] {
        let refused = server.four_letter_word(nonsense).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{nonsense:?}");
    }
    let unknown = server.four_letter_word("zzzz").await.unwrap_err();
    assert_eq!(unknown.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn settings_reach_the_server() {
    let server = TestingServer::builder()
        .tick_time(ms(50))
        .session_timeout_bounds(ms(300), ms(700))
        .property("snapCount", "77")
        .system_property("znode.container.checkIntervalMs", "100")
        .start()
        .await
        .unwrap();
    let settings = server.four_letter_word("conf").await.unwrap();
    for line in ["tickTime=50", "minSessionTimeout=300", "maxSessionTimeout=700"] {
        assert!(settings.lines().any(|found| found == line), "{line} in {settings}");
    }
    let environment = server.four_letter_word("envi").await.unwrap();
    assert!(environment.contains("zookeeper.version=3."), "{environment}");

    // The system property, by what it does: the default would be a minute.
    let client = connect(&server).await;
    client.create("/container", b"", &anyone(CreateMode::Container)).await.unwrap();
    client.create("/container/child", b"", &anyone(CreateMode::Persistent)).await.unwrap();
    client.delete("/container/child", None).await.unwrap();
    let is_removed = async || client.check_stat("/container").await.unwrap().is_none().then_some(());
    eventually("the empty container is removed", is_removed).await;
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_short_session_expires_soon_after_its_client_fell_silent() {
    let server = TestingServer::start().await.unwrap();
    let short = secs(1);
    // One that goes without ending its session, like one that vanished.
    let connector = zk::Client::connector().with_session_timeout(short).with_detached();
    let client = connector.connect(&server.connect_string()).await.unwrap();
    assert_eq!(client.session_timeout(), short);
    client.create("/ephemeral", b"", &anyone(CreateMode::Ephemeral)).await.unwrap();
    let observer = connect(&server).await;
    let (_, _, gone) = observer.get_and_watch_data("/ephemeral").await.unwrap();
    drop(client);
    let started = Instant::now();
    within(gone.changed()).await;
    // Half a session at least: it was heard of shortly before.
    assert!(started.elapsed() > short / 2, "{:?}: it was ended, and did not expire", started.elapsed());
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn two_servers_at_once_are_strangers() {
    let (one, two) = tokio::join!(TestingServer::start(), TestingServer::start());
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_ne!(one.port(), two.port());
    assert_ne!(one.data_dir(), two.data_dir());
    create(&one, "/mine", b"").await;
    assert_eq!(connect(&two).await.check_stat("/mine").await.unwrap(), None);
}

#[test]
#[ignore = "needs a real ZooKeeper"]
fn nothing_is_left_after_a_drop_that_needs_no_runtime_and_is_quick() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(TestingServer::start()).unwrap();
    drop(runtime);
    let (pid, home) = (server.pid().unwrap(), home(&server));
    assert!(exists(pid) && home.is_dir());
    assert_eq!(processes_with(home.to_str().unwrap()).len(), 3, "the JVM, the watchdog and its guard");
    let started = Instant::now();
    drop(server);
    assert!(started.elapsed() < secs(5), "{:?}", started.elapsed());
    assert!(!exists(pid) && !home.exists());
    let is_over = until("no watchdog", || processes_with(home.to_str().unwrap()).is_empty());
    tokio::runtime::Runtime::new().unwrap().block_on(is_over);
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn nothing_is_left_after_a_panic() {
    let (send, receive) = tokio::sync::oneshot::channel();
    let test = tokio::spawn(async {
        let server = TestingServer::start().await.unwrap();
        send.send((server.pid().unwrap(), home(&server))).unwrap();
        panic!("a test fails (on purpose)");
    });
    let (pid, home) = receive.await.unwrap();
    assert!(test.await.unwrap_err().is_panic());
    assert!(!exists(pid) && !home.exists());
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn nothing_is_left_after_a_cancelled_start() {
    let mut cancelled = 0;
    for milliseconds in [0, 1, 2, 5, 10, 20, 50, 100] {
        let marker = uuid::Uuid::new_v4().to_string();
        let mut start = Box::pin(TestingServer::builder().system_property("marker", &marker).start());
        let begun = async {
            until("begun", || !processes_with(&marker).is_empty()).await;
            sleep(ms(milliseconds)).await;
        };
        tokio::select! {
            biased;
            () = begun => cancelled += 1,
            server = start.as_mut() => drop(server.unwrap()),
        }
        drop(start);
        until("no process", || processes_with(&marker).is_empty()).await;
    }
    assert!(cancelled > 0, "all starts were too quick");
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn no_data_are_left_after_a_cancelled_start() {
    if std::env::var_os(CHILD).is_some() {
        for tenths in 0..80 {
            let early = Duration::from_micros(100 * tenths);
            // The sleep is short of a timer's grain: a yielding loop is cancelled where it stands.
            let cancel = async {
                let started = Instant::now();
                while started.elapsed() < early {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! { biased; server = TestingServer::start() => drop(server.unwrap()), () = cancel => {} }
        }
        let directory = std::env::temp_dir();
        let left = || directory.read_dir().unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
        until("no data", || left().is_empty()).await;
        until("no process", || processes_with(directory.join("zookeeper-").to_str().unwrap()).is_empty())
            .await;
        println!("\nclean");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut command = child("no_data_are_left_after_a_cancelled_start");
    let output = timeout(3 * BOUND, command.env("TMPDIR", directory.path()).output()).await.unwrap().unwrap();
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(output.lines().any(|line| line == "clean"), "{output}");
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn no_zombies_of_ended_servers() {
    for _ in 0..3 {
        TestingServer::start().await.unwrap().kill().await.unwrap();
    }
    until("no zombie", || {
        let own = format!(" Z {} ", std::process::id());
        let entries = Path::new("/proc").read_dir().unwrap().flatten();
        let mut states = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        !states.any(|stat| stat.contains(&own))
    })
    .await;
}

/// Runs one test of this file in a process of its own, with this variable set.
const CHILD: &str = "ZK_RECIPES_TESTING_CHILD";

fn child(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("testing::servers::{test}"), "--include-ignored", "--nocapture"])
        .env(CHILD, "1");
    command.stdout(Stdio::piped()).kill_on_drop(true);
    command
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn nothing_is_left_after_the_process_was_killed() {
    if std::env::var_os(CHILD).is_some() {
        let server = TestingServer::start().await.unwrap();
        println!("\nserver {} {}", server.pid().unwrap(), home(&server).display());
        return std::future::pending().await;
    }
    let mut child = child("nothing_is_left_after_the_process_was_killed").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (pid, home) = loop {
        let line = within(lines.next_line()).await.unwrap().expect("a server");
        if let Some((pid, home)) = line.strip_prefix("server ").and_then(|line| line.split_once(' ')) {
            break (pid.parse().unwrap(), PathBuf::from(home));
        }
    };
    assert!(exists(pid) && home.is_dir());
    child.kill().await.unwrap();
    until("no JVM", || !exists(pid)).await;
    until("no data", || !home.exists()).await;
    until("no watchdog", || processes_with(home.to_str().unwrap()).is_empty()).await;
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_server_that_dies_at_start_shows_its_log() {
    let empty = std::env::temp_dir().join(uuid::Uuid::new_v4().to_string()).join("*");
    let error = TestingServer::builder().class_path(empty).start().await.unwrap_err();
    assert!(error.to_string().contains("QuorumPeerMain"), "the JVM did not find it: {error}");

    let error = TestingServer::builder().property("initLimit", "many").start().await.unwrap_err();
    assert!(error.to_string().contains("\"many\""), "ZooKeeper could not read it: {error}");
}

/// What it is, is tested where it is looked for.
#[tokio::test]
async fn nonsense_is_refused() {
    let nonsense = TestingServer::builder().system_property("a", "1\n2").start().await;
    assert_eq!(nonsense.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    for builder in [TestingCluster::builder(0), TestingCluster::builder(3).tick_time(Duration::ZERO)] {
        assert_eq!(builder.start().await.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_leader_that_is_killed_or_paused_is_replaced_and_follows_and_nothing_is_left() {
    let mut cluster = TestingCluster::start(3).await.unwrap();
    assert_eq!(cluster.servers().len(), 3);
    assert_eq!(cluster.connect_string().split(',').count(), 3);
    let leader = cluster.leader().await.unwrap();
    let other = (leader + 1) % 3;
    create(&cluster.servers()[other], "/old", b"before").await;

    cluster.kill(leader).await.unwrap();
    let next = cluster.leader().await.unwrap();
    assert_ne!(next, leader);
    create(&cluster.servers()[next], "/new", b"meanwhile").await;

    cluster.restart(leader).await.unwrap();
    let joined = &cluster.servers()[leader];
    assert!(joined.four_letter_word("srvr").await.unwrap().contains("Mode: follower"));
    assert_eq!(cluster.leader().await.unwrap(), next);
    let client = connect(joined).await;
    client.sync("/").await.unwrap();
    assert_eq!(client.get_data("/old").await.unwrap().0, b"before");
    assert_eq!(client.get_data("/new").await.unwrap().0, b"meanwhile");

    // The same for one that is only silent.
    let leader = next;
    cluster.pause(leader).unwrap();
    let next = cluster.leader().await.unwrap();
    assert_ne!(next, leader);
    cluster.resume(leader).unwrap();
    let woken = &cluster.servers()[leader];
    eventually("it follows", async || {
        woken.four_letter_word("srvr").await.ok()?.contains("Mode: follower").then_some(())
    })
    .await;
    assert_eq!(cluster.leader().await.unwrap(), next);

    let members: Vec<_> =
        cluster.servers().iter().map(|server| (server.pid().unwrap(), home(server))).collect();
    drop(cluster);
    for (pid, home) in members {
        assert!(!exists(pid) && !home.exists());
    }
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_cluster_that_was_stopped_altogether_starts_server_by_server() {
    let mut cluster = TestingCluster::start(3).await.unwrap();
    create(&cluster.servers()[0], "/kept", b"by all").await;
    let connect_string = cluster.connect_string();
    for index in 0..3 {
        cluster.stop(index).await.unwrap();
    }
    cluster.restart(0).await.unwrap();
    let error = cluster.servers()[0].watch_count().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "no quorum yet");
    cluster.restart(1).await.unwrap();
    cluster.restart(2).await.unwrap();
    assert_eq!(cluster.connect_string(), connect_string);
    let client = connect(&cluster.servers()[2]).await;
    client.sync("/").await.unwrap();
    assert_eq!(client.get_data("/kept").await.unwrap().0, b"by all");
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_cluster_of_one_leads_itself() {
    let cluster = TestingCluster::start(1).await.unwrap();
    assert_eq!(cluster.leader().await.unwrap(), 0);
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn an_isolated_follower_gives_its_leader_up_and_comes_back() {
    let cluster = TestingCluster::builder(3).isolatable().start().await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let isolated = (leader + 1) % 3;
    let server = &cluster.servers()[isolated];
    // Of a server without a leader there is none.
    let has_mode =
        async || server.four_letter_word("srvr").await.is_ok_and(|answer| answer.contains("Mode:"));
    for isolate in [true, false] {
        if isolate {
            cluster.isolate(isolated);
            // Nothing has told it yet.
            assert!(has_mode().await);
        } else {
            cluster.rejoin(isolated);
        }
        eventually(&format!("isolated: {isolate}"), async || (has_mode().await != isolate).then_some(()))
            .await;
        assert_eq!(cluster.leader().await.unwrap(), leader);
    }
}
