//! `QuorumLock`: one holder over three ensembles, of which any one may fail.

use crate::locks::blocking::is_in_vain;
use crate::prelude::*;

const NAMES: [&str; 3] = ["berlin", "oslo", "paris"];
pub(crate) const PATH: &str = "/locks/a";

/// No ensemble that answers is taken for silent, even on a busy machine.
pub(crate) const PATIENT: Duration = secs(20);
/// For tests in which ensembles fail.
pub(crate) const BRIEF: Duration = secs(1);

/// Three ensembles of one server each.
pub(crate) struct Zones(pub(crate) [PooledServer; 3]);

/// One contender's clients and lock.
pub(crate) struct Contender {
    pub(crate) clients: [Client; 3],
    pub(crate) lock: QuorumLock,
}

impl Zones {
    pub(crate) async fn new() -> Self {
        Self([empty_server().await, empty_server().await, empty_server().await])
    }

    pub(crate) async fn contender(&self, response_timeout: Duration) -> Contender {
        Contender::of(self.0.each_ref().map(|server| server.connect_string()), response_timeout).await
    }

    /// The same with somebody who looks at each, and contenders.
    pub(crate) async fn with_contenders<const N: usize>() -> (Self, Vec<zk::Client>, [Contender; N]) {
        let zones = Self::new().await;
        let bystanders = zones.bystanders().await;
        let contenders = join_all((0..N).map(|_| zones.contender(PATIENT))).await;
        (zones, bystanders, contenders.try_into().ok().unwrap())
    }

    pub(crate) async fn proxies(&self) -> [FaultProxy; 3] {
        let [berlin, oslo, paris] = &self.0;
        let start = async |server: &Server| FaultProxy::start(server.connect_string()).await.unwrap();
        [start(berlin).await, start(oslo).await, start(paris).await]
    }

    pub(crate) async fn bystanders(&self) -> Vec<zk::Client> {
        join_all(self.0.iter().map(|server| bystander(server))).await
    }
}

impl Contender {
    async fn of(servers: [String; 3], response_timeout: Duration) -> Self {
        Self::with(servers.map(|server| (builder(), server)), response_timeout).await
    }

    /// With a client of its own settings for each server.
    pub(crate) async fn with(members: [(ClientBuilder, String); 3], response_timeout: Duration) -> Self {
        let clients = members
            .map(|(builder, server)| builder.session_timeout(secs(10)).connect_lazily(&server).unwrap());
        for client in &clients {
            within(client.watch_connection().wait_for(|state| state.is_connected())).await.unwrap();
        }
        let lock = lock_of(&clients).with_response_timeout(response_timeout).unwrap();
        Self { clients, lock }
    }

    pub(crate) async fn through(proxies: &[FaultProxy; 3], response_timeout: Duration) -> Self {
        Self::of(proxies.each_ref().map(FaultProxy::connect_string), response_timeout).await
    }

    pub(crate) fn acquiring(&self) -> JoinHandle<Result<QuorumGuard>> {
        let lock = self.lock.clone();
        tokio::spawn(async move { lock.acquire().await })
    }

    /// A lock on one ensemble alone, which keeps others from that member.
    pub(crate) fn mutex(&self, member: usize) -> InterProcessMutex {
        InterProcessMutex::new(&self.clients[member], PATH).unwrap()
    }
}

pub(crate) fn lock_of(clients: &[Client; 3]) -> QuorumLock {
    // In another order than that of the names.
    let named = [2, 0, 1].map(|index| (NAMES[index], clients[index].clone()));
    QuorumLock::new(&Ensembles::new(named).unwrap(), PATH).unwrap()
}

async fn acquired(acquiring: JoinHandle<Result<QuorumGuard>>) -> QuorumGuard {
    within(acquiring).await.unwrap().unwrap()
}

fn names(guard: &QuorumGuard) -> Vec<&str> {
    guard.members().map(|(name, _)| name).collect()
}

pub(crate) async fn assert_empty(bystanders: &[zk::Client]) {
    for zookeeper in bystanders {
        queue_of(zookeeper, PATH, 0).await;
    }
}

#[tokio::test]
async fn it_is_held_on_all_ensembles_in_the_order_of_their_names() {
    let (_zones, bystanders, [contender]) = Zones::with_contenders().await;
    assert_eq!(contender.lock.paths().collect::<Vec<_>>(), NAMES.map(|name| (name, PATH)));
    let guard = contender.lock.acquire().await.unwrap();
    assert_eq!(names(&guard), NAMES);
    for (zookeeper, ((_, member), (name, token))) in
        bystanders.iter().zip(guard.members().zip(guard.fencing_tokens()))
    {
        let (_, stat) = zookeeper.get_data(member.node_path()).await.unwrap();
        assert_eq!(stat.czxid, token, "{name}");
    }
    assert!(guard.is_valid() && guard.loss().is_none());
    assert!(guard.valid_until() > tokio::time::Instant::now());
    assert_eq!(guard.watch_state().get(), LockState::Held);
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    guard.release().await.unwrap();
    assert_empty(&bystanders).await;
    let guard = contender.lock.try_acquire_for(BOUND).await.unwrap().unwrap();
    drop(guard);
    assert_empty(&bystanders).await;
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
    for options in [LockOptions::new().linger(BRIEF), LockOptions::new().max_hold(BRIEF)] {
        assert!(matches!(lock.with_options(options), Err(Error::InvalidArgument { .. })));
    }
    assert!(matches!(lock.with_response_timeout(Duration::ZERO), Err(Error::InvalidArgument { .. })));
}

