//! Participants that play foul: whoever may create nodes in a queue can keep others waiting, but nobody is let in beside
//! a holder, nobody is kept busy by more than what the other one does, and all goes on when the other one has gone.

use futures_util::future::join4;

use super::kinds::Kind;
use super::prelude::*;

/// How long a quiet waiter is watched.
const QUIET: Duration = secs(60);

/// Somebody with a session of its own, on which it only touches its own nodes.
struct Mallory(Client, zk::Client);

impl Mallory {
    async fn enter(stage: &Stage) -> Self {
        let client = stage.connect(2, |builder| session(builder).auth("digest", "mallory:secret")).await;
        let zookeeper = client.zookeeper().await.unwrap();
        Self(client, zookeeper)
    }

    async fn leave(self) {
        self.0.close().await;
    }

    async fn create(&self, name: &str, data: &[u8]) {
        self.create_as(name, data, zk::Acls::anyone_all()).await;
    }

    async fn create_as(&self, name: &str, data: &[u8], acls: zk::Acls<'_>) {
        let options = zk::CreateMode::Ephemeral.with_acls(acls);
        self.1.create(&format!("{PATH}/{name}"), data, &options).await.unwrap();
    }

    /// Many at a time.
    async fn flood(&self, names: impl Iterator<Item = String>) {
        let options = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
        let paths: Vec<String> = names.map(|name| format!("{PATH}/{name}")).collect();
        for some in paths.chunks(1000) {
            let mut writer = self.1.new_multi_writer();
            some.iter().for_each(|path| writer.add_create(path, b"", &options).unwrap());
            writer.commit().await.unwrap();
        }
    }
}

/// What a client asks of the queue within a minute. What keeps its session alive does not count, nor that it looks at times
/// whether a node that it waits for is there.
async fn asked_when_quiet(proxy: &Proxy) -> Vec<Request> {
    sleep(A_MOMENT).await;
    proxy.take_requests();
    sleep(QUIET).await;
    let (looks, mut requests): (Vec<_>, Vec<_>) =
        proxy.take_requests().into_iter().partition(|request| *request == Request::Exists);
    assert!(looks.len() <= 20, "{} looks", looks.len());
    requests.retain(|request| !matches!(request, Request::Sync | Request::Confirm));
    requests
}

#[history]
async fn names_that_are_almost_ours_keep_nobody_waiting(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    visit(&mutex(&client)).await;
    let mallory = Mallory::enter(&stage).await;
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
    mallory.leave().await;
    visit(&mutex(&client)).await;
}

