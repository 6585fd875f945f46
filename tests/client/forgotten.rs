//! Servers that give a client another session when it connects again, while the old one goes on without it.

use crate::prelude::*;
use crate::support::kinds::*;
use zk_recipes::cache::{Cache, CacheOptions, CacheState};
use zk_recipes::nodes::{PersistentNode, PersistentNodeOptions};

/// Nothing in these tests may end by it.
pub(super) const SESSION: Duration = secs(600);

pub(super) fn patient() -> MemoryServerBuilder {
    MemoryServer::builder().session_timeout_bounds(secs(1), SESSION)
}

fn forgetful() -> MemoryServer {
    patient().forget_sessions(true).start().unwrap()
}

async fn client_of(server: &MemoryServer) -> Client {
    builder().session_timeout(SESSION).connect(&server.connect_string()).await.unwrap()
}

async fn clients_of<const N: usize>(server: &MemoryServer) -> [Client; N] {
    join_all((0..N).map(|_| client_of(server))).await.try_into().unwrap()
}

pub(super) async fn bystander_at(servers: &str) -> zk::Client {
    zk::Client::connector().with_session_timeout(SESSION).connect(servers).await.unwrap()
}

async fn bystander_of(server: &MemoryServer) -> zk::Client {
    bystander_at(&server.connect_string()).await
}

/// Has a client lose its connection, and waits until it has another one or its session is over.
pub(super) async fn reconnect(client: &Client, cut: impl AsyncFnOnce()) {
    let mut states = client.watch_connection();
    assert!(states.changed().await.is_some());
    cut().await;
    within(states.changed()).await.unwrap();
    let is_over = |state: &ConnectionState| state.is_connected() || *state == ConnectionState::Lost;
    within(states.wait_for(is_over)).await.unwrap();
}

/// A hold of each kind.
async fn hold_all(client: &Client) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for kind in KINDS {
        guards.push(kind.unlimited(client).acquire().await.unwrap());
    }
    guards
}

