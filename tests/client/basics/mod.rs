//! The client: ways to connect, states, namespaces, rights, identity, adopted sessions, several ensembles.

mod refused;

use crate::prelude::*;
use std::io::Write;
use std::net::IpAddr;

use zk_recipes::shared::SharedCount;

/// A port that nobody listens on.
const NOBODY: &str = "127.0.0.1:1";

/// Though a server does not answer, and by hosts that have a scheme.
#[tokio::test]
async fn the_session_of_a_client_can_be_ended() {
    let server = empty_server().await;
    let silent = FaultProxy::start(server.connect_string()).await.unwrap();
    let hosts = format!("tcp://{},tcp://{}", silent.connect_string(), server.connect_string());
    let client = Client::builder().session_timeout(SESSION).connect(&hosts).await.unwrap();
    let first = session_id(&client).await;
    silent.set_traffic(Traffic::black_hole());
    kill_session(&client).await.unwrap();
    silent.set_traffic(Traffic::pass());
    eventually("another session", async || (session_id(&client).await != first).then_some(())).await;
}

#[tokio::test]
async fn a_session_ends_with_the_last_handle() {
    let server = empty_server().await;
    let zookeeper = bystander_of(&server.connect_string()).await;
    let client = connect(&server).await;
    let guard = mutex(&client).acquire().await.unwrap();
    let clone = client.clone();
    drop(client);
    drop(clone);
    // A guard is a handle, too: it must not lose its lock by the way.
    let participants = mutex(&connect(&server).await).participants().await.unwrap();
    let session = participants[0].session_id();
    std::mem::forget(guard);

    let client = connect(&server).await;
    let leaked = InterProcessMutex::new(&client, "/locks/leaked").unwrap().acquire().await.unwrap();
    drop(client);
    let path = leaked.node_path().to_owned();
    drop(leaked);
    eventually("the lock is free", || async {
        zookeeper.check_stat(&path).await.unwrap().is_none().then_some(())
    })
    .await;
    eventually("the session of the last guard is gone, and only that", || async {
        let connections = server.four_letter_word("cons").await.unwrap();
        (connections.matches("sid=0x").count() == 2).then(|| {
            assert!(connections.contains(&format!("sid=0x{session:x}")), "{connections}");
        })
    })
    .await;
}

