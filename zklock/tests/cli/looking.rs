//! `zklock show` and `zklock ls`.

use futures_util::future::{join_all, select};
use serde_json::json;
use zk_recipes::testing::MemoryServer;
use zk_recipes::{
    Client, InterProcessMutex, LeaderLatch, LeaderOptions, ReadWriteLock, Semaphore, zookeeper_client as zk,
};

use crate::support::{
    acquire_in_task, bystander, bystander_of, connect, empty_server, mutex, mutex_at, queue_of, within,
};
use crate::zklock::{Running, UNTIL_TERM, done, done_at, json};

#[tokio::test]
async fn a_queue_is_shown_in_order() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let mut holder = Running::script(&server, &["/locks/a"], UNTIL_TERM);
    holder.says("started").await;
    let waiter = Running::script(&server, &["/locks/a"], "true");
    queue_of(&zookeeper, "/locks/a", 2).await;
    let shown = json(&server, &["show", "--json", "/locks/a"]).await;
    assert_eq!((&shown["path"], &shown["kind"]), (&json!("/locks/a"), &json!("mutex")));
    let participants = shown["participants"].as_array().unwrap();
    assert_eq!(participants.len(), 2);
    for (index, (participant, process, state)) in
        [(&participants[0], &holder, "holder"), (&participants[1], &waiter, "waiting")]
            .into_iter()
            .enumerate()
    {
        assert_eq!(participant["place"], index + 1);
        assert_eq!(participant["state"], state);
        assert_eq!(participant["kind"], "lock");
        assert_eq!(participant["pid"], process.id());
        assert!(participant["program"].as_str().unwrap().ends_with(":sh"));
        assert!(participant["identity"].as_str().unwrap().contains(" program="));
        let (_, stat) = zookeeper.get_data(participant["node_path"].as_str().unwrap()).await.unwrap();
        assert_eq!(participant["token"], stat.czxid);
        assert_eq!(participant["session"], format!("{:#x}", stat.ephemeral_owner));
        assert!(participant["age_ms"].is_u64() && participant["since"].as_str().unwrap().ends_with('Z'));
    }
    let text = done(&server, &["show", "/locks/a"]).await;
    assert_eq!(text.code, Some(0), "{text:?}");
    let lines: Vec<_> = text.output.lines().collect();
    assert_eq!(lines[0], "/locks/a: mutex, 1 holder, 1 waiter");
    assert!(lines[2].starts_with("1") && lines[2].contains("holder"), "{text:?}");
    assert!(lines[3].starts_with("2") && lines[3].contains("waiting"), "{text:?}");
    holder.send(rustix::process::Signal::TERM);
    assert_eq!((holder.ended().await.code, waiter.ended().await.code), (Some(3), Some(0)));
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_no_free_lock() {
    let server = empty_server().await;
    let client = connect(&server).await;
    mutex(&client).acquire().await.unwrap().release().await.unwrap();
    let free = done(&server, &["show", "/locks/a"]).await;
    assert_eq!((free.code, &*free.output), (Some(0), "/locks/a: nobody holds it or waits\n"));
    for arguments in [
        &["show", "/locks/b"][..],
        &["ls", "/locks/b"],
        &["ask", "/locks/b"],
        &["kick", "--yes", "/locks/b"],
        &["deadlocks", "/locks/a", "/locks/b"],
    ] {
        let ended = done(&server, arguments).await;
        assert_eq!((ended.code, &*ended.output), (Some(123), ""), "{arguments:?}: {ended:?}");
        assert!(ended.errors.contains("/locks/b"), "{ended:?}");
    }
}