/// Nobody else holds before the servers have ended that session.
async fn others_wait_for_the_end(server: &MemoryServer, session: i64, rival: &Client) {
    for kind in KINDS {
        let rival = kind.rival(rival);
        assert!(answered(|| rival.try_acquire()).await.is_none(), "{kind:?}");
    }
    server.kill_session(session).await.unwrap();
    for kind in KINDS {
        let rival = kind.rival(rival);
        within(rival.acquire()).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn every_lock_is_lost_at_once_with_its_session() {
    let server = forgetful();
    let [holder, rival] = clients_of(&server).await;
    let old = session_id(&holder).await;
    let guards = hold_all(&holder).await;
    let semaphore = Semaphore::new(&holder, "/semaphore", 1).unwrap();
    let permit = semaphore.acquire().await.unwrap();

    server.drop_connections();
    for guard in guards.iter().chain([&permit]) {
        assert_eq!(within(guard.lost()).await, LossReason::Expired);
        assert!(!guard.is_valid());
    }
    // The servers have the old session as long as its timeout lasts, so nobody else holds.
    let anew = within(session_id(&holder)).await;
    assert_ne!(anew, old);
    others_wait_for_the_end(&server, old, &rival).await;
    assert!(guards.iter().all(|guard| !guard.is_valid()));
    assert_eq!(session_id(&holder).await, anew, "the first session that it got serves it");
}

#[tokio::test]
async fn a_waiter_joins_again_with_its_new_session() {
    let server = forgetful();
    let [holder, waiter] = clients_of(&server).await;
    let olds = [session_id(&holder).await, session_id(&waiter).await];
    let guard = mutex(&holder).acquire().await.unwrap();
    let waiting = acquire_in_task(&mutex(&waiter));
    let zookeeper = bystander_of(&server).await;
    queue_of(&zookeeper, "/locks/a", 2).await;

    server.drop_connections();
    within(guard.lost()).await;
    let zookeeper = bystander_of(&server).await;
    queue_of(&zookeeper, "/locks/a", 3).await;
    assert!(!waiting.is_finished());
    for old in olds {
        server.kill_session(old).await.unwrap();
    }
    let next = within(waiting).await.unwrap().unwrap();
    assert!(next.is_valid() && !guard.is_valid());
}

#[tokio::test]
async fn a_leader_resigns_at_once() {
    let server = forgetful();
    let client = client_of(&server).await;
    let old = session_id(&client).await;
    let latch = LeaderLatch::start(&client, "/leader", LeaderOptions::new()).unwrap();
    let term = within(latch.await_leadership()).await.unwrap();

    server.drop_connections();
    assert_eq!(within(term.lost()).await, LossReason::Expired);
    assert!(!latch.has_leadership());
    server.kill_session(old).await.unwrap();
    let next = within(latch.await_leadership()).await.unwrap();
    assert!(next.fencing_token() > term.fencing_token());
    assert!(!term.is_valid());
}

#[tokio::test]
async fn a_kept_node_is_made_again_for_the_new_session() {
    let server = forgetful();
    let client = client_of(&server).await;
    let node = PersistentNode::start(&client, "/kept", "here", PersistentNodeOptions::new()).unwrap();
    within(node.wait_present()).await.unwrap();

    server.drop_connections();
    let zookeeper = bystander_of(&server).await;
    eventually("the node belongs to the new session", || async {
        let owner = zookeeper.check_stat("/kept").await.unwrap()?.ephemeral_owner;
        let session = client.zookeeper().await.ok()?.session_id().0;
        (owner == session && node.state().is_present()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_cache_is_current_again() {
    let server = forgetful();
    let zookeeper = bystander_of(&server).await;
    let persistent = anyone(CreateMode::Persistent);
    zookeeper.create("/settings", b"one", &persistent).await.unwrap();
    let client = client_of(&server).await;
    let cache = Cache::new(&client, "/settings", CacheOptions::node()).unwrap();
    assert_eq!(within(cache.wait_loaded()).await.unwrap().data("/settings"), Some(&b"one"[..]));
    let mut states = cache.watch_state();

    server.drop_connections();
    within(states.wait_for(|state| matches!(state, CacheState::Stale { .. }))).await.unwrap();
    let zookeeper = bystander_of(&server).await;
    within(states.wait_for(CacheState::is_current)).await.unwrap();
    zookeeper.set_data("/settings", b"two", None).await.unwrap();
    within(cache.wait_until(|now| now.data("/settings") == Some(&b"two"[..]))).await.unwrap();
}

/// No session is left that nobody uses.
#[tokio::test]
async fn a_client_that_is_closed_leaves_only_what_was_forgotten() {
    let server = forgetful();
    let client = client_of(&server).await;
    let old = session_id(&client).await;
    let guard = mutex(&client).acquire().await.unwrap();
    server.drop_connections();
    within(guard.lost()).await;
    let anew = session_id(&client).await;
    within(client.close()).await;
    assert!(server.kill_session(anew).await.is_err(), "it was ended");
    server.kill_session(old).await.unwrap();
    eventually("there is no connection", || async {
        let told = server.four_letter_word("mntr").await.unwrap();
        told.contains("zk_num_alive_connections\t0\n").then_some(())
    })
    .await;
}

/// The user's client reconnects by itself, and says nothing of the new session.
#[tokio::test]
async fn an_adopted_session_is_over_at_once() {
    let server = forgetful();
    let zookeeper = bystander_of(&server).await;
    let old = zookeeper.session_id().0;
    let client = Client::from_zookeeper(zookeeper.clone()).unwrap();
    let rival = client_of(&server).await;
    let guards = hold_all(&client).await;

    server.drop_connections();
    for guard in &guards {
        assert_eq!(within(guard.lost()).await, LossReason::Expired);
    }
    assert_eq!(client.watch_connection().get(), ConnectionState::Lost);
    others_wait_for_the_end(&server, old, &rival).await;
    assert!(guards.iter().all(|guard| !guard.is_valid()));
}

/// Nothing shows it before the first create.
#[tokio::test]
async fn a_session_that_was_replaced_before_it_was_adopted_grants_nothing() {
    let server = forgetful();
    let zookeeper = bystander_of(&server).await;
    server.drop_connections();
    eventually("it is connected again", || async { zookeeper.check_stat("/").await.ok() }).await;
    for kind in KINDS {
        let client = Client::from_zookeeper(zookeeper.clone()).unwrap();
        within(kind.unlimited(&client).acquire()).await.unwrap_err();
        assert_eq!(client.watch_connection().get(), ConnectionState::Lost);
        eventually("its nodes are deleted", || async {
            ephemerals_below(&zookeeper, "/locks").await.is_empty().then_some(())
        })
        .await;
    }
}

/// The node is of the old session, but there was none to look for when the client connected again.
#[tokio::test]
async fn a_reply_that_is_handled_after_the_replacement_grants_nothing() {
    for kind in KINDS {
        for polls in 1.. {
            let server = forgetful();
            let client = Client::from_zookeeper(bystander_of(&server).await).unwrap();
            let lock = kind.unlimited(&client);
            lock.acquire().await.unwrap().release().await.unwrap();
            let mut acquiring = lock.acquire();
            let mut is_done = false;
            for _ in 0..polls {
                is_done = is_done || poll_once(&mut acquiring).is_ready();
                sleep(ms(20)).await;
            }
            if is_done {
                break;
            }
            reconnect(&client, async || server.drop_connections()).await;
            if let Ok(guard) = within(acquiring).await {
                within(guard.lost()).await;
            }
        }
    }
}

#[tokio::test]
async fn a_session_that_ended_before_it_was_replaced_is_over() {
    let server = forgetful();
    let zookeeper = bystander_of(&server).await;
    let client = Client::from_zookeeper(zookeeper.clone()).unwrap();
    let guard = mutex(&client).acquire().await.unwrap();
    reconnect(&client, async || server.kill_session(zookeeper.session_id().0).await.unwrap()).await;
    assert_eq!(client.watch_connection().get(), ConnectionState::Lost);
    assert!(!guard.is_valid());
}

#[tokio::test]
async fn an_adopted_session_outlasts_its_connections_elsewhere() {
    let server = patient().start().unwrap();
    let zookeeper = bystander_of(&server).await;
    let client = Client::from_zookeeper(zookeeper.clone()).unwrap();
    let [kept, deleted] = ["/a", "/b"].map(|path| InterProcessMutex::new(&client, path).unwrap());
    let (kept, deleted) = (kept.acquire().await.unwrap(), deleted.acquire().await.unwrap());
    for round in 0..5 {
        reconnect(&client, async || {
            server.drop_connections();
            if round == 2 || round == 4 {
                let other = bystander_of(&server).await;
                let gone = if round == 2 { &deleted } else { &kept };
                other.delete(gone.node_path(), None).await.unwrap();
            }
        })
        .await;
        assert!(client.watch_connection().get().is_connected());
        assert!(kept.is_valid() || round == 4);
    }
    assert_eq!(within(deleted.lost()).await, LossReason::Deleted);
    assert_eq!(within(kept.lost()).await, LossReason::Deleted);
    mutex(&client).acquire().await.unwrap().release().await.unwrap();
}
