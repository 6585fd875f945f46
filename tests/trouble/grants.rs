//! What a lock is worth that is handed out after an outage which the session has outlived.

use std::time::Duration;

use crate::support::kinds::*;
use crate::support::*;
use futures_util::future::{join, join_all};
use tokio::time::{Instant, timeout};
use zk_recipes::testing::MemoryServer;
use zk_recipes::{
    Client, InterProcessMutex, LeaderLatch, LeaderOptions, LockGuard, LockOptions, ReadWriteLock, Semaphore,
};
use zookeeper_client as zk;

const TIMEOUT: Duration = Duration::from_secs(2);

async fn client_of(server: &MemoryServer) -> Client {
    connected(Client::builder().session_timeout(TIMEOUT), &server.connect_string()).await
}

/// How long a lock is valid that was just handed out.
fn ahead(guard: &LockGuard) -> Duration {
    let ahead = guard.valid_until().saturating_duration_since(Instant::now());
    assert_eq!(guard.loss(), None, "{guard:?}");
    ahead
}

/// The server is away for this share of the session timeout.
async fn outage(server: &mut MemoryServer, share: f64) {
    server.stop().await.unwrap();
    tokio::time::sleep(TIMEOUT.mul_f64(share)).await;
    server.restart().await.unwrap();
}

/// Waiters of all kinds, candidates, and those who come after the outage.
async fn what_is_handed_out_after(share: f64) {
    let mut server = MemoryServer::start().unwrap();
    let [holding, waiting] = [client_of(&server).await, client_of(&server).await];
    let session = session_id(&waiting).await;
    let zookeeper = zk::Client::connect(&server.connect_string()).await.unwrap();
    let mut held = Vec::new();
    let mut waiters = Vec::new();
    for kind in KINDS {
        held.push(kind.unlimited(&holding).acquire().await.unwrap());
        waiters.push(in_task(kind.rival(&waiting)));
        queue_of(&zookeeper, &kind.queue(), if kind == Kind::Permit { 1 } else { 2 }).await;
    }
    let several = |client: &Client| Semaphore::new(client, "/several", 3).unwrap().many(2).unwrap();
    held.push(several(&holding).acquire().await.unwrap());
    let several = several(&waiting);
    waiters.push(tokio::spawn(async move { several.acquire().await }));
    queue_of(&zookeeper, "/several/locks", 1).await;
    let latches = [&holding, &waiting]
        .map(|client| LeaderLatch::start(client, "/latch", LeaderOptions::new()).unwrap());
    queue_of(&zookeeper, "/latch", 2).await;

    outage(&mut server, share).await;
    drop(held);
    let mut guards: Vec<LockGuard> = Vec::new();
    let fresh = InterProcessMutex::new(&waiting, "/fresh").unwrap();
    let (granted, fresh) = within(join(join_all(waiters), fresh.acquire())).await;
    guards.extend(granted.into_iter().map(|guard| guard.unwrap().unwrap()));
    guards.push(fresh.unwrap());
    for guard in &guards {
        // Less than half, for the sake of slow machines.
        assert!(ahead(guard) > TIMEOUT / 3, "{:?} after {share} T: {guard:?}", ahead(guard));
    }
    let leadership =
        eventually("a leader", || async { latches.iter().find_map(LeaderLatch::leadership) }).await;
    // For longer than what one confirmation after the silence is worth.
    let lost = join_all(guards.iter().map(|guard| Box::pin(guard.lost())));
    assert!(timeout(TIMEOUT / 2, join(lost, leadership.lost())).await.is_err());
    for guard in &guards {
        ahead(guard);
    }
    assert_eq!(leadership.loss(), None, "the next leader stays the leader");
    assert_eq!(session_id(&waiting).await, session, "the test is about sessions that live on");
}

#[tokio::test]
async fn what_is_handed_out_after_an_outage_lasts() {
    // The holders have lost their locks; the servers would have ended the sessions, if they had been there.
    join(what_is_handed_out_after(0.8), what_is_handed_out_after(1.05)).await;
}

/// What is handed out without a queue.
#[tokio::test]
async fn what_has_stayed_over_an_outage_is_confirmed_before_it_is_handed_out() {
    let mut server = MemoryServer::start().unwrap();
    let client = client_of(&server).await;
    let session = session_id(&client).await;
    let lingering = LockOptions::new().linger(Duration::from_secs(60));
    let lingering = InterProcessMutex::new(&client, "/lingering").unwrap().with_options(lingering).unwrap();
    lingering.acquire().await.unwrap().release().await.unwrap();
    let ticket = InterProcessMutex::new(&client, "/ticket").unwrap().enqueue().await.unwrap();
    let both = ReadWriteLock::new(&client, "/both").unwrap();
    let writing = both.write().acquire().await.unwrap();

    outage(&mut server, 0.55).await;
    async fn handed_out(acquiring: impl Future<Output = zk_recipes::Result<LockGuard>>) -> LockGuard {
        let guard = within(acquiring).await.unwrap();
        let ahead = ahead(&guard);
        assert!(ahead > TIMEOUT.mul_f64(0.45), "{ahead:?}: {guard:?}");
        guard
    }
    // In one task, since a read lock is for the owner of the write lock.
    let _guards = join(
        join(handed_out(lingering.acquire()), handed_out(ticket.acquired())),
        handed_out(both.read().acquire()),
    )
    .await;
    assert!(writing.is_valid());
    assert_eq!(session_id(&client).await, session);
}