#[tokio::test]
async fn all_recipes_are_found() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let _mutex = InterProcessMutex::new(&client, "/a/mutex").unwrap().acquire().await.unwrap();
    // A lock below another one.
    let _below = InterProcessMutex::new(&client, "/a/mutex/below").unwrap().acquire().await.unwrap();
    let rw = ReadWriteLock::new(&client, "/a/rw").unwrap();
    let _read = rw.read().acquire().await.unwrap();
    let other = connect(&server).await;
    let other = ReadWriteLock::new(&other, "/a/rw").unwrap();
    let _readers_too = other.read().acquire().await.unwrap();
    let _writer = other.owned_by(&zk_recipes::Owner::new()).write().enqueue().await.unwrap();
    let semaphore = Semaphore::new(&client, "/a/semaphore", 3).unwrap();
    let _permits = semaphore.many(2).unwrap().acquire().await.unwrap();
    let latch = LeaderLatch::start(&client, "/a/latch", LeaderOptions::new()).unwrap();
    let leadership = within(latch.await_leadership()).await.unwrap();
    // Free, or no lock at all.
    InterProcessMutex::new(&client, "/a/free").unwrap().acquire().await.unwrap().release().await.unwrap();

    let listed = json(&server, &["ls", "--json"]).await;
    let counts: Vec<_> = listed["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| {
            let text = |key: &str| lock[key].to_string().trim_matches('"').to_owned();
            assert_eq!(lock["holder"]["state"], "holder");
            format!("{} {}: {} {}", text("path"), text("kind"), text("holders"), text("waiters"))
        })
        .collect();
    let expected = [
        "/a/latch leader latch: 1 0",
        "/a/mutex mutex: 1 0",
        "/a/mutex/below mutex: 1 0",
        "/a/rw read/write lock: 2 1",
        "/a/semaphore semaphore: 2 0",
    ];
    assert_eq!(counts, expected);
    assert_eq!(listed["is_truncated"], false);
    assert_eq!(listed["locks"][0]["holder"]["token"], leadership.fencing_token());
    // What it lists can be shown, also with a part of the path as the namespace.
    for (path, states) in [
        ("/latch", "holder candidate"),
        ("/mutex", "holder lock"),
        ("/rw", "holder read, holder read, waiting write"),
        ("/semaphore", "holder permit, holder permit"),
    ] {
        let shown = json(&server, &["--namespace", "a", "show", "--json", path]).await;
        let participants = shown["participants"].as_array().unwrap();
        let found: Vec<_> = participants
            .iter()
            .map(|participant| {
                format!(
                    "{} {}",
                    participant["state"].as_str().unwrap(),
                    participant["kind"].as_str().unwrap()
                )
            })
            .collect();
        assert_eq!(found.join(", "), states, "{path}");
    }
    let below = json(&server, &["--namespace", "a", "ls", "--json", "/mutex"]).await;
    let paths: Vec<_> = below["locks"].as_array().unwrap().iter().map(|lock| &lock["path"]).collect();
    assert_eq!(paths, ["/mutex", "/mutex/below"]);
    let text = done(&server, &["ls"]).await;
    assert_eq!(text.output.lines().count(), 1 + expected.len(), "{text:?}");
}

/// As the servers do after a minute in which no one has waited.
#[tokio::test]
async fn a_semaphore_without_its_gate_is_found() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let _permit = Semaphore::new(&client, "/permits", 2).unwrap().acquire().await.unwrap();
    // Not every folder of this name is that of a semaphore.
    let _other = InterProcessMutex::new(&client, "/app/leases/a").unwrap().acquire().await.unwrap();
    queue_of(&zookeeper, "/permits/locks", 0).await;
    zookeeper.delete("/permits/locks", None).await.unwrap();
    let found = json(&server, &["ls", "--json", "/"]).await;
    let found: Vec<_> = found["locks"].as_array().unwrap().iter().collect();
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!((&found[0]["path"], &found[0]["kind"]), (&json!("/app/leases/a"), &json!("mutex")));
    assert_eq!((&found[1]["path"], &found[1]["kind"]), (&json!("/permits"), &json!("semaphore")));
    let text = done(&server, &["show", "/permits"]).await;
    assert!(text.output.starts_with("/permits: semaphore, 1 holder, 0 waiters"), "{text:?}");
}

/// Whoever asks overwrites what the holder has written.
#[tokio::test]
async fn a_holder_that_was_asked_is_named_so() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let _guard = mutex(&client).acquire().await.unwrap();
    done(&server, &["ask", "/locks/a"]).await;
    for command in ["ls", "show"] {
        let text = done(&server, &[command, "/locks/a"]).await;
        assert!(text.output.contains("(asked to give it back)"), "{text:?}");
        assert!(!text.output.contains("REVOKE"), "{text:?}");
    }
}

#[tokio::test]
async fn a_large_tree_is_read_up_to_a_limit() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let options = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.create("/many", b"", &options).await.unwrap();
    for i in 0..50 {
        zookeeper.create(&format!("/many/{i}"), b"", &options).await.unwrap();
    }
    for (limit, is_truncated) in [("20", true), ("51", false)] {
        let ended = done(&server, &["ls", "--json", "--limit", limit, "/many"]).await;
        assert_eq!(ended.json()["is_truncated"], is_truncated, "{limit}");
        assert_eq!(ended.errors.contains("--limit"), is_truncated, "{ended:?}");
    }
}

#[tokio::test]
async fn nodes_that_vanish_do_no_harm() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let zookeeper = bystander(&server).await;
    let options = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    zookeeper.create("/churn", b"", &options).await.unwrap();
    let churn = join_all((0..4).map(|i| {
        let (client, zookeeper) = (client.clone(), zookeeper.clone());
        async move {
            let path = format!("/churn/{i}");
            loop {
                let guard = InterProcessMutex::new(&client, &path).unwrap().acquire().await.unwrap();
                guard.release().await.unwrap();
                within(zookeeper.delete(&path, None)).await.unwrap();
            }
        }
    }));
    let look = async {
        for _ in 0..20 {
            let listed = done(&server, &["ls", "--json", "/churn"]).await;
            assert_eq!((listed.code, &*listed.errors), (Some(0), ""), "{listed:?}");
            let shown = done(&server, &["show", "/churn/1"]).await;
            assert!(matches!(shown.code, Some(0 | 123)), "{shown:?}");
        }
    };
    select(Box::pin(look), Box::pin(churn)).await;
}