#[tokio::test]
async fn options_apply_to_each_member() {
    let (_zones, bystanders, [contender]) = Zones::with_contenders().await;
    let lock = contender.lock.with_options(LockOptions::new().node_data("mine")).unwrap();
    let guard = lock.acquire().await.unwrap();
    for (zookeeper, (_, member)) in bystanders.iter().zip(guard.members()) {
        assert_eq!(zookeeper.get_data(member.node_path()).await.unwrap().0, b"mine");
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn waiters_are_let_in_as_they_came() {
    let (_zones, bystanders, [first, second]) = Zones::with_contenders().await;
    let mut holder = first.lock.acquire().await.unwrap();
    let mut waiting = Vec::new();
    for (index, contender) in [&second, &first, &second].into_iter().enumerate() {
        waiting.push(contender.acquiring());
        queue_of(&bystanders[0], PATH, index + 2).await;
    }
    // They wait for the first member, and have entered no other queue.
    queue_of(&bystanders[1], PATH, 1).await;
    for next in waiting {
        assert!(!next.is_finished());
        holder.release().await.unwrap();
        holder = acquired(next).await;
        assert_eq!(names(&holder), NAMES);
    }
}

/// B reaches only the last ensemble, which A waits for while it holds the others. B must give it up.
#[tokio::test]
async fn a_contender_that_reaches_a_minority_does_not_block_others() {
    let zones = Zones::new().await;
    let proxies = zones.proxies().await;
    let (a, b) = (zones.contender(PATIENT).await, Contender::through(&proxies, BRIEF).await);
    proxies[..2].iter().for_each(cut_off);
    let waiting = b.acquiring();
    for _ in 0..5 {
        let guard = within(a.lock.acquire()).await.unwrap();
        // As B never holds the last one while it waits for anything, A need not even do without.
        assert_eq!(names(&guard), NAMES);
        guard.release().await.unwrap();
    }
    assert!(!waiting.is_finished());
    proxies[..2].iter().for_each(mend);
    let guard = acquired(waiting).await;
    assert!(guard.members().count() >= 2);
    guard.release().await.unwrap();
}

/// Has the servers end a session, and its client begin another.
async fn lose_session(server: &Server, client: &Client) {
    let lost = session_id(client).await;
    server.kill_session(lost).await.unwrap();
    eventually("the client has another session", || async {
        (session_id(client).await != lost).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_is_lost_during_the_wait_does_not_count() {
    let (zones, bystanders, [waiter, other]) = Zones::with_contenders().await;
    // It holds the first, and waits for the second.
    let second = other.mutex(1).acquire().await.unwrap();
    let waiting = waiter.acquiring();
    queue_of(&bystanders[1], PATH, 2).await;
    lose_session(&zones.0[0], &waiter.clients[0]).await;
    let first = within(other.mutex(0).acquire()).await.unwrap();
    second.release().await.unwrap();
    let guard = acquired(waiting).await;
    assert_eq!(names(&guard), NAMES[1..]);
    guard.release().await.unwrap();

    // If that leaves no majority, it starts over, and waits for the first again.
    let third = other.mutex(2).acquire().await.unwrap();
    first.release().await.unwrap();
    let second = other.mutex(1).acquire().await.unwrap();
    let waiting = waiter.acquiring();
    queue_of(&bystanders[1], PATH, 2).await;
    let node = children(&bystanders[0], PATH).await.remove(0);
    bystanders[0].delete(&format!("{PATH}/{node}"), None).await.unwrap();
    let first = within(other.mutex(0).acquire()).await.unwrap();
    second.release().await.unwrap();
    // It has the second, and waits for the third, which it needs.
    queue_of(&bystanders[2], PATH, 2).await;
    assert!(!waiting.is_finished());
    lose_session(&zones.0[1], &waiter.clients[1]).await;
    queue_of(&bystanders[2], PATH, 1).await;
    queue_of(&bystanders[0], PATH, 2).await;
    first.release().await.unwrap();
    third.release().await.unwrap();
    assert_eq!(names(&acquired(waiting).await), NAMES);
}

#[tokio::test]
async fn a_release_reports_a_lost_majority() {
    let (_zones, bystanders, [contender]) = Zones::with_contenders().await;
    for (deleted, is_lost) in [(0, false), (1, false), (2, true), (3, true)] {
        let guard = contender.lock.acquire().await.unwrap();
        for (zookeeper, (_, member)) in bystanders.iter().zip(guard.members()).take(deleted) {
            zookeeper.delete(member.node_path(), None).await.unwrap();
        }
        let released = guard.release().await;
        assert_eq!(released.is_err(), is_lost, "{deleted} were deleted: {released:?}");
        assert_empty(&bystanders).await;
    }
}

#[tokio::test]
async fn errors_that_stay_are_reported_at_once() {
    let (_zones, bystanders, [contender, other]) = Zones::with_contenders().await;
    let reading = ReadWriteLock::new(&other.clients[1], PATH).unwrap().read().acquire().await.unwrap();
    let conflict = within(contender.lock.acquire()).await;
    assert!(matches!(conflict, Err(Error::KindConflict { .. })), "{conflict:?}");
    reading.release().await.unwrap();
    assert_empty(&bystanders).await;
    contender.clients[2].close().await;
    assert!(matches!(within(contender.lock.acquire()).await, Err(Error::Closed)));
}

#[test]
fn threads_can_hold_it() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_zones, bystanders, [contender]) = runtime.block_on(Zones::with_contenders());
    let clients = NAMES.into_iter().zip(contender.clients.clone());
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
    runtime.block_on(assert_empty(&bystanders));
}