/// Whoever creates a name that sorts before ours has the lock. It costs the others nothing but time.
#[history]
async fn whoever_pushes_in_is_waited_for_in_silence(stage: Stage) {
    let only_own = [zk::Acl::new(zk::Permission::ALL, zk::AuthId::authed())];
    let long = [b'x'; 900_000];
    let tricks: [(&str, &[u8], zk::Acls<'_>); 6] = [
        ("0-lock-0000000000", b"", zk::Acls::anyone_all()),
        ("0-lock-0000000000", b"__REVOKE__", zk::Acls::anyone_all()),
        ("0-lock-0000000000", &long, zk::Acls::anyone_all()),
        ("0-lock-0000000000", b"", zk::Acls::new(&only_own)),
        ("0-lock--000000005", b"", zk::Acls::anyone_all()),
        ("0-lock-2147483647", b"", zk::Acls::anyone_all()),
    ];
    let (proxy, client) = stage.far(session).await;
    for (name, data, acls) in tricks {
        visit(&mutex(&client)).await;
        let mallory = Mallory::enter(&stage).await;
        mallory.create_as(name, data, acls).await;
        let waiting = waiter(&mutex(&client)).await;
        assert_eq!(nodes(stage.servers(), PATH).len(), 2);
        let asked = asked_when_quiet(&proxy).await;
        assert_eq!(asked, [], "{name}");
        assert!(!waiting.is_finished(), "{name}");
        mallory.leave().await;
        granted(waiting).await.release().await.unwrap();
        nothing_is_left(stage.servers()).await;
    }
}

/// A name with the number of the holder may sort before it, and one with the last number makes dates count.
#[history]
async fn nobody_is_let_in_beside_a_holder_that_is_pushed_back(stage: Stage) {
    let [holder, next] = [stage.connect(0, session).await, stage.connect(1, session).await];
    let guard = within(mutex(&holder).acquire()).await.unwrap();
    let at = guard.node_path().len() - 10;
    let (own, number) = (&guard.node_path()[PATH.len() + 1..at], number(guard.node_path()));
    let waiting = waiter(&mutex(&next)).await;
    assert_eq!(nodes(stage.servers(), PATH).len(), 2);
    let mallory = Mallory::enter(&stage).await;
    for name in [
        format!("0-lock-{number:010}"),
        format!("~-lock-{number:010}"),
        format!("0-lock-{:010}", number + 1),
        format!("{own}{:010}", number + 100),
        "0-lock-2147483647".to_owned(),
        "0-lock--000000001".to_owned(),
    ] {
        mallory.create(&name, b"").await;
        let late = stage.connect(2, session).await;
        assert!(within(mutex(&late).try_acquire()).await.unwrap().is_none(), "{name}");
        assert!(!waiting.is_finished() && guard.is_valid(), "{name}");
        late.close().await;
    }
    within(guard.release()).await.unwrap();
    mallory.leave().await;
    granted(waiting).await.release().await.unwrap();
    nothing_is_left(stage.servers()).await;
}

/// Each change of a node that somebody waits for takes a look; so the others do no more than whoever makes the changes.
#[history]
async fn a_restless_predecessor_costs_a_few_requests_for_each_of_its_own(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    visit(&mutex(&client)).await;
    let mallory = Mallory::enter(&stage).await;
    mallory.create("0-lock-0000000000", b"").await;
    let waiting = waiter(&mutex(&client)).await;
    assert_eq!(watched(stage.servers()).await.len(), 1);
    proxy.take_requests();
    let mut changes = 0;
    let begin = Instant::now();
    while begin.elapsed() < SESSION {
        let path = format!("{PATH}/0-lock-0000000000");
        mallory.1.set_data(&path, b"__REVOKE__", None).await.unwrap();
        // In front of the waiter, and behind it.
        for name in ["1-lock-0000000000", "1-lock-2147483600"] {
            mallory.create(name, b"").await;
            mallory.1.delete(&format!("{PATH}/{name}"), None).await.unwrap();
        }
        changes += 5;
    }
    let asked = proxy.take_requests().len();
    assert!(changes > 1000 && asked <= 3 * changes + 10, "{asked} requests for {changes} changes");
    assert_eq!(asked_when_quiet(&proxy).await, [], "it goes on without a reason");
    assert!(!waiting.is_finished());
    mallory.leave().await;
    granted(waiting).await.release().await.unwrap();
}

#[history]
async fn a_flood_ends_with_the_one_who_made_it(stage: Stage) {
    const FLOOD: usize = 5_000;
    let holder = stage.connect(0, session).await;
    let (proxy, client) = stage.far(session).await;
    let guard = within(mutex(&holder).acquire()).await.unwrap();
    let waiting = waiter(&mutex(&client)).await;
    assert_eq!(nodes(stage.servers(), PATH).len(), 2);
    let mallory = Mallory::enter(&stage).await;
    // With the last number among them, it takes the dates of all.
    let behind = (1..FLOOD).map(|number| format!("x-lock-{:010}", 1_000_000 + number));
    mallory.flood(behind.chain(["x-lock-2147483647".to_owned()])).await;
    proxy.take_requests();
    // Whoever was there before is served as before.
    within(guard.release()).await.unwrap();
    let guard = granted(waiting).await;
    assert!(guard.is_valid());
    // It may look at the queue again, but asks for each date once.
    let asked = proxy.take_requests();
    assert!(asked.len() <= FLOOD + 20, "{} requests", asked.len());
    // Whoever comes now waits for the flood, in silence.
    let (proxy, late) = stage.far(session).await;
    let waiting = waiter(&mutex(&late)).await;
    sleep(SESSION).await;
    assert_eq!(nodes(stage.servers(), PATH).len(), FLOOD + 2);
    assert!(proxy.requests_seen() > FLOOD, "it has looked");
    let asked = asked_when_quiet(&proxy).await;
    assert!(asked.len() <= 10, "{} requests", asked.len());
    // The next one of the same client goes by what is known already, also when it tells its position.
    let ticket = within(mutex(&late).owned_by(&Owner::new()).enqueue()).await.unwrap();
    let position = ticket.watch_position();
    let next = tokio::spawn(ticket.acquired());
    sleep(SESSION).await;
    assert!(position.get() > FLOOD, "it tells its position");
    assert!(proxy.requests_seen() < 100, "{} requests", proxy.requests_seen());
    let asked = asked_when_quiet(&proxy).await;
    assert!(asked.len() <= 10, "{} requests", asked.len());
    mallory.leave().await;
    within(guard.release()).await.unwrap();
    for waiting in [waiting, next] {
        granted(waiting).await.release().await.unwrap();
    }
    nothing_is_left(stage.servers()).await;
}

#[history]
async fn holders_stay_apart_under_all_of_it_at_once(stage: Stage) {
    const TURN: Duration = ms(300);
    let clients = connect_all(&stage).await;
    let (room, is_over) = <(Rc<Room>, Rc<Cell<bool>>)>::default();
    let honest = clients.each_ref().map(|client| {
        let (room, is_over, mutex) = (room.clone(), is_over.clone(), mutex(client));
        stage.machines()[0].spawn(async move {
            while !is_over.get() {
                let guard = mutex.acquire().await.unwrap();
                let stay = room.enter(&guard);
                sleep(ms(1)).await;
                drop(stay);
                guard.release().await.unwrap();
            }
        })
    });
    sleep(TURN).await;
    assert!(room.visits() > 30, "they have begun");
    for round in 0..16 {
        let mallory = Mallory::enter(&stage).await;
        for name in stage.servers().children(PATH).unwrap_or_default() {
            let Some((id, number)) = name.len().checked_sub(10).map(|at| name.split_at(at)) else {
                continue;
            };
            for twin in [format!("{id}0000000000"), format!("{id}2147483647"), format!("0-lock-{number}")] {
                let path = format!("{PATH}/{twin}");
                let options = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
                let _ = mallory.1.create(&path, b"__REVOKE__", &options).await;
                if round % 2 == 0 {
                    let _ = mallory.1.delete(&path, None).await;
                }
            }
        }
        mallory.leave().await;
        let before = room.visits();
        sleep(TURN).await;
        assert!(room.visits() > before + 30, "they go on");
    }
    is_over.set(true);
    for honest in honest {
        within(honest).await.unwrap().unwrap();
    }
    nothing_is_left(stage.servers()).await;
}

/// Somebody takes the right to read it away from a waiter that has watched it.
#[history]
async fn a_waiter_that_may_not_read_its_node_any_more_does_not_ask_all_the_time(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let other = stage.connect(1, session).await;
    let held = Kind::Multi.rival(&other).acquire().await.unwrap();
    let waiting = in_task(Kind::Multi.unlimited(&client));
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, &Kind::Multi.queue()), 2);
    let [first] = <[String; 1]>::try_from(nodes(stage.servers(), "/locks/multi-a")).unwrap();
    let rights = Permission::WRITE | Permission::CREATE | Permission::DELETE | Permission::ADMIN;
    let hidden = [Acl::new(rights, AuthId::anyone())];
    other.zookeeper().await.unwrap().set_acl(&first, &hidden, None).await.unwrap();
    proxy.cut();
    sleep(secs(2)).await;
    assert!(client.watch_connection().get().is_connected());
    let asked = asked_when_quiet(&proxy).await;
    assert!(asked.len() < 10, "{asked:?}");
    held.release().await.unwrap();
    within(waiting).await.unwrap().unwrap().release().await.unwrap();
}

