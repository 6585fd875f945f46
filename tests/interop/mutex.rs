//! `InterProcessMutex`.

use crate::interop::prelude::*;

const PATH: &str = "/locks/a";

const OPEN: &str = "mutex /locks/a";

pub(crate) async fn mutex_excludes_in_order(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python) = tokio::join!(stage.curator("java"), stage.kazoo("python"));
    let client = stage.client("rust").await;
    let ours = mutex(&client);
    let mut java_a = java.open("a", OPEN).await;
    let mut python_a = python.open("a", OPEN).await;

    // Whoever holds it, the others do not get it, whether they ask or wait.
    let guard = ours.acquire().await.unwrap();
    for peer in [&mut java_a, &mut python_a] {
        for attempt in ["try 0", "try 300"] {
            assert_eq!(peer.call(attempt).await, "false");
        }
    }
    guard.release().await.unwrap();
    for turn in 0..2 {
        let (holder, other) =
            if turn == 0 { (&mut java_a, &mut python_a) } else { (&mut python_a, &mut java_a) };
        holder.call("acquire").await;
        assert_eq!(other.call("try 0").await, "false");
        assert_taken(&ours).await;
        holder.call("release").await;
    }
    queue_of(&stage.zookeeper, PATH, 0).await;

    // First come, first served.
    let mut line = Line::new(&stage, PATH);
    let entering = |name, _| Contender::lock(name, mutex(&client));
    let cast = Cast::new(OPEN).peer("java", &java).peer("python", &python).ours("rust", entering);
    let all = "rust 1, java b data=java-b, python b data=python-b, rust 2, rust 3, python c, java c, rust 4";
    line.enter(&cast, all).await;

    // Each sees all.
    let participants = ours.participants().await.unwrap();
    let expected = "rust java-b python-b rust rust python java rust";
    assert_eq!(data_of(&participants), expected);
    assert_eq!(java_a.call("participants").await, expected);
    assert_eq!(python_a.call("participants").await, expected);
    let holders = participants.iter().map(|participant| participant.is_holder());
    assert_eq!(holders.collect::<Vec<_>>(), [true, false, false, false, false, false, false, false]);

    line.is_served_in_order().await;
    queue_of(&stage.zookeeper, PATH, 0).await;

    // One that Curator's thread has entered twice is free after two releases.
    java_a.call("acquire").await;
    java_a.call("acquire").await;
    line.enter(&cast, "rust").await;
    java_a.call("release").await;
    line.only_holders_are(&[]).await;
    java_a.call("release").await;
    line.is_served_in_order().await;
}

pub(crate) async fn a_lock_that_lingers_lets_others_in(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python) = tokio::join!(stage.curator("java"), stage.kazoo("python"));
    let client = stage.client("rust").await;
    let options = LockOptions::new().linger(secs(600));
    let mutex = mutex(&client).with_options(options).unwrap();
    let mut peers = [java.open("a", OPEN).await, python.open("a", OPEN).await];
    for peer in &mut peers {
        // While no one holds.
        let node = lingers(&mutex).await;
        within(peer.call("acquire")).await;
        assert!(mutex.try_acquire().await.unwrap().is_none());
        peer.call("release").await;

        // At the end of a hold by the node.
        assert_ne!(lingers(&mutex).await, node);
        let guard = mutex.acquire().await.unwrap();
        let waits = peer.call("acquire");
        let releases = async {
            queue_of(&stage.zookeeper, PATH, 2).await;
            assert!(guard.is_valid());
            guard.release().await.unwrap();
        };
        within(async { tokio::join!(waits, releases) }).await;
        peer.call("release").await;
    }
}