#[tokio::test]
async fn namespaces_part_clients_and_are_made_on_demand() {
    let sandbox = Sandbox::new();
    let client = async |namespace: &str| {
        let builder = Client::builder().namespace(format!("{}/{namespace}", sandbox.root));
        builder.connect(&servers()).await.unwrap()
    };
    let (one, same, other) = (client("one").await, client("one").await, client("other").await);
    let guard = mutex(&one).acquire().await.unwrap();
    assert!(guard.node_path().starts_with(&format!("/{}/one/locks/a/_c_", sandbox.root)), "{guard:?}");
    assert!(mutex(&same).try_acquire().await.unwrap().is_none());
    assert!(mutex(&other).try_acquire().await.unwrap().is_some(), "another namespace is another lock");
    // The chroot of the connect string does the same, but must exist.
    let chroot = format!("{}/{}/one", servers(), sandbox.root);
    let within_chroot = Client::connect(&chroot).await.unwrap();
    assert!(mutex(&within_chroot).try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let guard = mutex(&within_chroot).try_acquire().await.unwrap().unwrap();
    assert!(guard.node_path().starts_with("/locks/a/_c_"), "{guard:?}");
    guard.release().await.unwrap();
    let missing = Client::connect(&format!("{}/{}/missing", servers(), sandbox.root)).await.unwrap();
    let error = mutex(&missing).acquire().await.unwrap_err();
    assert!(error.to_string().contains("chroot"), "{error}");
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn nodes_carry_the_identity() {
    let sandbox = Sandbox::new();
    let by_default = sandbox.client().await;
    let guard = mutex(&by_default).acquire().await.unwrap();
    let participants = mutex(&by_default).participants().await.unwrap();
    let holder = &participants[0];
    assert_eq!(holder.identity(), Some(by_default.identity()));
    assert!(holder.id().starts_with("127.0.0.1 host="), "{holder:?}");
    assert_eq!(holder.address(), Some(IpAddr::from([127, 0, 0, 1])));
    assert_eq!(holder.pid(), Some(std::process::id()));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(holder.host(), Some(host.trim_end()));
    assert!(holder.program().is_some_and(|program| program.starts_with("it")), "{holder:?}");
    guard.release().await.unwrap();
    // What others say is shown as it is.
    for (data, address) in [("billing-7", None), ("10.1.2.3", Some(IpAddr::from([10, 1, 2, 3])))] {
        let lock = mutex(&by_default).with_options(LockOptions::new().node_data(data)).unwrap();
        let guard = lock.acquire().await.unwrap();
        let holder = lock.holder().await.unwrap().unwrap();
        assert_eq!((&*holder.id(), holder.address()), (data, address));
        assert_eq!((holder.host(), holder.pid(), holder.program()), (None, None, None));
        guard.release().await.unwrap();
    }
    let named = sandbox.builder().identity("billing-7").connect(&servers()).await.unwrap();
    let guard = mutex(&named).acquire().await.unwrap();
    let (data, _) = named.zookeeper().await.unwrap().get_data(guard.node_path()).await.unwrap();
    assert_eq!(data, b"billing-7");
    guard.release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn acls_of_nodes_and_parents() {
    let sandbox = Sandbox::new();
    let root = sandbox.root.clone();
    let anyone = |permission| Acl::new(permission, AuthId::anyone());
    let listable = Permission::READ | Permission::CREATE | Permission::DELETE;
    let (of_contenders, of_locks) = (anyone(Permission::READ), anyone(listable));
    let client = sandbox
        .builder()
        .acl([anyone(Permission::ALL)])
        .acl_for_path(move |path| match path.strip_prefix(&format!("/{root}/locks/a/")) {
            Some(contender) => {
                assert!(contender.starts_with("_c_") && contender.ends_with("-lock-"), "{contender}");
                Some(vec![of_contenders.clone()])
            }
            None => path.ends_with("/locks").then(|| vec![of_locks.clone()]),
        })
        .connect(&servers())
        .await
        .unwrap();
    let guard = mutex(&client).acquire().await.unwrap();
    let zookeeper = client.zookeeper().await.unwrap();
    let acl = async |path: &str| zookeeper.get_acl(path).await.unwrap().0;
    assert_eq!(acl(guard.node_path()).await, [anyone(Permission::READ)]);
    for (parent, permission) in [("", Permission::ALL), ("/locks", listable), ("/locks/a", Permission::ALL)] {
        assert_eq!(acl(&format!("/{}{parent}", sandbox.root)).await, [anyone(permission)], "{parent}");
    }
    guard.release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn the_margin_of_an_adopted_session_is_measured_by_its_own_timeout() {
    let server = empty_server().await;
    let session = async |timeout| {
        let connector = zk::Client::connector().with_session_timeout(timeout);
        connector.connect(&server.connect_string()).await.unwrap()
    };
    let (long, short) = (session(secs(40)).await, session(secs(10)).await);
    let margin = long.session_timeout() / 2;
    let _client = Client::builder().validity_margin(margin).from_zookeeper(long).unwrap();
    let longest = short.session_timeout() * 2 / 3;
    let refused = Client::builder().validity_margin(longest + ms(1)).from_zookeeper(short);
    assert!(matches!(refused, Err(Error::InvalidArgument { argument: "validity margin", .. })));
}

#[tokio::test]
async fn an_adopted_session_is_left_to_its_owner() {
    let server = empty_server().await;
    let zookeeper = bystander_of(&server.connect_string()).await;
    let client = Client::from_zookeeper(zookeeper.clone()).unwrap();
    let lock = mutex(&client);
    let guard = lock.acquire().await.unwrap();
    // Its address is the owner's to know.
    assert!(client.identity().starts_with(b"host="), "{client:?}");
    assert_eq!(session_id(&client).await, zookeeper.session_id().0);
    assert_eq!(kill_session(&client).await.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);

    // Closing does not end it; what was held goes with its guard.
    let waiter = acquire_in_task(&lock);
    queue_of(&zookeeper, "/locks/a", 2).await;
    client.close().await;
    assert_eq!(within(waiter).await.unwrap().unwrap_err(), Error::Closed);
    queue_of(&zookeeper, "/locks/a", 1).await;
    drop(guard);
    assert_nothing_left(&server, &zookeeper, "/locks/a").await;
}

/// A server does not tell of the end of a node that one may not read.
#[tokio::test]
async fn the_nodes_of_others_need_not_be_readable() {
    let sandbox = Sandbox::new();
    let (alice, bob) = (sandbox.private_client("alice").await, sandbox.private_client("bob").await);
    let held = mutex(&alice).acquire().await.unwrap();
    let zookeeper = bystander_of(&servers()).await;
    let path = sandbox.lock_path();
    let waiter = acquire_in_task(&mutex(&bob));
    queue_of(&zookeeper, &path, 2).await;
    // Others come and go, and wake it for nothing.
    assert!(mutex(&bob).owned_by(&Owner::new()).try_acquire().await.unwrap().is_none());
    match mutex(&bob).participants().await {
        Ok(participants) => {
            let identities = [participants[0].identity(), participants[1].identity()];
            assert_eq!(identities, [None, Some(bob.identity())]);
        }
        // Newer servers tell nothing at all of a node that one may not read.
        Err(Error::ZooKeeper { path: named, source: zk::Error::NoAuth, .. }) => assert_eq!(named, path),
        Err(error) => panic!("{error}"),
    }
    held.release().await.unwrap();
    within(waiter).await.unwrap().unwrap().release().await.unwrap();
}

/// Tells a process that it is the one which aborts at any panic, also at one that is caught.
const ABORTS_AT_PANICS: &str = "ABORTS_AT_PANICS";

/// Runs a test of this binary in a process of its own, as if it were built with `panic = "abort"`.
fn in_a_process_that_aborts_at_panics(test: &str, play: impl FnOnce()) {
    if std::env::var_os(ABORTS_AT_PANICS).is_some() {
        std::panic::set_hook(Box::new(|panic| {
            // The one panic that no check beforehand can rule out: a timer that is polled at the very moment at which its
            // runtime is shut down. It is caught.
            if !panic.to_string().contains("it is being shutdown") {
                eprintln!("{panic}\n{}", std::backtrace::Backtrace::force_capture());
                std::process::abort();
            }
        }));
        return play();
    }
    let mut process = std::process::Command::new(std::env::current_exe().unwrap());
    let process = process.args(["--exact", &format!("client::basics::{test}"), "--nocapture"]);
    let output = process.env(ABORTS_AT_PANICS, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {printed}", output.status);
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{test} is not run");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn no_guard_panics_when_its_runtime_ends() {
    in_a_process_that_aborts_at_panics("no_guard_panics_when_its_runtime_ends", || {
        let servers = runtime();
        let server = servers.block_on(Server::start()).unwrap();
        for within_a_task in [true, false] {
            let runtime = runtime();
            let kept = runtime.block_on(async {
                // Of a path of its own: the sessions of ended runtimes are not closed.
                let mutex = mutex_at(&connect_here(&server).await, &format!("/locks/{within_a_task}"));
                // So that the path is watched.
                visit(&mutex, 3).await;
                let guard = mutex.acquire().await.unwrap();
                let ticket = mutex.owned_by(&Owner::new()).enqueue().await.unwrap();
                if !within_a_task {
                    return Some((guard, ticket, mutex));
                }
                tokio::spawn(async move {
                    let _held = (guard, ticket, mutex);
                    std::future::pending::<()>().await
                });
                tokio::task::yield_now().await;
                None
            });
            drop(runtime);
            drop(kept);
        }
    });
}

/// Nor does anybody wait for ever, also if the runtime ends while there is no connection.
#[test]
fn no_waiter_on_another_runtime_panics_when_that_of_the_client_ends() {
    let name = "no_waiter_on_another_runtime_panics_when_that_of_the_client_ends";
    in_a_process_that_aborts_at_panics(name, || {
        let others = runtime();
        let server = others.block_on(Server::start()).unwrap();
        let (proxy, _) = others.block_on(connect_by_proxy(&server));
        let holding = others.block_on(connect(&server));
        for round in 0..20 {
            let path = format!("/locks/{round}");
            let held = others.block_on(mutex_at(&holding, &path).acquire()).unwrap();
            let runtime = runtime();
            let builder = Client::builder().runtime(runtime.handle().clone()).session_timeout(SESSION);
            let client = runtime.block_on(builder.connect(&proxy.connect_string())).unwrap();
            let guard = runtime.block_on(mutex_at(&client, &format!("/own/{round}")).acquire()).unwrap();
            let mutex = mutex_at(&client, &path);
            let waiters: Vec<_> = (0..10)
                .map(|_| {
                    let mutex = mutex.clone();
                    others.spawn(async move { mutex.owned_by(&Owner::new()).acquire().await })
                })
                .collect();
            others.block_on(eventually("all watch", async || {
                let watched = server.four_letter_word("wchp").await.unwrap();
                (watched.matches(&format!("{path}/_c_")).count() >= waiters.len()).then_some(())
            }));
            if round % 2 == 1 {
                proxy.cut();
                std::thread::sleep(Duration::from_micros(fastrand::u64(0..10_000)));
            }
            if round % 4 < 2 {
                drop(runtime)
            } else {
                runtime.shutdown_background()
            }
            others.block_on(async {
                for waiter in waiters {
                    assert_eq!(within(waiter).await.unwrap().unwrap_err(), Error::Closed);
                }
                within(guard.lost()).await;
                assert!(!guard.is_valid());
                let _ = within(guard.release()).await;
                within(client.close()).await;
                held.release().await.unwrap();
            });
        }
    });
}

/// Each of these does nothing, or undoes what it did, if the result is dropped. This does not compile if the compiler
/// fails to warn of one of them.
#[test]
fn the_compiler_warns_of_what_is_made_for_nothing() {
    macro_rules! warned_of {
        ($($made:expr,)*) => {$(
            #[expect(unused_must_use, reason = "the warning is what is tested")]
            {
                $made;
            }
        )*};
    }
    #[deny(unfulfilled_lint_expectations)]
    async fn for_nothing(client: &Client) -> zk_recipes::Result<()> {
        let (mutex, lock) = (mutex(client), ReadWriteLock::new(client, "/a")?);
        let (permits, one) = (Semaphore::new(client, "/b", 2)?, SemaphoreMutex::new(client, "/c")?);
        let many = MultiLock::new(client, ["/d"])?;
        let options = LockOptions::new();
        let work = |_| async { Ok::<(), std::io::Error>(()) };
        warned_of![
            Client::builder(),
            Client::connect_lazily(NOBODY)?,
            RetryPolicy::forever(Duration::ZERO),
            LockOptions::new(),
            InterProcessMutex::new(client, "/a")?,
            mutex.with_options(options.clone())?,
            mutex.enqueue().await?,
            mutex.acquire().await?,
            mutex.acquire().await?.transaction(),
            ReadWriteLock::new(client, "/a")?,
            lock.with_options(options.clone())?,
            lock.read().with_options(options.clone())?,
            lock.write().with_options(options.clone())?,
            Semaphore::new(client, "/b", 2)?,
            permits.with_options(options.clone())?,
            SemaphoreMutex::new(client, "/c")?,
            one.with_options(options.clone())?,
            MultiLock::new(client, ["/d"])?,
            many.with_options(options.clone())?,
            Locks::new(client, "/e")?,
            LeaderOptions::new(),
            LeaderLatch::start(client, "/f", LeaderOptions::new())?,
            LeaderSelector::start(client, "/f", LeaderOptions::new(), work)?,
            LeaderObserver::new(client, "/f")?,
        ];
        Ok(())
    }
    let _ = for_nothing;
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn compressed_data_is_shown_as_text() {
    let sandbox = Sandbox::new();
    let compressing = sandbox.builder().identity("billing-7").enable_compression();
    let compressing = compressing.connect(&servers()).await.unwrap();
    let plain = sandbox.client().await;
    let zookeeper = plain.zookeeper().await.unwrap();
    let guard = mutex(&compressing).acquire().await.unwrap();
    // Its server may lag behind.
    zookeeper.sync(guard.node_path()).await.unwrap();
    assert_eq!(zookeeper.get_data(guard.node_path()).await.unwrap().0, gzip("billing-7"));
    let holder = mutex(&plain).holder().await.unwrap().unwrap();
    assert_eq!((holder.identity(), &*holder.id()), (Some(&b"billing-7"[..]), "billing-7"));
    let observer = LeaderObserver::new(&plain, "/locks/a").unwrap();
    assert_eq!(observer.leader().await.unwrap().unwrap().id(), "billing-7");
    guard.release().await.unwrap();

    // What is no gzip, and what would be too much, is shown as it is.
    for data in [&gzip("billing-7")[..15], &gzip(&"0".repeat((1 << 20) + 1))] {
        let lock = mutex(&plain).with_options(LockOptions::new().node_data(data)).unwrap();
        let guard = lock.acquire().await.unwrap();
        assert_eq!(lock.holder().await.unwrap().unwrap().identity(), Some(data));
        guard.release().await.unwrap();
    }
    sandbox.assert_nothing_left().await;
}

async fn try_at(ensembles: &Ensembles<Client>, path: &str) -> Result<Option<LockGuard>, Error> {
    InterProcessMutex::new(ensembles.of(path), path)?.try_acquire().await
}

/// As the guide says: programs that know the old ensembles, both, and the new ones never have a lock at the same time.
#[tokio::test]
async fn programs_that_take_both_places_keep_the_others_out_while_the_ensembles_change() {
    let (blue, green) = (empty_server().await, empty_server().await);
    let ensembles = async |names: &'static [&str]| {
        let mut clients = Vec::new();
        for name in names {
            clients.push((*name, connect(if *name == "blue" { &blue } else { &green }).await));
        }
        Ensembles::new(clients).unwrap()
    };
    let (old, new) = (ensembles(&["blue"]).await, ensembles(&["green", "blue"]).await);
    let (before, after) = (ensembles(&["blue"]).await, ensembles(&["blue", "green"]).await);
    let paths: Vec<_> = (0..20).map(|number| format!("/orders/{number}")).collect();
    assert!(paths.iter().any(|path| new.name_of(path) == "blue"));
    assert!(paths.iter().any(|path| new.name_of(path) == "green"));
    for path in &paths {
        let mut guards = vec![try_at(&before, path).await.unwrap().unwrap()];
        if before.name_of(path) != after.name_of(path) {
            guards.push(try_at(&after, path).await.unwrap().unwrap());
        }
        assert!(try_at(&old, path).await.unwrap().is_none(), "{path} at its old place");
        assert!(try_at(&new, path).await.unwrap().is_none(), "{path} at its new place");
        guards.remove(0).release().await.unwrap();
        assert_eq!(try_at(&new, path).await.unwrap().is_some(), guards.is_empty(), "{path}, half released");
    }
    for (_, client) in [old, new, before, after].iter().flat_map(Ensembles::iter) {
        client.clone().close().await;
    }
}