/// Of a stranger who may create nodes.
#[tokio::test]
async fn text_of_others_is_cut_and_moves_no_cursor() {
    let server = MemoryServer::start().unwrap();
    let zookeeper = zk::Client::connect(&server.connect_string()).await.unwrap();
    let open = zk::Acls::anyone_all();
    let (lasting, ephemeral) =
        (zk::CreateMode::Persistent.with_acls(open), zk::CreateMode::Ephemeral.with_acls(open));
    zookeeper.create("/a", b"", &lasting).await.unwrap();
    for number in 0..3 {
        let node = format!("/a/x-lock-{number:010}");
        zookeeper.create(&node, &[b'y'; 70_000], &ephemeral).await.unwrap();
    }
    for (arguments, shown) in [(&["show", "/a"][..], 3), (&["ls"], 1)] {
        let ended = done_at(&server.connect_string(), arguments).await;
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.errors);
        assert_eq!(ended.output.matches("yyy…").count(), shown, "{ended:?}");
        assert!(ended.output.len() < 3000, "{} bytes", ended.output.len());
    }
    zookeeper.create("/b", b"", &lasting).await.unwrap();
    zookeeper.create("/b/\u{202e}x-lock-0000000000", b"", &ephemeral).await.unwrap();
    let run = ["run", "--shared", "--timeout=0", "/b", "--", "true"];
    let refused = done_at(&server.connect_string(), &run).await;
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(
        refused.errors.contains("\\u{202e}x-lock") && !refused.errors.contains('\u{202e}'),
        "{refused:?}"
    );
}

/// A path that has `locks` and `leases` need not be a semaphore.
#[tokio::test]
async fn locks_below_a_path_that_is_named_as_a_part_of_a_semaphore_are_listed() {
    let server = MemoryServer::start().unwrap();
    let connect = server.connect_string();
    let zookeeper = bystander_of(&connect).await;
    let [client, other] =
        [Client::connect(&connect).await.unwrap(), Client::connect(&connect).await.unwrap()];
    // Two sessions that wait for one another.
    let _one = mutex_at(&client, "/app/locks/orders").acquire().await.unwrap();
    let _two = mutex_at(&other, "/app/locks/items").acquire().await.unwrap();
    for (client, path) in [(&client, "/app/locks/items"), (&other, "/app/locks/orders")] {
        acquire_in_task(&mutex_at(client, path));
        queue_of(&zookeeper, path, 2).await;
    }
    let lasting = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    for node in ["/app/leases", "/app/leases/web-7"] {
        zookeeper.create(node, b"until tomorrow", &lasting).await.unwrap();
    }
    let listed = done_at(&connect, &["ls", "--all"]).await;
    for path in ["/app/locks/orders", "/app/locks/items", "/app/leases/web-7"] {
        assert!(listed.output.contains(path), "{listed:?}");
    }
    let found = done_at(&connect, &["deadlocks", "/"]).await;
    assert_eq!(found.code, Some(119), "{found:?}");
}

/// The servers count children by 32 bits, and go on with negative numbers.
#[tokio::test]
async fn queues_are_in_order_when_the_numbers_overflow() {
    let server = MemoryServer::start().unwrap();
    let connect = server.connect_string();
    let zookeeper = bystander_of(&connect).await;
    let open = zk::Acls::anyone_all();
    let (lasting, ephemeral) =
        (zk::CreateMode::Persistent.with_acls(open), zk::CreateMode::Ephemeral.with_acls(open));
    let names = |kinds: [&str; 4]| {
        let numbers = ["2147483646", "2147483647", "-2147483648", "-2147483647"];
        [0, 1, 2, 3].map(|place| format!("_c_{place}-__{}__{}", kinds[place], numbers[place]))
    };
    for (path, kinds, holders) in [("/rw", ["READ", "READ", "WRIT", "WRIT"], 2), ("/w", ["WRIT"; 4], 1)] {
        zookeeper.create(path, b"", &lasting).await.unwrap();
        for name in names(kinds) {
            zookeeper.create(&format!("{path}/{name}"), name.as_bytes(), &ephemeral).await.unwrap();
        }
        let shown = done_at(&connect, &["show", "--json", path]).await.json();
        let shown = shown["participants"].as_array().unwrap().iter();
        let nodes: Vec<_> = shown.map(|participant| participant["node"].as_str().unwrap()).collect();
        assert_eq!(nodes, names(kinds), "{path}");
        let listed = done_at(&connect, &["ls", "--json", path]).await.json();
        let counts = [&listed["locks"][0]["holders"], &listed["locks"][0]["waiters"]];
        assert_eq!(counts, [holders, 4 - holders], "{path}");
    }
}

/// A path whose name ends with a number of ten digits, such as a time in seconds.
#[tokio::test]
async fn a_lock_that_is_named_as_a_participant_is_listed() {
    let server = MemoryServer::start().unwrap();
    let connect = server.connect_string();
    let client = Client::connect(&connect).await.unwrap();
    let _guard = mutex_at(&client, "/locks/lock-1700000000").acquire().await.unwrap();
    let listed = done_at(&connect, &["ls", "--json"]).await.json();
    let paths: Vec<_> = listed["locks"].as_array().unwrap().iter().map(|lock| &lock["path"]).collect();
    assert_eq!(paths, ["/locks/lock-1700000000"]);
}