/// They are removed before anything can be created in them.
#[history]
async fn paths_that_vanish_as_often_as_they_are_made_are_not_made_for_ever(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let mallory = Mallory::enter(&stage).await;
    let removing = mallory.1.clone();
    let removing = tokio::spawn(async move {
        let paths =
            ["/of/mutex", "/of/gate/locks", "/of/gate", "/of/both", "/of/these", "/of/open-gate/leases"];
        loop {
            join_all(paths.map(|path| removing.delete(path, None))).await;
        }
    });
    // A round trip of a removal is much shorter.
    proxy.set_traffic(Traffic::pass().delay(ms(50)));
    let mutex = mutex_at(&client, "/of/mutex");
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
    drop(gate);
    proxy.set_traffic(Traffic::pass());
    mallory.leave().await;
    sleep(SESSION).await;
}

/// Why it gives up in the end. The removal may come too late for once.
async fn given_up(acquire: impl AsyncFn() -> Result<LockGuard>) -> Error {
    loop {
        if let Err(error) = acquire().await {
            return error;
        }
    }
}

/// Past the last number, a name without an id comes back, behind the one that came meanwhile.
#[history]
async fn a_name_that_comes_back_past_the_last_number_is_shown_behind_the_others(stage: Stage) {
    let client = stage.connect(0, session).await;
    let lock = mutex(&client);
    visit(&lock).await;
    let plain = format!("{PATH}/lock-2147483647");
    let other = format!("{PATH}/_c_00000000-0000-0000-0000-000000000000-lock-2147483647");
    assert!(stage.servers().create(&plain, b"", false) && stage.servers().create(&other, b"", false));
    let shown = async || -> Vec<String> {
        let all = within(lock.participants()).await.unwrap();
        all.iter().map(|one| one.node_path().to_owned()).collect()
    };
    assert_eq!(shown().await, [plain.clone(), other.clone()]);
    assert!(stage.servers().delete(&plain) && stage.servers().create(&plain, b"", false));
    let (now, holder) = (shown().await, within(lock.holder()).await.unwrap().unwrap());
    assert!(stage.servers().delete(&plain) && stage.servers().delete(&other));
    assert_eq!((now, holder.node_path()), (vec![other.clone(), plain], &*other));
}
