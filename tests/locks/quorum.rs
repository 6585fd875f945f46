//! `QuorumLock`: one holder over three ensembles. What fails, and in time, is in the simulation.

use crate::locks::blocking::is_in_vain;
use crate::prelude::*;

const NAMES: [&str; 3] = ["berlin", "oslo", "paris"];
const PATH: &str = "/locks/a";

/// No ensemble that answers is taken for silent, even on a busy machine.
const PATIENT: Duration = secs(20);

/// Three ensembles of one server each, and somebody who looks at each.
struct Zones(#[expect(dead_code, reason = "they live as long")] [PooledServer; 3], Vec<zk::Client>);

/// One contender's clients and lock.
struct Contender {
    clients: Vec<Client>,
    lock: QuorumLock,
}

impl Zones {
    /// With a contender whose clients are built so.
    async fn with_contender(builders: [ClientBuilder; 3], response_timeout: Duration) -> (Self, Contender) {
        let servers = [empty_server().await, empty_server().await, empty_server().await];
        let clients = servers.iter().zip(builders).map(async |(server, builder)| {
            connected(builder.session_timeout(SESSION), &server.connect_string()).await
        });
        let clients = join_all(clients).await;
        // In another order than that of the names.
        let named = [2, 0, 1].map(|index| (NAMES[index], clients[index].clone()));
        let lock = QuorumLock::new(&Ensembles::new(named).unwrap(), PATH).unwrap();
        let lock = lock.with_response_timeout(response_timeout).unwrap();
        let bystanders = join_all(servers.iter().map(|server| bystander(server))).await;
        (Self(servers, bystanders), Contender { clients, lock })
    }

    async fn new() -> (Self, Contender) {
        Self::with_contender([builder(), builder(), builder()], PATIENT).await
    }

    /// The first client is on a runtime of its own, which is to end.
    async fn on_two_runtimes() -> (Self, Contender, tokio::runtime::Runtime) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let builders = [builder().runtime(runtime.handle().clone()), builder(), builder()];
        let (zones, contender) = Self::with_contender(builders, PATIENT).await;
        (zones, contender, runtime)
    }

    async fn are_empty(&self) {
        for zookeeper in &self.1 {
            queue_of(zookeeper, PATH, 0).await;
        }
    }
}

#[tokio::test]
async fn it_is_held_on_all_ensembles_in_the_order_of_their_names() {
    let (zones, Contender { lock, .. }) = Zones::new().await;
    assert_eq!(lock.paths().collect::<Vec<_>>(), NAMES.map(|name| (name, PATH)));
    let with_data = lock.with_options(LockOptions::new().node_data("mine")).unwrap();
    let guard = with_data.acquire().await.unwrap();
    assert_eq!(guard.members().map(|(name, _)| name).collect::<Vec<_>>(), NAMES);
    for (zookeeper, ((_, member), (name, token))) in
        zones.1.iter().zip(guard.members().zip(guard.fencing_tokens()))
    {
        let (data, stat) = zookeeper.get_data(member.node_path()).await.unwrap();
        assert_eq!((stat.czxid, &*data), (token, &b"mine"[..]), "{name}");
    }
    assert!(guard.is_valid() && guard.loss().is_none());
    assert!(guard.valid_until() > tokio::time::Instant::now());
    assert_eq!(guard.watch_state().get(), LockState::Held);
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    guard.release().await.unwrap();
    zones.are_empty().await;
    drop(lock.try_acquire_for(BOUND).await.unwrap().unwrap());
    zones.are_empty().await;
}

#[tokio::test]
async fn what_cannot_be_a_quorum_is_refused() {
    let at = |servers: &str| Client::connect_lazily(servers).unwrap();
    let client = |port: usize| at(&format!("127.0.0.1:{port}"));
    let lock = |clients: &[&Client], path: &str| {
        let named = clients.iter().enumerate().map(|(index, client)| (index.to_string(), (*client).clone()));
        QuorumLock::new(&Ensembles::new(named).unwrap(), path)
    };
    let (a, b, c, d, again) = (client(1), client(2), client(3), client(4), client(1));
    let (chroot, two, reversed) =
        (at("127.0.0.1:1/other"), at("127.0.0.1:8,127.0.0.1:9"), at("127.0.0.1:9,127.0.0.1:8/other"));
    let server = empty_server().await;
    let session = bystander(&server).await;
    let [adopted, adopted_again] = [(); 2].map(|()| Client::from_zookeeper(session.clone()).unwrap());
    for refused in [
        &[&a][..],
        &[&a, &b],
        &[&a, &b, &c, &d],
        &[&a, &b, &a],
        &[&a, &b, &again],
        &[&a, &b, &chroot],
        &[&a, &two, &reversed],
        &[&a, &adopted, &adopted_again],
    ] {
        assert!(matches!(lock(refused, PATH), Err(Error::InvalidArgument { argument: "ensembles", .. })));
    }
    assert!(lock(&[&a, &two, &adopted], PATH).is_ok());
    assert!(matches!(lock(&[&a, &b, &c], "locks/"), Err(Error::InvalidPath { .. })));
    let lock = lock(&[&a, &b, &c], PATH).unwrap();
    for options in [LockOptions::new().linger(secs(1)), LockOptions::new().max_hold(secs(1))] {
        assert!(matches!(lock.with_options(options), Err(Error::InvalidArgument { .. })));
    }
    assert!(matches!(lock.with_response_timeout(Duration::ZERO), Err(Error::InvalidArgument { .. })));
}

