//! Participants that play foul: whoever may create nodes in a queue can keep others waiting, but nobody is let in beside
//! a holder, nobody is kept busy by more than what the other one does, and all goes on when the other one has gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::support::alone::is_alone;
use crate::support::room::Room;
use crate::support::*;
use futures_util::future::{join_all, join4};
use zk_recipes::nodes::{Group, Members};
use zk_recipes::testing::{FaultProxy, MemoryServer, Request, Traffic};
use zk_recipes::{Client, Error, InterProcessMutex, LockGuard, MultiLock, Owner, Semaphore};
use zookeeper_client as zk;

const PATH: &str = "/locks/a";

/// How long a quiet waiter is watched.
const QUIET: Duration = Duration::from_secs(1);

/// Somebody with a session of its own, on which it only touches its own nodes.
struct Mallory(zk::Client);

impl Mallory {
    async fn enter(server: &Server) -> Self {
        let connector = zk::Client::connector().with_auth("digest", b"mallory:secret");
        Self(
            connector
                .with_session_timeout(Duration::from_secs(30))
                .connect(&server.connect_string())
                .await
                .unwrap(),
        )
    }

    async fn create(&self, name: &str, data: &[u8]) {
        self.create_as(name, data, zk::Acls::anyone_all()).await;
    }

    async fn create_as(&self, name: &str, data: &[u8], acls: zk::Acls<'_>) {
        let options = zk::CreateMode::Ephemeral.with_acls(acls);
        self.0.create(&format!("{PATH}/{name}"), data, &options).await.unwrap();
    }

    /// Many at a time.
    async fn flood(&self, names: impl Iterator<Item = String>) {
        let options = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
        let paths: Vec<String> = names.map(|name| format!("{PATH}/{name}")).collect();
        for some in paths.chunks(1000) {
            let mut writer = self.0.new_multi_writer();
            some.iter().for_each(|path| writer.add_create(path, b"", &options).unwrap());
            writer.commit().await.unwrap();
        }
    }
}

/// A client whose requests are counted.
async fn counted(server: &Server) -> (FaultProxy, Client) {
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    (proxy, client)
}

/// What a client asks of the queue within a second; what keeps its session alive does not count.
async fn asked_when_quiet(proxy: &FaultProxy) -> Vec<Request> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    proxy.take_requests();
    tokio::time::sleep(QUIET).await;
    let requests = proxy.take_requests();
    requests.into_iter().filter(|request| !matches!(request, Request::Sync | Request::Confirm)).collect()
}

#[tokio::test]
async fn names_that_are_almost_ours_keep_nobody_waiting() {
    let server = empty_server().await;
    let (proxy, client) = counted(&server).await;
    drop(within(mutex(&client).acquire()).await.unwrap());
    let mallory = Mallory::enter(&server).await;
    for name in [
        "lock-",
        "lock-1",
        "lock-99999999999999999999",
        "lock-4294967296",
        "lock-+000000001",
        "lock--0000000001",
        "lock-0000000001 ",
        "LOCK-0000000000",
        "clock-0000000000",
        "_c_-latch-0000000000x",
        "x__WRIT__0",
        "lock-000000000\u{0660}",
        &"x".repeat(10_000),
    ] {
        mallory.create(name, b"__REVOKE__").await;
    }
    proxy.take_requests();
    let guard = within(mutex(&client).acquire()).await.unwrap();
    assert!(guard.is_valid());
    within(guard.release()).await.unwrap();
    assert!(proxy.take_requests().len() < 10);
    // A node of another kind of recipe ends in an error that names it, and keeps nobody waiting.
    mallory.create("_c_-latch-0000000000", b"").await;
    let refused = within(mutex(&client).acquire()).await.unwrap_err();
    assert!(refused.to_string().contains("_c_-latch-0000000000"), "{refused}");
    drop(mallory);
    let again = async || mutex(&client).acquire().await.ok();
    drop(eventually("it is gone", again).await);
}

