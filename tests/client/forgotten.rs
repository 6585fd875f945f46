//! Servers that give a client another session when it connects again, while the old one goes on without it.

use crate::prelude::*;
use crate::support::kinds::*;

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
        no_ephemerals_below(&zookeeper, "/locks").await;
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