pub(crate) async fn a_cohort_lets_others_in(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python) = tokio::join!(stage.curator("java"), stage.kazoo("python"));
    let client = stage.client("rust").await;
    let options = LockOptions::new().cohort(50).cohort_time(ms(50));
    let mutex = mutex(&client).with_options(options).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let tasks = (0..4).map(|_| {
        let (mutex, is_over) = (mutex.clone(), is_over.clone());
        tokio::spawn(async move {
            while !is_over.load(SeqCst) {
                let guard = mutex.acquire().await.unwrap();
                assert!(guard.is_valid());
                guard.release().await.unwrap();
                tokio::task::yield_now().await;
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for peer in &mut [java.open("a", OPEN).await, python.open("a", OPEN).await] {
        for _ in 0..3 {
            within(peer.call("acquire")).await;
            assert!(mutex.try_acquire().await.unwrap().is_none());
            peer.call("release").await;
        }
    }
    is_over.store(true, SeqCst);
    for task in tasks {
        within(task).await.unwrap();
    }
}

/// Acquires and releases twice. Returns the node by which both were done.
async fn lingers(mutex: &InterProcessMutex) -> String {
    let first = mutex.acquire().await.unwrap();
    let node = first.node_path().to_owned();
    first.release().await.unwrap();
    let second = mutex.acquire().await.unwrap();
    assert_eq!((second.node_path(), second.turn()), (&*node, 1));
    second.release().await.unwrap();
    node
}

pub(crate) async fn mutex_outlives_the_death_of_others(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python, doomed_java, doomed_python) = tokio::join!(
        stage.curator("java"),
        stage.kazoo("python"),
        stage.mortal_curator("java"),
        stage.mortal_kazoo("python")
    );
    let client = stage.client("rust").await;
    let (doomed_client, wire) = stage.mortal_client("rust").await;

    // Peers die, one while it holds and one while it waits, and each has another one's node in the queue, too.
    let mut line = Line::new(&stage, PATH);
    let cast = Cast::new(OPEN)
        .peer("java", &java)
        .peer("python", &python)
        .peer("doomed java", &doomed_java)
        .peer("doomed python", &doomed_python)
        .ours("rust", |name, _| Contender::lock(name, mutex(&client)))
        .ours("doomed rust", |name, _| Contender::lock(name, mutex(&doomed_client)));
    let all = "doomed java a, rust 1, doomed java b, doomed python a, rust 2, doomed python b, rust 3";
    line.enter(&cast, all).await;
    line.only_holders_are(&["doomed java a"]).await;
    line.die(&["doomed java a", "doomed java b"]);
    doomed_java.kill().await;
    line.only_holders_are(&["rust 1"]).await;
    queue_of(&stage.zookeeper, PATH, 5).await;
    line.releases("rust 1").await;
    line.only_holders_are(&["doomed python a"]).await;
    line.die(&["doomed python a", "doomed python b"]);
    doomed_python.kill().await;
    line.only_holders_are(&["rust 2"]).await;
    queue_of(&stage.zookeeper, PATH, 2).await;
    line.is_served_in_order().await;

    // A client of ours dies while it holds and waits.
    let guard = mutex(&doomed_client).acquire().await.unwrap();
    line.enter(&cast, "java a, doomed rust, python a, java b").await;
    line.only_holders_are(&[]).await;
    cut_off(&wire);
    line.only_holders_are(&["java a"]).await;
    queue_of(&stage.zookeeper, PATH, 3).await;
    line.releases("java a").await;
    line.only_holders_are(&["python a"]).await;
    // Back to life, what it held is lost, and what it waited for it gets after all that are there.
    mend(&wire);
    queue_of(&stage.zookeeper, PATH, 3).await;
    assert!(matches!(within(guard.release()).await, Err(Error::LockLost { .. })));
    line.releases("python a").await;
    line.serves(&["java b", "doomed rust"]).await;
    queue_of(&stage.zookeeper, PATH, 0).await;
}

pub(crate) async fn locks_by_key_are_shared(generation: Generation) {
    let stage = Stage::set(generation).await;
    let (java, python) = tokio::join!(stage.curator("java"), stage.kazoo("python"));
    let client = stage.client("rust").await;
    let locks = Locks::new(&client, "/locks/orders").unwrap();
    let long = "Größe/".repeat(100);
    let keys = ["4711", "eu:user@example.org~1", "", ".", "50% off/\u{0}\u{1f600}", &long];
    for (number, key) in keys.into_iter().enumerate() {
        let open = format!("mutex {}", locks.path_of(key));
        let mut java = java.open(&format!("java-{number}"), &open).await;
        let mut python = python.open(&format!("python-{number}"), &open).await;
        let guard = locks.mutex(key).unwrap().acquire().await.unwrap();
        for peer in [&mut java, &mut python] {
            assert_eq!(peer.call("try 0").await, "false", "{key:?}");
            assert_eq!(peer.call("participants").await, "rust", "{key:?}");
        }
        guard.release().await.unwrap();
        for peer in [&mut java, &mut python] {
            peer.call("acquire").await;
            assert!(locks.mutex(key).unwrap().try_acquire().await.unwrap().is_none(), "{key:?}");
            peer.call("release").await;
        }
    }
}