#[tokio::test]
async fn errors_that_stay_are_reported_at_once() {
    let (zones, Contender { clients, lock }) = Zones::new().await;
    let other = ReadWriteLock::new(&clients[1], PATH).unwrap();
    let reading = other.read().owned_by(&Owner::new()).acquire().await.unwrap();
    let conflict = within(lock.acquire()).await;
    assert!(matches!(conflict, Err(Error::KindConflict { .. })), "{conflict:?}");
    reading.release().await.unwrap();
    zones.are_empty().await;
    clients[2].close().await;
    assert!(matches!(within(lock.acquire()).await, Err(Error::Closed)));
}

#[test]
fn threads_can_hold_it() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (zones, Contender { clients, .. }) = runtime.block_on(Zones::new());
    let clients = NAMES.into_iter().zip(clients);
    let clients = clients.map(|(name, client)| (name, zk_recipes::blocking::Client::from(client)));
    let ensembles = Ensembles::new(clients).unwrap();
    let lock = zk_recipes::blocking::QuorumLock::new(&ensembles, PATH).unwrap();
    let guard = lock.acquire().unwrap();
    assert_eq!(guard.fencing_tokens().count(), 3);
    assert!(guard.is_valid());
    assert_eq!(guard.run(|| 7), Ok(7));
    assert!(lock.try_acquire().unwrap().is_none());
    assert!(is_in_vain(|| lock.try_acquire_for(ms(50))));
    guard.release().unwrap();
    runtime.block_on(zones.are_empty());
}

#[tokio::test]
async fn the_end_of_the_first_runtime_costs_only_its_member() {
    let (zones, Contender { lock, .. }, runtime) = Zones::on_two_runtimes().await;
    let guard = lock.acquire().await.unwrap();
    let mut state = guard.watch_state();
    assert_eq!(state.get(), LockState::Held);
    runtime.shutdown_background();
    within(guard.members().next().unwrap().1.lost()).await;
    assert!(guard.is_valid());
    // Now the majority is lost as well.
    zones.1[1].delete(guard.members().nth(1).unwrap().1.node_path(), None).await.unwrap();
    within(guard.lost()).await;
    assert!(!guard.is_valid());
    let seen = within(state.wait_for(|state| state.is_lost())).await;
    assert!(seen.is_some(), "{seen:?}");
    // The rest is given up.
    queue_of(&zones.1[2], PATH, 0).await;
    let released = guard.release().await;
    assert!(matches!(released, Err(Error::LockLost { .. } | Error::Closed)), "{released:?}");
}

#[tokio::test]
async fn a_release_survives_the_end_of_the_first_runtime() {
    let (zones, Contender { lock, .. }, runtime) = Zones::on_two_runtimes().await;
    let guard = lock.acquire().await.unwrap();
    runtime.shutdown_background();
    within(guard.members().next().unwrap().1.lost()).await;
    within(guard.release()).await.unwrap();
    // What nobody deletes any more ends with its session.
    for zookeeper in &zones.1[1..] {
        queue_of(zookeeper, PATH, 0).await;
    }
    let again = within(lock.acquire()).await;
    assert!(matches!(again, Err(Error::Closed)), "{again:?}");
}

/// The task of a caller vanishes together with its runtime.
#[test]
fn a_runtime_that_ends_leaves_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (zones, Contender { lock, .. }) = runtime.block_on(Zones::new());
    for micros in [0, 200, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 200_000] {
        let (callers, lock) = (tokio::runtime::Runtime::new().unwrap(), lock.clone());
        callers.spawn(async move { lock.acquire().await });
        std::thread::sleep(Duration::from_micros(micros));
        callers.shutdown_background();
        runtime.block_on(zones.are_empty());
    }
}