/// Whoever creates a name that sorts before ours has the lock. It costs the others nothing but time.
#[tokio::test]
async fn whoever_pushes_in_is_waited_for_in_silence() {
    let server = empty_server().await;
    let only_own = [zk::Acl::new(zk::Permission::ALL, zk::AuthId::authed())];
    let long: Vec<u8> = vec![b'x'; 900_000];
    let tricks: [(&str, &[u8], zk::Acls<'_>); 6] = [
        ("0-lock-0000000000", b"", zk::Acls::anyone_all()),
        ("0-lock-0000000000", b"__REVOKE__", zk::Acls::anyone_all()),
        ("0-lock-0000000000", &long, zk::Acls::anyone_all()),
        ("0-lock-0000000000", b"", zk::Acls::new(&only_own)),
        ("0-lock--000000005", b"", zk::Acls::anyone_all()),
        ("0-lock-2147483647", b"", zk::Acls::anyone_all()),
    ];
    for (name, data, acls) in tricks {
        let (proxy, client) = counted(&server).await;
        drop(within(mutex(&client).acquire()).await.unwrap());
        let mallory = Mallory::enter(&server).await;
        mallory.create_as(name, data, acls).await;
        let waiting = acquire_in_task(&mutex(&client));
        let bystander = bystander(&server).await;
        queue_of(&bystander, PATH, 2).await;
        let asked = asked_when_quiet(&proxy).await;
        assert!(asked.len() <= 2, "{name}: {asked:?}");
        assert!(!waiting.is_finished(), "{name}");
        drop(mallory);
        let guard = within(waiting).await.unwrap().unwrap();
        within(guard.release()).await.unwrap();
        queue_of(&bystander, PATH, 0).await;
    }
}

/// A name with the number of the holder may sort before it, and one with the last number makes dates count.
#[tokio::test]
async fn nobody_is_let_in_beside_a_holder_that_is_pushed_back() {
    let server = empty_server().await;
    let [holder, next] = connect_many(&server).await;
    let guard = within(mutex(&holder).acquire()).await.unwrap();
    let number = sequence(guard.node_path());
    let own = guard.node_path().rsplit_once('/').unwrap().1.to_owned();
    let waiting = acquire_in_task(&mutex(&next));
    let bystander = bystander(&server).await;
    queue_of(&bystander, PATH, 2).await;
    let mallory = Mallory::enter(&server).await;
    let twin = format!("{}{:010}", &own[..own.len() - 10], number + 100);
    for name in [
        format!("0-lock-{number:010}"),
        format!("~-lock-{number:010}"),
        format!("0-lock-{:010}", number + 1),
        twin,
        "0-lock-2147483647".to_owned(),
        "0-lock--000000001".to_owned(),
    ] {
        mallory.create(&name, b"").await;
        let late = Client::connect(&server.connect_string()).await.unwrap();
        assert!(within(mutex(&late).try_acquire()).await.unwrap().is_none(), "{name}");
        assert!(!waiting.is_finished() && guard.is_valid(), "{name}");
        late.close().await;
    }
    within(guard.release()).await.unwrap();
    drop(mallory);
    drop(within(waiting).await.unwrap().unwrap());
    queue_of(&bystander, PATH, 0).await;
}

/// Each change of a node that somebody waits for takes a look; so the others do no more than whoever makes the changes.
#[tokio::test]
async fn a_restless_predecessor_costs_a_few_requests_for_each_of_its_own() {
    let server = empty_server().await;
    let (proxy, client) = counted(&server).await;
    drop(within(mutex(&client).acquire()).await.unwrap());
    let mallory = Mallory::enter(&server).await;
    mallory.create("0-lock-0000000000", b"").await;
    let waiting = acquire_in_task(&mutex(&client));
    watches_of(&server, 1).await;
    proxy.take_requests();
    let mut changes = 0;
    let begin = tokio::time::Instant::now();
    while begin.elapsed() < QUIET {
        mallory.0.set_data(&format!("{PATH}/0-lock-0000000000"), b"__REVOKE__", None).await.unwrap();
        // In front of the waiter, and behind it.
        for name in ["1-lock-0000000000", "1-lock-2147483600"] {
            mallory.create(name, b"").await;
            mallory.0.delete(&format!("{PATH}/{name}"), None).await.unwrap();
        }
        changes += 5;
    }
    let asked = proxy.take_requests().len();
    assert!(asked <= 3 * changes + 10, "{asked} requests for {changes} changes");
    assert!(asked_when_quiet(&proxy).await.len() <= 2, "it goes on without a reason");
    assert!(!waiting.is_finished());
    drop(mallory);
    drop(within(waiting).await.unwrap().unwrap());
}

#[tokio::test]
async fn a_flood_ends_with_the_one_who_made_it() {
    const FLOOD: usize = 5_000;
    let server = empty_server().await;
    let [holder] = connect_many(&server).await;
    let (proxy, client) = counted(&server).await;
    let guard = within(mutex(&holder).acquire()).await.unwrap();
    let waiting = acquire_in_task(&mutex(&client));
    let bystander = bystander(&server).await;
    queue_of(&bystander, PATH, 2).await;
    watches_of(&server, 1).await;
    let mallory = Mallory::enter(&server).await;
    // With the last number among them, it takes the dates of all.
    let behind = (1..FLOOD).map(|number| format!("x-lock-{:010}", 1_000_000 + number));
    mallory.flood(behind.chain(["x-lock-2147483647".to_owned()])).await;
    proxy.take_requests();
    // Whoever was there before is served as before.
    within(guard.release()).await.unwrap();
    let guard = within(waiting).await.unwrap().unwrap();
    assert!(guard.is_valid());
    // It may look at the queue again, but asks for each date once.
    let asked = proxy.take_requests();
    assert!(asked.len() <= FLOOD + 20, "{} requests", asked.len());
    // Whoever comes now waits for the flood, in silence.
    let (proxy, late) = counted(&server).await;
    let waiting = acquire_in_task(&mutex(&late));
    queue_of(&bystander, PATH, FLOOD + 2).await;
    eventually("it has looked", async || (proxy.requests_seen() > FLOOD).then_some(())).await;
    let asked = asked_when_quiet(&proxy).await;
    assert!(asked.len() <= 10, "{} requests", asked.len());
    // The next one of the same client goes by what is known already, also when it tells its position.
    let ticket = within(mutex(&late).owned_by(&Owner::new()).enqueue()).await.unwrap();
    let position = ticket.watch_position();
    let next = tokio::spawn(ticket.acquired());
    eventually("it tells its position", async || (*position.borrow() > FLOOD).then_some(())).await;
    let asked = asked_when_quiet(&proxy).await;
    assert!(asked.len() <= 10, "{} requests", asked.len());
    assert!(proxy.requests_seen() < FLOOD + 100, "{} requests", proxy.requests_seen());
    drop(mallory);
    within(guard.release()).await.unwrap();
    drop(within(waiting).await.unwrap().unwrap());
    drop(within(next).await.unwrap().unwrap());
    queue_of(&bystander, PATH, 0).await;
}

#[tokio::test]
async fn floods_that_come_and_go_leave_no_memory() {
    const FLOOD: usize = 2_000;
    if !is_alone("hostile::floods_that_come_and_go_leave_no_memory") {
        return;
    }
    let server = empty_server().await;
    let [holder, waiter] = connect_many(&server).await;
    let bystander = bystander(&server).await;
    let guard = within(mutex(&holder).acquire()).await.unwrap();
    let waiting = acquire_in_task(&mutex(&waiter));
    queue_of(&bystander, PATH, 2).await;
    let flood = async || {
        let mallory = Mallory::enter(&server).await;
        // Behind them, and with numbers that do not tell the order.
        let names = (1..FLOOD).map(|number| format!("x-lock-{:010}", 1_000_000 + number));
        mallory.flood(names.chain(["x-lock-2147483647".to_owned()])).await;
        // Each that comes has all of them dated.
        let tried = within(mutex(&waiter).owned_by(&Owner::new()).try_acquire()).await.unwrap();
        assert!(tried.is_none());
        drop(mallory);
        queue_of(&bystander, PATH, 2).await;
    };
    for _ in 0..3 {
        flood().await;
    }
    let before = memory::peak();
    for _ in 0..12 {
        flood().await;
    }
    let after = memory::peak();
    println!("{before} KiB after 3 floods, {after} KiB after 15");
    assert!(after < before + before / 5, "{before} KiB, and then {after} KiB");
    within(guard.release()).await.unwrap();
    drop(within(waiting).await.unwrap().unwrap());
}

#[tokio::test]
async fn holders_stay_apart_under_all_of_it_at_once() {
    let server = empty_server().await;
    let clients: [Client; 3] = connect_many(&server).await;
    let (room, over) = <(Arc<Room>, Arc<AtomicBool>)>::default();
    let honest = clients.map(|client| {
        let (room, over) = (room.clone(), over.clone());
        tokio::spawn(async move {
            let mutex = mutex(&client);
            while !over.load(SeqCst) {
                let guard = mutex.acquire().await.unwrap();
                let stay = room.enter(&guard);
                tokio::task::yield_now().await;
                drop(stay);
                guard.release().await.unwrap();
            }
        })
    });
    eventually("they have begun", async || (room.visits() > 3).then_some(())).await;
    let bystander = bystander(&server).await;
    for round in 0..8 {
        let mallory = Mallory::enter(&server).await;
        for name in children(&bystander, PATH).await {
            let Some((id, number)) = name.len().checked_sub(10).map(|at| name.split_at(at)) else { continue };
            for twin in [format!("{id}0000000000"), format!("{id}2147483647"), format!("0-lock-{number}")] {
                let path = format!("{PATH}/{twin}");
                let options = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
                let _ = mallory.0.create(&path, b"__REVOKE__", &options).await;
                if round % 2 == 0 {
                    let _ = mallory.0.delete(&path, None).await;
                }
            }
        }
        drop(mallory);
        let before = room.visits();
        eventually("they go on", async || (room.visits() > before + 3).then_some(())).await;
    }
    over.store(true, SeqCst);
    for honest in honest {
        within(honest).await.unwrap();
    }
    queue_of(&bystander, PATH, 0).await;
}

/// They are removed before anything can be created in them.
#[tokio::test]
async fn paths_that_vanish_as_often_as_they_are_made_are_not_made_for_ever() {
    let server = empty_server().await;
    let (proxy, client) = counted(&server).await;
    let mallory = Mallory::enter(&server).await;
    let removing = tokio::spawn(async move {
        let paths =
            ["/of/mutex", "/of/gate/locks", "/of/gate", "/of/both", "/of/these", "/of/open-gate/leases"];
        loop {
            join_all(paths.map(|path| mallory.0.delete(path, None))).await;
        }
    });
    // A round trip of a removal is much shorter.
    proxy.set_traffic(Traffic::pass().delay(Duration::from_millis(50)));
    let mutex = InterProcessMutex::new(&client, "/of/mutex").unwrap();
    let gate = Semaphore::new(&client, "/of/gate", 2).unwrap();
    let leases = Semaphore::new(&client, "/of/open-gate", 2).unwrap();
    let both = MultiLock::new(&client, ["/of/both", "/of/these"]).unwrap();
    let given_up = join4(
        // A path that is created along with a node cannot be removed in between.
        mutex.acquire(),
        gate.acquire(),
        given_up(async || leases.acquire().await),
        given_up(async || both.acquire().await),
    );
    let (mutex, gate, leases, both) = within(given_up).await;
    mutex.unwrap().release().await.unwrap();
    // But what is above it can.
    assert!(matches!(gate, Ok(_) | Err(Error::PlaceLost { .. })), "{gate:?}");
    assert!(matches!(both, Error::PlaceLost { .. }), "{both}");
    assert!(matches!(leases, Error::ZooKeeper { source: zk::Error::NoNode, .. }), "{leases}");
    removing.abort();
}

/// Why it gives up in the end. On a busy machine the removal may have come too late for once.
async fn given_up(acquire: impl AsyncFn() -> zk_recipes::Result<LockGuard>) -> Error {
    loop {
        if let Err(error) = acquire().await {
            return error;
        }
    }
}

/// Some hundred bytes each, of which gzip makes a thousand times as much.
#[tokio::test]
async fn compressed_data_take_no_more_than_a_share_of_memory() {
    const PLAIN: usize = 1 << 20;
    const FIT: usize = 64;
    let server = MemoryServer::start().unwrap();
    let compressing = || Client::builder().enable_compression();
    let client = compressing().connect(&server.connect_string()).await.unwrap();
    let other = compressing().connect(&server.connect_string()).await.unwrap();
    let group = Group::new(&client, "/group").unwrap();
    let first = Group::new(&other, "/group").unwrap().join("m-0000000000", vec![b'x'; PLAIN]).await.unwrap();
    let zookeeper = zk::Client::connect(&server.connect_string()).await.unwrap();
    let (bomb, _) = zookeeper.get_data("/group/m-0000000000").await.unwrap();
    assert!(bomb.len() < 2000, "{} bytes", bomb.len());
    let open = zk::Acls::anyone_all();
    zookeeper.create("/locks", b"", &zk::CreateMode::Persistent.with_acls(open)).await.unwrap();
    for number in 1..=2 * FIT {
        for node in [format!("/group/m-{number:010}"), format!("/locks/x-lock-{number:010}")] {
            zookeeper.create(&node, &bomb, &zk::CreateMode::Ephemeral.with_acls(open)).await.unwrap();
        }
    }

    let participants = InterProcessMutex::new(&client, "/locks").unwrap().participants().await.unwrap();
    let lengths: Vec<_> = participants.iter().map(|one| one.identity().unwrap().len()).collect();
    assert_eq!(lengths, [[PLAIN; FIT], [bomb.len(); FIT]].concat());

    let fitting = |members: &Members| {
        let payloads = members.iter().filter_map(|(_, member)| member.payload());
        payloads.inspect(|payload| assert_eq!(payload.len(), PLAIN)).count()
    };
    let members = group.members().await.unwrap();
    assert_eq!((members.len(), fitting(&members)), (2 * FIT + 1, FIT));
    let mut watched = group.watch_members();
    let shown = |members: &Members, count| members.len() == count && fitting(members) == FIT;
    within(watched.wait_for(|members| shown(members, 2 * FIT + 1))).await.unwrap();
    // The room of those that leave is that of others.
    first.leave().await.unwrap();
    within(watched.wait_for(|members| shown(members, 2 * FIT))).await.unwrap();
}
